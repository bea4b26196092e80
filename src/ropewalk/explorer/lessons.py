"""Lessons: Markdown in each language, formulas as MathML, and live pieces drawn by the server."""

import json
import re
from collections.abc import Callable
from functools import cache
from importlib.resources import files
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markupsafe import Markup

from .i18n import Speech

COURSE = (
    "attention", "sinusoids", "order", "numbering", "multiply", "vectors", "matrices", "odometer", "sparse", "code",
    "context",
)  # fmt: skip
NAMES = ("learn", *COURSE)
_LIVE = re.compile(r"^```live (\w+)$", re.MULTILINE)


@cache
def source(lang: str, name: str) -> str:
    """Give a lesson's Markdown."""
    return (files("ropewalk.explorer") / "lessons" / lang / f"{name}.md").read_text(encoding="utf-8")


@cache
def quiz(lang: str) -> list[dict[str, Any]]:
    """Give the quiz: questions, each with options that say whether they are right and why."""
    text = (files("ropewalk.explorer") / "lessons" / lang / "quiz.json").read_text(encoding="utf-8")
    return json.loads(text)["questions"]


@cache
def tour(lang: str) -> list[dict[str, Any]]:
    """Give the cards of the guided tour."""
    text = (files("ropewalk.explorer") / "lessons" / lang / "tour.json").read_text(encoding="utf-8")
    return json.loads(text)["cards"]


def title(lang: str, name: str) -> str:
    """Give a lesson's title, its first line."""
    return source(lang, name).split("\n", 1)[0].removeprefix("# ").strip()


@cache
def fragment(lang: str, name: str) -> Markup:
    """Give a piece of text for the simulator page, without live pieces."""
    text = _renderer(lang).render(source(lang, name))
    return Markup(
        text.replace("<h2>", "<h3>").replace("</h2>", "</h3>").replace("<h1>", "<h2>").replace("</h1>", "</h2>")
    )


def page(lang: str, name: str, _: Speech, query: str = "") -> Markup:
    """Give a lesson's body: its Markdown without the title, live pieces drawn for the numbers of a query string."""
    body = source(lang, name).split("\n", 1)[1]
    return Markup(_renderer(lang).render(body, {"query": query}))


def canonical(lang: str, name: str, query: str) -> str:
    """Give a query string again as far as it speaks to the lesson's live pieces, in canonical order."""
    from .live import PIECES

    pieces = [PIECES[found] for found in _LIVE.findall(source(lang, name)) if found in PIECES]
    return "&".join(text for piece in pieces if (text := piece.query(piece.parse(query)[0])))


@cache
def _renderer(lang: str) -> MarkdownIt:
    from mdit_py_plugins.dollarmath import dollarmath_plugin

    markdown = MarkdownIt("commonmark", {"html": False}).enable("table")
    markdown.use(dollarmath_plugin, renderer=formula, double_inline=True)
    markdown.add_render_rule("fence", _fence(lang))
    markdown.add_render_rule("link_open", _link(lang))
    _let_scroll(markdown, Speech(lang))
    return markdown


def _let_scroll(markdown: MarkdownIt, _: Speech) -> None:
    """Put wide things into boxes that scroll by keyboard too: the page itself never scrolls sideways."""

    def around(rule: str, before: str, after: str) -> None:
        assert isinstance(markdown.renderer, RendererHTML)
        inner = markdown.renderer.rules.get(rule)

        def render(self: Any, tokens: Any, index: int, options: Any, env: Any) -> str:
            plain = inner(tokens, index, options, env) if inner else self.renderToken(tokens, index, options, env)
            return f"{before}{plain}{after}"

        markdown.add_render_rule(rule, render)

    table, formula = _("Table"), _("Formula")
    box = '<div class="scroll" role="region" tabindex="0" aria-label="{}">'
    around("table_open", box.format(table), "")
    around("table_close", "", "</div>")
    around("math_block", box.format(formula), "</div>")


def formula(text: str, options: dict[str, Any] | None = None) -> str:
    """Give a LaTeX formula as MathML."""
    return _mathml(text, bool((options or {}).get("display_mode")))


@cache
def _mathml(text: str, block: bool) -> str:
    from latex2mathml.converter import convert

    return convert(text, display="block" if block else "inline")


def _fence(lang: str) -> Callable[..., str]:
    def render(self: Any, tokens: Any, index: int, options: Any, env: Any) -> str:
        token = tokens[index]
        words = token.info.split()
        if words[:1] == ["live"] and len(words) == 2:
            from .live import PIECES

            return str(PIECES[words[1]](Speech(lang), env.get("query", "")))
        language = f' class="language-{words[0]}"' if words else ""
        return str(Markup('<pre tabindex="0"><code{}>{}</code></pre>\n').format(Markup(language), token.content))

    return render


def _link(lang: str) -> Callable[..., str]:
    """Turn a link to a slug into the lesson's address, and one to / into the simulator's."""

    def render(self: Any, tokens: Any, index: int, options: Any, env: Any) -> str:
        token = tokens[index]
        href = str(token.attrs.get("href", ""))
        slug = href.removesuffix(".md")
        if slug in NAMES:
            token.attrs["href"] = f"/{lang}/learn/{'' if slug == 'learn' else slug}"
        elif href.startswith("/") and not href.startswith("//"):
            token.attrs["href"] = f"/{lang}{href}"
        else:
            token.attrs["href"] = "#"
        return self.renderToken(tokens, index, options, env)

    return render
