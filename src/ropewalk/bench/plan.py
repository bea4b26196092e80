"""What is to be measured: shapes, cases, types and peers, checked before torch is loaded."""

from collections.abc import Sequence
from dataclasses import dataclass

from .._checks import choice, shown, whole
from ..errors import RopewalkError

DTYPES = ("float32", "bfloat16", "float16", "float64")
PAIRINGS = ("half", "interleaved")
PEERS = ("transformers", "torch-compile", "rotary-embedding-torch", "complex")
THETA = 500_000.0  # Llama 3.1's
LARGEST = 2**40  # elements of q: beyond, a number was mistyped


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """Sizes of q [B, S, H, D] and k [B, S, KV, D].

    Attributes:
        batch: rows.
        seq: tokens in a row.
        heads: query heads.
        kv_heads: key heads.
        head_dim: channels of a head, all of them turned.
    """

    batch: int
    seq: int
    heads: int
    kv_heads: int
    head_dim: int

    @classmethod
    def parse(cls, text: str) -> "Shape":
        """Read a shape from "B,S,H,KV,D".

        Raises:
            RopewalkError: unless it is five whole numbers above 0, the last one even.

        >>> Shape.parse("1,4096,32,8,128").k
        [1, 4096, 8, 128]
        """
        parts = text.split(",")
        if len(parts) != 5 or not all(part.strip().isascii() and part.strip().isdigit() for part in parts):
            raise RopewalkError(
                f"a shape is five whole numbers B,S,H,KV,D (batch, seq, query heads, key heads, head_dim), such as "
                f"1,4096,32,8,128, got {shown(text)}."
            )
        names = ("batch", "seq", "heads", "kv_heads", "head_dim")
        sizes = {
            name: whole(f"{name} of the shape {text}", int(part), at_least=1)
            for name, part in zip(names, parts, strict=True)
        }
        shape = cls(**sizes)
        if shape.head_dim % 2:
            raise RopewalkError(f"head_dim must be even, since channels turn in pairs, got {shape.head_dim} in {text}.")
        if shape.batch * shape.seq * max(shape.heads, shape.kv_heads) * shape.head_dim > LARGEST:
            raise RopewalkError(f"the shape {text} asks for more than 2^40 elements: give a smaller one.")
        return shape

    @property
    def q(self) -> list[int]:
        """[B, S, H, D]."""
        return [self.batch, self.seq, self.heads, self.head_dim]

    @property
    def k(self) -> list[int]:
        """[B, S, KV, D]."""
        return [self.batch, self.seq, self.kv_heads, self.head_dim]


STANDARD = Shape(batch=1, seq=4096, heads=32, kv_heads=8, head_dim=128)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One way of turning q and k.

    Attributes:
        name: as `--case` takes it.
        words: what is done, for people.
        in_place: the result replaces q and k.
        backward: gradients are computed too.
        decode_rows: rows of one token each, as in decoding; None where the whole sequence is turned.
    """

    name: str
    words: str
    in_place: bool = False
    backward: bool = False
    decode_rows: int | None = None

    def shape(self, asked: Shape) -> Shape:
        """Give the shape to measure: decoding takes the heads of the one asked for, with one token in a row."""
        if self.decode_rows is None:
            return asked
        return Shape(batch=self.decode_rows, seq=1, heads=asked.heads, kv_heads=asked.kv_heads, head_dim=asked.head_dim)


CASES = {
    case.name: case
    for case in (
        Case(name="out-of-place", words="results in new memory"),
        Case(name="in-place", words="results over q and k", in_place=True),
        Case(name="backward", words="forward and backward", backward=True),
        Case(name="decode", words="one token", decode_rows=1),
        Case(name="decode-ragged", words="one token in each of 32 rows, each at a position of its own", decode_rows=32),
    )
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What one run measures: each case for each dtype and pairing, our way beside the peers.

    Attributes:
        shape: of the cases that turn whole sequences.
        cases: names of CASES.
        dtypes: names of DTYPES.
        pairings: names of PAIRINGS.
        peers: names of PEERS.
        rounds: timed rounds of each measurement.
    """

    shape: Shape = STANDARD
    cases: tuple[str, ...] = tuple(CASES)
    dtypes: tuple[str, ...] = ("float32", "bfloat16")
    pairings: tuple[str, ...] = ("half",)
    peers: tuple[str, ...] = ("transformers",)
    rounds: int = 11

    def __post_init__(self) -> None:
        for what, given, known in (
            ("case", self.cases, tuple(CASES)),
            ("dtype", self.dtypes, DTYPES),
            ("pairing", self.pairings, PAIRINGS),
            ("peer", self.peers, PEERS),
        ):
            _check_names(what, given, known)
        whole("rounds", self.rounds, at_least=1)


def _check_names(what: str, given: Sequence[str], known: tuple[str, ...]) -> None:
    for name in given:
        choice(what, name, known)
    if len(set(given)) != len(given):
        raise RopewalkError(f"each {what} can be asked for once, got {', '.join(given)}.")
    if not given and what != "peer":
        raise RopewalkError(f"no {what} is left to measure: give one of {', '.join(known)}.")
