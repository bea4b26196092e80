"""Three languages: every label in each, the same placeholders, the same lessons with the same pieces and questions."""

import json
import re
from collections import Counter
from pathlib import Path
from string import Formatter

import pytest
from babel.messages.extract import DEFAULT_KEYWORDS, extract_from_dir
from babel.messages.frontend import parse_mapping_cfg
from babel.messages.pofile import read_po

from ropewalk.explorer import i18n, lessons, pages
from ropewalk.explorer.i18n import LANGUAGES, Speech, negotiate
from ropewalk.explorer.state import State
from ropewalk.gate import verify

ROOT = Path(__file__).resolve().parents[2]
EXPLORER = ROOT / "src" / "ropewalk" / "explorer"
TRANSLATED = [lang for lang in LANGUAGES if lang != "en"]


def extracted():
    """Every label in the sources, as `make messages` finds them."""
    with (ROOT / "babel.cfg").open(encoding="utf-8") as file:
        methods, options = parse_mapping_cfg(file)
    found = extract_from_dir(EXPLORER, methods, options, keywords={**DEFAULT_KEYWORDS, "N_": None})
    return {message if isinstance(message, str) else message[0] for _, _, message, _, _ in found}


def po(path):
    with path.open("rb") as file:
        return {str(entry.id): entry for entry in read_po(file) if entry.id}


def translations(lang):
    return po(EXPLORER / "locale" / lang / "LC_MESSAGES" / "explorer.po")


def placeholders(text):
    return Counter(name for _, name, _, _ in Formatter().parse(text) if name is not None)


def test_the_template_lists_every_label():
    assert set(po(EXPLORER / "locale" / "explorer.pot")) == extracted()  # else: make messages


@pytest.mark.parametrize("lang", TRANSLATED)
def test_every_label_is_translated(lang):
    catalog = translations(lang)
    assert sorted(extracted() - set(catalog)) == []  # else: make messages
    assert sorted(set(catalog) - extracted()) == []
    assert [text for text, entry in catalog.items() if not str(entry.string).strip()] == []
    assert [text for text, entry in catalog.items() if entry.fuzzy] == []


@pytest.mark.parametrize("lang", TRANSLATED)
def test_a_translation_has_the_placeholders_of_its_label(lang):
    wrong = {
        text: str(entry.string)
        for text, entry in translations(lang).items()
        if entry.string and placeholders(text) != placeholders(str(entry.string))
    }
    assert wrong == {}


@pytest.mark.parametrize("lang", TRANSLATED)
def test_a_translation_is_trimmed_as_its_label_is(lang):
    for text, entry in translations(lang).items():
        assert str(entry.string) == str(entry.string).strip(), text


def test_every_label_that_a_page_speaks_can_be_found_by_the_extraction(monkeypatch):
    """A label put together while the page is made would stay English for ever: none may be."""
    spoken = set()

    def listen(lang, text):
        spoken.add(text)
        return i18n.escape(text)

    monkeypatch.setattr(i18n, "_label", listen)
    for query in (
        "d=7&pairing=half&scaling=yarn",
        "base=1&b.scaling=linear&d=128",
        "model=gemma-3-4b&layer=5&m=x&n=1.5&q=z&zz=1&base=x&rows=x&part=%20",
        "model=start",
        "model=llama-4-scout&layer=3",
        "scaling=proportional&fraction=0.001",
        "model=gemma-3-4b&part=radio",
        "scaling=dynamic",
        "scaling=llama3",
    ):
        pages.simulator(*State.parse(query), "en")
    for name in lessons.NAMES:
        pages.lesson(name, "en", State())
    for status in (404, 405, 414, 421, 500):
        pages.problem(status, "en")
    assert sorted(spoken - extracted()) == []


def test_every_case_of_the_gate_has_a_label():
    assert {case.name for case in verify().cases} <= extracted()


def test_numbers_in_prose_follow_the_language():
    written = {lang: Speech(lang).number(54410.14, 2) for lang in LANGUAGES}
    assert written == {"en": "54,410.14", "vi": "54.410,14", "zh": "54,410.14"}
    assert Speech("vi").number(0.753902) == "0,753902"
    assert Speech("vi").number(-1234.5, 1, grouped=False) == "-1234,5"


def test_values_in_a_label_are_escaped():
    assert Speech("en")("There is no preset {given}.", given="<b>") == "There is no preset &lt;b&gt;."
    assert Speech("en")("There is no preset {given}.", given="{0}{x}") == "There is no preset {0}{x}."


@pytest.mark.parametrize(
    ("header", "lang"),
    [
        ("vi", "vi"),
        ("zh-CN,zh;q=0.9,en;q=0.8", "zh"),
        ("fr,de", "en"),
        ("en;q=0.1,vi;q=0.2", "vi"),
        ("vi;q=0,en", "en"),
        ("*", "en"),
        ("", "en"),
        (None, "en"),
        ("VI-vn", "vi"),
        ("vi;q=x,zh", "zh"),
        (";;;,,,", "en"),
        ("x" * 100_000, "en"),
        ("vi;q=nan", "en"),
    ],
)
def test_accept_language(header, lang):
    assert negotiate(header) == lang


# --- Lessons ---------------------------------------------------------------------------------------------------------


def lesson_files(lang):
    return {path.name for path in (EXPLORER / "lessons" / lang).iterdir()}


@pytest.mark.parametrize("lang", LANGUAGES)
def test_every_language_has_every_lesson(lang):
    assert lesson_files(lang) == lesson_files("en")
    assert {f"{name}.md" for name in lessons.NAMES} <= lesson_files(lang)


def shape(lang, name):
    """What a lesson holds beside its words: live pieces and code."""
    text = lessons.source(lang, name)
    return {
        "live": re.findall(r"^```live (.*)$", text, flags=re.MULTILINE),
        "code": len(re.findall(r"^```python", text, flags=re.MULTILINE)),
        "title": text.startswith("# "),
    }


@pytest.mark.parametrize("lang", TRANSLATED)
@pytest.mark.parametrize("name", sorted(path.stem for path in (EXPLORER / "lessons" / "en").glob("*.md")))
def test_a_lesson_has_the_same_pieces_in_every_language(name, lang):
    assert shape(lang, name) == shape("en", name)


@pytest.mark.parametrize("lang", LANGUAGES)
def test_every_link_of_a_lesson_leads_to_a_page(lang):
    for name in lesson_files(lang):
        text = (EXPLORER / "lessons" / lang / name).read_text(encoding="utf-8")
        for link in re.findall(r"\]\(([^)]*)\)", text):
            place, _, query = link.partition("?")
            assert place == "/" or place.removesuffix(".md") in lessons.NAMES, (name, link)
            assert place != "/" or State.parse(query.partition("#")[0])[1] == (), (name, link)


@pytest.mark.parametrize("lang", LANGUAGES)
def test_every_live_piece_of_a_lesson_exists(lang):
    from ropewalk.explorer.live import PIECES

    for name in lessons.NAMES:
        assert set(shape(lang, name)["live"]) <= set(PIECES), name


@pytest.mark.parametrize("lang", LANGUAGES)
def test_the_quiz_has_three_questions_with_one_right_answer_each(lang):
    questions, english = lessons.quiz(lang), lessons.quiz("en")
    assert len(questions) == 3
    for question, other in zip(questions, english, strict=True):
        assert question["text"].strip()
        rights = [option["right"] for option in question["options"]]
        assert rights.count(True) == 1
        assert len(rights) == len(other["options"]) >= 3
        assert all(option["text"].strip() and option["why"].strip() for option in question["options"])
        assert len({option["text"] for option in question["options"]}) == len(rights)


@pytest.mark.parametrize("lang", LANGUAGES)
def test_the_tour_has_the_same_things_to_do_in_every_language(lang):
    assert sorted(card["do"] for card in lessons.tour(lang)) == sorted(card["do"] for card in lessons.tour("en"))
    assert 8 <= len(lessons.tour(lang)) <= 10
    for card in lessons.tour(lang):
        assert card["title"].strip() and card["text"].strip()


@pytest.mark.parametrize("lang", TRANSLATED)
def test_lessons_are_translated_not_copied(lang):
    for name in lesson_files("en"):
        own, english = ((EXPLORER / "lessons" / code / name).read_text(encoding="utf-8") for code in (lang, "en"))
        assert own != english, name
        if name.endswith(".json"):
            json.loads(own)
