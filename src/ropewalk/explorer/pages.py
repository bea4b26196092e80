"""State to HTML: the simulator, with its readings, tables and figures; the lessons; and pages for what went wrong."""

import json
import math
from functools import cache, lru_cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from .._version import __version__
from ..models.model import Model
from ..models.targets import preset_names
from . import analysis, figures, lessons, snippets
from .data import Document, describe, document, gate
from .i18n import LANGUAGES, N_, Speech
from .state import DEFAULT_TEXTS, SCALINGS, Message, Side, State, number_text
from .wording import fixed, message_words, noise, signed

FIRST_ROWS = 12
GATE_LABELS = (
    N_("turning by 0 returns the vector"),
    N_("turning by m, then by n, is turning by m + n"),
    N_("turning by m, then by -m, returns the vector"),
    N_("turning keeps the length"),
    N_("the score sees only the distance"),
)
SCALING_FIELDS = {
    "default": (),
    "linear": ("factor",),
    "ntk": ("factor",),
    "dynamic": ("factor", "original", "length"),
    "yarn": ("factor", "original", "beta_fast", "beta_slow"),
    "llama3": ("factor", "original", "low", "high"),
    "proportional": ("fraction",),
}
PRESETS_SHOWN = (
    "llama-2-7b", "llama-3.1-8b", "mistral-7b-v0.3", "qwen3-8b", "gemma-3-4b", "gpt-oss-20b",
    "deepseek-v3", "phi-3-mini-128k", "chatglm-6b", "smollm2-135m", "llama-4-scout", "qwen3-vl-2b",
)  # fmt: skip


@cache
def environment() -> Environment:
    """Give the Jinja environment; everything is escaped, and an unknown name is an error."""
    env = Environment(
        loader=PackageLoader("ropewalk.explorer", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    env.filters |= {"fixed": fixed, "noise": noise, "signed": signed, "plain": number_text}
    return env


def simulator(
    state: State, messages: tuple[Message, ...], lang: str, start: Model | None = None, *, exported: bool = False
) -> str:
    """Give the simulator page for one state."""
    _ = Speech(lang)
    seen = document(state, messages, start)
    hidden = set(state.hide)
    context = {
        **_frame(_, state, "simulator", exported=exported),
        "doc": seen,
        "messages": [message_words(message, _) for message in messages],
        "hidden": hidden,
        "circle": figures.circle(seen, _),
        "spectrum": figures.spectrum(seen, _),
        "shown": shown_pairs(seen),
        "unseen": unseen(state, hidden),
        "pair_links": state.links("pair", range(len(seen.turns))),
        "shade": lambda pair: figures.shade(pair, len(seen.turns)),
        "data": Markup(json.dumps(_page_data(seen, _), ensure_ascii=False).replace("<", "\\u003c")),
        "live": live_sentence(seen, _),
        "scalings": SCALINGS,
        "arithmetic": analysis.arithmetic(seen),
        "gate": gate(),
        "lesson": lambda name: lessons.fragment(lang, name),
        "quiz": _fixed("quiz", lang),
        "tour": _fixed("tour", lang),
        "engineers": _engineers(seen, _, start) if "engineers" not in hidden else None,
    }
    return environment().get_template("simulator.html").render(context)


@cache
def _fixed(name: str, lang: str) -> Markup:
    """Give a part of the simulator page that no state changes: the quiz, or the cards of the tour."""
    context = {"_": Speech(lang), "quiz": lessons.quiz(lang), "tour": lessons.tour(lang)}
    return Markup(environment().get_template(f"{name}.html").render(context))


def lesson(name: str, lang: str, state: State, query: str = "") -> str | None:
    """Give a lesson's page, its live pieces drawn for a query string; None where there is no such lesson."""
    if name not in lessons.NAMES:
        return None
    _ = Speech(lang)
    order = lessons.COURSE
    place = order.index(name) if name in order else None
    context = {
        **_frame(_, state, f"learn/{name}" if name != "learn" else "learn/"),
        "title": lessons.title(lang, name),
        "body": lessons.page(lang, name, _, query),
        "languages": _languages(f"learn/{name}" if name != "learn" else "learn/", lessons.canonical(lang, name, query)),
        "course": [(entry, lessons.title(lang, entry)) for entry in order],
        "here": name,
        "before": None if not place else order[place - 1],
        "after": order[0] if place is None else order[place + 1] if place + 1 < len(order) else None,
        "titles": {entry: lessons.title(lang, entry) for entry in order},
    }
    return environment().get_template("lesson.html").render(context)


def models(lang: str, state: State, messages: tuple[Message, ...] = ()) -> str:
    """Give the page of all presets as pictures; each links to the simulator, with the rest of the state kept."""
    _ = Speech(lang)
    context = {
        **_frame(_, state, "models"),
        "messages": [message_words(message, _) for message in messages],
        "presets": [(name, preset_thumbnail(name)) for name in preset_names()],
        "strokes": figures.THUMB_STROKES,
    }
    return environment().get_template("models.html").render(context)


def problem(status: int, lang: str) -> str:
    """Give the page for a request that cannot be served."""
    _ = Speech(lang)
    words = {
        404: _("There is no such page."),
        405: _("Pages can only be read here."),
        414: _("This address is too long."),
        421: _("This address is not served here."),
    }
    context = {**_frame(_, State(), ""), "status": status, "words": words.get(status, _("Something went wrong."))}
    return environment().get_template("problem.html").render(context)


def _frame(_: Speech, state: State, path: str, *, exported: bool = False) -> dict[str, Any]:
    """Give what every page needs."""
    query = state.query()
    here = "" if path == "simulator" else path
    return {
        "_": _,
        "lang": _.lang,
        "tag": _.tag,
        "state": state,
        "query": query,
        "languages": _languages(here, query),
        "home": f"/{_.lang}/",
        "version": __version__,
        "exported": exported,
        "path": path,
    }


def _languages(path: str, query: str) -> list[tuple[str, str, str]]:
    """Give every language's code, name and address of the same page."""
    return [(code, name, f"/{code}/{path}{'?' + query if query else ''}") for code, name in LANGUAGES.items()]


def shown_pairs(seen: Document) -> dict[str, Any]:
    """Say which rows of the tables are drawn: the first twelve, and the slowest on its own."""
    total = len(seen.turns)
    if seen.state.rows == "all" or total <= FIRST_ROWS:
        return {"first": list(range(total)), "left_out": 0, "last": None}
    last = seen.slowest.pair
    return {
        "first": list(range(FIRST_ROWS)),
        "left_out": total - FIRST_ROWS,
        "last": last if last >= FIRST_ROWS else None,
    }


def unseen(state: State, hidden: set[str]) -> list[tuple[str, str]]:
    """Give what of the state no field of the form holds, for hidden fields: its button must lose nothing."""
    fields = {"m", "n", "pair"}
    if "controls" not in hidden:
        described = ("model", "part", "layer") if state.a.model else ("d", "base", "pairing", "scaling")
        fields |= {"s", "window", "q", "k", *described}
        fields |= set() if state.a.model else set(SCALING_FIELDS[state.a.scaling])
    second = state.side_differences() if "engineers" in hidden else []
    if second and state.b is not None and state.b.model != state.a.model:
        second = [("b.model", state.b.model), *second]
    return [(name, text) for name, text in state.written().items() if name not in fields] + second


def live_sentence(seen: Document, _: Speech) -> Markup:
    """Give the first screen's sentence; its numbers are the controls."""
    row = seen.turns[seen.pair]

    def scrub(name: str, value: int, label: str, low: int | None = None, high: int | None = None) -> Markup:
        bounds = "".join(f' {side}="{bound}"' for side, bound in (("min", low), ("max", high)) if bound is not None)
        return Markup('<input class="scrub" type="number" step="1" name="{}" value="{}" aria-label="{}"{}>').format(
            name, value, label, Markup(bounds)
        )

    def out(name: str, text: str) -> Markup:
        return Markup('<span class="num" data-v="{}">{}</span>').format(name, text)

    whole = int(abs(row.angle) // (2 * math.pi))
    drawn = _("pair being drawn")  # not below: labels inside a label's values are not found by the extraction
    return _(
        "At position {m}, pair {pair} has turned {angle} rad: {turns} and {degrees}°. "
        "The score with the key at position {n} is {score}, and it sees only the distance {distance}.",
        m=scrub("m", seen.state.m, _("query position")),
        pair=scrub("pair", seen.pair, drawn, 0, len(seen.turns) - 1),
        angle=out("live.angle", _.number(row.angle, 3)),
        turns=out("live.turns", _.turns(whole)),
        degrees=out("live.degrees", _.number(math.degrees(math.fmod(row.angle, 2 * math.pi)), 2)),
        n=scrub("n", seen.state.n, _("key position")),
        score=out("live.score", _.number(seen.scores.score, 6)),
        distance=out("live.distance", _.number(seen.state.m - seen.state.n, 0)),
    )


def _page_data(seen: Document, _: Speech) -> dict[str, Any]:
    """Give what JavaScript needs to move the figure without asking the server."""
    pairs = seen.rope.pairs(seen.a.length)
    return {
        "defaults": DEFAULT_TEXTS,
        "theta": pairs.inv_freq.tolist(),
        "first": pairs.first.tolist(),
        "second": pairs.second.tolist(),
        "factor": pairs.cos_sin_factor,
        "still": seen.scores.still,
        "q": list(seen.query_vector),
        "k": list(seen.key_vector),
        "m": seen.state.m,
        "n": seen.state.n,
        "s": seen.state.s,
        "pair": seen.pair,
        "window": seen.state.window,
        "decimal": _.decimal,
        "thousands": _.thousands,
        "words": {
            "none": _("no full turn"),
            "one": _("one full turn"),
            "many": _("{count} full turns"),
            "copied": _("Copied"),
        },
    }


def _engineers(seen: Document, _: Speech, start: Model | None) -> dict[str, Any]:
    length = seen.a.length
    return {
        "curve": figures.score_curve(analysis.curve(seen), seen.state.m - seen.state.n, _),
        "heat": figures.heat_map(analysis.heat_map(seen.rope, length, seen.state.window, columns=64, rows=24), _),
        "precision": analysis.precision(seen.rope, length),
        "worst_in_half": analysis.worst_in_half(seen.rope, length),
        "comparison": None if seen.b is None else analysis.comparison(seen),
        "snippets": snippets.all_of(seen, _.lang),
        "presets": [(name, preset_thumbnail(name)) for name in PRESETS_SHOWN],
        "total": len(preset_names()),
        "options": _options(seen.state.a.model, seen.state.b.model if seen.state.b else ""),
        "start": None if start is None else start.target,
    }


@lru_cache(maxsize=256)
def _options(shown: str, other: str) -> Markup:
    """Give the presets that the model shown can be compared with, the other one selected."""
    options = [(name, " selected" if name == other else "") for name in preset_names() if name != shown]
    return Markup("").join(Markup("<option{}>{}</option>").format(chosen, name) for name, chosen in options)


@cache
def preset_thumbnail(name: str) -> Markup:
    """Give the small picture of a preset's wavelengths."""
    rope = describe(Side(model=name)).rope
    pairs = rope.pairs()
    turning = [float(value) for value in pairs.wavelength if math.isfinite(value)]
    return figures.thumbnail(turning, float(rope.max_position_embeddings or 0) or None)
