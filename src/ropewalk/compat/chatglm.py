"""ChatGLM-6B's PyTorch form: the same classes and functions, exact unless the original's rounding is asked for."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from .._checks import real, truth, whole
from ..errors import RopewalkError
from ..rope import Rope
from ._turning import check_floating, check_ids, rows_of, table, turn_doubled

PRECISIONS = (torch.half, torch.bfloat16, torch.float32, torch.float64)
HALF_LIMIT = 65_504  # the largest number of half precision
_FEWEST_ROWS = 64


class RotaryEmbedding(nn.Module):
    """Cos and sin of the positions 0, 1, …, as ChatGLM-6B's own class gives them, from exact frequencies.

    The original rounds the frequencies, the positions and their products to half precision, which puts cosines off by
    up to 0.78 within its own context of 2048 tokens. Here angles are float64 and only the finished cos and sin are
    rounded. The module has no buffers, and no parameters unless they are learnable: casts, meta initialisation and
    checkpoints cannot harm it.

    Args:
        dim: R, channels that turn; even. ChatGLM-6B turns each half of its head of 128 by positions of its own: 64.
        base: θ.
        precision: dtype of cos and sin.
        learnable: make the frequencies a trainable parameter `inv_freq` [R/2], float32, kept in it by `.to(dtype)`;
            then nothing is cached, and gradients reach it through cos and sin.
        match_original: round frequencies, positions and angles to half precision, as the original does.

    Raises:
        RopewalkError: for an odd dim, a base that is not above 0, or a precision that is no floating-point dtype.

    Source: ChatGLM-6B, `RotaryEmbedding` of modeling_chatglm.py.

    >>> cos, sin = RotaryEmbedding(64, precision=torch.float32)(torch.zeros(1, 2048))
    >>> cos.shape, round(cos[2047, 0, 0].item(), 6)
    (torch.Size([2048, 1, 64]), 0.249715)
    """

    def __init__(
        self,
        dim: int,
        base: float = 10000,
        precision: torch.dtype = torch.half,
        learnable: bool = False,
        match_original: bool = False,
    ) -> None:
        super().__init__()
        self.rope = Rope(head_dim=dim, rope_theta=real("base", base, above=0), pairing="half")
        if precision not in PRECISIONS:
            raise RopewalkError(f"precision must be one of {', '.join(map(str, PRECISIONS))}, got {precision!r}.")
        self.precision = precision
        self.learnable = truth("learnable", learnable)
        self.match_original = truth("match_original", match_original)
        self._tables: dict[torch.device, tuple[Tensor, Tensor]] = {}
        if learnable:
            self.inv_freq = nn.Parameter(self._frequencies())

    def _frequencies(self) -> Tensor:
        """Give the frequencies [R/2]: half precision as the original's, else float32."""
        exact = torch.tensor(self.rope.pairs().inv_freq.tolist(), dtype=torch.float32)
        return exact.half() if self.match_original else exact

    def reset_parameters(self) -> None:
        """Give learnable frequencies their first values, after `to_empty` for example."""
        if self.learnable:
            with torch.no_grad():
                self.inv_freq.copy_(self._frequencies())

    def forward(self, x: Tensor, seq_dim: int = 1, seq_len: int | Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Give cos and sin of the first positions.

        Args:
            x: only its device, and its size along seq_dim where seq_len is None, are looked at.
            seq_dim: the dimension of x that counts tokens.
            seq_len: how many positions: position_ids.max() + 1.

        Returns:
            (cos, sin), each [seq_len, 1, R] in `precision`, the frequencies doubled by concatenation.

        Raises:
            RopewalkError: for a seq_len that is no whole number, or beyond what half precision counts to.
        """
        seq = whole("seq_len", x.shape[seq_dim] if seq_len is None else int(seq_len))
        if self.match_original and seq > HALF_LIMIT + 1:
            raise RopewalkError(
                f"half precision counts to {HALF_LIMIT}, so match_original has no more positions than that; got "
                f"seq_len={seq}."
            )
        if self.learnable:
            return self._learned(seq, x.device)
        held = self._tables.get(x.device)
        if held is None or held[0].shape[0] < seq:
            rows = max(_FEWEST_ROWS, 1 << (seq - 1).bit_length()) if seq else _FEWEST_ROWS
            rows = min(rows, HALF_LIMIT + 1) if self.match_original else rows
            with torch.inference_mode(False), torch.no_grad():  # a table made while inferring must serve training too
                held = self._rounded(rows) if self.match_original else self._exact(rows)
                held = self._tables[x.device] = held[0].to(x.device), held[1].to(x.device)
        return held[0][:seq], held[1][:seq]

    def _exact(self, rows: int) -> tuple[Tensor, Tensor]:
        cos, sin = table(self.rope.pairs(), rows, self.precision, "cpu")
        return cos.repeat(1, 2)[:, None], sin.repeat(1, 2)[:, None]

    def _rounded(self, rows: int) -> tuple[Tensor, Tensor]:
        with torch.device("cpu"):
            return self._halved(self._frequencies(), torch.arange(rows, dtype=torch.float32))

    def _halved(self, inv_freq: Tensor, positions: Tensor) -> tuple[Tensor, Tensor]:
        angles = positions.half()[:, None] * inv_freq
        doubled = angles.repeat(1, 2)[:, None]  # not cat, which autocast on the CPU refuses for half
        if self.precision == torch.bfloat16:
            doubled = doubled.float()
        return doubled.cos().to(self.precision), doubled.sin().to(self.precision)

    def _learned(self, seq: int, device: torch.device) -> tuple[Tensor, Tensor]:
        inv_freq = self.inv_freq.to(device)
        if self.match_original:
            return self._halved(inv_freq, torch.arange(seq, dtype=torch.float32, device=device))
        work = torch.float32 if device.type == "mps" else torch.float64  # MPS has no float64
        angles = torch.arange(seq, dtype=work, device=device)[:, None] * inv_freq.to(work)
        doubled = angles.repeat(1, 2)[:, None]
        return doubled.cos().to(self.precision), doubled.sin().to(self.precision)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> "RotaryEmbedding":
        """Move with the model, but keep learnable frequencies in their dtype: rounded ones are wrong by radians."""
        before = self.inv_freq.detach() if self.learnable else None
        super()._apply(fn, recurse)
        if before is not None and self.inv_freq.dtype.itemsize < before.dtype.itemsize:
            self.inv_freq.data = before.to(self.inv_freq.device)
        return self

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_tables": {}}  # tables are made anew, not copied or pickled

    def extra_repr(self) -> str:
        """Give what the module was made with, for its repr."""
        flags = "".join(f", {name}=True" for name in ("learnable", "match_original") if getattr(self, name))
        return f"{self.rope.width}, base={self.rope.rope_theta:g}, precision={self.precision}{flags}"


def rotate_half(x: Tensor) -> Tensor:
    """Give (-x_(R/2) …, -x_(R-1), x_0 …, x_(R/2-1)): the half-split layout's partner of each channel, with its sign.

    Args:
        x: [..., R], R even.

    Raises:
        RopewalkError: for an odd width.

    >>> rotate_half(torch.tensor([0.0, 1.0, 2.0, 3.0])).tolist()
    [-2.0, -3.0, 0.0, 1.0]
    """
    if x.shape[-1] % 2:
        raise RopewalkError(f"x must have an even number of channels, got shape {list(x.shape)}.")
    half, out = x.shape[-1] // 2, torch.empty_like(x)
    out[..., :half], out[..., half:] = -x[..., half:], x[..., :half]
    return out


def apply_rotary_pos_emb_index(
    q: Tensor, k: Tensor, cos: Tensor, sin: Tensor, position_id: Tensor
) -> tuple[Tensor, Tensor]:
    """Turn queries and keys by the tables' rows at position_id, half-split; differentiable.

    The arithmetic is float32 (float64 for float64), whatever the tables' dtype, with one rounding to each input's.

    Args:
        q: [S, B, H, R] queries.
        k: [S, B, KV, R] keys.
        cos: [rows, 1, R], as RotaryEmbedding gives it.
        sin: likewise.
        position_id: [S, B] integers, the row of each token.

    Returns:
        (q', k'), shapes and dtypes as given.

    Raises:
        RopewalkError: for shapes and dtypes that do not fit, and for positions without a row (checked on the CPU; other
            devices refuse them themselves).

    Source: ChatGLM-6B, `apply_rotary_pos_emb_index` of modeling_chatglm.py.

    >>> cos, sin = RotaryEmbedding(2, precision=torch.float32)(torch.zeros(1, 8))
    >>> q = torch.tensor([1.0, 0.0]).view(1, 1, 1, 2)
    >>> apply_rotary_pos_emb_index(q, q, cos, sin, torch.tensor([[7]]))[0].flatten()
    tensor([0.7539, 0.6570])
    """
    check_floating(q=q, k=k)
    _check(q, k, cos, sin, q.shape[-1])
    if k.shape[-1] != q.shape[-1]:
        raise RopewalkError(f"q and k must have one head_dim, got {q.shape[-1]} and {k.shape[-1]}.")
    if isinstance(position_id, Tensor) and position_id.shape != q.shape[:2]:
        raise RopewalkError(
            f"position_id must be [seq={q.shape[0]}, batch={q.shape[1]}] for q {list(q.shape)}, got "
            f"{list(position_id.shape)}."
        )
    check_ids("position_id", position_id)
    rows = [rows_of(part.squeeze(1), position_id, "position_id").unsqueeze(2) for part in (cos, sin)]
    return turn_doubled(q, *rows), turn_doubled(k, *rows)


def apply_rotary_pos_emb_2d(
    q: Tensor, k: Tensor, cos: Tensor, sin: Tensor, position_ids: Tensor
) -> tuple[Tensor, Tensor]:
    """Turn whole heads as ChatGLM-6B does: the first half by token positions, the second by block positions.

    Args:
        q: [S, B, H, D] queries, D twice the tables' width.
        k: [S, B, KV, D] keys.
        cos: [rows, 1, D/2], as RotaryEmbedding(D/2) gives it.
        sin: likewise.
        position_ids: [B, 2, S] integers, ChatGLM-6B's own shape: token positions, then block positions.

    Returns:
        (q', k'), shapes and dtypes as given.

    Raises:
        RopewalkError: as apply_rotary_pos_emb_index does.

    Source: ChatGLM-6B, `SelfAttention.forward` with `position_encoding_2d`.

    >>> cos, sin = RotaryEmbedding(2, precision=torch.float32)(torch.zeros(1, 8))
    >>> q = torch.tensor([1.0, 0.0, 1.0, 0.0]).view(1, 1, 1, 4)
    >>> apply_rotary_pos_emb_2d(q, q, cos, sin, torch.tensor([[[7], [0]]]))[0].flatten()
    tensor([0.7539, 0.6570, 1.0000, 0.0000])
    """
    check_floating(q=q, k=k)
    if q.shape[-1] % 4 or k.shape[-1] != q.shape[-1]:
        raise RopewalkError(
            f"q and k must have one head_dim that is a multiple of 4, got {q.shape[-1]} and {k.shape[-1]}."
        )
    _check(q, k, cos, sin, q.shape[-1] // 2)
    check_ids("position_ids", position_ids)
    if q.ndim != 4 or position_ids.shape != (q.shape[1], 2, q.shape[0]):
        raise RopewalkError(
            f"position_ids must be [batch, 2, seq] for q [seq, batch, heads, head_dim], got {list(position_ids.shape)} "
            f"for {list(q.shape)}."
        )
    ids = position_ids.permute(2, 0, 1)
    rows = [rows_of(part.squeeze(1), ids, "position_ids").unsqueeze(2) for part in (cos, sin)]  # [S, B, 1, 2, D/2]
    q_out, k_out = (turn_doubled(x.unflatten(-1, (2, -1)), *rows).flatten(-2) for x in (q, k))
    return q_out, k_out


def _check(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor, width: int) -> None:
    check_floating(cos=cos, sin=sin)
    if q.ndim != 4 or k.ndim != 4 or q.shape[:2] != k.shape[:2] or width % 2:
        raise RopewalkError(
            f"q and k must be [seq, batch, heads, head_dim] with an even head_dim, got {list(q.shape)} and "
            f"{list(k.shape)}."
        )
    if cos.shape != sin.shape or cos.ndim != 3 or cos.shape[1:] != (1, width):
        raise RopewalkError(
            f"cos and sin must be [rows, 1, {width}] for q {list(q.shape)}, got {list(cos.shape)} and "
            f"{list(sin.shape)}. A whole head is turned by apply_rotary_pos_emb_index, one split in halves by "
            "apply_rotary_pos_emb_2d."
        )
