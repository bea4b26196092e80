"""The black-box probe: what somebody's RoPE does, found by asking it."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .decoding import DecoderReport, check_decoder

__all__ = ["DecoderReport", "check_decoder"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        from . import decoding

        return getattr(decoding, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
