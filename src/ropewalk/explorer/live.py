"""Live pieces of the lessons, drawn by the server."""

from collections.abc import Callable, Mapping

from markupsafe import Markup

from .i18n import Speech

PIECES: Mapping[str, Callable[[Speech], Markup]] = {}
