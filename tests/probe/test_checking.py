"""check(): from a function to verdicts. The gallery has the known faults; here are the interface and the rest."""

import json
import re
import time
from pathlib import Path

import numpy as np
import pytest

import ropewalk
from ropewalk import Rope, RopewalkError
from ropewalk.probe.checking import check
from ropewalk.probe.gallery import exhibits
from ropewalk.turning.naive import rotate

ROPE = Rope(head_dim=16, rope_theta=5e5, pairing="half")
W = 5e5 ** (-np.arange(8) / 8.0)


def good(x, ids):
    return rotate(x, ids, ROPE).astype(x.dtype)


def of(rope):
    return lambda x, ids: rotate(x, ids, rope).astype(x.dtype)


def names(report):
    return [finding.name for finding in report.findings]


def verdicts(fn, *, expect=ROPE, **options):
    return names(check(fn, head_dim=16, heads=3, expect=expect, **options))


SHOWN = {one.id: one for one in exhibits()}
SOME = [one for one in SHOWN if "." not in one and not SHOWN[one].needs_torch]


@pytest.mark.parametrize("number", SOME)
def test_every_fault_gets_its_name_and_every_right_variant_none(number):
    one = SHOWN[number]
    report = check(one.make(), expect=one.expect, **one.options)
    bad = [finding.name for finding in report.findings if finding.severity != "note"]
    assert bad == ([] if one.slug is None else [one.slug, *one.also])
    assert report.ok is (one.slug is None)


@pytest.mark.parametrize("number", [one for one in SHOWN if "." not in one and SHOWN[one].needs_torch])
def test_faults_of_torch_code_get_their_names(number):
    pytest.importorskip("torch")
    one = SHOWN[number]
    report = check(one.make(), expect=one.expect, **one.options)
    assert [finding.name for finding in report.findings if finding.severity != "note"] == [one.slug]


def test_without_a_declaration_a_convention_is_no_fault():
    assert verdicts(of(ROPE.replace(rope_theta=123.0, pairing="interleaved")), expect=None) == []
    assert verdicts(of(ROPE.replace(direction=-1)), expect=None) == ["own-convention"]
    assert verdicts(lambda x, ids: x.copy(), expect=None) == ["no-rope"]
    assert verdicts(lambda x, ids: good(x, np.asarray(ids) + 2), expect=None) == ["offset"]


def test_without_a_declaration_what_contradicts_itself_is_a_fault():
    def stretched(x, ids):
        angle = (np.asarray(ids)[..., None] * W)[..., None, :]
        a, b = x[..., :8], x[..., 8:]
        cos, sin = np.cos(angle), np.sin(angle)
        return np.concatenate([a * cos + b * sin, b * cos + a * sin], -1).astype(x.dtype)

    assert verdicts(stretched, expect=None) == ["not-a-rotation"]
    assert verdicts(lambda x, ids: good(x, np.arange(x.shape[1])), expect=None) == ["ids-ignored"]
    assert verdicts(lambda x, ids: good(x, np.minimum(ids, 900)), expect=None) == ["table-end-clamped"]


def test_the_measured_and_the_right_value_are_both_told():
    (finding,) = check(of(ROPE.replace(rope_theta=1e4)), head_dim=16, expect=ROPE).findings
    assert (finding.code, finding.severity) == ("RW214", "error")
    assert "10000" in finding.seen and "500000" in finding.right
    assert "Likely mistake:" in finding.message and "Effect:" in finding.message


def test_expect_may_be_a_config_or_a_model():
    config = {"model_type": "llama", "head_dim": 16, "num_hidden_layers": 2, "rope_theta": 500000.0}
    assert check(good, head_dim=16, expect=config).ok
    assert check(good, head_dim=16, expect=ropewalk.read(config)).ok
    assert not check(good, head_dim=16, expect={**config, "rope_theta": 10000.0}).ok


def test_an_expect_of_another_width_is_an_error_with_both_numbers():
    with pytest.raises(RopewalkError, match=r"32 channels, got head_dim=16"):
        check(good, head_dim=16, expect=ROPE.replace(head_dim=32, rotary_dim=32))


def counting():
    seen = [0]

    def fn(x, ids):
        seen[0] += 1
        return good(x, np.asarray(ids) + seen[0])

    return fn


def failing(above, how):
    def fn(x, ids):
        if np.max(ids) > above:
            return how(x, ids)
        return good(x, ids)

    return fn


def raising(x, ids):
    raise IndexError("index out of range")


RNG = np.random.default_rng(0)


@pytest.mark.parametrize(
    ("fn", "name"),
    [
        (raising, "raised"),
        (lambda x: x, "raised"),
        (lambda x, ids: x[..., :8], "shape"),
        (lambda x, ids: None, "type"),
        (lambda x, ids: x * np.float32("nan"), "not-finite"),
        (lambda x, ids: good(x * (RNG.random(x.shape) > 0.1), ids), "random"),
        (counting(), "keeps-state"),
        (lambda x, ids: good(x / np.abs(x + 1e-3).max(), ids), "nonlinear"),
        (lambda x, ids: 2 * x, "not-a-rotation"),
        (failing(5000, lambda x, ids: x * np.float32("nan")), "not-finite"),
    ],
)
def test_functions_that_do_not_behave_get_a_verdict_and_no_traceback(fn, name):
    report = check(fn, head_dim=16, heads=3, expect=ROPE)
    assert names(report) == [name]
    assert not report.ok
    json.dumps(report.to_dict(), allow_nan=False)


def test_a_function_that_hangs_is_left_after_the_timeout():
    began = time.perf_counter()
    assert verdicts(failing(5000, lambda x, ids: time.sleep(20)), timeout=1.0) == ["hang"]
    assert time.perf_counter() - began < 8


def test_what_was_found_before_a_failure_is_kept():
    report = check(failing(5000, lambda x, ids: time.sleep(20)), head_dim=16, expect=ROPE, timeout=1.0)
    np.testing.assert_allclose(report.pairs.inv_freq, W, rtol=1e-6)


def test_a_table_that_ends_with_an_error_is_a_note():
    assert verdicts(failing(5000, raising)) == ["table-end"]


def test_one_token_calls_that_do_not_turn_are_told():
    assert verdicts(lambda x, ids: good(x, ids) if x.shape[1] > 1 else x.copy()) == ["identity"]


def test_tables_of_each_head_are_told_from_heads_that_rest():
    def each(x, ids):
        parts = [
            rotate(x[:, :, h : h + 1], ids, ROPE.replace(rope_theta=5e5 * (h + 1))).astype(x.dtype) for h in range(3)
        ]
        return np.concatenate(parts, axis=2)

    def last(x, ids):
        return np.concatenate([x[:, :, :2], good(x[:, :, 2:], ids)], axis=2)

    assert verdicts(each) == ["heads-differ"]
    assert verdicts(last) == ["first-head-only"]


def test_two_faults_at_once_are_both_told():
    assert verdicts(of(ROPE.replace(rope_theta=1e4, pairing="interleaved"))) == ["interleaved-for-half", "wrong-theta"]


def test_key_heads_of_another_number_are_asked_too():
    def fn(x, ids):
        return good(x, ids) if x.shape[2] == 6 else good(x, 2 * np.asarray(ids))

    report = check(fn, head_dim=16, heads=6, kv_heads=2, expect=ROPE)
    assert not report.ok
    assert check(good, head_dim=16, heads=6, kv_heads=2, expect=ROPE).findings == ()


def test_a_table_of_two_lengths_is_noted_where_nothing_is_declared():
    one = ropewalk.read(
        {
            "model_type": "llama",
            "head_dim": 16,
            "num_hidden_layers": 1,
            "max_position_embeddings": 2048,
            "rope_parameters": {"rope_type": "dynamic", "factor": 4.0, "rope_theta": 10000.0},
        }
    ).rope

    def fn(x, ids):
        return rotate(x, ids, one, length=int(np.max(ids)) + 1).astype(x.dtype)

    assert "two-tables" in verdicts(fn, expect=None)
    assert verdicts(fn, expect=ROPE.replace(rope_theta=1e4))[0] == "length-rule"
    report = check(fn, head_dim=16, expect=one)
    assert report.ok


def test_a_usual_function_is_checked_in_a_second():
    rope = Rope(head_dim=128, rope_theta=5e5, pairing="half")
    began = time.perf_counter()
    report = check(of(rope), head_dim=128, heads=8, kv_heads=2, expect=rope)
    assert (report.ok, time.perf_counter() - began < 3) == (True, True)


def test_a_torch_module_is_checked_under_its_usual_conditions():
    torch = pytest.importorskip("torch")

    class Rotary(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("inv_freq", torch.tensor(W, dtype=torch.float32), persistent=False)

        def forward(self, x, ids):
            angle = (ids[..., None].float() * self.inv_freq.float())[..., None, :]
            cos, sin = torch.cat([angle.cos()] * 2, -1), torch.cat([angle.sin()] * 2, -1)
            turned = torch.cat([-x[..., 8:], x[..., :8]], -1)
            return (x * cos + turned * sin).to(x.dtype)

    report = check(Rotary(), head_dim=16, expect=ROPE)
    assert report.ok
    assert "state-cast" in names(report)
    assert "bfloat16" in next(finding.seen for finding in report.findings if finding.name == "state-cast")


def test_ropewalks_own_module_has_nothing_to_say_about():
    pytest.importorskip("torch")
    from ropewalk.torch import Rotary

    rotary = Rotary(ROPE)
    report = check(lambda q, ids: rotary(q, q, ids)[0], head_dim=16, backend="torch", expect=ROPE)
    assert report.findings == ()


def test_the_example_of_the_guide_prints_what_it_says(monkeypatch, capsys):
    monkeypatch.setattr(ropewalk, "check", check, raising=False)
    guide = (Path(__file__).resolve().parents[2] / "docs" / "check.md").read_text(encoding="utf-8")
    code, printed = re.search(r"```python\n(.+?)```\n\n```\n(.+?)```", guide, re.DOTALL).groups()
    exec(code, {})
    assert capsys.readouterr().out == printed


@pytest.mark.parametrize("largest", [7, 100])
def test_no_position_beyond_the_largest_is_asked(largest):
    asked = []

    def fn(x, ids):
        asked.append(int(np.max(ids)))
        return good(x, ids)

    report = check(fn, head_dim=16, expect=ROPE, max_position=largest)
    assert report.ok
    assert max(asked) <= largest
