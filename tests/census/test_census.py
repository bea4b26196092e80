"""The census: ropewalk against every rotary class of transformers. Run by `make census`, which rewrites the page."""

import os
import warnings
from pathlib import Path

import pytest

pytestmark = pytest.mark.census
PAGE = Path(__file__).parents[2] / "docs" / "coverage.md"


@pytest.fixture(scope="module")
def rows():
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what the models' own files warn about is not ours
        from .report import take_census

        return take_census()


def test_nine_of_ten_classes_agree(rows):
    from .report import AGREES, shares

    counts = shares(rows)
    assert counts[AGREES] >= 0.9 * len(rows), counts


def test_every_other_class_has_its_cause(rows):
    from .report import AGREES, CAUSES

    without = [
        f"{row.class_name}: {row.reason}" for row in rows if row.status != AGREES and row.class_name not in CAUSES
    ]
    assert not without, "\n".join(without)


def test_no_cause_is_left_over(rows):
    from .report import AGREES, CAUSES

    assert not {row.class_name for row in rows if row.status == AGREES} & set(CAUSES)


def test_page_is_up_to_date(rows):
    from .report import page

    text = page(rows)
    if os.environ.get("CENSUS_WRITE") == "1":
        PAGE.write_text(text, encoding="utf-8")
    assert PAGE.read_text(encoding="utf-8") == text, "docs/coverage.md is old: CENSUS_WRITE=1 make census"


@pytest.mark.parametrize(
    ("model_type", "wrong", "class_name", "file"),
    [
        ("llama", {"pairing": "interleaved"}, "LlamaRotaryEmbedding", "llama"),
        ("nanochat", {"direction": 1}, "NanoChatRotaryEmbedding", "nanochat"),
        ("deepseek_v4", {"rotary_tail": False}, "DeepseekV4RotaryEmbedding", "deepseek_v4"),
        ("deepseek_v32", {"indexer": {"pairing": "interleaved"}}, "DeepseekV32RotaryEmbedding", "deepseek_v32"),
        ("gemma4_vision", {"axes": {"kind": "ladders", "names": ["w", "h"]}}, "Gemma4VisionRotaryEmbedding", "gemma4"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_wrong_fact_is_noticed(monkeypatch, rows, model_type, wrong, class_name, file):
    from ropewalk.models import architectures

    from .report import DIFFERS, row_of

    table = dict(architectures._table())
    table[model_type] = {**table[model_type], **wrong}
    monkeypatch.setattr(architectures, "_table", lambda: table)
    architectures._architecture.cache_clear()
    row = row_of(class_name, f"models/{file}/modeling_{file}.py")
    architectures._architecture.cache_clear()
    assert row.status == DIFFERS
