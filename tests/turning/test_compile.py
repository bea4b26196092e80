"""What torch compiles and exports: the same numbers, one graph for every length."""

import io
import shutil

import pytest

from ropewalk import rotate, rotate_qk

from ._cases import ROPES, assert_turned, positions, random, rope

torch = pytest.importorskip("torch")
from torch import _dynamo as dynamo  # noqa: E402
from torch._dynamo.testing import CompileCounterWithBackend  # noqa: E402
from torch._inductor.utils import fresh_inductor_cache  # noqa: E402

from ropewalk.torch import Rotary  # noqa: E402


def tensor(*shape, dtype=torch.float32, seed=5, requires_grad=False):
    return torch.from_numpy(random(*shape, seed=seed)).to(dtype).requires_grad_(requires_grad)


# -- compile


@pytest.fixture
def compiler():
    """Compile with the frames counted; nothing compiled before or after."""
    dynamo.reset()
    with fresh_inductor_cache():
        yield CompileCounterWithBackend
    dynamo.reset()


def qk(seq, head_dim=48, dtype=torch.float32, **rest):
    return (
        tensor(2, seq, 6, head_dim, dtype=dtype, seed=seq, **rest),
        tensor(2, seq, 2, head_dim, dtype=dtype, seed=seq + 99, **rest),
    )


PLAIN, SLOW = rope(48, theta=3e5), rope(48, "interleaved", 500)


needs_compiler = pytest.mark.skipif(shutil.which("g++") is None, reason="inductor needs g++")


@needs_compiler
@pytest.mark.filterwarnings("default")
def test_compiled_with_inductor_equals_eager_forward_and_backward(compiler):
    rotary = Rotary(ROPES["yarn-tail-interleaved"])

    def attend(q, k, ids):
        q, k = rotary(q * 2, k + 1, ids)
        return (q[:, :, :2] * k).sum()

    ids = torch.tensor([[0, 1, 1500, 70_001, 3]]) + torch.tensor([[0], [7]])
    results = []
    for function in (attend, torch.compile(attend, fullgraph=True)):
        q, k = qk(5, 96, requires_grad=True)
        loss = function(q, k, ids)
        loss.backward()
        results.append((loss, q.grad, k.grad))
    for eager, compiled in zip(*results, strict=True):
        torch.testing.assert_close(compiled, eager, rtol=2e-5, atol=2e-5)


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("kind", ["half", "llama3", "yarn", "longrope"])
def test_f705_one_graph_for_every_length(compiler, kind):
    description = ROPES[kind]
    rotary, counter = Rotary(description), compiler("aot_eager")
    compiled = torch.compile(rotary, fullgraph=True, dynamic=True, backend=counter)
    for seq in (61, 62, 63, 64, 65, 66, 200):  # LongRoPE's switch lies past 64
        q, k = qk(seq, description.head_dim)
        ids = torch.arange(seq) + seq
        length = {"length": seq} if description.length_dependent else {}
        for found, expected in zip(compiled(q, k, ids, **length), rotary(q, k, ids, **length), strict=True):
            torch.testing.assert_close(found, expected, rtol=0, atol=1e-6)
    assert counter.frame_count == 1


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("kind", ["half", "longrope"])
def test_decode_compiles_twice_at_most(compiler, kind):
    # what is dynamic is found out at the second call; then no more, however long the sequence grows
    description = ROPES[kind]
    rotary, counter = Rotary(description), compiler("aot_eager")
    compiled = torch.compile(rotary, fullgraph=True, backend=counter)
    q, k = qk(1, description.head_dim)
    for seen in range(60, 70):
        ids = torch.tensor([[seen], [seen - 3]])
        length = {"length": seen + 1} if description.length_dependent else {}
        for found, expected in zip(compiled(q, k, ids, **length), rotary(q, k, ids, **length), strict=True):
            torch.testing.assert_close(found, expected, rtol=0, atol=1e-6)
    assert counter.frame_count <= 2


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("training", [False, True])
def test_rotate_compiles_inside_other_code(compiler, training):
    def project(x, ids):
        q, k = x[:, :, :6], x[:, :, 6:]
        q, k = rotate_qk(q, k, ids, PLAIN)
        return rotate(q, ids, SLOW, inverse=True), k

    x, ids = tensor(2, 5, 8, 48, dtype=torch.bfloat16, requires_grad=training), torch.tensor([0, 3, 70_000, -5, 9])
    compiled = torch.compile(project, fullgraph=True, backend="aot_eager")
    found, expected = compiled(x, ids), project(x, ids)
    grads = []
    for pair in (found, expected):
        assert all(one.dtype == torch.bfloat16 for one in pair)
        if training:
            grads += torch.autograd.grad([one.float().sum() for one in pair], x)
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other)
    if training:
        torch.testing.assert_close(*grads)


@pytest.mark.filterwarnings("default")
def test_f015_one_compiled_function_serves_two_ropes(compiler):
    # layers with sliding and with full attention share their code
    def layer(x, ids, description):
        return rotate(x, ids, description)

    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    x, ids = qk(5)[0], torch.tensor([0, 3, 70_000, -5, 9])
    for description in (PLAIN, SLOW, rope(48, theta=3e5 + 1), PLAIN):
        torch.testing.assert_close(compiled(x, ids, description), layer(x, ids, description), rtol=0, atol=1e-6)
    step = torch.compile(lambda rotary, q, k, ids: rotary(q, k, ids), fullgraph=True, backend="aot_eager")
    for description in (PLAIN, SLOW):
        q, k = qk(5)
        for found, expected in zip(step(Rotary(description), q, k, ids), Rotary(description)(q, k, ids), strict=True):
            torch.testing.assert_close(found, expected, rtol=0, atol=1e-6)


@pytest.mark.filterwarnings("default")
def test_compiled_without_positions_and_with_autocast(compiler):
    rotary = Rotary(PLAIN, layout="bhsd")
    compiled = torch.compile(rotary, fullgraph=True, backend="aot_eager")
    q, k = (one.transpose(1, 2) for one in qk(7))
    expected = rotary(q, k)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = compiled(q, k)
    for one, other in zip(found, expected, strict=True):
        assert one.dtype == torch.float32
        torch.testing.assert_close(one, other, rtol=0, atol=1e-6)


@needs_compiler
@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize(
    ("kind", "dtype"),
    [
        ("interleaved", torch.bfloat16),
        ("mrope-interleaved", torch.float32),
        ("hybrid-yarn", torch.float32),
        ("dynamic", torch.bfloat16),
    ],
)
def test_every_kind_compiled_with_inductor_equals_eager(compiler, kind, dtype):
    description = ROPES[kind]
    rotary = Rotary(description)
    compiled = torch.compile(rotary, fullgraph=True)
    for seq in (5, 6, 9):
        q, k = qk(seq, description.head_dim, dtype)
        ids = torch.as_tensor(positions(description, 2, seq))
        length = {"length": 50 + 5 * seq} if description.length_dependent else {}
        for found, expected in zip(compiled(q, k, ids, **length), rotary(q, k, ids, **length), strict=True):
            torch.testing.assert_close(found, expected, rtol=0, atol=1e-6 if dtype == torch.float32 else 0.04)


# -- export


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize(
    ("kind", "length"), [("yarn-tail-interleaved", None), ("mrope-interleaved", None), ("longrope", 65)]
)
def test_an_exported_program_saved_and_loaded_turns_the_same(kind, length):
    description = ROPES[kind]
    rotary = Rotary(description)
    tokens = torch.export.Dim("tokens", min=2, max=100_000)

    def ids_of(seq):
        return torch.as_tensor(positions(description, 2, seq, seed=seq))

    kwargs = {} if length is None else {"length": length}
    shapes = {"q": {1: tokens}, "k": {1: tokens}, "position_ids": {ids_of(2).ndim - 1: tokens}}
    if kwargs:
        shapes["length"] = None
    exported = torch.export.export(rotary, (*qk(5, description.head_dim), ids_of(5)), kwargs, dynamic_shapes=shapes)
    assert not exported.state_dict
    file = io.BytesIO()
    torch.export.save(exported, file)
    file.seek(0)
    loaded = torch.export.load(file).module()
    for seq in (5, 9):
        q, k = qk(seq, description.head_dim)
        for found, expected in zip(
            loaded(q, k, ids_of(seq), **kwargs), rotary(q, k, ids_of(seq), **kwargs), strict=True
        ):
            torch.testing.assert_close(found, expected, rtol=0, atol=1e-6)
        assert_turned(
            loaded(q, k, ids_of(seq), **kwargs)[0].double().numpy(),
            q.double().numpy(),
            ids_of(seq).numpy(),
            description,
            "float32",
            length=length,
        )
