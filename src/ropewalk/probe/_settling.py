"""Which findings are left: faults that make others look broken take those with them."""

from collections.abc import Sequence

from ..findings import SEVERITIES, Finding

# each looks like the next in some calls; what explains a call by an earlier one explains the rest too
RIVALS = ("stale-table", "ids-ignored", "window-constant")

# a fault that makes others look broken: what follows from it is left out
FOLLOWS = {
    "identity": ("unscaled", "magnitude-missing", "frequencies-differ", "pairs-differ", "gradient-wrong"),
    "ids-ignored": (
        "window-constant",
        "positions-misread",
        "table-end-clamped",
        "stale-table",
        "keeps-state",
        "identity",
    ),
    "window-constant": ("positions-misread", "ids-ignored", "stale-table", "identity"),
    "head-axis": ("positions-misread", "first-head-only", "heads-differ", "table-end-clamped", "identity", "raised"),
    "first-head-only": ("heads-differ", "gradient-wrong"),
    "row-0-only": ("positions-misread", "gradient-wrong"),
    "stale-table": (
        *("positions-misread", "keeps-state", "ids-ignored", "window-constant", "dynamic-sticky", "table-end-clamped"),
        *("wrong-theta", "frequencies-differ", "length-rule", "gradient-wrong"),
    ),
    "double-rotation": ("frequencies-differ", "wrong-theta"),
    "unscaled": ("magnitude-missing", "dynamic-frozen", "length-rule"),
    "dynamic-sticky": (
        "positions-misread",
        "keeps-state",
        "dynamic-frozen",
        "frequencies-differ",
        "wrong-theta",
        "length-rule",
        "gradient-wrong",
    ),
    "dynamic-frozen": ("wrong-theta", "frequencies-differ", "length-rule"),
    "longrope-long-always": ("frequencies-differ", "length-rule", "longrope-off-by-one"),
    "bf16-frequencies": ("frequencies-differ", "wrong-theta", "table-end-clamped"),
    "tf32-product": ("frequencies-differ", "wrong-theta", "positions-misread", "table-end-clamped"),
    "fp16-angles": ("frequencies-differ", "wrong-theta", "not-finite", "positions-misread", "table-end-clamped"),
    "bf16-positions": ("frequencies-differ", "positions-misread", "keeps-state", "table-end-clamped"),
    "sine-unreduced": ("positions-misread", "table-end-clamped", "not-finite"),
    "table-end-clamped": ("precision", "not-finite", "positions-misread"),
    "mrope-chunked": ("axes-swapped",),
    "conjugate": ("frequencies-differ",),
    "tables-as-angles": ("positions-misread", "gradient-wrong", "not-a-rotation", "frequencies-differ"),
    "cos-sin-swapped": ("positions-misread", "conjugate", "gradient-wrong"),
    "reflection": ("positions-misread", "conjugate", "gradient-wrong", "pairs-differ"),
    "not-a-rotation": (
        *("ids-ignored", "hybrid-repeat", "hybrid-tile", "positions-misread", "gradient-wrong", "pairs-differ"),
        *("frequencies-differ", "magnitude-wrong", "axes-swapped", "mrope-chunked"),
        "table-end-clamped",
    ),
    "random": (
        *(
            "keeps-state",
            "positions-misread",
            "stale-table",
            "gradient-wrong",
            "nonlinear",
            "ids-ignored",
            "length-rule",
        ),
        *(
            "window-constant",
            "dynamic-sticky",
            "precision",
            "not-a-rotation",
            "table-end-clamped",
            "frequencies-differ",
        ),
        *("first-head-only", "heads-differ", "row-0-only", "head-axis", "wrong-theta", "pairs-differ"),
    ),
    "nonlinear": ("ids-ignored", "positions-misread", "identity"),
}


def settled(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """Drop repetitions and what only follows from another fault; errors first, in the order of their codes.

    >>> words = {"where": "fn", "seen": "a", "right": "b", "message": "c"}
    >>> two = [Finding.of(name, **words) for name in ("frequencies-differ", "bf16-frequencies")]
    >>> [one.name for one in settled(two)]
    ['bf16-frequencies']
    """
    names = {one.name for one in findings if one.severity == "error"}
    first = next((name for name in RIVALS if name in names), None)
    dropped = {
        follower for name in names for follower in FOLLOWS.get(name, ()) if name not in RIVALS or follower != first
    }
    dropped |= {"negative-ids"} if names or any(one.name == "no-rope" for one in findings) else set()
    kept: dict[str, Finding] = {}
    for one in findings:
        if one.name not in dropped and one.name not in kept:
            kept[one.name] = one
    return tuple(sorted(kept.values(), key=lambda one: (SEVERITIES.index(one.severity), one.code)))
