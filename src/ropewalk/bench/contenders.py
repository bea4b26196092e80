"""Who is measured: copies as the yardsticks, our way, and other libraries' ways, each built on the same tensors."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from math import prod
from typing import Any

import torch
from torch import Tensor

from ..errors import RopewalkError
from ..rope import Rope
from ..torch import Rotary
from .parity import Precision
from .plan import PEERS, THETA, Case, Shape

OURS = "ropewalk"
CLONE, COPY = "torch.clone", "copy_"
COPIES = 4  # of q and k that are alive at once: given, copied to, and a result or two
SEED = 20_210_420  # the day RoFormer appeared

Turned = tuple[Tensor, ...]
Turn = Callable[[Tensor, Tensor], Turned]


class Unavailable(Exception):
    """Why a peer cannot take part here, in words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """What every contender of one measurement is given.

    Attributes:
        q: [B, S, H, D], unit-normal.
        k: [B, S, KV, D], likewise.
        position_ids: [B, S] int64.
        rope: the description.
        dtype: of q and k, by name.
        grads: what arrives for the two results in the backward case; else empty.
    """

    q: Tensor
    k: Tensor
    position_ids: Tensor
    rope: Rope
    dtype: str
    grads: Turned = ()

    @property
    def tensors(self) -> Turned:
        """(q, k)."""
        return self.q, self.k


@dataclass(frozen=True, slots=True, kw_only=True)
class Contender:
    """One way of doing the work.

    Attributes:
        name: for people.
        call: does it once and returns the results; the first two are q' and k'.
        reset: makes the next call start from the given tensors again.
        precision: what it states about its arithmetic; None for a copy.
    """

    name: str
    call: Callable[[], Turned]
    reset: Callable[[], None]
    precision: Precision | None = None


def make_inputs(case: Case, asked: Shape, dtype: str, pairing: str) -> Inputs:
    """Make the tensors of one measurement, the same on every run.

    Decoding stands at the position behind the sequence asked for, ragged rows at positions up to it, no two alike. No
    row consists of position 0 alone, where every wrong way of turning is right.
    """
    shape = case.shape(asked)
    generator = torch.Generator().manual_seed(SEED)
    kind = getattr(torch, dtype)

    def normal(size: list[int]) -> Tensor:
        return torch.randn(size, generator=generator).to(kind)

    needed = COPIES * (prod(shape.q) + prod(shape.k)) * kind.itemsize
    if (there := physical_memory()) is not None and needed > there:
        raise RopewalkError(
            f"q {shape.q} and k {shape.k} of {dtype} need about {needed / 1e9:.3g} GB with their copies, and this "
            f"machine has {there / 1e9:.3g} GB: give a smaller --shape."
        )
    try:
        q, k = normal(shape.q), normal(shape.k)
        grads = (normal(shape.q), normal(shape.k)) if case.backward else ()
    except (RuntimeError, MemoryError) as error:  # torch's own words for too little memory are a RuntimeError
        raise RopewalkError(f"q {shape.q} and k {shape.k} of {dtype} cannot be made: {_first_line(error)}.") from error
    if case.decode_rows is None:
        ids = torch.arange(shape.seq).expand(shape.batch, -1).contiguous() + (shape.seq == 1)
    elif shape.batch == 1:
        ids = torch.tensor([[asked.seq]])
    else:
        ids = 1 + torch.randperm(max(asked.seq, shape.batch), generator=generator)[: shape.batch, None]
    rope = Rope(head_dim=shape.head_dim, rope_theta=THETA, pairing=pairing)
    return Inputs(q=q, k=k, position_ids=ids, rope=rope, dtype=dtype, grads=grads)


def physical_memory() -> int | None:
    """Give the machine's memory in bytes, None where it does not say."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return None


def references(inputs: Inputs) -> list[Contender]:
    """Give the two yardsticks: a copy in new memory, and one over memory that is there."""
    q, k = inputs.q, inputs.k
    to_q, to_k = torch.empty_like(q), torch.empty_like(k)
    return [
        Contender(name=CLONE, call=lambda: (q.clone(), k.clone()), reset=_nothing),
        Contender(name=COPY, call=lambda: (to_q.copy_(q), to_k.copy_(k)), reset=_nothing),
    ]


def ours(inputs: Inputs, case: Case) -> Contender:
    """Give our way: the module's call, or rotate_ in place."""
    rotary, ids = Rotary(inputs.rope), inputs.position_ids
    turn = rotary.rotate_ if case.in_place else rotary
    return _contender(OURS, inputs, case, lambda q, k: turn(q, k, ids), Precision.exact(inputs.dtype))


def peer(name: str, inputs: Inputs, case: Case) -> Contender:
    """Give another library's way.

    Raises:
        Unavailable: where it is not installed, or does not do this.
    """
    build = _BUILDERS[name]
    turn, precision = build(inputs, case)
    return _contender(name, inputs, case, turn, precision)


def _contender(name: str, inputs: Inputs, case: Case, turn: Turn, precision: Precision) -> Contender:
    """Wrap a turn of q and k into what the case asks for."""
    if case.in_place:
        own = inputs.q.clone(), inputs.k.clone()  # it turns them on and on; their lengths stay

        def start_again() -> None:
            for mine, given in zip(own, inputs.tensors, strict=True):
                mine.copy_(given)

        def over() -> Turned:
            turn(*own)
            return own  # what is judged is the memory that was to be turned

        return Contender(name=name, call=over, reset=start_again, precision=precision)
    if case.backward:
        leaves = inputs.q.detach().requires_grad_(), inputs.k.detach().requires_grad_()

        def both_ways() -> Turned:
            turned = turn(*leaves)
            grads = torch.autograd.grad(turned, leaves, inputs.grads)
            return (*(one.detach() for one in turned), *grads)

        return Contender(name=name, call=both_ways, reset=_nothing, precision=precision)
    return Contender(name=name, call=lambda: turn(*inputs.tensors), reset=_nothing, precision=precision)


def _transformers(inputs: Inputs, case: Case) -> tuple[Turn, Precision]:
    apply, cos, sin, precision = _llama(inputs, case)
    return lambda q, k: apply(q, k, cos, sin, unsqueeze_dim=2), precision


def _torch_compile(inputs: Inputs, case: Case) -> tuple[Turn, Precision]:
    apply, cos, sin, precision = _llama(inputs, case)
    # compiled anew for each measurement: beyond 8 variants of one function torch falls back to eager without a word
    torch.compiler.reset()
    compiled = torch.compile(apply, fullgraph=True, dynamic=False)
    return lambda q, k: compiled(q, k, cos, sin, unsqueeze_dim=2), precision


def _llama(inputs: Inputs, case: Case) -> tuple[Any, Tensor, Tensor, Precision]:
    """Give transformers' Llama function and the tables of its Llama module, made beforehand."""
    _only_pairing("half", inputs)
    _not_in_place(case)
    llama = _imported("transformers", "transformers.models.llama.modeling_llama")
    config = import_module("transformers").LlamaConfig(
        hidden_size=inputs.q.shape[2] * inputs.q.shape[3],
        num_attention_heads=inputs.q.shape[2],
        num_key_value_heads=inputs.k.shape[2],
        head_dim=inputs.rope.head_dim,
        rope_theta=THETA,
        rope_parameters={"rope_type": "default", "rope_theta": THETA},
    )
    cos, sin = llama.LlamaRotaryEmbedding(config)(inputs.q, inputs.position_ids)
    stated = Precision.float32_angles(inputs.dtype, THETA, table=inputs.dtype, arithmetic=inputs.dtype)
    return llama.apply_rotary_pos_emb, cos, sin, stated


def _rotary_embedding_torch(inputs: Inputs, case: Case) -> tuple[Turn, Precision]:
    _only_pairing("interleaved", inputs)
    _not_in_place(case)
    library = _imported("rotary-embedding-torch", "rotary_embedding_torch")
    module = library.RotaryEmbedding(dim=inputs.rope.head_dim, theta=THETA, cache_if_possible=False)
    freqs = module(inputs.position_ids).detach().unsqueeze(2)  # [B, S, 1, D], as its own cache holds them
    apply = library.apply_rotary_emb
    inner = "float64" if inputs.dtype == "float64" else "float32"
    if case.backward:  # both products' gradients are rounded to the tensor's type before they are added
        inner = inputs.dtype
    stated = Precision.float32_angles(inputs.dtype, THETA, table="float32", arithmetic=inner)
    return lambda q, k: (apply(freqs, q), apply(freqs, k)), stated


def _complex(inputs: Inputs, case: Case) -> tuple[Turn, Precision]:
    """Give Meta's form: neighbours are a complex number, turning is one product."""
    _only_pairing("interleaved", inputs)
    inv_freq = torch.tensor(inputs.rope.pairs().inv_freq.tolist(), dtype=torch.float64)
    angles = inputs.position_ids[..., None, None] * inv_freq  # [B, S, 1, P]
    cis = torch.polar(torch.ones_like(angles), angles)
    real = torch.float64 if inputs.dtype == "float64" else torch.float32
    cis = cis if real == torch.float64 else cis.to(torch.complex64)

    def as_complex(x: Tensor) -> Tensor:
        return torch.view_as_complex(x.unflatten(-1, (-1, 2)))

    def turned(x: Tensor) -> Tensor:
        return torch.view_as_real(as_complex(x.to(real)) * cis).flatten(-2).type_as(x)

    def in_place(q: Tensor, k: Tensor) -> Turned:
        as_complex(q).mul_(cis)
        as_complex(k).mul_(cis)
        return q, k

    if case.in_place and inputs.q.dtype != real:
        raise Unavailable(f"torch has no complex numbers of two {inputs.dtype}: it turns a float32 copy")
    turn = in_place if case.in_place else lambda q, k: (turned(q), turned(k))
    return turn, Precision.exact(inputs.dtype)  # its table is float64, rounded once


_BUILDERS: dict[str, Callable[[Inputs, Case], tuple[Turn, Precision]]] = dict(
    zip(PEERS, (_transformers, _torch_compile, _rotary_embedding_torch, _complex), strict=True)
)


def _imported(distribution: str, module: str) -> Any:
    package = module.partition(".")[0]
    try:
        import_module(package)
        return import_module(module)
    except ModuleNotFoundError as error:
        if error.name == package:
            raise Unavailable(f"not installed: pip install {distribution}") from error
        raise Unavailable(f"does not import: {_first_line(error)}") from error
    except (ImportError, RuntimeError, AttributeError) as error:  # another version of it, or of what it needs
        raise Unavailable(f"does not import: {_first_line(error)}") from error


def _only_pairing(pairing: str, inputs: Inputs) -> None:
    if inputs.rope.pairing != pairing:
        raise Unavailable(f"turns {pairing} pairs only")


def _not_in_place(case: Case) -> None:
    if case.in_place:
        raise Unavailable("has no form that turns in place")


def first_words(error: BaseException) -> str:
    """Name an error in one line."""
    return f"{type(error).__name__}: {_first_line(error)}"


def _first_line(error: BaseException) -> str:
    """Give the first line of an error's words, and the next where the first only announces it."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()] or ["no words"]
    told = " ".join(lines[:2]) if lines[0].endswith(":") else lines[0]
    return told.removesuffix(".") if len(told) <= 200 else f"{told[:200]}…"


def _nothing() -> None:
    pass
