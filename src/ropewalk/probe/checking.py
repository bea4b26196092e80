"""check(): what is wrong with somebody's RoPE, told from outside."""

from typing import Any

from ..errors import RopewalkError
from ..findings import Finding
from ..models.model import Model
from ..models.targets import read
from ..rope import Rope
from . import battery
from ._evidence import Evidence
from .box import Box, BoxFailure
from .explaining import Explanation, explain
from .recovery import Recovered, recover
from .report import Report
from .verdicts import of_evidence, of_explanation, of_facts, of_failure, of_map, settled


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
            axes, [A, B, S].
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
    return _Check(box, rope).report()


class _Check:
    """One run: what was found so far, and the report made of it."""

    def __init__(self, box: Box, expect: Rope | None) -> None:
        self.box, self.expect = box, expect
        self.findings: list[Finding] = []
        self.found: Recovered | None = None
        self.explanation: Explanation | None = None
        self.evidence: tuple[Evidence, ...] = ()
        self.precision: Any = None
        self.conditions: dict[str, Any] = {}

    def report(self) -> Report:
        try:
            self._run()
        except BoxFailure as failure:
            self.findings.append(of_failure(failure.failure))
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
            calls=self.box.calls,
            seconds=self.box.seconds,
        )

    def _run(self) -> None:
        before = () if self.expect is None else battery.first_calls(self.box, self.expect)
        self.found = found = recover(self.box)
        self.findings += of_map(found, self.expect)
        pairs = found.pairs
        if found.kind == "nonlinear" or "random" in self.box.facts:
            return
        if pairs is not None and found.kind == "rotation" and not found.quarter:
            self.explanation = explain(
                pairs,
                self.box.head_dim,
                expect=self.expect,
                error=found.inv_freq_error,
            )
            self.findings += of_explanation(self.explanation, self.expect, found)
        self.evidence = battery.run(
            self.box,
            pairs if found.kind == "rotation" else None,
            expect=self.expect,
            output_order=found.output_order,
            offset=found.offset,
            before=before,
        )
        self.findings += of_evidence(self.evidence, has_table=pairs is not None)


def _expected(expect: object) -> Rope | None:
    """Give the one rope that expect stands for, or None."""
    if expect is None or isinstance(expect, Rope):
        return expect
    model = expect if isinstance(expect, Model) else read(expect)
    return model.rope
