"""What the page does in a browser: drags, keys, Back, highlighting, the quiz, the tour, and numbers equal to .json."""

import json
import math
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

from ropewalk.explorer.export import export
from ropewalk.explorer.state import State

LANGUAGES = ("en", "vi", "zh")
SETTLED = 700  # ms: longer than it takes a run of keys to end


class Tab:
    """A page, with what went wrong in it and what it asked for; its icon, which browsers keep, is not counted."""

    def __init__(self, page: Any, server: str, *, scripted: bool = True) -> None:
        self.page, self.server, self.scripted = page, server, scripted
        self.problems: list[str] = []
        self.requests: list[str] = []
        page.on("console", lambda said: self.problems.append(said.text) if said.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: self.problems.append(str(error)))
        page.on("request", lambda asked: None if asked.url.endswith("/icon.svg") else self.requests.append(asked.url))

    def open(self, path: str) -> "Tab":
        self.page.goto(self.server + path)
        self.requests.clear()
        return self

    def drawn(self) -> None:
        """Wait until the page has drawn what it was told: it draws in the next frame."""
        if self.scripted:
            self.page.evaluate("() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")

    def value(self, name: str) -> str:
        self.drawn()
        return self.page.locator(f'#page [name="{name}"]').input_value()

    def reading(self, name: str) -> str:
        self.drawn()
        return self.page.locator(f'[data-v="{name}"]').first.inner_text()

    def query(self) -> str:
        return self.page.url.partition("?")[2].partition("#")[0]

    def settle(self) -> str:
        self.page.wait_for_timeout(SETTLED)
        return self.query()

    def tip(self, arrow: str) -> tuple[float, float]:
        box = self.page.locator(f'[data-arrow="{arrow}"] .grip').bounding_box()
        return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2

    def centre(self) -> tuple[float, float]:
        return tuple(self.page.evaluate(_CENTRE))

    def turn(self, arrow: str, radians: float, steps: int = 24) -> None:
        """Drag an arrow round the centre."""
        (x, y), (cx, cy) = self.tip(arrow), self.centre()
        start, radius = math.atan2(cy - y, x - cx), math.hypot(x - cx, y - cy)
        self.page.mouse.move(x, y)
        self.page.mouse.down()
        for step in range(1, steps + 1):
            angle = start + radians * step / steps
            self.page.mouse.move(cx + radius * math.cos(angle), cy - radius * math.sin(angle))
        self.page.mouse.up()
        self.drawn()

    def pick(self, pair: int) -> None:
        """Click a stroke of the spectrum."""
        box = self.page.locator(f'.pick[data-pair="{pair}"] .hit').bounding_box()
        self.page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
        self.drawn()

    def focus(self) -> str:
        return self.page.evaluate("() => document.activeElement.name || document.activeElement.dataset.arrow || ''")


@pytest.fixture
def open_tab(chromium: Any, server: str) -> Iterator[Callable[..., Tab]]:
    """Open pages; afterwards there must be no console message, and no request to another host."""
    contexts, tabs = [], []

    def make(path: str = "/en/", **options: Any) -> Tab:
        context = chromium.new_context(viewport={"width": 1280, "height": 900}, **options)
        contexts.append(context)
        tabs.append(Tab(context.new_page(), server, scripted=options.get("java_script_enabled", True)))
        return tabs[-1].open(path)

    yield make
    for context in contexts:
        context.close()
    for tab in tabs:
        assert tab.problems == []
        assert [url for url in tab.requests if not url.startswith(server)] == []


def test_a_drag_changes_m_and_keeps_the_radius_without_a_request(open_tab: Callable[..., Tab]) -> None:
    tab = open_tab()
    orbit = tab.page.locator(".orbit").get_attribute("r")
    radii = []
    tab.turn("query", 8.0)  # more than one full turn on
    radii.append(tab.page.locator(".orbit").get_attribute("r"))
    assert (tab.value("m"), tab.settle(), tab.reading("live.turns")) == ("15", "m=15", "2 full turns")
    tab.turn("query", -20.0)
    assert (tab.value("m"), tab.settle(), tab.reading("a.radius_after")) == ("-5", "m=-5", "1.000000")
    tab.turn("key", 3.0)
    assert (tab.value("n"), tab.settle()) == ("5", "m=-5&n=5")
    radii.append(tab.page.locator(".orbit").get_attribute("r"))
    assert set(radii) == {orbit} == {"92.000"}
    assert tab.requests == []


def test_a_drag_keeps_where_the_arrow_was_taken_and_turns_slow_pairs(open_tab: Callable[..., Tab]) -> None:
    tab = open_tab("/en/?pair=3")
    x, y = tab.tip("query")
    tab.page.mouse.move(x - 6, y + 5)  # beside the tip: nothing may jump
    tab.page.mouse.down()
    tab.page.mouse.up()
    assert (tab.value("m"), tab.query()) == ("7", "pair=3")
    tab.turn("query", 1.0)
    assert abs(int(tab.value("m")) - 1007) <= 20
    assert tab.requests == []


def test_a_drag_of_the_faint_arrow_changes_the_vector(open_tab: Callable[..., Tab]) -> None:
    tab = open_tab("/en/?hide=engineers")
    x, y = tab.tip("before")
    tab.page.mouse.move(x + 3, y + 4)
    tab.page.mouse.down()
    tab.page.mouse.move(x - 97, y - 46, steps=8)
    at = tab.tip("before")
    tab.page.mouse.up()
    q = [float(value) for value in tab.value("q").split(",")]
    assert q[2:] == [0.5, 0.5, 1, -1, 0.25, 0]
    assert q[1] > 0.1 and 0.1 < q[0] < 1
    assert abs(at[0] - (x - 100)) < 2 and abs(at[1] - (y - 50)) < 2
    assert tab.settle() == f"q={','.join(f'{value:g}' for value in q)}&hide=engineers"
    assert tab.requests == []


def test_back_and_forward_restore(open_tab: Callable[..., Tab]) -> None:
    tab = open_tab()
    tab.turn("query", 3.0)
    tab.page.focus('[data-arrow="key"]')
    tab.page.keyboard.press("ArrowUp")
    tab.pick(2)
    tab.page.wait_for_function("() => location.search === '?pair=2&m=10&n=3'")
    for expected in ("m=10&n=3", "m=10", ""):
        tab.page.go_back()
        tab.page.wait_for_function("query => location.search.slice(1) === query", arg=expected)
    assert (tab.value("m"), tab.value("n"), tab.value("pair")) == ("7", "2", "0")
    assert tab.reading("b.score") == "-0.709554095"
    tab.page.go_forward()
    tab.page.wait_for_function("() => document.querySelector('[name=m]').value === '10'")
    assert tab.requests == []


def test_back_over_a_change_of_d_asks_the_server(open_tab: Callable[..., Tab]) -> None:
    tab = open_tab()
    tab.page.locator("[name=d]").fill("16")
    tab.page.wait_for_function("() => location.search === '?d=16'")
    assert tab.page.locator("#c tbody tr").count() == 8
    tab.page.go_back()
    tab.page.wait_for_function("() => document.querySelectorAll('#c tbody tr').length === 4")
    assert (tab.query(), tab.value("d")) == ("", "8")


def test_keys_on_arrows_and_on_numbers(open_tab: Callable[..., Tab]) -> None:
    tab = open_tab()
    tab.page.focus('[data-arrow="query"]')
    keys = (("ArrowRight", "8"), ("ArrowDown", "7"), ("Shift+ArrowUp", "17"), ("Home", "0"), ("End", "2"))
    for key, expected in keys:
        tab.page.keyboard.press(key)
        tab.page.wait_for_function("m => document.querySelector('[name=m]').value === m", arg=expected)
    arrow = tab.page.locator('[data-arrow="query"]')
    tab.drawn()
    assert arrow.get_attribute("aria-valuenow") == "2"
    assert arrow.get_attribute("aria-valuetext") == "2, 114.59°"
    tab.page.focus("[name=n]")
    for key, expected in (("ArrowUp", "3"), ("Shift+ArrowDown", "-7"), ("Home", "0"), ("End", "2")):
        tab.page.keyboard.press(key)
        tab.page.wait_for_function("n => document.querySelector('[data-v=\"b.n\"]').textContent === n", arg=expected)
    tab.page.focus("[name=pair]")
    tab.page.keyboard.press("End")
    assert tab.settle() == "pair=3&m=2"
    assert tab.requests == []


def test_numbers_can_be_scrubbed_and_typed(open_tab: Callable[..., Tab]) -> None:
    tab = open_tab()
    box = tab.page.locator("[name=m]").bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    tab.page.mouse.move(x, y)
    tab.page.mouse.down()
    tab.page.mouse.move(x + 80, y, steps=10)
    tab.page.mouse.up()
    assert (tab.value("m"), tab.settle()) == ("17", "m=17")
    tab.page.locator("[name=m]").click()
    tab.page.keyboard.type("-300")
    tab.page.locator("[name=s]").fill("4096")
    assert tab.settle() == "m=-300&s=4096"
    assert (tab.reading("b.ms"), tab.reading("b.ns")) == ("3796", "4098")
    assert tab.requests == []


def test_play_steps_and_pauses(open_tab: Callable[..., Tab]) -> None:
    tab = open_tab()
    play = tab.page.locator('[data-do="play"]')
    play.click()
    tab.page.wait_for_function("() => Number(document.querySelector('[name=m]').value) >= 9")
    assert play.get_attribute("aria-pressed") == "true"
    play.click()
    assert play.get_attribute("aria-pressed") == "false"
    stopped = tab.value("m")
    assert tab.settle() == f"m={stopped}" and tab.value("m") == stopped
    tab.page.locator('[data-do="back"]').click()
    assert tab.settle() == f"m={int(stopped) - 1}"
    tab.page.locator('[data-do="reset"]').click()
    assert tab.settle() == "" and tab.value("m") == "7"
    assert tab.requests == []


def test_play_is_off_under_reduced_motion(open_tab: Callable[..., Tab]) -> None:
    tab = open_tab(reduced_motion="reduce")
    play = tab.page.locator('[data-do="play"]')
    for expected in ("m=8", "m=9"):
        play.click()
        assert tab.settle() == expected
        assert play.get_attribute("aria-pressed") == "false"


def test_a_pair_lights_up_everywhere_by_hover_and_by_focus(open_tab: Callable[..., Tab]) -> None:
    tab = open_tab()
    lit = "() => [...document.querySelectorAll('.lit')].map(e => e.tagName.toLowerCase()).sort().join(' ')"
    tab.page.locator('#c a.pairlink[data-pair="2"]').focus()
    assert tab.page.evaluate(lit) == "a a a a tr tr tr"
    tab.page.locator('#c a.pairlink[data-pair="0"]').focus()
    assert tab.page.evaluate(lit) == "a a a a p svg tr tr tr"  # the drawn pair: circle and formula as well
    tab.page.locator('.pick[data-pair="1"]').focus()
    assert tab.page.locator('.lit[data-pair="1"]').count() == 7
    tab.page.keyboard.press("Enter")
    tab.drawn()
    assert tab.query() == "pair=1"
    assert tab.page.locator(".chosen").count() == 4
    assert tab.reading("a.freq") == "0.10000000"
    tab.page.locator('#a tr[data-pair="3"]').hover()
    assert tab.page.locator('.lit[data-pair="3"]').count() == 7
    assert tab.requests == []


def test_settings_ask_the_server_once_and_keep_the_focus(open_tab: Callable[..., Tab]) -> None:
    tab = open_tab("/en/?m=3")
    tab.page.focus("[name=d]")
    tab.page.locator("[name=d]").fill("1")  # refused by the field itself
    tab.page.wait_for_timeout(300)
    assert tab.requests == [] and tab.page.locator("[name=d]").get_attribute("aria-invalid") == "true"
    tab.page.locator("[name=d]").fill("12")
    tab.page.keyboard.type("8", delay=20)
    tab.page.wait_for_function("() => location.search === '?d=128&m=3'")
    assert len(tab.requests) == 1 and tab.focus() == "d"
    assert tab.page.locator("#c tbody tr").count() == 14
    assert tab.reading("c.slowest") == "54410.14"
    tab.page.locator("[name=window]").fill("8192")
    tab.page.locator("[name=scaling]").select_option("yarn")
    tab.page.wait_for_function("() => location.search === '?d=128&scaling=yarn&m=3&window=8192'")
    assert tab.page.locator("[name=beta_fast]").count() == 1
    assert len(tab.requests) == 2
    tab.turn("query", 1.0)
    assert State.parse(tab.settle())[0].query() == tab.query()


def test_an_answer_that_fails_leaves_the_page_as_it_was(open_tab: Callable[..., Tab]) -> None:
    tab = open_tab()
    tab.page.route("**/en/?*", lambda route: route.abort())
    tab.page.locator("[name=base]").fill("500000")
    tab.page.wait_for_timeout(500)
    assert tab.query() == "" and tab.reading("c.slowest") == "6283.19"
    assert len(tab.problems) == 1 and "net::ERR_FAILED" in tab.problems.pop()
    tab.page.unroute("**/en/?*")
    tab.turn("query", 1.0)
    assert tab.settle() == "m=8"


def test_links_keep_what_was_changed_in_the_page(open_tab: Callable[..., Tab]) -> None:
    tab = open_tab("/en/?d=128")
    tab.turn("query", 2.0)
    tab.page.locator("a[hreflang=vi]").click()
    assert (tab.query(), tab.value("m")) == ("d=128&m=9", "9")
    tab.page.locator('.left-out a[href*="rows=all"]').first.click()
    tab.page.wait_for_function("() => document.querySelectorAll('#c tbody tr').length === 64")
    assert tab.query() == "d=128&m=9&rows=all"


def test_the_quiz_is_marked_in_the_page_by_keyboard(open_tab: Callable[..., Tab]) -> None:
    tab = open_tab()
    status = tab.page.locator("[data-quiz-mark]")
    before = status.inner_text()
    for question in (1, 2, 3):
        right = tab.page.locator(f'[data-question="{question}"] input').evaluate_all(
            "radios => radios.findIndex(radio => radio.dataset.right === '1')"
        )
        tab.page.locator(f'[data-question="{question}"] input').first.focus()
        tab.page.keyboard.press("Space")
        for _ in range(right + (question == 3)):  # the last one wrong
            tab.page.keyboard.press("ArrowDown")
        assert tab.page.locator(f'[data-question="{question}"] details[open]').count() == 1
        if question < 3:
            assert status.inner_text() == before.replace("0/3", f"{question}/3")
    assert status.inner_text() == "2/3 right"
    tab.page.keyboard.press("ArrowUp")
    assert status.inner_text() == "3/3 right"
    assert tab.requests == [] and tab.query() == ""


def test_the_tour_by_keyboard_alone(open_tab: Callable[..., Tab]) -> None:
    tab = open_tab("/en/#tour=1")
    card = tab.page.locator("#tour .card:visible")
    assert card.count() == 1 and tab.page.locator("#tour [data-do=next]").evaluate("b => b === document.activeElement")
    done = "() => document.querySelector('#tour .card:not([hidden])').classList.contains('done')"

    def go_on(number: int, *keys: str) -> None:
        assert f"#tour={number}" in tab.page.url
        for key in keys:
            tab.page.keyboard.press(key)
        tab.page.wait_for_function(done)
        tab.page.keyboard.press("Space")

    tab.page.focus('[data-arrow="query"]')
    go_on(1, "ArrowRight")
    tab.page.focus('[data-arrow="key"]')
    go_on(2, "ArrowRight", "ArrowLeft")
    tab.page.focus('[data-arrow="query"]')
    go_on(3, "ArrowRight")
    tab.page.focus("[name=s]")
    go_on(4, "ArrowUp")
    m, n = tab.value("m"), tab.value("n")
    tab.page.locator("[name=m]").fill(n)
    tab.page.locator("[name=n]").fill(m)
    go_on(5)
    tab.page.focus("[name=pair]")
    go_on(6, "End")
    tab.page.focus('.pick[data-pair="3"]')
    tab.page.wait_for_function(done)
    tab.page.locator("#tour [data-do=next]").click()
    tab.page.locator("[name=window]").fill("8192")
    go_on(8)
    tab.page.locator("[name=pairing]").select_option("half")
    tab.page.wait_for_function(done)
    assert "pairing=half" in tab.query() and tab.page.url.endswith("#tour=9")
    tab.page.keyboard.press("Escape")
    assert "#" not in tab.page.url and tab.page.locator("#tour").is_hidden()
    assert tab.page.locator(".tour-start").evaluate("b => b === document.activeElement")


def test_a_deep_link_opens_a_card_and_the_keys_are_listed(open_tab: Callable[..., Tab]) -> None:
    tab = open_tab("/zh/?d=16#tour=4")
    assert tab.page.locator("#tour .card").nth(3).is_visible()
    tab.page.keyboard.press("Escape")
    tab.page.keyboard.press("?")
    assert tab.page.locator("dialog#keys").is_visible()
    tab.page.keyboard.press("Escape")
    assert tab.page.locator("dialog#keys").is_hidden()


def test_copying_takes_the_snippet_in_step(open_tab: Callable[..., Tab], server: str) -> None:
    tab = open_tab(permissions=["clipboard-read", "clipboard-write"])
    tab.turn("query", 1.0)
    tab.settle()
    tab.page.locator('summary:has-text("CLI")').click()
    tab.page.locator('[data-copy="CLI"]').click()
    tab.page.wait_for_function("() => navigator.clipboard.readText().then(text => text !== '')")
    assert "/en/?m=8" in tab.page.evaluate("() => navigator.clipboard.readText()")
    assert tab.page.locator('[data-snippet="link"]').text_content() == "/en/?m=8\n"
    tab.page.locator('[data-snippet="link"]').locator("xpath=ancestor::details").locator("summary").click()
    tab.page.locator('[data-copy="link"]').click()
    tab.page.wait_for_function("() => navigator.clipboard.readText().then(text => text.startsWith('http'))")
    assert tab.page.evaluate("() => navigator.clipboard.readText()") == f"{server}/en/?m=8"


def test_without_javascript_the_page_has_figures_tables_and_a_form(open_tab: Callable[..., Tab]) -> None:
    tab = open_tab(java_script_enabled=False)
    for part in ("#circle .arrow", ".spectrum .pick", "#a table", "#b table", "#c table", "#gate", "#quiz details"):
        assert tab.page.locator(part).count() > 0, part
    assert tab.reading("b.score") == "-0.709554095"
    tab.page.locator("[name=m]").fill("9")
    tab.page.locator(".submit").click()
    assert "m=9" in tab.query() and tab.reading("b.m") == "9"


def test_an_exported_file_lives_without_a_server(open_tab: Callable[..., Tab], tmp_path: Path) -> None:
    file = tmp_path / "rope.html"
    file.write_text(export(State(), "en"), encoding="utf-8")
    tab = open_tab()
    tab.page.goto(file.as_uri())
    tab.requests.clear()
    tab.turn("query", 3.0)
    tab.pick(1)
    assert tab.reading("a.query_angle") == "1.000000" and tab.value("m") == "10"
    assert tab.page.locator("[name=d]").is_disabled()
    tab.page.locator("[data-language=vi]").click()
    assert tab.page.evaluate("() => document.documentElement.lang") == "vi"
    assert (tab.value("m"), tab.value("pair"), tab.reading("live.angle")) == ("10", "1", "1,000")
    tab.turn("key", 0.5)
    assert tab.value("n") == "7"
    tab.page.locator('[data-do="reset"]').click()
    tab.page.wait_for_function("() => document.querySelector('[name=n]').value === '2'")
    assert tab.requests == []


@pytest.mark.parametrize("lang", LANGUAGES)
def test_numbers_and_their_text_are_the_servers(open_tab: Callable[..., Tab], server: str, lang: str) -> None:
    """18 random states in each language: the numbers of .json to 1e-12, and the text of the server's page."""
    tab = open_tab(f"/{lang}/")
    chance = random.Random(lang)
    for _ in range(6):
        described = _random_description(chance)
        tab.open(f"/{lang}/?{described.query()}")
        pairs = int(tab.page.locator("[name=pair]").get_attribute("max"))
        for power in (1, 3, 6):
            local = {
                "pair": chance.randint(0, pairs),
                "m": chance.randint(-(10**power), 10**power),
                "n": chance.randint(-3000, 3000),
                "s": chance.choice((-1000, -1, 0, 1, 4096)),
            }
            for name, value in local.items():
                tab.page.locator(f"[name={name}]").fill(str(value))
            tab.page.locator("[name=m]").press("Enter")
            query = described.change(**local).query()  # the address ends as the server would write it
            tab.page.wait_for_function("query => location.search.slice(1) === query", arg=query)
            tab.page.wait_for_function(_SHOWN, arg=str(local["m"]))
            tab.page.evaluate(_DRAWN)
            with urlopen(f"{server}/{lang}/.json?{query}") as answer:
                _compare(tab.page.evaluate(_RAW), json.load(answer), query)
            assert tab.page.evaluate(_TEXT_DIFFERENCES) == [], query
        tab.requests.clear()


def _random_description(chance: random.Random) -> State:
    width = chance.choice((2, 4, 7, 8, 9, 16, 31, 64, 128))
    q, k = (
        ",".join(f"{chance.choice((chance.gauss(0, 1), chance.randint(-4, 4) / 16))!r}" for _ in range(width))
        for _ in range(2)
    )
    base = chance.choice(("1", "10", "10000", "500000", "0.5"))
    kinds = ["default", "linear", "ntk"] + (["yarn", "llama3"] if width % 2 == 0 and base not in ("1", "0.5") else [])
    pairing, window = chance.choice(("interleaved", "half")), chance.choice((100, 2048, 8192))
    shown = "hide=lesson,gate,quiz,engineers,tour"
    described = f"d={width}&base={base}&pairing={pairing}&scaling={chance.choice(kinds)}&window={window}&q={q}&k={k}"
    return State.parse(f"{described}&{shown}")[0]


# what was asked of the page is drawn in its next frame, which a busy machine gives late
_DRAWN = "() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"
_SHOWN = "m => document.querySelector('[data-v=\"b.m\"]').dataset.raw === m"
_CENTRE = """() => {
  const point = new DOMPoint(0, 0).matrixTransform(document.querySelector('#circle').getScreenCTM());
  return [point.x, point.y];
}"""
_RAW = """() => {
  const all = name => [...document.querySelectorAll(`[data-${name}][data-raw]`)];
  const cell = e => [e.dataset.c, Number(e.closest('tr').dataset.pair), e.dataset.raw.split(',').map(Number)];
  return { readings: Object.fromEntries(all('v').map(e => [e.dataset.v, e.dataset.raw])), cells: all('c').map(cell) };
}"""
# every reading and cell of the page against the server's page for the same address; float noise may differ
_TEXT_DIFFERENCES = """async () => {
  const page = new DOMParser().parseFromString(await (await fetch(location.href)).text(), 'text/html');
  const [mine, theirs] = [document, page].map(root => [...root.querySelectorAll('[data-v], [data-c]')]);
  const noise = e => ['deviation', 'a.radius_deviation', 'b.difference'].includes(e.dataset.c ?? e.dataset.v);
  return mine.flatMap((e, i) => e.textContent === theirs[i].textContent || noise(e)
    ? [] : [[e.dataset.v ?? e.dataset.c, e.textContent, theirs[i].textContent]]);
}"""


def _compare(shown: dict[str, Any], data: dict[str, Any], query: str) -> None:
    pair, score = data["pair"], data["score"]
    row, key = data["turns"][pair], data["key_turns"][pair]
    expected = {
        "live.angle": row["angle"],
        "live.score": score["score"],
        "live.distance": score["distance"],
        "head.score": score["score"],
        "a.pair": pair,
        "a.frequency": row["inv_freq"],
        "a.query_angle": row["angle"],
        "a.query_degrees": row["degrees"],
        "a.key_angle": key["angle"],
        "a.key_degrees": key["degrees"],
        "a.radius_before": row["radius"][0],
        "a.radius_after": row["radius"][1],
        "a.radius_deviation": row["deviation"],
        "a.between": data["angle_between"],
        "b.unrotated": score["unrotated"],
        "b.score": score["score"],
        "b.shifted": score["shifted"],
        "b.difference": score["difference"],
        "b.total": score["total"],
        "b.high": score["bound"],
        "b.q_before": score["query_length"][0],
        "b.q_after": score["query_length"][1],
        "b.k_before": score["key_length"][0],
        "b.k_after": score["key_length"][1],
    }
    for name, value in expected.items():
        near = pytest.approx(value, rel=0, abs=1e-12 if name != "a.between" else 1e-5 if value is None else 1e-10)
        assert (None if shown["readings"][name] == "null" else float(shown["readings"][name])) == near, (name, query)
    columns: dict[str, Callable[[int], Any]] = {
        "angle": lambda i: data["turns"][i]["angle"],
        "in": lambda i: data["turns"][i]["in"],
        "out": lambda i: data["turns"][i]["out"],
        "deviation": lambda i: data["turns"][i]["deviation"],
        "distance": lambda i: score["rows"][i]["angle"],
        "straight": lambda i: score["rows"][i]["straight"],
        "cross": lambda i: score["rows"][i]["cross"],
        "contribution": lambda i: score["rows"][i]["contribution"],
        "degrees": lambda i: data["speeds"]["rows"][i]["angle"],
    }
    assert len(shown["cells"]) >= 9
    for name, i, values in shown["cells"]:
        right = columns[name](i)
        near = pytest.approx(right if isinstance(right, list) else [right], rel=0, abs=1e-12)
        assert values == near, (name, i, query)
