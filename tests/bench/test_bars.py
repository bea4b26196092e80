"""The bars: that they are those of the project, and how they are judged."""

import pytest

torch = pytest.importorskip("torch")

from ropewalk.bench import bars  # noqa: E402
from ropewalk.bench.bars import BARS, Verdict, judge, missed  # noqa: E402
from ropewalk.bench.contenders import CLONE, COPY, OURS  # noqa: E402
from ropewalk.bench.measuring import Measurement, Row  # noqa: E402
from ropewalk.bench.parity import Parity  # noqa: E402
from ropewalk.bench.plan import CASES, STANDARD  # noqa: E402
from ropewalk.bench.timing import Spread  # noqa: E402

GREEN = Parity(ok=True, error=0.0, share=0.0)


WITHOUT_CLOCK = bars.WITHOUT_CLOCK


@pytest.fixture(autouse=True)
def quick_bars_and_two_threads(monkeypatch):
    monkeypatch.setattr(bars, "WITHOUT_CLOCK", (("bytes", 1.0, lambda: 0.5),))
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)


def flat(value):
    return Spread(median=value, low=value, high=value)


def measured(case, dtype="float32", pairing="half", *, shape=STANDARD, skipped=None, **ratios):
    """A measurement made up: the ratios of ours to the copies, and of transformers to ours."""
    own = CASES[case].shape(shape)
    rows = [Row(name=CLONE), Row(name=COPY)]
    rows.append(
        Row(
            name=OURS,
            parity=GREEN,
            to_clone=flat(ratios.get("to_clone", 1.0)),
            to_copy=flat(ratios.get("to_copy", 1.0)),
        )
    )
    if "to_ours" in ratios:
        rows.append(Row(name="transformers", parity=GREEN, to_ours=flat(ratios["to_ours"])))
    return Measurement(
        case=case,
        dtype=dtype,
        pairing=pairing,
        q=tuple(own.q),
        k=tuple(own.k),
        rounds=1,
        calls=1,
        rows=tuple(rows),
        skipped=skipped or {},
    )


def verdict(measurements, words):
    (found,) = (one for one in judge(measurements) if one.words == words)
    return found


# case, dtype, pairing, whose row over what: the table of bars
TABLE = {
    ("out-of-place", "float32", "half", "ropewalk ÷ torch.clone"): ("at most", 1.25),
    ("in-place", "float32", "half", "ropewalk ÷ torch.clone"): ("at most", 0.35),
    ("out-of-place", "float32", "interleaved", "ropewalk ÷ torch.clone"): ("at most", 1.25),
    ("in-place", "float32", "interleaved", "ropewalk ÷ torch.clone"): ("at most", 0.35),
    ("out-of-place", "bfloat16", "half", "ropewalk ÷ torch.clone"): ("at most", 1.5),
    ("in-place", "bfloat16", "half", "ropewalk ÷ torch.clone"): ("at most", 0.6),
    ("out-of-place", "bfloat16", "interleaved", "ropewalk ÷ torch.clone"): ("at most", 1.6),
    ("in-place", "bfloat16", "interleaved", "ropewalk ÷ torch.clone"): ("at most", 0.5),
    ("out-of-place", "float32", "half", "transformers ÷ ropewalk"): ("at least", 4.5),
    ("out-of-place", "bfloat16", "half", "transformers ÷ ropewalk"): ("at least", 8.0),
    ("out-of-place", "float32", "half", "torch-compile ÷ ropewalk"): ("at least", 2.0),
    ("out-of-place", "bfloat16", "half", "torch-compile ÷ ropewalk"): ("at least", 2.5),
    ("backward", "float32", "half", "transformers ÷ ropewalk"): ("at least", 3.5),
    ("backward", "bfloat16", "half", "transformers ÷ ropewalk"): ("at least", 8.0),
    ("decode", "float32", "half", "transformers ÷ ropewalk"): ("at least", 3.0),
    ("decode", "bfloat16", "half", "transformers ÷ ropewalk"): ("at least", 3.0),
    ("decode-ragged", "float32", "half", "transformers ÷ ropewalk"): ("at least", 5.0),
    ("decode-ragged", "bfloat16", "half", "transformers ÷ ropewalk"): ("at least", 5.0),
}


def test_the_bars_are_those_of_the_table_and_the_aim_is_a_copy_in_place():
    found = {bar.words: (bar.sense, bar.limit) for bar in BARS if not bar.aim}
    assert found == {f"{case}, {dtype}, {pairing}: {what}": bar for (case, dtype, pairing, what), bar in TABLE.items()}
    aims = {bar.words: (bar.sense, bar.limit) for bar in BARS if bar.aim}
    assert aims == {
        f"in-place, {dtype}, {pairing}: ropewalk ÷ copy_": ("at most", 1.0)
        for dtype in ("float32", "bfloat16")
        for pairing in ("half", "interleaved")
    }


@pytest.mark.parametrize(("value", "ok"), [(1.24, True), (1.25, True), (1.26, False)])
def test_at_most_is_kept_up_to_the_limit(value, ok):
    found = verdict([measured("out-of-place", to_clone=value)], "out-of-place, float32, half: ropewalk ÷ torch.clone")
    assert (found.value, found.ok, found.why) == (value, ok, "")


@pytest.mark.parametrize(("value", "ok"), [(3.01, True), (3.0, True), (2.99, False)])
def test_at_least_is_kept_from_the_limit_on(value, ok):
    found = verdict([measured("decode", to_ours=value)], "decode, float32, half: transformers ÷ ropewalk")
    assert (found.value, found.ok, found.why) == (value, ok, "")


def test_a_bar_is_judged_by_the_measurement_of_its_own_type_and_pairing():
    several = [
        measured("in-place", dtype, pairing, to_clone=value)
        for dtype, pairing, value in (
            ("float32", "half", 0.1),
            ("float32", "interleaved", 0.2),
            ("bfloat16", "half", 0.3),
            ("bfloat16", "interleaved", 0.4),
        )
    ]
    found = {one.words: one.value for one in judge(several) if "torch.clone" in one.words and "in-place" in one.words}
    assert list(found.values()) == [0.1, 0.2, 0.3, 0.4]


def test_what_was_not_measured_asked_for_or_right_is_not_judged():
    words = "out-of-place, float32, half: transformers ÷ ropewalk"
    assert verdict([], words).why == "not measured in this run"
    assert verdict([measured("out-of-place")], words).why == "not asked for"
    assert verdict([measured("out-of-place", skipped={"transformers": "not installed"})], words).why == "not installed"
    red = Row(name="transformers", parity=Parity(ok=False, error=1.0, share=9.0, why="wrong"))
    one = measured("out-of-place")
    wrong = Measurement(**{name: getattr(one, name) for name in Measurement.__slots__} | {"rows": (*one.rows, red)})
    assert verdict([wrong], words).why == "no number: parity is red"
    assert all(one.ok is None and one.value is None for one in (verdict([], words), verdict([wrong], words)))


def test_another_shape_or_another_number_of_threads_is_shown_and_not_judged(monkeypatch):
    words = "out-of-place, float32, half: ropewalk ÷ torch.clone"
    smaller = STANDARD.__class__(batch=1, seq=64, heads=32, kv_heads=8, head_dim=128)
    found = verdict([measured("out-of-place", shape=smaller)], words)
    assert (found.value, found.ok) == (1.0, None)
    assert "[1, 4096, 32, 128]" in found.why
    monkeypatch.setattr(torch, "get_num_threads", lambda: 7)
    found = verdict([measured("out-of-place")], words)
    assert (found.value, found.ok, found.why) == (1.0, None, "stated for 2 threads, measured on 7")


def one(ok, *, aim=False):
    return Verdict(words="", sense="at most", limit=1.0, value=None, ok=ok, aim=aim)


def test_strictness_is_about_promises_and_never_passes_on_nothing():
    clockless = one(True)
    assert not missed([one(True), one(None), clockless])
    assert missed([one(True), one(False), clockless])
    assert not missed([one(True), one(False, aim=True), clockless])
    assert missed([one(None), one(None), clockless])  # nothing timed could be judged
    assert missed([one(True), one(False)])  # the clockless one


def test_bars_without_a_clock_hold(monkeypatch):
    monkeypatch.setattr(bars, "WITHOUT_CLOCK", WITHOUT_CLOCK)
    found = {one.words: one for one in judge([])[len(BARS) :]}
    assert len(found) == 3
    assert all(one.ok for one in found.values())
    error, memory, saved = (one.value for one in found.values())
    assert 1e-7 < error <= 1e-6  # float32 has no smaller roundings at numbers of this size
    assert 0 <= memory <= 8
    assert saved == 0


def test_tables_that_are_kept_are_counted():
    from ropewalk.turning import kernel

    if kernel.module is None:
        pytest.skip("tables are the kernel's")
    # two tables of 1024 rows, cos and sin, of 64 pairs in float64
    assert bars.table_megabytes() == pytest.approx(2 * 2 * 1024 * 64 * 8 / 1e6, rel=0.05)


def test_what_autograd_keeps_is_counted(monkeypatch):
    class Keeping(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x.clone()

        @staticmethod
        def backward(ctx, grad):
            return grad

    class Hoarder(bars.Rotary):
        def forward(self, q, k, position_ids=None, length=None):
            return super().forward(Keeping.apply(q), k, position_ids, length)

    monkeypatch.setattr(bars, "Rotary", Hoarder)
    assert bars.saved_bytes() == 64 * 4 * 128 * 4


def test_an_error_far_out_is_seen(monkeypatch):
    class Near(bars.Rotary):
        def forward(self, q, k, position_ids=None, length=None):
            return super().forward(q, k, position_ids.clamp(max=bars.FARTHEST - 1), length)

    monkeypatch.setattr(bars, "Rotary", Near)
    assert bars.farthest_error() > 0.1
