"""The pages as HTML: every number of the lesson in every language, sound markup, and words for what is wrong.

The road: expected values are typed in as lesson-and-simulator.md prints them.
"""

import json
import re
from html.parser import HTMLParser
from urllib.parse import parse_qsl, urlencode

import pytest

from ropewalk import preset_names, read
from ropewalk.explorer import lessons, pages
from ropewalk.explorer.app import get
from ropewalk.explorer.i18n import LANGUAGES
from ropewalk.explorer.state import HIDEABLE, State

VOID = {"meta", "link", "input", "br", "hr", "img", "wbr", "col", "source"}
NOISE = {"0", "1.1e-16", "-1.1e-16", "2.2e-16", "-2.2e-16"}  # what one or two roundings of numbers near 1 leave


class Markup(HTMLParser):
    """A page taken apart: its text by data-v, its tables, ids, links, form fields; and what is unsound about it."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.faults, self.ids, self.links, self.classes, self.alerts = [], [], [], [], []
        self.values, self.tables, self.fields, self.targets = {}, [], [], []
        self._open, self._catching, self._select = [], [], None
        self.feed(text)
        self.close()
        self.faults += [f"<{tag}> stays open" for tag, _ in self._open]

    def handle_starttag(self, tag, attrs):
        names = [name for name, _ in attrs]
        self.faults += [f"<{tag}> has {name} twice" for name in set(names) if names.count(name) > 1]
        self.faults += [f"<{tag}> has {name}" for name in names if name == "style" or name.startswith("on")]
        attributes = dict(attrs)
        self.ids += [attributes["id"]] if "id" in attributes else []
        self.links += [attributes["href"]] if "href" in attributes else []
        self.classes += (attributes.get("class") or "").split()
        for name in ("aria-labelledby", "aria-describedby", "for"):
            self.targets += (attributes.get(name) or "").split()
        if tag in ("table", "tr", "td", "th"):
            place = self.tables if tag == "table" else self.tables[-1] if tag == "tr" else None
            if place is not None:
                place.append([])
        if tag == "input" and attributes.get("name") and attributes.get("type") != "radio":
            self.fields.append((attributes["name"], attributes["value"]))
        elif tag == "select":
            self._select = attributes["name"]
        elif tag == "option" and self._select:
            chosen = "selected" in attributes
            self.fields = [one for one in self.fields if not (chosen and one[0] == self._select)]
            if chosen or self._select not in dict(self.fields):
                self.fields.append((self._select, attributes.get("value")))
        if tag not in VOID:
            self._open.append((tag, attributes))
            self._catching.append([])

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.handle_endtag(tag)

    def handle_endtag(self, tag):
        if not self._open or self._open[-1][0] != tag:
            inner = self._open[-1][0] if self._open else "nothing"
            self.faults.append(f"</{tag}> at line {self.getpos()[0]} closes {inner}")
            return
        attributes, text = self._open.pop()[1], "".join(self._catching.pop())
        if "data-v" in attributes:
            self.values[attributes["data-v"]] = text
        if attributes.get("role") in ("alert", "note"):
            self.alerts.append(text)
        if tag in ("td", "th"):
            self.tables[-1][-1].append(" ".join(text.split()))
        if tag == "option" and self.fields and self.fields[-1] == (self._select, None):
            self.fields[-1] = (self._select, text)
        if tag == "select":
            self.fields = [(name, value if value is not None else text) for name, value in self.fields]
            self._select = None

    def handle_data(self, data):
        for caught in self._catching:
            caught.append(data)


def page(query="", lang="en"):
    state, messages = State.parse(query)
    return Markup(pages.simulator(state, messages, lang))


QUERIES = [
    "",
    "d=128&window=8192",
    "d=128&rows=all&pair=40",
    "d=7&pairing=half",
    "base=1",
    "m=2&n=7&s=-1000",
    "model=qwen2.5-vl-7b&part=vision&b.model=llama-3.1-8b",
    "scaling=yarn&d=64&truncate=0&b.scaling=linear",
    "scaling=dynamic&d=2",
    "embed=1&hide=controls,lesson,quiz,tour,engineers",
    "d=1&q=x&<b>=\"'&model=%3Cscript%3E",
]


@pytest.mark.parametrize("lang", LANGUAGES)
@pytest.mark.parametrize("query", QUERIES)
def test_the_markup_is_sound(query, lang):
    seen = page(query, lang)
    assert seen.faults == []
    assert len(seen.ids) == len(set(seen.ids))
    assert set(seen.targets) <= set(seen.ids)


@pytest.mark.parametrize("lang", LANGUAGES)
@pytest.mark.parametrize("name", lessons.NAMES)
def test_the_markup_of_every_lesson_is_sound(name, lang):
    text = pages.lesson(name, lang, State())
    assert text is not None
    seen = Markup(text)
    assert seen.faults == []
    assert len(seen.ids) == len(set(seen.ids))


@pytest.mark.parametrize("lang", LANGUAGES)
def test_readings_of_section_a(lang):
    values = page("", lang).values
    expected = {
        "a.frequency": "1.00000000",
        "a.query_angle": "7.000000",
        "a.query_degrees": "41.07",
        "a.key_angle": "2.000000",
        "a.radius_before": "1.000000",
        "a.radius_after": "1.000000",
        "a.between": "163.52",
    }
    assert {name: values[name] for name in expected} == expected
    assert values["a.radius_deviation"] in NOISE


@pytest.mark.parametrize("lang", LANGUAGES)
def test_table_a(lang):
    rows = page("", lang).tables[0][1:]
    assert [row[:-1] for row in rows] == [
        ["0", "0, 1", "1.000000", "7.0000", "(1.000, 0.000)", "(0.754, 0.657)"],
        ["1", "2, 3", "0.100000", "0.7000", "(0.500, 0.500)", "(0.060, 0.705)"],
        ["2", "4, 5", "0.010000", "0.0700", "(1.000, -1.000)", "(1.067, -0.928)"],
        ["3", "6, 7", "0.001000", "0.0070", "(0.250, 0.000)", "(0.250, 0.002)"],
    ]
    assert {row[-1] for row in rows} <= NOISE


@pytest.mark.parametrize("lang", LANGUAGES)
def test_readings_of_section_b(lang):
    values = page("", lang).values
    expected = {
        "head.distance": "5",
        "head.score": "-0.709554",
        "b.unrotated": "0.500000000",
        "b.m": "7",
        "b.n": "2",
        "b.score": "-0.709554095",
        "b.ms": "107",
        "b.ns": "102",
        "b.shifted": "-0.709554095",
        "b.total": "-0.709554",
        "b.q_before": "1.887459",
        "b.q_after": "1.887459",
        "b.k_before": "1.600781",
        "b.k_after": "1.600781",
        "b.low": "-3.021408",  # |q||k| = sqrt(3.5625 · 2.5625)
        "b.high": "3.021408",
    }
    assert {name: values[name] for name in expected} == expected
    assert abs(float(values["b.difference"])) <= 1e-15


@pytest.mark.parametrize("lang", LANGUAGES)
def test_table_b(lang):
    seen = page("", lang)
    index = next(i for i, table in enumerate(seen.tables) if any("-0.958924" in row for row in table))
    assert seen.tables[index][1:-1] == [
        ["0", "1.000000", "5.000000", "0.0000", "1.0000", "-0.958924"],
        ["1", "0.100000", "0.500000", "0.5000", "-0.5000", "0.199079"],
        ["2", "0.010000", "0.050000", "0.0000", "1.0000", "0.049979"],
        ["3", "0.001000", "0.005000", "0.0000", "0.0625", "0.000312"],
    ]
    assert seen.tables[index][-1][-1] == "-0.709554"


@pytest.mark.parametrize("lang", LANGUAGES)
def test_table_c_and_its_readings(lang):
    seen = page("", lang)
    rows = next(table for table in seen.tables if any("6283.19" in row for row in table))[1:]
    assert [[row[0], *row[2:]] for row in rows] == [
        ["0", "1.00000000", "6.28", "325.9493", "41.070°"],
        ["1", "0.10000000", "62.83", "32.5949", "40.107°"],
        ["2", "0.01000000", "628.32", "3.2595", "4.011°"],
        ["3", "0.00100000", "6283.19", "0.3259", "0.401°"],
    ]
    assert [row[1][:4] for row in rows] == ["0, 1", "2, 3", "4, 5", "6, 7"]
    assert [len(row[1]) > 4 for row in rows] == [False, False, False, True]  # "slower than the window"
    expected = {"c.fastest": "6.28", "c.slowest": "6283.19", "c.turns": "0.3259", "c.ratio": "1000.00", "c.slower": "1"}
    assert {name: seen.values[name] for name in expected} == expected


@pytest.mark.parametrize(
    ("lang", "angle", "degrees", "score"),
    [
        ("en", "7.000", "41.07", "-0.709554"),
        ("vi", "7,000", "41,07", "-0,709554"),
        ("zh", "7.000", "41.07", "-0.709554"),
    ],
)
def test_the_live_sentence_writes_numbers_as_prose_does(lang, angle, degrees, score):
    values = page("", lang).values
    written = [values[f"live.{name}"] for name in ("angle", "degrees", "score", "distance")]
    assert written == [angle, degrees, score, "5"]


@pytest.mark.parametrize("lang", LANGUAGES)
def test_a_long_table_draws_12_rows_says_what_it_left_out_and_reports_the_slowest_pair(lang):
    seen = page("d=128&window=8192", lang)
    speeds = next(table for table in seen.tables if any("54410.14" in row for row in table))
    for table in (seen.tables[0], speeds):
        assert [row[0] for row in table[1:13]] == [str(i) for i in range(12)]
        assert "52" in table[13][0]
        assert table[14][0] == "63"
        assert len(table) == 15
    assert seen.values["c.slowest"] == "54410.14"
    assert seen.values["c.windows"] == "6.64"
    assert seen.values["c.slower"] == "14"
    assert any("rows=all" in link for link in seen.links)
    assert len(page("d=128&window=8192&rows=all", lang).tables[0]) == 65


def test_the_pair_drawn_is_reported_even_where_it_is_the_slowest():
    seen = page("d=128&pair=63&window=8192")
    assert seen.values["a.pair"] == "63"
    assert "chosen" in seen.classes


@pytest.mark.parametrize("lang", LANGUAGES)
def test_base_1_says_that_the_range_of_scales_has_collapsed(lang):
    assert page("", lang).alerts == []
    seen = page("base=1", lang)
    assert seen.values["c.ratio"] == "1.00"
    assert len(seen.alerts) == 1


@pytest.mark.parametrize("lang", LANGUAGES)
def test_an_odd_width_has_a_red_frame_and_copies_its_last_dimension(lang):
    seen = page("d=7&pairing=half", lang)
    assert "odd" in seen.classes and "copied" in seen.classes
    assert any("7" in alert for alert in seen.alerts)
    assert [row[1] for row in seen.tables[0][1:]] == ["0, 3", "1, 4", "2, 5"]
    assert "odd" not in page("", lang).classes


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("colour=red", "The address has an unknown parameter colour; it is left out."),
        ("d=1", "d must be a whole number from 2 to 1024, got 1."),
        ("base=-3", "base must be a number from 0.001 to 1000000000000000, got -3."),
        ("q=1,x", "q must be 1 to 1024 numbers with commas between, got 1,x."),
        ("model=gpt-9", "There is no preset gpt-9."),
        ("rows=few", "rows must be one of some, all, got few."),
        ("part=a%20b", "part cannot be a b."),
        ("b.d=0", "b.d must be a whole number from 2 to 1024, got 0."),
        ("&".join(["m=1"] * 101), "The address has too many parameters; all are left out."),
        (
            "scaling=yarn&base=1",
            "The description asked for cannot be made: "
            "yarn needs rope_theta above 1 (its range divides by ln θ), got 1.",
        ),
        ("model=start", "The description asked for cannot be made: no model was given when the page was started."),
    ],
)
def test_what_is_wrong_is_said(query, words):
    assert words in page(query).alerts


@pytest.mark.parametrize("lang", LANGUAGES)
def test_what_is_given_is_shown_escaped(lang):
    state, messages = State.parse("m=<script>alert(1)</script>&<img src=x>=1&part=\"'")
    text = pages.simulator(state, messages, lang)
    assert "<script>alert" not in text and "<img" not in text
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text


@pytest.mark.parametrize(
    "query",
    [
        "",
        "d=64&scaling=yarn&truncate=0&factor=8&beta_fast=16&pair=5&rows=all",
        "model=gemma-3-4b&part=text&layer=5&window=32768&hide=quiz",
        "model=phi-3-mini-128k&part=text&length=100000&embed=1",
        "hide=controls&d=64&base=500000&q=1,2&s=-5&m=-3",
        "b.model=llama-3.1-8b&m=9",
        "b.scaling=linear&b.factor=2",
        "hide=engineers&b.model=llama-3.1-8b&b.layer=2",
        "scaling=proportional&fraction=0.25&d=64&embed=1&hide=controls,a",
    ],
)
def test_the_button_of_the_form_loses_nothing(query):
    """Without JavaScript the form's fields are the state: sending them back untouched must show the same page."""
    state, messages = State.parse(query)
    assert messages == ()
    fields = page(query).fields
    again, messages = State.parse(urlencode(fields))
    assert messages == ()
    same = {"part": again.a.part, "layer": again.a.layer} if state.a.model else {}  # the first part is named when sent
    assert again == state.change(**same) or again.query() == state.query()


@pytest.mark.parametrize("name", HIDEABLE)
def test_a_section_can_be_left_out(name):
    shown, hidden = pages.simulator(State(), (), "en"), pages.simulator(State(hide=(name,)), (), "en")
    assert len(hidden) < len(shown)
    if name in ("a", "b", "c", "gate", "quiz", "engineers", "tour"):
        assert name in Markup(shown).ids
        assert name not in Markup(hidden).ids


@pytest.mark.parametrize("name", preset_names())
def test_every_preset_has_a_page(name):
    seen = page(f"model={name}")
    assert seen.faults == []
    assert seen.alerts == []


def test_links_of_the_page_keep_the_state():
    seen = page("m=11&d=16&window=512")
    own = [link for link in seen.links if link.startswith("?") and link != "?"]
    assert len(own) > 20
    for link in own:
        state, messages = State.parse(link[1:])
        assert messages == ()
        assert (state.m, state.window) == (11, 512), link
    assert {dict(parse_qsl(link[1:])).get("pair", "0") for link in own} >= {str(i) for i in range(8)}


def test_pages_load_nothing_from_elsewhere():
    for lang in LANGUAGES:
        for link in page("model=llama-3.1-8b&b.scaling=linear", lang).links:
            assert link.startswith(("/", "?", "#")) and not link.startswith("//"), link


def test_the_default_page_is_small():
    assert len(pages.simulator(State(), (), "en").encode()) <= 60 * 1024


def test_every_preset_has_a_picture_that_leads_to_it_with_the_state_kept():
    status, text = get("/en/models?m=9&model=chatglm-6b&pair=3&evil=<b>&n=far")
    assert status == 200 and "<b>" not in text
    assert text.count('role="alert"') == 2  # the unknown parameter, and the position that is no number
    links = re.findall(r'<li><a href="([^"]+)"><svg class="thumb".*?</svg><span>([^<]+)</span>', text)
    assert [name for _, name in links] == list(preset_names())
    assert [link for link, _ in links] == [f"/en/?model={name}&amp;m=9" for name in preset_names()]


def test_the_model_named_at_the_start_is_one_link_away():
    named = read("llama-3.1-8b")
    assert '<a href="?model=start&amp;m=3">Model: preset llama-3.1-8b</a>' in get("/en/?m=3", named)[1]
    assert 'href="?model=start' not in get("/en/?m=3")[1]


def test_the_page_gives_its_script_every_default_in_canonical_order():
    found = re.search(r'id="data"[^>]*>(.+?)</script>', get("/en/?m=9&d=64")[1])
    assert found is not None
    assert list(json.loads(found[1])["defaults"].items()) == [
        *(("model", ""), ("part", ""), ("layer", "0"), ("d", "8"), ("base", "10000"), ("pairing", "interleaved")),
        *(("scaling", "default"), ("factor", "4"), ("original", "4096"), ("length", "0"), ("beta_fast", "32")),
        *(("beta_slow", "1"), ("truncate", "1"), ("low", "1"), ("high", "4"), ("fraction", "0.5"), ("pair", "0")),
        *(("m", "7"), ("n", "2"), ("s", "100"), ("window", "2048"), ("q", "1,0,0.5,0.5,1,-1,0.25,0")),
        *(("k", "0,1,1,0,0.5,0.5,0,0.25"), ("rows", "some"), ("embed", "0"), ("hide", "")),
    ]
