"""Exhibits of precision and of the interface, M39 to M43 and M46 to M48, and the extras."""

from importlib.util import find_spec

import numpy as np
import pytest

from ropewalk import Rope

from .exhibited import BY_ID, MUTANTS, base_of, call, fault, named, some_ids, truth, turn_one, vectors


def phase_errors(fn, rope, position):
    """Give the largest error in radians over the pairs, below half a turn."""
    turned = np.stack([turn_one(fn, row, position) for row in np.eye(rope.head_dim)])
    half = rope.head_dim // 2
    angle = np.arctan2(turned[:half, half:].diagonal(), turned.diagonal()[:half])
    return np.abs(np.angle(np.exp(1j * (angle - position * rope.pairs().inv_freq))))


@pytest.mark.parametrize("position,error", [(100, 0.18667), (300, 0.56000), (1000, 1.86666)])
def test_m39_bf16_frequencies_are_off_within_a_short_prompt(position, error):
    rope = Rope(head_dim=96, rope_theta=30_000.0, pairing="half")
    assert phase_errors(BY_ID["M39a.2"].make(), rope, position).max() == pytest.approx(error, abs=1e-5)  # F004


@pytest.mark.skipif(find_spec("torch") is None, reason="needs torch")
def test_m39_a_cast_module_has_the_same_error_and_an_uncast_one_none():
    torch = pytest.importorskip("torch")
    fn = BY_ID["M39b.2"].make()
    assert isinstance(fn, torch.nn.Module) and fn.inv_freq.dtype == torch.bfloat16
    x = torch.eye(96, dtype=torch.float64)[:48, None, None]
    turned = fn(x, torch.tensor([1000]))[:, 0, 0].numpy()
    angle = np.arctan2(turned[:, 48:].diagonal(), turned[:, :48].diagonal())
    inv_freq = BY_ID["M39b.2"].expect.pairs().inv_freq
    assert np.abs(np.angle(np.exp(1j * (angle - 1000 * inv_freq)))).max() == pytest.approx(1.86666, abs=1e-3)


def test_m40_bf16_positions_fall_together():
    one, x = BY_ID["M40a"], vectors(BY_ID["M40a"], seq=1)
    got = call(one, x, np.array([20011]))
    np.testing.assert_allclose(got, truth(one, x, np.array([19968])), atol=1e-9)  # F412
    fn, ones = one.make(), np.ones((1, 100, 1, 16))
    kept = [len(np.unique(fn(ones, start + np.arange(100))[0, :, 0, 0].round(9))) for start in (1000, 1100)]
    assert kept[0] == 16


@pytest.mark.skipif(find_spec("torch") is None, reason="needs torch")
def test_m40_in_torch_is_right_in_float32_and_wrong_in_bfloat16():
    torch = pytest.importorskip("torch")
    one, ids = BY_ID["M40b"], np.array([20011])
    x = vectors(one, seq=1)
    assert np.abs(call(one, x, ids, dtype=torch.float32) - truth(one, x, ids)).max() < 0.02
    got = call(one, x, ids, dtype=torch.bfloat16)
    assert np.abs(got - truth(one, x, ids)).max() > 0.5
    assert np.abs(got - truth(one, x, np.array([19968]))).max() < 0.05


def test_m41_fp16_angles_round_to_half_radians():
    turned = turn_one(BY_ID["M41a.3"].make(), np.eye(48)[2], 1999)
    assert turned[2] == pytest.approx(-0.5366365101, abs=1e-6)  # F411: cos 875.5, where cos 875.777186 is meant
    turned = turn_one(fault("M41b", head_dim=48, rope_theta=20_000.0), np.eye(48)[2], 1999)
    assert turned[2] == pytest.approx(np.cos(876), abs=1e-6)  # the product alone rounded
    assert not np.isfinite(turn_one(BY_ID["M41a"].make(), np.ones(16), 70_000)).all()  # past 65504


def test_m42_tf32_positions_and_frequencies_have_11_bits():
    fn = BY_ID["M42"].make()
    turned = turn_one(fn, np.eye(16)[0], 10_007)
    assert np.arctan2(turned[8], turned[0]) == pytest.approx(np.angle(np.exp(1j * 10_008)), abs=1e-6)  # F007
    angles = fn(np.ones((1, 1000, 1, 16)), 20_000 + np.arange(1000))[0, :, 0, 0]
    assert len(np.unique(angles.round(9))) == 63


@named([one for one in MUTANTS if one.entry == "M43"])
def test_m43_sines_are_good_enough_at_first_and_off_far_out(one):
    near, far = (
        max(phase_errors(one.make(), one.expect, position)[0] for position in positions)
        for positions in ((100, 4096, 9999), range(1_000_000, 1_000_020))
    )
    assert near < 1e-3 and far > 1e-2
    if one.id.startswith(("M43a", "M43d")):
        assert phase_errors(one.make(), one.expect, 48_000)[0] < 1e-6


@named([one for one in MUTANTS if one.entry == "M46"])
def test_m46_gives_the_right_output_and_overwrites_the_input(one):
    x, ids = vectors(one), some_ids(one, 90)
    np.testing.assert_allclose(call(one, x, ids), truth(one, x, ids), atol=1e-12)
    given, positions = x.copy(), ids
    if one.needs_torch:
        torch = pytest.importorskip("torch")
        given, positions = torch.from_numpy(given), torch.from_numpy(ids)  # shares given's memory
    one.make()(given, positions)
    assert np.abs(np.asarray(given) - x).max() > 0.1


def test_v26_leaves_the_input_alone():
    for one in (BY_ID["V26"], BY_ID["V26.2"]):
        x = vectors(one)
        given = x.copy()
        one.make()(given, some_ids(one, 90))
        np.testing.assert_array_equal(given, x)


@pytest.mark.skipif(find_spec("torch") is None, reason="needs torch")
@named([one for one in MUTANTS if one.entry == "M47"])
def test_m47_gives_float32_for_bfloat16_with_right_values(one):
    torch = pytest.importorskip("torch")
    x, ids = vectors(one), some_ids(one, 90)
    given = torch.from_numpy(x).to(torch.bfloat16)
    turned = one.make()(given, torch.from_numpy(ids))
    assert turned.dtype == torch.float32
    np.testing.assert_allclose(turned.numpy(), truth(one, given.double().numpy(), ids), atol=1e-5)
    assert one.make()(torch.from_numpy(x), torch.from_numpy(ids)).dtype == torch.float64


@pytest.mark.skipif(find_spec("torch") is None, reason="needs torch")
@named([one for one in MUTANTS if one.entry == "M48"])
def test_m48_turns_right_and_its_gradient_does_not_turn_back(one):
    torch = pytest.importorskip("torch")
    x, ids = vectors(one), some_ids(one, 90)
    given = torch.from_numpy(x).requires_grad_()
    turned = one.make()(given, torch.from_numpy(ids))
    np.testing.assert_allclose(turned.detach().numpy(), truth(one, x, ids), atol=1e-9)
    grad = np.random.default_rng(8).standard_normal(x.shape)
    if one.id.startswith("M48a"):
        assert not turned.requires_grad
        return
    turned.backward(torch.from_numpy(grad))
    seen = given.grad.numpy()
    expected = truth(one, grad, ids) if one.id.startswith("M48b") else grad
    np.testing.assert_allclose(seen, expected, atol=1e-9)
    assert np.abs(seen - truth(one, grad, -ids)).max() > 0.1  # what is right: turned back


def test_x06_is_one_ahead_for_single_tokens_only():
    one = BY_ID["X06"]
    x = vectors(one, seq=1)
    np.testing.assert_allclose(call(one, x, np.array([7])), truth(one, x, np.array([8])))
    x = vectors(one, seq=5)
    np.testing.assert_allclose(call(one, x, np.arange(5)), truth(one, x, np.arange(5)))


def test_x07_and_x08_dynamic_that_does_nothing_or_slows_every_pair():
    assert base_of(BY_ID["X07"].make(), 96, 7000) == pytest.approx(50_000, rel=1e-8)  # F219
    x = np.zeros((1, 2, 1, 96))
    x[0, 0, 0, 0] = 1
    turned = BY_ID["X08"].make()(x, np.array([1, 6999]))[0, 0, 0]
    right = BY_ID["X08"].expect.pairs(7000).inv_freq
    ratio = 3 * 7000 / 3072 - 2
    assert np.arctan2(turned[48], turned[0]) / right[0] == pytest.approx(ratio ** (-96 / 94), rel=1e-9)


def test_x12_keeps_lengths_and_mirrors():
    fn = BY_ID["X12"].make()
    x = np.random.default_rng(3).standard_normal(16)
    assert np.linalg.norm(turn_one(fn, x, 9)) == pytest.approx(np.linalg.norm(x))
    matrix = np.stack([turn_one(fn, row, 9) for row in np.eye(16)]).T
    np.testing.assert_allclose(matrix, matrix.T, atol=1e-12)  # a mirror is its own transpose
