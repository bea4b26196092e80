"""Meta's complex form: freqs_cis as its Llama code makes and applies it, from float64 angles."""

import torch
from torch import Tensor

from ..errors import RopewalkError
from ..rope import Rope
from ..scaling import Default, Llama3
from ._turning import check_floating, pairing_of, resolved, table, turn


def precompute_freqs_cis(
    dim: int,
    end: int,
    theta: float = 10000.0,
    use_scaled: bool = False,
    scale_factor: float = 8.0,
    high_freq_factor: float = 4.0,
    *,
    low_freq_factor: float = 1.0,
    old_context_len: int = 8192,
    device: torch.device | str | None = None,
) -> Tensor:
    """Give e^(i·m·θ_j) of the positions 0 … end-1, each number a float64 angle's, rounded once.

    Args:
        dim: D, channels of a head; even.
        end: how many positions.
        theta: θ, the base.
        use_scaled: apply Llama 3.1's scaling with the four numbers that follow.
        scale_factor: divides the slow pairs' frequencies.
        high_freq_factor: turns within old_context_len above which a pair is kept.
        low_freq_factor: turns below which a pair is divided by the whole factor.
        old_context_len: tokens, the length trained before stretching.
        device: where the result lies.

    Returns:
        [end, D/2] complex64.

    Raises:
        RopewalkError: for numbers out of range.

    Source: llama-models, `precompute_freqs_cis` and `apply_scaling` of models/llama3/model.py and that of Llama 4,
    whose own angles are float32.

    >>> precompute_freqs_cis(4, 11, theta=100.0)[10]
    tensor([-0.8391-0.5440j,  0.5403+0.8415j])
    """
    scaling = Default()
    if use_scaled:
        scaling = Llama3(
            factor=scale_factor,
            low_freq_factor=low_freq_factor,
            high_freq_factor=high_freq_factor,
            original_max_position_embeddings=old_context_len,
        )
    rope = Rope(head_dim=dim, rope_theta=theta, pairing="interleaved", scaling=scaling)
    return freqs_cis(rope, end, device=device)


def freqs_cis(rope: Rope, end: int, *, length: int | None = None, device: torch.device | str | None = None) -> Tensor:
    """Give the complex table of any interleaved rope that turns all its channels, its factor on cos and sin applied.

    Args:
        rope: the description; one axis, adjacent pairs, rotary_dim = head_dim.
        end: how many positions.
        length: tokens in the sequence, for dynamic NTK and LongRoPE.
        device: where the result lies.

    Returns:
        [end, D/2] complex64.

    Raises:
        RopewalkError: for a rope that complex numbers over the whole head cannot say, or a missing length.

    >>> freqs_cis(Rope(head_dim=8, rope_theta=10000.0, pairing="interleaved"), 3).shape
    torch.Size([3, 4])
    """
    pairs = resolved(rope, length, "freqs_cis")
    if pairing_of(pairs, 0, "freqs_cis") != "interleaved" and len(pairs) > 1:
        raise RopewalkError(
            "freqs_cis turns adjacent channels (2i, 2i + 1); this rope's pairing is 'half'. Meta's weights are "
            "interleaved, those of Hugging Face permuted: read the rope from Meta's own files."
        )
    if 2 * len(pairs) != rope.head_dim:
        raise RopewalkError(
            f"freqs_cis turns every channel, this rope {2 * len(pairs)} of {rope.head_dim}. Cut the turned channels "
            "out, or use ropewalk.torch.Rotary."
        )
    return torch.complex(*table(pairs, end, torch.float32, device))


def apply_rotary_emb(xq: Tensor, xk: Tensor, freqs_cis: Tensor) -> tuple[Tensor, Tensor]:
    """Turn queries and keys by a slice of the complex table: adjacent channels are one complex number.

    Real arithmetic throughout, in float32 (float64 for float64), rounded once to each input's dtype; differentiable.

    Args:
        xq: [B, S, H, D] queries.
        xk: [B, S, KV, D] keys.
        freqs_cis: [S, D/2] complex, the rows of these tokens; or [B, S, D/2], rows of their own for each sequence.

    Returns:
        (xq', xk'), shapes and dtypes as given.

    Raises:
        RopewalkError: for a shape or dtype that does not fit.

    Source: llama-models, `apply_rotary_emb` of models/llama3/model.py.

    >>> x = torch.tensor([1.0, 0.0, 1.0, 0.0]).view(1, 1, 1, 4)
    >>> apply_rotary_emb(x, x, precompute_freqs_cis(4, 11, theta=100.0)[10:])[0].flatten()
    tensor([-0.8391, -0.5440,  0.5403,  0.8415])
    """
    check_floating(xq=xq, xk=xk)
    if not isinstance(freqs_cis, Tensor) or not freqs_cis.is_complex():
        given = freqs_cis.dtype if isinstance(freqs_cis, Tensor) else type(freqs_cis).__name__
        raise RopewalkError(f"freqs_cis must be complex, as precompute_freqs_cis gives it, got {given}.")
    for name, x in (("xq", xq), ("xk", xk)):
        if x.ndim != 4:
            raise RopewalkError(f"{name} must be [batch, seq, heads, head_dim], got shape {list(x.shape)}.")
        batch, seq, _, width = x.shape
        if tuple(freqs_cis.shape) not in ((seq, width / 2), (batch, seq, width / 2), (1, seq, width / 2)):
            raise RopewalkError(
                f"freqs_cis must be [seq={seq}, head_dim/2={width / 2:g}] or [batch={batch}, seq, head_dim/2] for "
                f"{name} {list(x.shape)}, got {list(freqs_cis.shape)}. Slice the rows out of the table."
            )
    by_head = freqs_cis.unsqueeze(-2)  # [S, 1, P] or [B, S, 1, P]
    cos, sin = by_head.real, by_head.imag
    return turn(xq, cos, sin, interleaved=True), turn(xk, cos, sin, interleaved=True)
