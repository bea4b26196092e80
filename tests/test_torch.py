"""Rotary: the numbers of the float64 truth whatever is done to the module, and no state at all."""

import copy
import io
import math
import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose

from ropewalk import Ladders, Rope, RopewalkError, Sections
from ropewalk.scaling import Dynamic, LongRope, Yarn
from ropewalk.turning import naive

torch = pytest.importorskip("torch")
from ropewalk.torch import Rotary  # noqa: E402


def rope(head_dim, pairing="half", theta=1e4, **rest):
    return Rope(head_dim=head_dim, rope_theta=theta, pairing=pairing, **rest)


YARN = Yarn(factor=12, original_max_position_embeddings=4096)
LONG = LongRope(
    short_factor=[1.0 + 0.1 * i for i in range(40)],
    long_factor=[2.5] * 40,
    original_max_position_embeddings=64,
    factor=8,
)
ROPES = {
    "half": rope(96, theta=3e4),
    "interleaved": rope(128, "interleaved", 5e5),
    "tail-yarn": rope(96, "interleaved", rotary_dim=48, rotary_start=48, scaling=YARN),
    "odd": rope(11, odd="pass", direction=-1),
    "dynamic": rope(96, theta=5e4, scaling=Dynamic(factor=3), max_position_embeddings=64),
    "longrope": rope(80, scaling=LONG),
    "mrope": rope(40, theta=3e5, axes=Sections(sections=(10, 6, 4), arrangement="interleaved")),
    "chatglm": rope(96, axes=Ladders(widths=(48, 48), pairing_within="axis", names=("position", "block"))),
    "hybrid": rope(24, "hybrid_tile"),
}
LAYOUTS = ("bshd", "bhsd", "thd")
PLACE = {"bshd": lambda x: x, "bhsd": lambda x: x.transpose(1, 2), "thd": lambda x: x[0]}
BACK = {"bshd": lambda x: x, "bhsd": lambda x: x.transpose(1, 2), "thd": lambda x: x[None]}


@pytest.fixture(params=["kernel", "plain"], autouse=True)
def by(request, monkeypatch):
    """Each test runs with the kernel and without it; fresh memory is NaN."""
    from ropewalk.turning import kernel

    if request.param == "plain":
        monkeypatch.setattr(kernel, "module", None)
    elif kernel.module is None:
        pytest.skip("the kernel is not built here")
    torch.use_deterministic_algorithms(True)
    yield request.param
    torch.use_deterministic_algorithms(False)


def random(*shape, seed=5, dtype=torch.float32):
    return torch.from_numpy(np.random.default_rng(seed).standard_normal(shape)).to(dtype)


def qk(description, batch=2, seq=5, heads=(32, 4), dtype=torch.float32):
    return tuple(random(batch, seq, count, description.head_dim, seed=count, dtype=dtype) for count in heads)


def ids_of(description, batch=2, seq=5):
    ids = np.random.default_rng(3).integers(-3000, 200_000, (description.axes.num_axes, batch, seq))
    return torch.as_tensor(ids if description.axes.num_axes > 1 else ids[0])


def wide(x):
    return x.detach().double().numpy()


def near(found, x, ids, description, *, length=None):
    """Within float32 arithmetic, and one rounding of a 16-bit type."""
    expected = naive.rotate(wide(x), np.asarray(ids), description, length=length)
    step = {torch.bfloat16: 2.0**-8, torch.float16: 2.0**-11}.get(found.dtype, 0)
    assert found.dtype == x.dtype
    assert_allclose(wide(found), expected, rtol=step * 1.01, atol=2e-6)


# -- numbers


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("kind", ROPES)
def test_queries_and_keys_turn_as_the_truth(kind, layout, dtype):
    description = ROPES[kind]
    batch = 1 if layout == "thd" else 2
    q, k = qk(description, batch, dtype=dtype)
    ids, length = ids_of(description, batch), 65 if description.length_dependent else None
    given = ids[0] if layout == "thd" and ids.ndim == 2 else ids
    found = Rotary(description, layout=layout)(PLACE[layout](q), PLACE[layout](k), given, length=length)
    for one, x in zip(found, (q, k), strict=True):
        near(BACK[layout](one), x, ids, description, length=length)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("kind", ["half", "tail-yarn", "longrope", "mrope"])
def test_without_positions_tokens_count_from_0(kind, layout):
    description = ROPES[kind]
    length = 70 if description.length_dependent else None
    q, k = qk(description, 1, 70, (6, 2))
    found = Rotary(description, layout=layout)(PLACE[layout](q), PLACE[layout](k), length=length)
    for one, x in zip(found, (q, k), strict=True):
        near(BACK[layout](one), x, np.arange(70), description, length=length)


def test_f022_f023_rows_and_offsets_in_decode():
    rotary = Rotary(ROPES["half"])
    q, k = (one[:1].expand(2, -1, -1, -1) for one in qk(ROPES["half"], seq=1, heads=(4, 2)))
    for found in rotary(q, k, torch.tensor([[5], [5]])):
        assert torch.equal(found[0], found[1])
    for seq in (1, 3):
        q, k = qk(ROPES["half"], seq=seq, heads=(4, 2))
        ids = torch.tensor([[50], [20]]) + torch.arange(seq)
        for found, x in zip(rotary(q, k, ids), (q, k), strict=True):
            near(found, x, ids, ROPES["half"])


def test_each_row_has_its_own_length():
    q, k = qk(ROPES["dynamic"], 3, 4, (6, 2))
    ids = torch.tensor([0, 50, 700, 999])
    for lengths in ([10, 1000, 64], torch.tensor([10, 1000, 64])):
        for found, x in zip(Rotary(ROPES["dynamic"])(q, k, ids, length=lengths), (q, k), strict=True):
            for row, length in enumerate((10, 1000, 64)):
                near(found[row], x[row], ids, ROPES["dynamic"], length=length)


def test_f005_f015_one_module_serves_any_length_and_offset():
    rotary = Rotary(rope(64, theta=2e4)).to(torch.bfloat16)
    for start, seq in ((0, 64), (63, 1), (64, 1), (65, 1), (200, 3), (0, 64), (5, 64), (2**20 - 1, 3)):
        q, k = qk(rope(64), seq=seq, heads=(3, 1))
        ids = start + torch.arange(seq)
        for found, x in zip(rotary(q, k, ids), (q, k), strict=True):
            near(found, x, ids, rope(64, theta=2e4))


def test_f016_the_input_is_left_alone():
    q, k = qk(ROPES["interleaved"])
    before, ids = (q.clone(), k.clone()), ids_of(ROPES["interleaved"])
    ids_before = ids.clone()
    Rotary(ROPES["interleaved"])(q, k, ids)
    assert torch.equal(q, before[0]) and torch.equal(k, before[1]) and torch.equal(ids, ids_before)


def test_a_module_is_one_of_torch():
    class Attention(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.project = torch.nn.Linear(24, 24, bias=False)
            self.rotary = Rotary(rope(12))

        def forward(self, x):
            q = self.project(x).unflatten(-1, (2, 12))
            q, k = self.rotary(q, q[:, :, :1])
            return (q * k).sum(-1)

    model = Attention()
    assert [name for name, _ in model.named_parameters()] == ["project.weight"]
    model(random(2, 5, 24)).sum().backward()
    assert model.project.weight.grad.abs().sum() > 0
    assert "head_dim=12" in repr(model.rotary)


# -- no state


def same_numbers(rotary, description=ROPES["half"]):
    """The module still gives the truth at positions where rounded frequencies are off by 0.2 to 1.9 radians (F004)."""
    q, k = qk(description, seq=4, heads=(6, 2))
    ids = torch.tensor([1, 100, 300, 1000])
    for found, x in zip(rotary(q, k, ids), (q, k), strict=True):
        near(found, x, ids, description)


def test_no_parameters_no_buffers_an_empty_state_dict():
    rotary = Rotary(ROPES["half"])
    for _ in range(2):
        assert not list(rotary.parameters()) and not list(rotary.buffers()) and not rotary.state_dict()
        same_numbers(rotary)  # builds whatever it keeps
    assert rotary.load_state_dict({}, strict=True).missing_keys == []
    with pytest.raises(RuntimeError, match="inv_freq"):
        rotary.load_state_dict({"inv_freq": torch.ones(48)}, strict=True)  # F011: never in silence
    same_numbers(rotary)


@pytest.mark.parametrize("used", [False, True])
@pytest.mark.parametrize(
    "change",
    [
        lambda rotary: rotary.to(torch.bfloat16),
        lambda rotary: rotary.half(),
        lambda rotary: rotary.double(),
        lambda rotary: rotary.to("meta").to_empty(device="cpu"),
        lambda rotary: rotary.to_empty(device="cpu"),
        lambda rotary: rotary.requires_grad_(True).eval(),
        copy.copy,
        copy.deepcopy,
        lambda rotary: pickle.loads(pickle.dumps(rotary)),
        lambda rotary: pickle.loads(pickle.dumps(rotary.half())),
        lambda rotary: torch.nn.Sequential(rotary).bfloat16()[0],
    ],
    ids=[
        "bfloat16",
        "half",
        "double",
        "meta",
        "to_empty",
        "eval",
        "copy",
        "deepcopy",
        "pickle",
        "half-pickle",
        "child",
    ],
)
def test_f004_f010_no_change_of_the_module_changes_its_numbers(change, used):
    rotary = Rotary(ROPES["half"])
    if used:
        same_numbers(rotary)
    same_numbers(change(rotary))


def test_f010_built_on_the_meta_device():
    with torch.device("meta"):
        rotary = Rotary(ROPES["tail-yarn"])
        q = torch.empty(2, 4, 6, 96)
        found = rotary(q, q[:, :, :2], torch.empty(4, dtype=torch.int64))
        assert all(one.is_meta for one in found) and found[1].shape == (2, 4, 2, 96)
    same_numbers(rotary, ROPES["tail-yarn"])  # F009: and then on another


def test_a_whole_module_saved_and_loaded():
    file = io.BytesIO()
    rotary = Rotary(ROPES["half"])
    same_numbers(rotary)
    torch.save(rotary, file)
    assert file.tell() < 20_000  # no tables
    file.seek(0)
    same_numbers(torch.load(file, weights_only=False))


@pytest.mark.parametrize("default", [torch.bfloat16, torch.float64])
def test_f008_built_and_used_under_another_default_dtype(default):
    description = rope(96, theta=3e4 + torch.finfo(default).bits)  # a table unseen
    torch.set_default_dtype(default)
    try:
        rotary = Rotary(description)
        same_numbers(rotary, description)
    finally:
        torch.set_default_dtype(torch.float32)
    same_numbers(rotary, description)


def test_f006_autocast_gives_the_same_bytes():
    rotary, (q, k) = Rotary(ROPES["half"]), qk(ROPES["half"], seq=1)
    ids = torch.tensor([300])
    outside = rotary(q, k, ids)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        for module in (rotary, Rotary(ROPES["half"])):
            for one, other in zip(module(q, k, ids), outside, strict=True):
                assert one.dtype == torch.float32 and torch.equal(one, other)


# -- in place


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("kind", ["half", "tail-yarn", "longrope", "hybrid"])
def test_rotate_in_place(kind, layout, dtype):
    description = ROPES[kind]
    length = 65 if description.length_dependent else None
    q, k = qk(description, 1, dtype=dtype)
    before, ids = (q.clone(), k.clone()), ids_of(description, 1)
    placed = PLACE[layout](q), PLACE[layout](k)
    given = ids[0] if layout == "thd" else ids
    returned = Rotary(description, layout=layout).rotate_(*placed, given, length=length)
    assert all(one is other for one, other in zip(returned, placed, strict=True))
    for one, x in zip((q, k), before, strict=True):
        near(one, x, ids, description, length=length)


def test_rotate_in_place_counts_from_0_without_positions():
    q, k = qk(ROPES["half"])
    before = q.clone()
    Rotary(ROPES["half"]).rotate_(q, k)
    near(q, before, np.arange(5), ROPES["half"])


def test_rotate_in_place_refuses_what_requires_grad_and_leaves_both():
    rotary = Rotary(ROPES["half"])
    for which in (0, 1):
        for leaf in (True, False):
            tensors = list(qk(ROPES["half"]))
            tensors[which].requires_grad_()
            if not leaf:
                tensors[which] = tensors[which] * 1
            before = [one.detach().clone() for one in tensors]
            with pytest.raises(RopewalkError, match="grad"):
                rotary.rotate_(*tensors)
            assert all(torch.equal(one, other) for one, other in zip(tensors, before, strict=True))


def test_rotate_in_place_tells_autograd():
    q, k = qk(ROPES["half"])
    weight = torch.ones(96, requires_grad=True)
    product = (q * weight).sum()
    Rotary(ROPES["half"]).rotate_(q, k)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        product.backward()


def test_rotate_in_place_refuses_keys_repeated_by_expand_and_shared_memory():
    rotary, (q, k) = Rotary(ROPES["half"]), qk(ROPES["half"], heads=(6, 1))
    before = q.clone(), k.clone()
    for given in ((q, k.expand(2, 5, 6, 96)), (q, q), (q[:, :, :4], q[:, :, 3:])):
        with pytest.raises(RopewalkError, match=r"overlap|share|same memory"):
            rotary.rotate_(*given)
        assert torch.equal(q, before[0]) and torch.equal(k, before[1])


def test_rotate_in_place_in_inference_mode():
    with torch.inference_mode():
        q, k = qk(ROPES["half"])
        before = q.clone()
        Rotary(ROPES["half"]).rotate_(q, k)
        near(q, before, np.arange(5), ROPES["half"])


# -- bad input


def test_a_length_dependent_rope_wants_a_length():
    for kind in ("dynamic", "longrope"):
        q, k = qk(ROPES[kind])
        for call in (Rotary(ROPES[kind]), Rotary(ROPES[kind]).rotate_):
            with pytest.raises(RopewalkError, match=kind):
                call(q, k)


def test_bad_arguments():
    with pytest.raises(RopewalkError, match=r"bshd.*bhsd.*thd"):
        Rotary(ROPES["half"], layout="sbhd")
    with pytest.raises(RopewalkError, match="rope"):
        Rotary({"head_dim": 96})
    rotary, (q, k) = Rotary(ROPES["half"]), qk(ROPES["half"])
    for bad in ((q[..., :64], k), (q, k[..., :64]), (q, k[:, :4]), (q, k[:1]), (q.int(), k), (q, k[0])):
        with pytest.raises(RopewalkError):
            rotary(*bad)
    for ids in (torch.arange(4), torch.zeros(3, 5), torch.full((5,), math.nan), torch.tensor([0, 1, 2, 3, 2**53 + 1])):
        with pytest.raises(RopewalkError, match="position_ids"):
            rotary(q, k, ids)
        before = q.clone()
        with pytest.raises(RopewalkError, match="position_ids"):
            rotary.rotate_(q, k, ids)
        assert torch.equal(q, before)
    with pytest.raises(RopewalkError, match="position"):
        Rotary(ROPES["chatglm"])(*qk(ROPES["chatglm"]))  # two axes have no positions by default
