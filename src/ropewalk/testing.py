"""For test suites: assert that a function turns by the rope that is meant."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from .models.targets import read
from .rope import Rope

if TYPE_CHECKING:
    from .probe.report import Report

__all__ = ["assert_rope"]


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
