"""One file that needs nothing else: the page, its style, script, font and numbers, in all three languages."""

import base64
import re

from markupsafe import escape

from ..models.model import Model
from . import pages
from .app import asset
from .i18n import LANGUAGES, Speech
from .state import State


def export(state: State, lang: str = "en", start: Model | None = None) -> str:
    """Give the simulator as one self-contained HTML file.

    Positions, the pair, highlighting, play and the three languages work without a server; what the server would have
    to compute anew (d, base, scaling, the vectors' text) is frozen, and the page says so.

    Args:
        state: what the page shows.
        lang: the language that it opens in.
        start: the model for a state that shows one from the command line.
    """
    whole = {code: pages.simulator(state, (), code, start, exported=True) for code in LANGUAGES}
    page = whole[lang]
    bodies = {code: _frozen(_main(text), Speech(code)) for code, text in whole.items()}
    templates = "".join(f'<template data-main="{code}">{body}</template>\n' for code, body in bodies.items())
    page = page.replace(_main(page), bodies[lang])
    page = re.sub(r'<link rel="stylesheet"[^>]*>', lambda _: f"<style>\n{_style()}</style>", page)
    page = re.sub(r'<link rel="icon"[^>]*>', lambda _: f'<link rel="icon" href="{_inline("icon.svg")}">', page)
    script = asset("explorer.js").decode("utf-8").replace("</script", "<\\/script")
    page = re.sub(r'<script src="[^"]*" defer></script>\n?', "", page)
    page = re.sub(r'(<nav aria-label="[^"]*">).*?</nav>', "", page, count=1, flags=re.DOTALL)  # no lessons in one file
    page = re.sub(r'<a href="/(\w\w)/[^"]*" lang=', r'<a href="#\1" data-language="\1" lang=', page)
    page = re.sub(r'<a class="brand" href="[^"]*">', '<a class="brand" href="#main">', page)
    page = page.replace("<body class=", "<body data-exported class=", 1)
    return page.replace("</body>", f"{templates}<script>\n{script}</script>\n</body>")


def _main(page: str) -> str:
    found = re.search(r'<main id="main">(.*?)</main>', page, re.DOTALL)
    assert found is not None
    return found[1]


def _frozen(body: str, _: Speech) -> str:
    """Disable what only a server could answer, and say so; links to a server's pages become plain words."""
    note = _("This file stands alone: positions, pairs and play are live; d, base, scaling and vectors are frozen.")
    body = re.sub(r"<(input|select)([^>]*?) data-ask", r"<\1\2 data-ask disabled", body)
    body = re.sub(
        r"(<fieldset class=\"controls\".*?</legend>)",
        rf'\1<p class="note frozen">{escape(note)}</p>',
        body,
        count=1,
        flags=re.DOTALL,
    )
    body = re.sub(r'<button class="submit".*?</button>', "", body, flags=re.DOTALL)
    body = re.sub(r'<a href="/[^"]*">(.*?)</a>', r"\1", body, flags=re.DOTALL)
    return re.sub(r' (href|action)="/[^"]*"', r' \1="#main"', body)


def _style() -> str:
    style = asset("explorer.css").decode("utf-8")
    return re.sub(r"url\([\"']?(?:/static/)?(fonts/[\w.-]+)[\"']?\)", lambda found: f"url({_inline(found[1])})", style)


def _inline(name: str) -> str:
    kind = {"svg": "image/svg+xml", "woff2": "font/woff2"}[name.rsplit(".", 1)[1]]
    return f"data:{kind};base64,{base64.b64encode(asset(name)).decode('ascii')}"
