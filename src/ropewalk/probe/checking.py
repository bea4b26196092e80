"""check(): what is wrong with somebody's RoPE, told from outside."""

from typing import Any

from ..errors import RopewalkError
from ..findings import Finding
from ..models.model import Model
from ..models.targets import read
from ..rope import Rope
from ..scaling import Default
from . import battery
from ._evidence import Evidence
from ._lengths import switch_of
from ._rows import rows_of
from ._settling import settled
from .box import Box, BoxFailure
from .explaining import Explanation, explain
from .precision import Precision, conditions, grade
from .recovery import Recovered, recover
from .report import Report
from .verdicts import (
    of_conditions,
    of_evidence,
    of_explanation,
    of_facts,
    of_failure,
    of_map,
    of_precision,
    of_residual,
    verdict,
)

# what a function that answers equal calls differently now and then looks like
UNSTEADY = {
    "nonlinear",
    "stale-table",
    "positions-misread",
    "length-rule",
    "precision",
    "not-a-rotation",
    "keeps-state",
}
HIDE_PRECISION = {"ids-ignored", "stale-table", "window-constant", "head-axis", "dynamic-sticky", "first-head-only"}


def check(
    fn: Any,
    *,
    head_dim: int,
    layout: str = "bshd",
    expect: object = None,
    heads: int = 2,
    kv_heads: int | None = None,
    batch: int = 2,
    dtype: Any = None,
    device: Any = None,
    backend: str = "auto",
    max_position: int = 1_048_576,
    timeout: float = 60.0,
) -> Report:
    """Say what a rotary embedding does and where it is wrong, by calling it.

    The function's pairs are recovered (which channels turn together, how fast, by which axis), explained by the
    nearest known description, asked for positions that careless code gets wrong, and graded for precision. Without
    expect only what contradicts itself is a fault; conventions are notes.

    Args:
        fn: called as fn(x, position_ids), gives x turned; x in the layout, position_ids [S], [B, S] or, for several
            axes, [A, B, S]: as many rows as expect has axes, or, without expect, as it is found to take.
        head_dim: D.
        layout: "bshd", "bhsd", or "thd" (packed).
        expect: what it should be: a Rope, a Model with one rope, or anything that `ropewalk.read` takes.
        heads: H of x.
        kv_heads: heads of the keys where they differ.
        batch: B of most calls.
        dtype: of x; float32 where None.
        device: of x, for torch.
        backend: "numpy", "torch", "jax", or "auto": what fn takes.
        max_position: the largest position asked for.
        timeout: seconds for one call, and for all together.

    Returns:
        The Report. A function that raises, hangs, or gives something else than x turned is a finding, not an error.

    Raises:
        RopewalkError: for options that do not exist, or an expect that is no single rope of this head_dim.

    >>> import ropewalk
    >>> rope = ropewalk.Rope(head_dim=8, rope_theta=500000.0, pairing="half")
    >>> wrong = rope.replace(rope_theta=10000.0)
    >>> report = check(lambda x, ids: ropewalk.rotate(x, ids, wrong), head_dim=8, expect=rope)
    >>> report.ok, report.findings[0].name
    (False, 'wrong-theta')
    """
    rope = _expected(expect)
    if rope is not None and rope.head_dim != head_dim:
        raise RopewalkError(
            f"expect describes heads of {rope.head_dim} channels, got head_dim={head_dim}. Give the same number."
        )
    box = Box(
        fn,
        head_dim=head_dim,
        layout=layout,
        heads=heads,
        kv_heads=kv_heads,
        batch=batch,
        dtype=dtype,
        device=device,
        backend=backend,
        timeout=timeout,
        axes=1 if rope is None else rope.axes.num_axes,
        max_position=max_position,
    )
    if rope is None and (rows := rows_of(box)) > 1:
        box = box.with_(axes=rows)
    return _Check(box, rope).report()


class _Check:
    """One run: what was found so far, and the report made of it."""

    def __init__(self, box: Box, expect: Rope | None) -> None:
        self.box, self.expect = box, expect
        if expect is not None and expect.length_dependent and switch_of(expect) > box.max_position:
            self.expect = expect.replace(scaling=Default())  # nothing is asked where it would differ
        self.findings: list[Finding] = []
        self.found: Recovered | None = None
        self.explanation: Explanation | None = None
        self.evidence: tuple[Evidence, ...] = ()
        self.precision: Precision | None = None
        self.conditions: dict[str, Precision] = {}

    def report(self) -> Report:
        """Run, whatever happens, and give the report."""
        try:
            self._run()
        except BoxFailure as failure:
            right = "an answer to every call"
            if self.found is None and self.expect is None:
                right = (
                    "an answer for position_ids [S], [B, S] or [A, B, S]; where the function takes others, declare "
                    "them with expect, or wrap it"
                )
            self.findings.append(of_failure(failure.failure, right=right))
        if UNSTEADY & {one.name for one in self.findings} and not {"random", "state"} & set(self.box.facts):
            self.box.look_again()
        self.findings += of_facts(self.box.facts)
        found = self.found
        return Report(
            findings=settled(self.findings),
            pairs=None if found is None else found.pairs,
            explanation=None if self.explanation is None else self.explanation.rope,
            recipe="" if self.explanation is None else self.explanation.recipe,
            kind="" if found is None else found.kind,
            output_order=None if found is None else found.output_order,
            offset=0.0 if found is None else found.offset,
            precision=self.precision,
            conditions=self.conditions,
            evidence=self.evidence,
            residual=0.0 if found is None else found.residual,
            limit="" if found is None else found.limit,
            calls=self.box.calls,
            seconds=self.box.seconds,
        )

    def _run(self) -> None:
        self.box.library  # noqa: B018  (finds out what fn takes, or fails)
        if {"random", "state"} & set(self.box.facts):
            return  # no answer can be compared with another
        before = () if self.expect is None else battery.first_calls(self.box, self.expect)
        self.found = found = recover(self.box)
        self.findings += of_map(found, self.expect)
        if found.kind == "nonlinear":
            return
        rotation = found.kind == "rotation" and found.pairs is not None
        if rotation and not found.quarter and not found.unsteady:
            self._explain(found)
        still = self.expect is not None and not self.expect.pairs().inv_freq.any()
        self.evidence = battery.run(
            self.box,
            found.pairs if rotation else None,
            expect=None if still else self.expect,
            output_order=found.output_order,
            offset=found.offset,
            before=before,
            largest=found.largest if found.limit else None,
        )
        softened = getattr(self.box.fn, "softened", ())  # what is no fault of a function that stands inside a model
        self.findings += of_evidence(self.evidence, turns=rotation, softened=softened)
        if rotation and not found.quarter:
            self._grade(found)
            if all(one.severity != "error" for one in self.findings):
                self.findings += of_residual(found)

    def _explain(self, found: Recovered) -> None:
        assert found.pairs is not None
        self.explanation = explain(found.pairs, self.box.head_dim, expect=self.expect, error=found.inv_freq_error)
        self.findings += of_explanation(self.explanation, self.expect, found)
        if found.length_change and (self.expect is None or not self.expect.length_dependent):
            self._two_tables(found, self.explanation, found.length_change)

    def _two_tables(self, found: Recovered, short: Explanation, change: tuple[int, int]) -> None:
        """Say what the function becomes beyond some length, where nothing declared that it should."""
        long = self._at_length(change[1])
        if long is None:
            return
        seen = f"to {change[0]} tokens: {short.recipe}; at {change[1]} tokens: {long.recipe}"
        if self.expect is None:
            self.findings.append(verdict("two-tables", seen=seen, right="not declared"))
            return
        # a cache that forgot its key holds two tables that stay; a rule of length goes on changing
        fits = [one for one in (short, long) if not one.deviations]
        bases = [one for one in (short, long) if one.slug == "wrong-theta"]
        name = "stale-table" if len(fits) == len(bases) == 1 else "length-rule"
        longer = self._at_length(4 * change[1]) if 4 * change[1] <= self.box.max_position else None
        if longer is not None and longer.deviations and long.deviations and longer.recipe != long.recipe:
            name, seen = "length-rule", f"{seen}; at {4 * change[1]}: {longer.recipe}"
        self.findings.append(verdict(name, seen=seen, right="one table at every length"))

    def _at_length(self, length: int) -> Explanation | None:
        found = recover(self.box, beyond=length - 1)
        if found.pairs is None or found.kind != "rotation":
            return None
        error = found.inv_freq_error
        return explain(found.pairs, self.box.head_dim, expect=self.expect, error=error, length=length)

    def _grade(self, found: Recovered) -> None:
        """Grade precision, unless positions do not reach the angles or end in a table's last row."""
        names = {one.name for one in self.evidence if not one.ok}
        if found.manner != "ids" or found.pairs is None or names & HIDE_PRECISION:
            return
        top = self.box.max_position
        if found.length_change:
            top = min(top, found.length_change[0] - 1)
        for one in self.evidence:
            rows = one.detail.get("last_row") or one.detail.get("rows") or one.detail.get("last_moving")
            if one.name == "table-end-clamped" and not one.ok and rows:
                top = min(top, rows)
        if self.expect is not None and self.expect.length_dependent:
            top = min(top, switch_of(self.expect) - 1)
        intended = self._intended()
        given: dict[str, Any] = {"intended": intended, "output_order": found.output_order, "offset": found.offset}
        self.precision = grade(self.box, found.pairs, max_position=top, **given)
        if (self.precision.cause or "").endswith("-frequencies"):  # then this is how they differ
            self.findings = [one for one in self.findings if one.name != "frequencies-differ"]
        self.findings += of_precision(self.precision)
        if self.box.library == "torch":
            self.conditions = conditions(self.box, found.pairs, max_position=min(top, 50_000), **given)
            self.findings += of_conditions(self.conditions, self.precision)

    def _intended(self) -> Any:
        """Give the table that the function means to have: its explanation's, else the declared one."""
        for rope in (None if self.explanation is None else self.explanation.rope, self.expect):
            if rope is not None:
                return rope.pairs()
        return None


def _expected(expect: object) -> Rope | None:
    """Give the one rope that expect stands for, or None."""
    if expect is None or isinstance(expect, Rope):
        return expect
    model = expect if isinstance(expect, Model) else read(expect)
    return model.rope
