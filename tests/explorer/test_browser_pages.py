"""Every page in a real browser: the lesson's numbers as a reader sees them, no barrier, nothing too wide."""

from collections.abc import Iterator
from typing import Any

import pytest

from ropewalk.explorer import lessons
from ropewalk.explorer.i18n import LANGUAGES

# as lesson-and-simulator.md prints them
READINGS = {
    "head.score": "-0.709554",
    "a.frequency": "1.00000000",
    "a.query_angle": "7.000000",
    "a.query_degrees": "41.07",
    "a.key_angle": "2.000000",
    "a.between": "163.52",
    "b.unrotated": "0.500000000",
    "b.score": "-0.709554095",
    "b.shifted": "-0.709554095",
    "b.total": "-0.709554",
    "b.q_before": "1.887459",
    "b.k_before": "1.600781",
    "c.turns": "0.3259",
    "c.ratio": "1000.00",
    "c.slower": "1",
}
TABLE_A = [
    ["0, 1", "1.000000", "7.0000", "(1.000, 0.000)", "(0.754, 0.657)"],
    ["2, 3", "0.100000", "0.7000", "(0.500, 0.500)", "(0.060, 0.705)"],
    ["4, 5", "0.010000", "0.0700", "(1.000, -1.000)", "(1.067, -0.928)"],
    ["6, 7", "0.001000", "0.0070", "(0.250, 0.000)", "(0.250, 0.002)"],
]
TABLE_B = [
    ["1.000000", "5.000000", "0.0000", "1.0000", "-0.958924"],
    ["0.100000", "0.500000", "0.5000", "-0.5000", "0.199079"],
    ["0.010000", "0.050000", "0.0000", "1.0000", "0.049979"],
    ["0.001000", "0.005000", "0.0000", "0.0625", "0.000312"],
]
TABLE_C = [
    ["1.00000000", "6.28", "325.9493", "41.070°"],
    ["0.10000000", "62.83", "32.5949", "40.107°"],
    ["0.01000000", "628.32", "3.2595", "4.011°"],
    ["0.00100000", "6283.19", "0.3259", "0.401°"],
]
SIMULATORS = (
    "",
    "?d=7",
    "?d=128&window=8192",
    "?base=1",
    "?model=gpt-oss-20b&b.model=llama-3.1-8b",
    "?zzz=1",
    "?embed=1",
)


@pytest.fixture
def tab(chromium: Any) -> Iterator[Any]:
    """Open a page in a context of its own."""
    contexts = []

    def make(**options: Any) -> Any:
        contexts.append(chromium.new_context(**{"viewport": {"width": 1280, "height": 900}, **options}))
        return contexts[-1].new_page()

    yield make
    for context in contexts:
        context.close()


def rows(page: Any, section: str, first: int) -> list[list[str]]:
    cells = page.locator(f"#{section} table.data").first.locator("tbody tr[data-pair]")
    return [[cell.strip() for cell in row.locator("td").all_inner_texts()][first:] for row in cells.all()]


@pytest.mark.parametrize("lang", LANGUAGES)
@pytest.mark.parametrize("javascript", [True, False])
def test_numbers_of_the_lesson_are_on_the_screen(tab: Any, server: str, lang: str, javascript: bool) -> None:
    page = tab(java_script_enabled=javascript)
    page.goto(f"{server}/{lang}/")
    for name, value in READINGS.items():
        assert page.locator(f'[data-v="{name}"]').first.inner_text() == value, name
    assert [row[:5] for row in rows(page, "a", 0)] == TABLE_A
    assert rows(page, "b", 0) == TABLE_B
    assert [row[1:] for row in rows(page, "c", 0)] == TABLE_C
    assert page.locator("#a, #b, #c").count() == 3
    assert page.locator("svg.circle, svg.spectrum").count() == 2


@pytest.mark.parametrize(
    ("m", "n", "score"), [(7, 3, "-0.450741836"), (2, 7, "1.587136657"), (107, 102, "-0.709554095")]
)
def test_other_positions(tab: Any, server: str, m: int, n: int, score: str) -> None:
    page = tab()
    page.goto(f"{server}/en/?m={m}&n={n}")
    assert page.locator('[data-v="b.score"]').inner_text() == score


@pytest.mark.parametrize("shift", [100, -1000, 4096])
def test_a_shift_changes_nothing(tab: Any, server: str, shift: int) -> None:
    page = tab()
    page.goto(f"{server}/en/")
    page.locator('[name="s"]').fill(str(shift))
    page.keyboard.press("Tab")
    page.wait_for_timeout(100)
    assert page.locator('[data-v="b.shifted"]').inner_text() == "-0.709554095"
    assert page.locator('[data-v="b.ms"]').inner_text() == str(7 + shift)


@pytest.mark.parametrize("lang", LANGUAGES)
def test_a_long_table_reports_its_slowest_pair(tab: Any, server: str, lang: str) -> None:
    page = tab()
    page.goto(f"{server}/{lang}/?d=128&window=8192")
    pairs = [row.get_attribute("data-pair") for row in page.locator("#c tbody tr[data-pair]").all()]
    assert pairs == [*map(str, range(12)), "63"]
    assert "52" in page.locator("#c .left-out").inner_text()
    assert page.locator('[data-v="c.slowest"]').inner_text() == "54410.14"
    assert page.locator('[data-v="c.windows"]').inner_text() == "6.64"
    assert page.locator('[data-v="c.slower"]').inner_text() == "14"


def test_an_odd_width_is_framed_and_copied(tab: Any, server: str) -> None:
    page = tab()
    page.goto(f"{server}/en/?d=7")
    assert page.locator(".stage.odd .warning").is_visible()
    assert page.locator(".copied").is_visible()
    same = [page.locator(f'[data-v="{name}"]').inner_text() for name in ("b.score", "b.shifted")]
    assert same[0] == same[1]


def test_base_1_is_allowed_and_named(tab: Any, server: str) -> None:
    page = tab()
    page.goto(f"{server}/en/?base=1")
    assert page.locator('[data-v="c.ratio"]').inner_text() == "1.00"
    assert page.locator("#c .warning").is_visible()


def paths() -> list[str]:
    return [*SIMULATORS, "models", *(f"learn/{'' if name == 'learn' else name}" for name in lessons.NAMES)]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("lang", LANGUAGES)
def test_no_page_has_a_serious_barrier(tab: Any, server: str, lang: str, scheme: str) -> None:
    from axe_playwright_python.sync_playwright import Axe

    page = tab(color_scheme=scheme, reduced_motion="reduce")
    faults = []
    for path in paths():
        page.goto(f"{server}/{lang}/{path}")
        for violation in Axe().run(page).response["violations"]:
            if violation["impact"] in ("serious", "critical"):
                where = [node["target"] for node in violation["nodes"]][:3]
                faults.append(f"/{lang}/{path}: {violation['id']} {where}")
    assert not faults, "\n".join(faults)


@pytest.mark.parametrize("width", [320, 375, 768, 1280, 1600])
def test_no_page_scrolls_sideways(tab: Any, server: str, width: int) -> None:
    page = tab(viewport={"width": width, "height": 800})
    faults = []
    for lang in LANGUAGES:
        for path in paths():
            page.goto(f"{server}/{lang}/{path}")
            wide = page.evaluate("document.scrollingElement.scrollWidth")
            if wide > width:
                faults.append(f"/{lang}/{path}: {wide} px at {width}")
    assert not faults, "\n".join(faults)
