"""For test suites: assert that a function turns by the rope that is meant."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from .models.targets import read
from .rope import Rope

if TYPE_CHECKING:
    from .probe.decoding import DecoderReport, check_decoder
    from .probe.report import Report

__all__ = ["assert_decoder", "assert_rope", "check_decoder"]


def __getattr__(name: str) -> Any:
    if name == "check_decoder":
        from .probe.decoding import check_decoder

        return check_decoder
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def assert_rope(fn: Callable[[Any, Any], Any], expect: Any, *, strict: bool = False, **options: Any) -> "Report":
    """Assert that fn turns x by this rope; the error says in words what it does instead.

    Args:
        fn: called as fn(x, position_ids), x [B, S, H, D]; `ropewalk.probe.adapt` makes such functions of others.
        expect: a Rope, a Model with one rope, or whatever `ropewalk.read` takes: a config.json, a preset's name.
        strict: warnings fail too.
        **options: those of `ropewalk.check`: layout, heads, kv_heads, dtype, device, backend, max_position, timeout;
            head_dim is that of expect unless it is given.

    Returns:
        The Report of `ropewalk.check`.

    Raises:
        AssertionError: for a finding of severity error (with strict, warning).
        RopewalkError: where expect is no rope, or an option does not exist.

    >>> from ropewalk import Rope, rotate
    >>> rope = Rope(head_dim=16, rope_theta=500000.0, pairing="half")
    >>> report = assert_rope(lambda x, position_ids: rotate(x, position_ids, rope), rope)
    >>> wrong = rope.replace(pairing="interleaved")
    >>> assert_rope(lambda x, position_ids: rotate(x, position_ids, wrong), rope)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    AssertionError: ...interleaved-for-half...
    """
    from .probe.checking import check

    __tracebackhide__ = True
    rope = expect if isinstance(expect, Rope) else read(expect).rope
    given = {"head_dim": rope.head_dim, **options}
    report = check(fn, expect=rope, **given)
    bad = {"error", "warning"} if strict else {"error"}
    faults = [finding for finding in report.findings if finding.severity in bad]
    if faults:
        raise AssertionError(_words(fn, rope, faults))
    return report


def _words(fn: Any, rope: Rope, faults: list[Any]) -> str:
    name = getattr(fn, "__qualname__", type(fn).__name__)
    count = f"{len(faults)} finding{'s' * (len(faults) > 1)}"
    lines = [f"{name} is not the rope that is expected ({rope.pairing}, θ={rope.rope_theta:g}): {count}"]
    for one in faults:
        lines.append(f"{one.severity} {one.code} {one.name}: {one.message}")
        lines.append(f"  seen: {one.seen}; right: {one.right}")
    return "\n".join(lines)


def assert_decoder(step: Any, prefill: Any, *, strict: bool = False, **options: Any) -> "DecoderReport":
    """Assert that a decoder with a cache gives the same outputs on every road to the same tokens.

    Args:
        step: step(tokens, cache, attention_mask=None, position_ids=None) -> (outputs, cache).
        prefill: prefill(tokens, attention_mask=None, position_ids=None, cache=None) -> (outputs, cache).
        strict: warnings fail too.
        **options: those of `ropewalk.probe.check_decoder`: merge, evict, vocab, length, dtype …

    Returns:
        The DecoderReport.

    Raises:
        AssertionError: for a finding of severity error (with strict, warning).
        RopewalkError: where the two cannot be called so, or an option does not exist.

    >>> def prefill(tokens):
    ...     return tokens.cumsum(axis=1)[..., None] * 1.0, tokens.sum(axis=1, keepdims=True)
    >>> def step(tokens, cache):
    ...     return (cache + tokens)[..., None] * 1.0, cache  # what was added is forgotten
    >>> assert_decoder(step, prefill, window_sizes=())  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    AssertionError: ...stepwise-differs...
    """
    from .probe.decoding import check_decoder

    __tracebackhide__ = True
    report = check_decoder(step, prefill, **options)
    bad = {"error", "warning"} if strict else {"error"}
    faults = [finding for finding in report.findings if finding.severity in bad]
    if faults:
        name = getattr(step, "__qualname__", type(step).__name__)
        lines = [f"{name} does not give on every road what prefill gives: {report.summary()}"]
        for one in faults:
            lines.append(f"{one.severity} {one.code} {one.name}, {one.where}: {one.message}")
            lines.append(f"  seen: {one.seen}; right: {one.right}")
        raise AssertionError("\n".join(lines))
    return report
