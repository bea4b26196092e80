"""measure(): the mean loss by position, for a model with one RoPE after another, none of them trained."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import TYPE_CHECKING, Any

from .._checks import check_schema, shown, whole
from ..errors import RopewalkError
from ..rope import Rope

if TYPE_CHECKING:
    from torch import Tensor, nn

SCHEMA = "ropewalk.measurement/1"

Ropes = Mapping[str, "Rope | Mapping[str, Rope]"]
Progress = Callable[[str, float], None]  # called with a method's name and the share of it that is done


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """What one method was measured to give.

    Attributes:
        name: the method.
        rope: what turned; a dict by layer type where the model has several.
        losses: mean loss of the tokens of each bucket, nats a token.
        counts: tokens in each bucket; the text's first token is predicted from nothing and has no loss.
        bucket: positions a bucket.
        trained: L0, tokens.
        passes: forward passes over the text.
        seconds: what they took.
    """

    name: str
    rope: Rope | Mapping[str, Rope]
    losses: tuple[float, ...]
    counts: tuple[int, ...]
    bucket: int
    trained: int
    passes: int
    seconds: float

    @property
    def inside(self) -> float | None:
        """The mean loss within the trained length (of the buckets wholly in it), None where there is none."""
        whole_buckets = self.trained // self.bucket
        return _mean(self.losses[:whole_buckets], self.counts[:whole_buckets])

    @property
    def beyond(self) -> float | None:
        """The mean loss past the trained length (of the buckets wholly past it), None where there is none."""
        first = -(-self.trained // self.bucket)
        return _mean(self.losses[first:], self.counts[first:])

    def to_dict(self) -> dict[str, Any]:
        """Give the curve as plain values."""
        rope = self.rope
        return {
            "name": self.name,
            "rope": rope.to_dict() if isinstance(rope, Rope) else {key: one.to_dict() for key, one in rope.items()},
            "losses": list(self.losses),
            "counts": list(self.counts),
            "inside": self.inside,
            "beyond": self.beyond,
            "passes": self.passes,
            "seconds": round(self.seconds, 3),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], *, bucket: int, trained: int) -> "Curve":
        """Build a curve from what to_dict gives, and what its measurement says."""
        rope = data["rope"]
        one = Rope.from_dict(rope) if "schema" in rope else {key: Rope.from_dict(part) for key, part in rope.items()}
        return cls(
            name=data["name"],
            rope=one,
            losses=tuple(data["losses"]),
            counts=tuple(data["counts"]),
            bucket=bucket,
            trained=trained,
            passes=data["passes"],
            seconds=data["seconds"],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """The loss by position of every method on one text.

    Attributes:
        tokens: tokens of the text that were read.
        bucket: positions a bucket.
        trained: L0, tokens.
        dtype: of weights and activations.
        growing: see measure.
        curves: one a method, in the order given.
    """

    tokens: int
    bucket: int
    trained: int
    dtype: str
    growing: int | None
    curves: tuple[Curve, ...]

    @property
    def best(self) -> Curve | None:
        """The curve with the least loss past the trained length, None where nothing was measured there."""
        measured = [(one.beyond, i) for i, one in enumerate(self.curves) if one.beyond is not None]
        return self.curves[min(measured)[1]] if measured else None

    def curve(self, name: str) -> Curve | None:
        """Give the curve of a method, or None."""
        return next((one for one in self.curves if one.name == name), None)

    def to_dict(self) -> dict[str, Any]:
        """Give the measurement as plain values for JSON."""
        return {
            "schema": SCHEMA,
            "tokens": self.tokens,
            "bucket": self.bucket,
            "trained": self.trained,
            "dtype": self.dtype,
            "growing": self.growing,
            "best": None if self.best is None else self.best.name,
            "curves": [one.to_dict() for one in self.curves],
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "Measurement":
        """Build a measurement from what to_dict gives.

        Raises:
            RopewalkError: for another schema, or keys that are missing or of another kind.
        """
        check_schema(data, SCHEMA, "a measurement")
        try:
            bucket, trained = data["bucket"], data["trained"]
            return cls(
                tokens=data["tokens"],
                bucket=bucket,
                trained=trained,
                dtype=data["dtype"],
                growing=data["growing"],
                curves=tuple(Curve.from_dict(one, bucket=bucket, trained=trained) for one in data["curves"]),
            )
        except (KeyError, TypeError, AttributeError) as error:
            raise RopewalkError(
                f"a measurement must hold what to_dict gives: {type(error).__name__}: {error}. Give a document of "
                "ropewalk extend --measure --json."
            ) from error


def measure(
    model: "nn.Module",
    token_ids: "Sequence[int] | Tensor",
    ropes: Ropes,
    *,
    bucket: int = 1024,
    trained: int | None = None,
    growing: int | None = None,
    rows: int | None = None,
    progress: Progress | None = None,
) -> Measurement:
    """Measure the loss of a model by position, its RoPE swapped for each of some others; nothing is trained.

    The text is read in one causal pass for each method, so that the token at position p is predicted from the p tokens
    before it. A rope that depends on the length (dynamic NTK, LongRoPE) takes that of the whole text. The model is as
    it was afterwards, also after an error or Ctrl-C.

    Args:
        model: a causal language model of transformers, in eval mode.
        token_ids: [N] the text.
        ropes: by name, what its text part turns by: a Rope, or a dict of Ropes by layer type.
        bucket: positions whose losses are averaged.
        trained: L0, tokens; None takes it from the model's configuration.
        growing: for ropes that depend on the length: past the trained length, read the text anew every so many tokens,
            cut there, and take the losses of the tokens since the last cut, as a program does that turns all keys again
            while a text grows; None reads it once.
        rows: positions whose logits are held at once; None takes what keeps them small. It changes no number.
        progress: called with a method's name and the share of it that is done.

    Raises:
        RopewalkError: for a model without a RoPE that can be swapped, a rope that does not fit it, or token ids that
            it does not know.

    Source: the protocol of Chen et al. 2023, Position Interpolation, figure 2, without training: one window, no stride.

    >>> measure(model, ids, {"untouched": rope, "linear": rope.replace(scaling=Linear(factor=2))})  # doctest: +SKIP
    """
    from .loading import trained_tokens

    trained = trained_tokens(model) if trained is None else whole("trained", trained, at_least=1)
    found = tuple(
        curves(model, token_ids, ropes, bucket=bucket, trained=trained, growing=growing, rows=rows, progress=progress)
    )
    dtype = str(next(model.parameters()).dtype).removeprefix("torch.")
    return Measurement(
        tokens=len(token_ids), bucket=bucket, trained=trained, dtype=dtype, growing=growing, curves=found
    )


def curves(
    model: "nn.Module",
    token_ids: "Sequence[int] | Tensor",
    ropes: Ropes,
    *,
    bucket: int = 1024,
    trained: int,
    growing: int | None = None,
    rows: int | None = None,
    progress: Progress | None = None,
) -> Iterator[Curve]:
    """Measure as `measure` does, and give each method's curve as soon as it is there.

    Between two curves the model is as it was.
    """
    bucket = whole("bucket", bucket, at_least=1)
    growing = None if growing is None else whole("growing", growing, at_least=1)
    ids = checked_ids(model, token_ids)
    for name, rope in ropes.items():
        yield _curve(model, ids, name, rope, bucket, trained, growing, rows, progress)


def checked_ids(model: "nn.Module", token_ids: "Sequence[int] | Tensor") -> "Tensor":
    """Give token ids as [N] int64, or raise where the model cannot take them."""
    import torch

    ids = torch.as_tensor(token_ids)
    if ids.ndim != 1 or len(ids) < 2 or ids.is_floating_point() or ids.is_complex() or ids.dtype == torch.bool:
        raise RopewalkError(f"token_ids must be [N] whole numbers, N at least 2, got {shown(token_ids)}.")
    table: Any = getattr(model, "get_input_embeddings", lambda: None)()
    known = len(table.weight) if table is not None else math.inf
    if int(ids.min()) < 0 or int(ids.max()) >= known:
        raise RopewalkError(
            f"token ids run from {int(ids.min())} to {int(ids.max())}, and the model knows 0 to {known - 1}: the "
            "tokenizer is another model's."
        )
    return ids.to(torch.int64)


def _curve(
    model: "nn.Module",
    ids: "Tensor",
    name: str,
    rope: "Rope | Mapping[str, Rope]",
    bucket: int,
    trained: int,
    growing: int | None,
    rows: int | None,
    progress: Progress | None,
) -> Curve:
    from ..compat.transformers import use
    from ._losses import token_losses

    cuts = _cuts(rope, len(ids), trained, growing)
    whole_work, done = sum(map(_work, cuts)), 0.0
    losses = None
    start = perf_counter()
    with use(model, rope if isinstance(rope, Rope) else dict(rope)):
        for i, cut in enumerate(cuts):

            def tell(share: float, before: float = done, work: float = _work(cut)) -> None:
                assert progress is not None
                progress(name, (before + share * work) / whole_work)

            found = token_losses(model, ids[:cut], rows=rows, progress=tell if progress is not None else None)
            fresh = 0 if not i else cuts[i - 1]
            losses = found if losses is None else _joined(losses, found[fresh:])
            done += _work(cut)
    assert losses is not None
    seconds = perf_counter() - start
    parts = [part[part.isfinite()] for part in losses.split(bucket)]
    parts = [part for part in parts if len(part)]
    return Curve(
        name=name,
        rope=rope,
        losses=tuple(float(part.mean()) for part in parts),
        counts=tuple(map(len, parts)),
        bucket=bucket,
        trained=trained,
        passes=len(cuts),
        seconds=seconds,
    )


def _joined(before: "Tensor", after: "Tensor") -> "Tensor":
    import torch

    return torch.cat([before, after])


def _cuts(rope: "Rope | Mapping[str, Rope]", tokens: int, trained: int, growing: int | None) -> list[int]:
    """Give the lengths of the passes, the last of them the whole text."""
    ropes = [rope] if isinstance(rope, Rope) else list(rope.values())
    if growing is None or not any(one.length_dependent for one in ropes) or tokens <= trained:
        return [tokens]
    return [*range(trained, tokens, growing), tokens]


def _work(tokens: int) -> float:
    """Give about how much work a pass is, in no unit: attention grows with the square."""
    return tokens * (1 + tokens / 4096)


def _mean(losses: Sequence[float], counts: Sequence[int]) -> float | None:
    total = sum(counts)
    return math.fsum(loss * count for loss, count in zip(losses, counts, strict=True)) / total if total else None
