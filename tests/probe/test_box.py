"""The box: any library, dtype and layout behind one call, and a verdict for a function that does not answer."""

import time

import numpy as np
import pytest

from ropewalk import Rope, RopewalkError
from ropewalk.probe.box import Box, BoxFailure
from ropewalk.turning.naive import rotate

ROPE = Rope(head_dim=16, rope_theta=5e5, pairing="half")
X = np.random.default_rng(3).integers(-8, 9, size=(2, 7, 3, 16)) / 4.0
IDS = np.array([[4, 1, 1, 900, 0, 2, 31], [70, 5, 2, 2, 8, 1, 0]])


def turned(x, ids):
    """Turns in float32, whatever the positions' shape."""
    return rotate(x, ids, ROPE).astype(x.dtype)


def failure(fn, **options):
    with pytest.raises(BoxFailure) as caught:
        Box(fn, head_dim=16, heads=3, **options).turn(X, IDS)
    return caught.value.failure


def test_numpy_function_gets_float32_and_comes_back_as_float64():
    seen = []

    def fn(x, ids):
        seen.append((x.dtype.name, ids.dtype.name, x.shape))
        return turned(x, ids)

    out = Box(fn, head_dim=16, heads=3).turn(X, IDS)
    assert seen[-1] == ("float32", "int64", (2, 7, 3, 16))
    assert out.dtype == np.float64
    np.testing.assert_allclose(out, rotate(X, IDS, ROPE), atol=1e-6)


@pytest.mark.parametrize(
    ("layout", "to_bshd", "shape"),
    [
        ("bhsd", lambda x: x.transpose(0, 2, 1, 3), (2, 3, 7, 16)),
        ("thd", lambda x: x.reshape(2, 7, 3, 16), (14, 3, 16)),
    ],
)
def test_layouts_are_converted_both_ways(layout, to_bshd, shape):
    shapes = []

    def fn(x, ids):
        shapes.append(x.shape)
        if layout == "bhsd":
            return to_bshd(turned(to_bshd(x), ids))
        return turned(x[None], ids[None])[0]

    box = Box(fn, head_dim=16, heads=3, layout=layout, dtype="float64")
    np.testing.assert_allclose(box.turn(X, IDS), rotate(X, IDS, ROPE), atol=1e-14)
    assert shapes[-1] == shape


def test_a_function_of_shared_positions_is_called_row_by_row():
    calls = []

    def fn(x, ids):
        if ids.ndim != 1:
            raise ValueError("positions must be one row")
        calls.append(x.shape[0])
        return turned(x, ids)

    box = Box(fn, head_dim=16, heads=3)
    np.testing.assert_allclose(box.turn(X, IDS), rotate(X, IDS, ROPE), atol=1e-6)
    assert calls[-2:] == [1, 1]
    assert not box.takes_rows


def test_a_function_of_rows_gets_rows_for_shared_positions():
    def fn(x, ids):
        assert ids.shape == x.shape[:2]
        return turned(x, ids)

    np.testing.assert_allclose(
        Box(fn, head_dim=16, heads=3).turn(X, IDS[0]), rotate(X, np.stack([IDS[0]] * 2), ROPE), atol=1e-6
    )


def test_several_axes_are_given_as_three_dimensional_positions():
    shapes = []

    def fn(x, ids):
        shapes.append(ids.shape)
        return x

    Box(fn, head_dim=16, heads=3, axes=3).turn(X, IDS)
    assert shapes[-1] == (3, 2, 7)


def test_raising_is_a_failure_that_names_the_exception():
    def fn(x, ids):
        raise KeyError("cos_cached")

    caught = failure(fn)
    assert (caught.kind, "cos_cached" in caught.message) == ("raised", True)
    assert "[2, 5, 3, 16]" in caught.where


def test_leaving_python_is_a_failure_too():
    assert failure(lambda x, ids: exit(3)).kind == "raised"


def test_a_function_that_never_returns_is_left_behind():
    began = time.perf_counter()
    caught = failure(lambda x, ids: time.sleep(20), timeout=0.2)
    assert (caught.kind, time.perf_counter() - began < 5) == ("hang", True)


def test_the_time_of_all_calls_together_is_limited():
    box = Box(lambda x, ids: (time.sleep(0.06), x)[1], head_dim=16, heads=3, timeout=0.5)
    with pytest.raises(BoxFailure) as caught:
        for _ in range(40):
            box.turn(X, IDS)
    assert caught.value.failure.kind == "hang"


@pytest.mark.parametrize(
    ("fn", "kind"),
    [
        (lambda x, ids: x[..., :8], "shape"),
        (lambda x, ids: np.zeros((14, 3, 16), np.float32), "shape"),
        (lambda x, ids: x.tolist(), "type"),
        (lambda x, ids: (x, x), "type"),
        (lambda x, ids: None, "type"),
        (lambda x, ids: x * np.float32("nan"), "not-finite"),
        (lambda x, ids: x + np.float32("inf"), "not-finite"),
    ],
)
def test_what_cannot_be_measured_is_a_failure(fn, kind):
    assert failure(fn).kind == kind


def test_an_overwritten_input_is_recorded():
    def fn(x, ids):
        out = turned(x, ids)
        x[...] = 0
        return out

    box = Box(fn, head_dim=16, heads=3)
    np.testing.assert_allclose(box.turn(X, IDS), rotate(X, IDS, ROPE), atol=1e-6)
    assert "x is overwritten" in box.facts["mutated"]


def test_overwritten_positions_are_recorded():
    def fn(x, ids):
        out = turned(x, ids)
        ids += 1
        return out

    box = Box(fn, head_dim=16, heads=3)
    box.turn(X, IDS)
    assert "position_ids" in box.facts["mutated"]


def test_another_dtype_is_recorded():
    box = Box(lambda x, ids: x.astype(np.float64), head_dim=16, heads=3)
    box.turn(X, IDS)
    assert box.facts["dtype"] == "float32 in, float64 out"


def test_chance_and_a_counter_are_told_apart():
    rng, count = np.random.default_rng(0), [0]

    def counting(x, ids):
        count[0] += 1
        return turned(x, ids + count[0])

    boxes = [
        Box(lambda x, ids: x + rng.random(x.shape, dtype=np.float32), head_dim=16, heads=3),
        Box(counting, head_dim=16, heads=3),
    ]
    for box in boxes:
        box.turn(X, IDS)
    assert [sorted(box.facts) for box in boxes] == [["random"], ["state"]]


def test_a_clean_function_leaves_no_facts():
    box = Box(turned, head_dim=16, heads=3)
    box.turn(X, IDS)
    assert box.facts == {}


def test_copies_count_together_and_keep_the_library():
    box = Box(turned, head_dim=16, heads=3)
    box.turn(X, IDS)
    before = box.calls
    copy = box.with_(dtype="float64")
    copy.turn(X, IDS)
    assert box.calls == copy.calls > before
    assert (box.resolution, copy.resolution) == (2.0**-24, 2.0**-53)


def test_numbers_are_seen_as_the_dtype_rounds_them():
    pytest.importorskip("ml_dtypes")
    box = Box(lambda x, ids: x, head_dim=16, heads=3, dtype="bfloat16")
    value = np.full((2, 7, 3, 16), 1.0 + 2.0**-8)
    assert box.rounded(value).max() == box.turn(value, IDS).max() == 1.0


def test_unusable_options_are_errors():
    with pytest.raises(RopewalkError, match="callable"):
        Box(3, head_dim=16)
    with pytest.raises(RopewalkError, match="layout"):
        Box(turned, head_dim=16, layout="dbsh")
    with pytest.raises(RopewalkError, match="dtype"):
        Box(turned, head_dim=16, dtype="int8")


def test_torch_function_is_found_out_and_differentiated():
    torch = pytest.importorskip("torch")
    cos_sin = [np.cos(IDS[..., None, None] * np.ones(16)), np.sin(IDS[..., None, None] * np.ones(16))]

    def fn(x, ids):
        angles = ids[..., None, None].to(x.dtype)
        half = torch.cat([-x[..., 8:], x[..., :8]], dim=-1)
        return x * angles.cos() + half * angles.sin()

    box = Box(fn, head_dim=16, heads=3)
    assert box.library == "torch"
    grad = np.random.default_rng(5).standard_normal(X.shape)
    back = box.gradient(X, IDS, grad)
    partner = np.concatenate([grad[..., 8:], -grad[..., :8]], axis=-1)
    np.testing.assert_allclose(back, grad * cos_sin[0] + partner * cos_sin[1], atol=1e-4)


def test_a_missing_backward_is_a_failure():
    pytest.importorskip("torch")
    box = Box(lambda x, ids: x.detach().clone(), head_dim=16, heads=3, backend="torch")
    with pytest.raises(BoxFailure) as caught:
        box.gradient(X, IDS, X)
    assert caught.value.failure.kind == "raised"


def test_the_module_behind_a_function_is_found():
    torch = pytest.importorskip("torch")
    module = torch.nn.Identity()

    def fn(x, ids):
        return module(x)

    assert [Box(one, head_dim=16).module for one in (module.forward, fn, lambda x, i: x)] == [module, module, None]


def test_a_bfloat16_module_works_in_bfloat16():
    torch = pytest.importorskip("torch")
    seen = []

    class Same(torch.nn.Module):
        def forward(self, x, ids):
            seen.append(x.dtype)
            return x.float()

    box = Box(Same(), head_dim=16, heads=3, dtype=torch.bfloat16)
    box.turn(X, IDS)
    assert seen[-1] == torch.bfloat16
    assert box.facts["dtype"] == "bfloat16 in, float32 out"


def test_jax_function_is_called_with_jax_arrays():
    jnp = pytest.importorskip("jax.numpy")

    def fn(x, ids):
        return jnp.flip(x, axis=-1)

    box = Box(fn, head_dim=16, heads=3, backend="jax")
    np.testing.assert_array_equal(box.turn(X, IDS), X[..., ::-1])


class Unspeakable(Exception):
    def __str__(self):
        raise RuntimeError("no words")


def test_an_error_that_cannot_be_written_is_told_by_its_type():
    def fn(x, ids):
        raise Unspeakable

    with pytest.raises(BoxFailure, match="raised: Unspeakable"):
        Box(fn, head_dim=16).turn(X[:, :, :2], IDS)


@pytest.mark.parametrize("dtype", ["complex64", "int32", "object", "bool"])
def test_an_array_of_numbers_of_another_kind_is_a_failure(dtype):
    with pytest.raises(BoxFailure, match=f"type: gave {dtype} numbers for float32"):
        Box(lambda x, ids: x.astype(dtype), head_dim=16).turn(X[:, :, :2], IDS)
