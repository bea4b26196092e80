"""Copy as: the description that the page shows, as Python, the settings of engines, and a command line."""

from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from ..exporting import Refused, export
from ..rope import Rope

if TYPE_CHECKING:
    from .data import Document

ENGINES = {"Python": "python", "transformers": "transformers", "vLLM": "vllm", "llama.cpp": "llama.cpp", "MLX": "mlx"}


class Form(NamedTuple):
    """One form of the rope: its text, or why there is none."""

    text: str | None
    reason: str = ""


def all_of(seen: "Document", lang: str = "en") -> dict[str, Form]:
    """Give every form by its name; each one says the same rope as the page, in a language of the explorer."""
    forms = {name: _form(seen.rope, engine) for name, engine in ENGINES.items()}
    query = seen.state.query()
    link = f"/{lang}/{'?' + query if query else ''}"
    return {**forms, "link": Form(f"{link}\n"), "CLI": Form(f'ropewalk explore --get "{link}"\n')}


@lru_cache(maxsize=256)
def _form(rope: Rope, engine: str) -> Form:
    try:
        return Form(export(rope, engine))
    except Refused as error:
        return Form(None, error.reason)
