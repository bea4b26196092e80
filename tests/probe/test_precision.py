"""Each cause of imprecise angles is named by reproducing it, graded by what it does, and honest angles pass."""

import numpy as np
import pytest

from ropewalk import Pairs, Rope
from ropewalk.probe import adapt
from ropewalk.probe.box import Box
from ropewalk.probe.precision import conditions, grade

from .rotary import half_pairs, turn_by

ml_dtypes = pytest.importorskip("ml_dtypes")
F32 = np.float32


def rope(head_dim=96, theta=3e5):
    return Rope(head_dim=head_dim, rope_theta=theta, pairing="half")


def to(dtype):
    return lambda values: np.asarray(values).astype(dtype).astype(np.float64)


BF16, FP16 = to(ml_dtypes.bfloat16), to(np.float16)


def tf32(values):
    """Round float32 numbers to 10 bits after the leading one, by scaling; not by bits as the code under test does."""
    mantissa, exponent = np.frexp(np.asarray(values, F32).astype(np.float64))
    return np.ldexp(np.rint(mantissa * 2**11), exponent - 11)


def running(w):
    result = [F32(1)]
    for _ in w[1:]:
        result.append(result[-1] * F32(w[1]))
    return np.array(result).astype(np.float64)


def float32_product(p, w):
    return (p.astype(F32) * w.astype(F32)).astype(np.float64)


ANGLES = {
    None: lambda p, w: p * w,
    "float32-angles": float32_product,
    "float32-running-product": lambda p, w: float32_product(p, running(w)),
    "bf16-frequencies": lambda p, w: float32_product(p, BF16(w)),
    "fp16-frequencies": lambda p, w: float32_product(p, FP16(w)),
    "bf16-positions": lambda p, w: float32_product(BF16(p), w),
    "bf16-angles": lambda p, w: BF16(p * w),
    "fp16-angles": lambda p, w: FP16(float32_product(p, w)),
    "tf32-product": lambda p, w: float32_product(tf32(p), tf32(w)),
}
WORSE = {
    "bf16-angles": lambda p, w: BF16(BF16(p) * BF16(w)),
    "fp16-angles": lambda p, w: FP16(FP16(p) * FP16(w)),
    "bf16-positions": lambda p, w: float32_product(BF16(p), BF16(w)),
}


def spoiled(angle, table, end=lambda values: values):
    def fn(x, ids):
        p = np.broadcast_to(ids, x.shape[:2])[:, :, None, None].astype(np.float64)
        with np.errstate(invalid="ignore", over="ignore"):
            full = angle(p, table.inv_freq)
            a, b = np.split(x, 2, axis=-1)
            cos, sin = end(np.cos(full)), end(np.sin(full))
            return np.concatenate([a * cos - b * sin, b * cos + a * sin], -1).astype(x.dtype)

    return fn


def graded(angle, shape=(96, 3e5), max_position=1_048_576, end=lambda values: values, **options):
    table = rope(*shape).pairs()
    options = {"intended": table, **options}
    return grade(Box(spoiled(angle, table, end), head_dim=shape[0]), table, max_position=max_position, **options)


SHAPES = [(16, 5e5), (96, 3e5), (128, 1e4), (48, 2e4)]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("cause", ANGLES)
def test_each_rounding_is_named(cause, shape):
    assert graded(ANGLES[cause], shape).cause == cause


def away(values):
    """Round as `tf32` does, but halves away from zero, as a processor's conversion does."""
    mantissa, exponent = np.frexp(np.asarray(values, F32).astype(np.float64))
    return np.ldexp(np.floor(mantissa * 2**11 + 0.5), exponent - 11)  # for numbers from 0


def chopped(values):
    """Leave the last 13 bits out, as a product does that only reads the first."""
    mantissa, exponent = np.frexp(np.asarray(values, F32).astype(np.float64))
    return np.ldexp(np.floor(mantissa * 2**11), exponent - 11)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("of_frequencies", [True, False], ids=["both", "positions"])
@pytest.mark.parametrize("ten_bits", [tf32, away, chopped])
def test_every_way_to_tf32_is_named_for_both_factors_and_for_positions_alone(ten_bits, of_frequencies, shape):
    def angle(p, w):
        return float32_product(ten_bits(p), ten_bits(w) if of_frequencies else w)

    result = graded(angle, shape)
    assert (result.cause, result.grade) == ("tf32-product", "fatal")
    assert ("frequencies" in result.words) is of_frequencies


def test_positions_in_float16_are_not_taken_for_tf32_where_nothing_beyond_its_range_is_finite():
    result = graded(lambda p, w: float32_product(FP16(p), w), max_position=60_000)
    assert (result.cause, result.grade) == ("fp16-positions", "fatal")


@pytest.mark.parametrize("cause", WORSE)
def test_roundings_together_are_named_by_the_last_of_them(cause):
    assert graded(WORSE[cause]).cause == cause


@pytest.mark.parametrize("cause", [cause for cause in ANGLES if cause and "float32" not in cause])
@pytest.mark.parametrize("max_position", [8192, 131_072])
def test_rounded_frequencies_positions_and_angles_are_fatal(cause, max_position):
    result = graded(ANGLES[cause], max_position=max_position)
    assert (result.cause, result.grade) == (cause, "fatal")
    assert max(result.errors.values()) > 0.05 and cause.split("-")[0] in result.words.lower()


def test_exact_angles_are_exact_to_a_million():
    result = graded(ANGLES[None])
    assert (result.cause, result.grade) == (None, "exact")
    assert list(result.errors) == [128, 4096, 50_000, 131_072, 1_048_576]
    assert result.worst < 1e-6


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("cause", ["float32-angles", "float32-running-product"])
def test_honest_float32_angles_are_nothing_to_say_up_to_a_hundred_thousand_and_graded_beyond(cause, shape):
    assert graded(ANGLES[cause], shape, max_position=100_000).grade == "exact"
    result = graded(ANGLES[cause], shape)
    assert result.grade == ("mild" if result.worst > 0.01 else "exact")
    assert shape[0] == 16 or result.grade == "mild"


def test_frequencies_off_by_a_few_float32_roundings_are_honest_too():
    rng = np.random.default_rng(1)
    wobble = 1 + rng.integers(-2, 3, 48) * 2.0**-24
    result = graded(lambda p, w: float32_product(p, w * wobble))
    assert (result.cause, result.grade) == ("float32-angles", "mild")


@pytest.mark.parametrize(("name", "half", "entry"), [("bf16", BF16, 2e-3), ("fp16", FP16, 3e-4)])
@pytest.mark.parametrize("angle", [ANGLES[None], ANGLES["float32-angles"]], ids=["exact", "float32"])
def test_rounded_finished_tables_are_mild(name, half, entry, angle):
    result = graded(angle, max_position=50_000, end=half)
    assert (result.cause, result.grade) == (f"{name}-tables", "mild")
    assert result.errors[4096] < 2.5 * entry  # half an ulp of each of cos and sin


def test_rounded_frequencies_stay_the_cause_when_the_tables_are_rounded_as_well():
    assert graded(ANGLES["bf16-frequencies"], end=BF16).cause == "bf16-frequencies"


def off_beyond(limit):
    def sine(p, w):
        angle = p * w
        return np.where(np.abs(angle) > limit, angle + (np.abs(angle) - limit) * 1e-4, angle)

    return sine


@pytest.mark.parametrize("limit", [20_000, 48_000, 100_000])
def test_a_sine_that_is_off_at_large_angles_alone_is_named_with_its_limit(limit):
    result = graded(off_beyond(limit))
    assert result.cause == "sine-unreduced"
    assert limit <= result.detail["threshold"] <= 2.8 * limit
    assert result.grade == "fatal"


def in_turns(angle):
    turns = angle.astype(F32) * F32(1 / (2 * np.pi))
    return (F32(2 * np.pi) * (turns - np.rint(turns))).astype(np.float64)


def modulo(angle):
    return np.fmod(angle.astype(F32), F32(2 * np.pi)).astype(np.float64)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("reduced", [in_turns, modulo])
def test_a_sine_off_by_no_more_than_float32_angles_may_be_is_told_by_the_pair_whose_angles_are_exact(reduced, shape):
    result = graded(lambda p, w: reduced(float32_product(p, w)), shape)
    assert (result.cause, result.grade) == ("sine-unreduced", "notable")


def test_a_polynomial_without_any_reduction_is_named():
    def fn(x, ids):
        p = np.broadcast_to(ids, x.shape[:2])[:, :, None, None].astype(np.float64)
        angle = np.clip(p * rope().pairs().inv_freq, -1e4, 1e4)
        a, b = np.split(x, 2, axis=-1)
        cos = sum((-1) ** k * angle ** (2 * k) / float(np.prod(np.arange(1.0, 2 * k + 1))) for k in range(12))
        sin = sum((-1) ** k * angle ** (2 * k + 1) / float(np.prod(np.arange(1.0, 2 * k + 2))) for k in range(12))
        cos, sin = np.clip(cos, -1e6, 1e6), np.clip(sin, -1e6, 1e6)
        return np.concatenate([a * cos - b * sin, b * cos + a * sin], -1)

    result = grade(Box(fn, head_dim=96), rope().pairs(), max_position=131_072, intended=rope().pairs())
    assert (result.cause, result.grade) == ("sine-unreduced", "fatal")


def test_what_has_no_name_is_unknown_and_graded_by_its_size():
    result = graded(lambda p, w: p * w + 0.3 * np.sin(p) * (w < 0.1))
    assert (result.cause, result.grade) == ("unknown", "fatal")


# ---------------------------------------------------------------- numbers of the catalogue
def test_bf16_frequencies_cost_what_the_catalogue_says():
    # F004: D=96, theta 3e4: 0.18667 rad at 100, 0.56 at 300, 1.86666 at 1000
    table = rope(96, 3e4).pairs()
    for position, radians in ((100, 0.18667), (300, 0.56000), (1000, 1.86666)):  # the largest at and below each
        box = Box(spoiled(ANGLES["bf16-frequencies"], table), head_dim=96)
        assert grade(box, table, max_position=position, intended=table).worst == pytest.approx(radians, abs=2e-4)


def test_honest_float32_angles_cost_what_the_catalogue_says():
    # F025: D=96, theta 3e4: 2.615e-4 rad at 10000; here the largest of a few positions at and below it
    result = graded(ANGLES["float32-angles"], (96, 3e4), max_position=10_000)
    assert 2e-4 < result.worst < 9e-4


def test_an_fp16_angle_is_seen_at_position_1999():
    # F411: R=48, theta 2e4, pair 2: 875.777186 becomes 875.5
    result = graded(ANGLES["fp16-angles"], (48, 2e4), max_position=1999)
    assert result.cause == "fp16-angles" and result.worst >= 0.277


def test_an_fp16_angle_that_saturates_is_no_bad_sine():
    result = graded(lambda p, w: np.minimum((p * w).astype(np.float16), np.float16(65504)).astype(float))
    assert (result.cause, result.grade) == ("fp16-angles", "fatal")


def test_rounded_tables_cost_what_the_catalogue_says():
    # F413: at most 1.9e-3 an entry for bf16
    assert graded(ANGLES[None], (96, 3e4), max_position=777, end=BF16).worst < 4e-3


# ---------------------------------------------------------------- what is known of the table
@pytest.mark.parametrize("name", ["bf16", "fp16"])
def test_rounded_frequencies_show_in_a_recovered_table_by_lying_on_the_grid(name):
    half = {"bf16": BF16, "fp16": FP16}[name]
    recovered = half_pairs(96, inv_freq=half(rope().pairs().inv_freq))
    box = Box(spoiled(ANGLES["float32-angles"], recovered), head_dim=96)
    result = grade(box, recovered, max_position=131_072)
    assert (result.cause, result.grade) == (f"{name}-frequencies", "fatal")


def test_frequencies_that_are_powers_of_two_lie_on_every_grid_and_are_no_fault():
    table = rope(16, 256.0).pairs()
    assert grade(Box(spoiled(ANGLES[None], table), head_dim=16), table, max_position=131_072).grade == "exact"


def test_another_table_than_intended_is_graded_by_itself():
    other = rope(96, 1e4).pairs()
    box = Box(spoiled(ANGLES["float32-angles"], other), head_dim=96)
    result = grade(box, other, max_position=50_000, intended=rope().pairs())
    assert (result.cause, result.grade) == ("float32-angles", "exact")


def test_a_nearby_base_is_not_taken_for_a_rounding():
    other = rope(96, 3.05e5).pairs()
    box = Box(spoiled(ANGLES[None], other), head_dim=96)
    assert grade(box, other, max_position=50_000, intended=rope().pairs()).cause is None


def test_magnitude_offset_order_and_direction_are_taken_into_account():
    table = rope(96).pairs()
    order = np.random.default_rng(2).permutation(96)
    given = Pairs(first=table.first, second=table.second, axis=table.axis, inv_freq=-table.inv_freq, cos_sin_factor=1.3)

    def fn(x, ids):
        p = np.broadcast_to(ids, x.shape[:2])[:, :, None, None] + 5.0
        return turn_by(x, p * given.inv_freq, 1.3)[..., order]

    result = grade(Box(fn, head_dim=96), given, max_position=131_072, output_order=tuple(order), offset=5.0)
    assert (result.cause, result.grade) == (None, "exact")


def test_a_map_of_two_angles_is_graded_too():
    tiled = Rope(head_dim=48, rope_theta=1e4, pairing="hybrid_tile").pairs()
    for cause in (None, "bf16-positions"):

        def fn(x, ids, cause=cause):
            p = np.broadcast_to(ids, x.shape[:2])[:, :, None, None].astype(np.float64)
            out = x.astype(np.float64)
            one, two = ANGLES[cause](p, tiled.inv_freq), ANGLES[cause](p, tiled.second_inv_freq)
            a, b = x[..., tiled.first], x[..., tiled.second]
            out[..., tiled.first] = a * np.cos(one) - b * np.sin(one)
            out[..., tiled.second] = b * np.cos(two) + a * np.sin(two)
            return out

        assert grade(Box(fn, head_dim=48), tiled, max_position=131_072, intended=tiled).cause == cause


def test_positions_that_are_not_answered_are_left_out_and_listed():
    def fn(x, ids):
        if np.max(ids) >= 60_000:
            raise IndexError("beyond the table")
        return spoiled(ANGLES[None], rope().pairs())(x, ids)

    result = grade(Box(fn, head_dim=96), rope().pairs(), max_position=1_048_576)
    assert list(result.errors) == [128, 4096, 50_000] and result.grade == "exact"
    assert "beyond the table" in result.detail["failed"][131_072]


def test_pairs_that_explain_nothing_are_not_graded():
    other = half_pairs(96, inv_freq=rope().pairs().inv_freq[::-1])
    assert grade(Box(spoiled(ANGLES[None], other), head_dim=96), rope().pairs(), max_position=5000).grade == "unusable"


def test_a_function_that_answers_nothing_is_unusable():
    def fn(x, ids):
        if np.max(ids) > 9:
            raise ValueError("no")
        return x

    assert grade(Box(fn, head_dim=96), rope().pairs(), max_position=5000).grade == "unusable"


# ---------------------------------------------------------------- conditions
def _module(kind):
    torch = pytest.importorskip("torch")
    w = torch.tensor(rope().pairs().inv_freq, dtype=torch.float32)

    class Rotary(torch.nn.Module):
        def __init__(self):
            super().__init__()
            if kind == "buffer":
                self.register_buffer("inv_freq", w.clone())
            elif kind == "rebuilt":
                self.register_buffer("inv_freq", w.clone(), persistent=False)

        def reset_parameters(self):
            if kind == "rebuilt":
                self.inv_freq.data.copy_(w)

        def forward(self, x, ids):
            inv_freq = w if kind == "plain" else self.inv_freq
            if kind == "rebuilt" and inv_freq.dtype != torch.float32:
                inv_freq = w
            places = ids.to(torch.float32)[..., None]
            with torch.autocast("cpu", enabled=False):
                angle = places * inv_freq.float()
                cos, sin = torch.cos(angle)[..., None, :], torch.sin(angle)[..., None, :]
            a, b = x.float().chunk(2, -1)
            return torch.cat([a * cos - b * sin, b * cos + a * sin], -1).to(x.dtype)

    return Rotary()


def test_a_module_without_state_keeps_its_precision_everywhere():
    found = conditions(Box(_module("plain"), head_dim=96), rope().pairs(), intended=rope().pairs())
    assert list(found) == [
        "autocast", "bfloat16 input", "float16 input", "default dtype", "to(bfloat16)", "half()", "meta"
    ]  # fmt: skip
    assert {name: one.grade for name, one in found.items() if one.grade != "exact"} == {}


def test_a_module_that_fills_its_buffer_again_survives_the_meta_device():
    found = conditions(Box(_module("rebuilt"), head_dim=96), rope().pairs(), intended=rope().pairs())
    assert {name: one.grade for name, one in found.items() if one.grade != "exact"} == {}


@pytest.mark.parametrize("kind", ["buffer", "plain"])
def test_an_adapted_module_is_cast_as_the_module_itself_is(kind):
    torch = pytest.importorskip("torch")
    inner = _module(kind)

    class Both(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.turn = inner

        def forward(self, q, k, position_ids):
            return self.turn(q, position_ids), self.turn(k, position_ids)

    given = {"intended": rope().pairs()}
    alone = conditions(Box(inner, head_dim=96), rope().pairs(), **given)
    adapted = conditions(Box(adapt.module(Both()), head_dim=96), rope().pairs(), **given)
    assert {name: (one.grade, one.cause) for name, one in adapted.items()} == {
        name: (one.grade, one.cause) for name, one in alone.items()
    }
    assert (adapted["to(bfloat16)"].grade, adapted["meta"].grade) == (
        ("exact", "exact") if kind == "plain" else ("fatal", "unusable")
    )


def test_frequencies_in_a_buffer_are_cast_and_emptied_and_the_module_itself_is_left_alone():
    torch = pytest.importorskip("torch")
    module = _module("buffer")
    kept = module.inv_freq.clone()

    def called(x, ids):
        return module(x, ids)

    for fn in (module, called, module.forward):
        found = conditions(Box(fn, head_dim=96), rope().pairs(), intended=rope().pairs())
        assert (found["to(bfloat16)"].cause, found["to(bfloat16)"].grade) == ("bf16-frequencies", "fatal")
        assert (found["half()"].cause, found["half()"].grade) == ("fp16-frequencies", "fatal")
        assert found["meta"].grade == "unusable" and "NaN" in found["meta"].words
        assert found["autocast"].grade == "exact"
    assert module.inv_freq.dtype == torch.float32 and torch.equal(module.inv_freq, kept)


def test_an_outer_product_by_matmul_is_ruined_by_autocast_alone():
    torch = pytest.importorskip("torch")
    w = torch.tensor(rope().pairs().inv_freq, dtype=torch.float32)

    def fn(x, ids):
        flat = ids.reshape(-1, 1).to(torch.float32) @ w[None]
        angle = flat.reshape(*ids.shape, -1)[..., None, :].float()
        a, b = x.float().chunk(2, -1)
        cos, sin = torch.cos(angle), torch.sin(angle)
        return torch.cat([a * cos - b * sin, b * cos + a * sin], -1).to(x.dtype)

    found = conditions(Box(fn, head_dim=96), rope().pairs(), intended=rope().pairs())
    assert (found["autocast"].cause, found["autocast"].grade) == ("bf16-angles", "fatal")
    assert found["default dtype"].grade == found["bfloat16 input"].grade == "exact"


def test_positions_in_the_dtype_of_the_input_are_fatal_for_half_precision_inputs_alone():
    torch = pytest.importorskip("torch")
    w = torch.tensor(rope().pairs().inv_freq, dtype=torch.float32)

    def fn(x, ids):
        angle = ids.to(x.dtype).float()[..., None, None] * w
        a, b = x.float().chunk(2, -1)
        cos, sin = torch.cos(angle), torch.sin(angle)
        return torch.cat([a * cos - b * sin, b * cos + a * sin], -1).to(x.dtype)

    found = conditions(Box(fn, head_dim=96), rope().pairs(), intended=rope().pairs())
    assert {name for name, one in found.items() if one.grade == "fatal"} == {"bfloat16 input", "float16 input"}
    assert found["bfloat16 input"].cause == "bf16-positions"


def test_functions_of_other_libraries_have_no_conditions():
    assert conditions(Box(spoiled(ANGLES[None], rope().pairs()), head_dim=96), rope().pairs()) == {}
