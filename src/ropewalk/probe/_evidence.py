"""One piece of evidence: what a function did where a table of pairs says what it should have done."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What one question to a function showed.

    Attributes:
        name: the fault that was looked for, ``"ids-ignored"``.
        ok: whether it is absent, or could not be judged (then detail["judged"] is False).
        seen: what the function did, in words.
        right: what it should do, in words.
        detail: the numbers behind it; a ``"note"`` where something is worth saying though it is no fault.

    >>> Evidence(name="identity", ok=True, seen="turns", right="turns").detail
    {}
    """

    name: str
    ok: bool
    seen: str
    right: str
    detail: Mapping[str, Any] = field(default_factory=dict)
