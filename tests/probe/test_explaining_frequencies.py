"""explain(): frequencies and magnitudes otherwise than declared, each mistake by its name."""

import math

import numpy as np
import pytest

from ropewalk import Rope
from ropewalk.probe.explaining import explain
from ropewalk.scaling import Dynamic, Linear, Llama3, LongRope, Ntk, Proportional, Yarn

from .made_tables import ALL, REFERENCE, adjacent, check_named, g, half, ladder, llama3, table, yarn


def test_plain_frequency_deviations_are_named():
    seen = check_named(table(half(8), ladder(1e4, 16)), 16, REFERENCE, ["wrong-theta"])
    assert seen.recipe == "theta 10000 for 500000"
    assert (seen.deviations[0].seen, seen.deviations[0].declared) == (1e4, 5e5)
    seen = check_named(table(half(8), 5e5 ** (-np.arange(8) / 16)), 16, REFERENCE, ["exponent-without-2"])
    assert seen.rope.rope_theta == pytest.approx(math.sqrt(5e5)) and "equals theta 707.107" in seen.recipe
    check_named(table(half(8), 2 * ALL, factor=1.0), 16, REFERENCE, ["double-rotation"])
    check_named(table((np.array([], int), np.array([], int)), np.array([])), 16, REFERENCE, ["identity"])


def test_rounded_frequencies_are_named():
    torch = pytest.importorskip("torch")
    for dtype, slug in ((torch.bfloat16, "bf16-frequencies"), (torch.half, "fp16-frequencies")):
        for theta, width in ((3e4, 96), (1e4, 128), (1e4, 16)):
            rope = Rope(head_dim=width, rope_theta=theta, pairing="half")
            rounded = torch.from_numpy(ladder(theta, width)).to(dtype).double().numpy()
            check_named(table(half(width // 2), rounded), width, rope, [slug])


@pytest.mark.parametrize(
    ("width", "theta", "s", "original"), [(96, 3e5, 16.0, 4096), (128, 5e5, 8.0, 8192), (64, 5e5, 32.0, 8192)]
)
def test_llama3_deviations_are_named(width, theta, s, original):
    def seen(**changes):
        given_ = {"theta": theta, "s": s, "original": original, **changes}
        return table(half(width // 2), llama3(width=width, **given_))

    rope = Rope(
        head_dim=width,
        rope_theta=theta,
        pairing="half",
        scaling=Llama3(factor=s, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=original),
        max_position_embeddings=131072,
    )
    check_named(seen(), width, rope, [])
    check_named(table(half(width // 2), ladder(theta, width)), width, rope, ["unscaled"])
    for pinned in (4.0, 5.0, 24.0, 20.5):
        found = check_named(seen(s=pinned), width, rope, ["factor-pinned"])
        assert found.parameters["factor"] == pinned and found.recipe == f"factor {pinned:g} for {s:g}"
    check_named(seen(middle="precedence"), width, rope, ["llama3-precedence"])
    check_named(seen(middle="wavelength"), width, rope, ["llama3-ramp-in-wavelength"])
    check_named(seen(theta=1e4), width, rope, ["wrong-theta"])
    check_named(table(half(width // 2), ladder(1e4, width)), width, rope, ["unscaled", "wrong-theta"])
    check_named(seen(theta=math.sqrt(theta)), width, rope, ["exponent-without-2"])
    assert check_named(seen(original=131072), width, rope, [None]).recipe == "the bands of an original length of 131072"
    assert check_named(seen(high=8.0), width, rope, [None]).recipe == "high_freq_factor 8 for 4"


def test_llama3_mistakes_have_the_golden_divisors():
    w = ladder(3e5, 96)[20:25]
    golden = {
        "right": [1.228669046, 1.760351773, 2.638197642, 4.278988540, 8.200951039],
        "precedence": [81.39846658, 35.26698378, 24.49405411, 19.75719483, 17.14645773],
        "wavelength": [15.12532599, 13.36005090, 11.06433002, 8.078770192, 4.196082394],
    }
    scaling = Llama3(factor=16, low_freq_factor=1, high_freq_factor=4, original_max_position_embeddings=4096)
    rope = Rope(head_dim=96, rope_theta=3e5, pairing="half", scaling=scaling)
    slugs = {"right": None, "precedence": "llama3-precedence", "wavelength": "llama3-ramp-in-wavelength"}
    for middle, divisors in golden.items():
        frequencies = llama3(3e5, 96, 16.0)
        frequencies[20:25] = w / divisors
        assert explain(table(half(48), frequencies), 96, expect=rope).slug == slugs[middle]
    step = rope.replace(
        scaling=Llama3(factor=16, low_freq_factor=1, high_freq_factor=1, original_max_position_embeddings=4096)
    )
    frequencies = ladder(3e5, 96) / np.where(np.arange(48) < 25, 1, 16)
    assert explain(table(half(48), frequencies), 96, expect=step).recipe == "as declared"
    assert explain(table(half(48), frequencies), 96).rope is not None


@pytest.mark.parametrize(
    ("width", "theta", "s", "original", "truncate"),
    [
        (80, 250000.0, 12.0, 6144, True),
        (80, 250000.0, 12.0, 6144, False),
        (64, 150000.0, 32.0, 4096, False),
        (48, 5000.0, 6.0, 65536, True),
        (64, 10000.0, 40.0, 4096, True),
    ],
)
def test_yarn_deviations_are_named(width, theta, s, original, truncate):
    def seen(*, factor=None, **changes):
        given_ = {"theta": theta, "s": s, "original": original, "truncate": truncate, **changes}
        return table(half(width // 2), yarn(width=width, **given_), factor=g(s) if factor is None else factor)

    rope = Rope(
        head_dim=width,
        rope_theta=theta,
        pairing="half",
        scaling=Yarn(factor=s, original_max_position_embeddings=original, truncate=truncate),
        max_position_embeddings=int(original * s),
    )
    check_named(seen(), width, rope, [])
    for factor in (1.0, g(s)):
        check_named(table(half(width // 2), ladder(theta, width), factor=factor), width, rope, ["unscaled"])
        found = check_named(seen(s=8.0, factor=g(8.0) if factor == 1 else factor), width, rope, ["factor-pinned"])
        assert found.parameters["factor"] == 8
    check_named(seen(truncate=not truncate), width, rope, ["yarn-rounded"])
    changed = original == 65536  # elsewhere the upper bound is below R/2 - 1 in any case
    check_named(seen(clamp=width // 2 - 1), width, rope, ["yarn-clamp-half"] if changed else [])
    check_named(seen(way="inverted"), width, rope, ["yarn-ramp-inverted"])
    check_named(seen(fast=1.0, slow=32.0), width, rope, ["yarn-ramp-inverted"])
    check_named(seen(way="power"), width, rope, ["yarn-factor-in-power"])
    check_named(seen(way="ntk"), width, rope, ["yarn-ntk-base"])
    check_named(seen(factor=1.0), width, rope, ["magnitude-missing"])
    check_named(seen(factor=g(s) ** 2), width, rope, ["magnitude-twice"])
    check_named(seen(theta=1e6), width, rope, ["wrong-theta"])
    longer = check_named(seen(original=int(original * s)), width, rope, [None])
    assert longer.recipe == f"the bands of an original length of {original * s:.0f}"
    assert check_named(seen(fast=20.0), width, rope, [None]).recipe == "beta_fast 20 for 32"


def test_yarn_mistakes_have_the_golden_numbers():
    rope = Rope(
        head_dim=80, rope_theta=250000.0, pairing="half", scaling=Yarn(factor=12, original_max_position_embeddings=6144)
    )
    plain = ladder(250000.0, 80)
    assert yarn(250000.0, 80, 12.0, 6144, truncate=False)[22] == pytest.approx(1.035309897e-4)
    assert yarn(250000.0, 80, 12.0, 6144)[22] == pytest.approx(1.715925148e-4)
    assert yarn(250000.0, 80, 12.0, 6144, way="ntk")[1] == pytest.approx(0.6876701700)
    inverted = plain / yarn(250000.0, 80, 12.0, 6144, way="inverted")
    assert inverted[[0, 10, 15, 20, 25, 39]] == pytest.approx([12, 12, 2.571428571, 1.297297297, 1, 1])
    assert explain(table(half(40), plain / inverted, factor=1.248490665), 80, expect=rope).slug == "yarn-ramp-inverted"


@pytest.mark.parametrize("s", [3.0, 6.0, 8.0])
def test_linear_deviations_are_named(s):
    rope = Rope(head_dim=96, rope_theta=3e5, pairing="half", scaling=Linear(factor=s))
    plain = ladder(3e5, 96)
    check_named(table(half(48), plain), 96, rope, ["unscaled"])
    assert check_named(table(half(48), plain / 5), 96, rope, ["factor-pinned"]).recipe == f"factor 5 for {s:g}"
    multiplied = check_named(table(half(48), plain * s), 96, rope, ["factor-pinned"])
    assert "multiplied by the factor instead of divided" in multiplied.recipe
    halved = check_named(table(half(48), 2 * plain / s), 96, rope, ["factor-pinned"])
    assert "equals every angle doubled" in halved.recipe
    check_named(table(half(48), ladder(1e4, 96) / s), 96, rope, ["wrong-theta"])


def test_dynamic_deviations_are_named():
    rope = Rope(head_dim=96, rope_theta=5e4, pairing="half", scaling=Dynamic(factor=3.0), max_position_embeddings=3072)

    def seen(theta, **options):
        return check_named(table(half(48), ladder(theta, 96)), 96, rope, **options)

    seen(5e4, slugs=[])
    seen(250042.6554, slugs=[], length=7000)
    seen(667504.9284, slugs=[], length=15000)
    assert seen(364794.9803, slugs=["dynamic-frozen"]).recipe.startswith("the base of a sequence of 9216 tokens")
    assert seen(250042.6554, slugs=["dynamic-frozen"]).parameters["length"] == 7000
    seen(364794.9803, slugs=["dynamic-frozen"], length=7000)
    stuck = seen(250042.6554, slugs=["dynamic-frozen"], length=15000)
    assert stuck.parameters["length"] == 7000 and "(250042.6" in stuck.recipe
    seen(5e4, slugs=["unscaled"], length=7000)
    seen(1e4, slugs=["wrong-theta"])
    seen(5e5, slugs=["wrong-theta"])
    slowed = table(half(48), ladder(5e4, 96) / 3 ** (96 / 94))
    assert slowed.inv_freq[0] == pytest.approx(0.3256321)
    assert "divided by s^(R/(R-2))" in check_named(slowed, 96, rope, [None], length=7000).recipe
    check_named(table(half(48), 2 * ladder(5e4, 96)), 96, rope, ["double-rotation"])


def test_longrope_deviations_are_named():
    rng = np.random.default_rng(5)
    for long in (np.full(40, 2.5), 1 + np.sort(rng.uniform(0, 30, 40))):
        scaling = LongRope(short_factor=(1.0,) * 40, long_factor=tuple(long), original_max_position_embeddings=3072)
        rope = Rope(head_dim=80, rope_theta=5e5, pairing="half", scaling=scaling, max_position_embeddings=49152)
        plain = ladder(5e5, 80)
        short, stretched = (table(half(40), plain / by, factor=1.159859982) for by in (1.0, long))
        check_named(short, 80, rope, [])
        check_named(stretched, 80, rope, ["longrope-long-always"])
        check_named(stretched, 80, rope, [], length=3073)
        check_named(short, 80, rope, [None], length=3073)
        missing = table(half(40), plain)
        check_named(missing, 80, rope, ["magnitude-missing"])


def test_ntk_deviations_are_named():
    rope = Rope(head_dim=96, rope_theta=5e4, pairing="half", scaling=Ntk(factor=5.0))
    aware = ladder(5e4 * 5 ** (96 / 94), 96)
    vllm = ladder(5e4 * 5, 96) / 5 ** (2 / 96)
    assert vllm[0] / aware[0] == pytest.approx(0.9670259421)
    check_named(table(half(48), aware), 96, rope, [])
    assert "'vllm'" in check_named(table(half(48), vllm), 96, rope, [None]).recipe
    assert "'base'" in check_named(table(half(48), ladder(25e4, 96)), 96, rope, [None]).recipe
    check_named(table(half(48), ladder(5e4, 96)), 96, rope, ["unscaled"])
    check_named(table(half(48), ladder(5e4 * 8 ** (96 / 94), 96)), 96, rope, ["factor-pinned"])
    hunyuan = Rope(head_dim=96, rope_theta=2e4, pairing="half", scaling=Ntk(factor=50.0))
    check_named(table(half(48), ladder(1086796.667, 96)), 96, hunyuan, [])


def test_proportional_deviations_are_named():
    scaling = Proportional(partial_rotary_factor=0.3, factor=4.0)
    rope = Rope(head_dim=160, rope_theta=2e5, pairing="half", scaling=scaling)
    pairs = half(24, gap=80)
    check_named(table(pairs, ladder(2e5, 160, 24) / 4), 160, rope, [])
    check_named(table(pairs, ladder(2e5, 160, 24)), 160, rope, ["unscaled"])
    check_named(table(half(80), ladder(2e5, 160) / 4), 160, rope, ["full-for-partial"])
    check_named(table(pairs, ladder(1e4, 160, 24) / 4), 160, rope, ["wrong-theta"])


def test_mla_magnitudes_are_named():
    scaling = Yarn(
        factor=25.0, original_max_position_embeddings=4096, mscale=0.8, mscale_all_dim=0.8, scale_softmax=True
    )
    rope = Rope(head_dim=64, rope_theta=1e4, pairing="interleaved", scaling=scaling)
    frequencies = yarn(1e4, 64, 25.0, 4096)
    for factor, words in ((1.581331566, "softmax"), (g(25.0), "g(s, 1)"), (g(25.0, 0.8), "root")):
        found = check_named(table(adjacent(32), frequencies, factor=factor), 64, rope, [None])
        assert words in found.recipe and found.deviations[0].kind == "magnitude"


def test_two_mistakes_are_both_named():
    near = REFERENCE.replace(pairing="interleaved")
    check_named(table(half(8), ladder(1e4, 16)), 16, near, ["interleaved-for-half", "wrong-theta"])
    check_named(table(half(8), -ladder(1e4, 16)), 16, REFERENCE, ["conjugate", "wrong-theta"])
