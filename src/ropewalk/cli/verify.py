"""`ropewalk verify`: the number gate."""

import click

FAULTS = ("direction", "theta", "pairing", "still")


@click.command("verify", epilog="Examples: ropewalk verify | ropewalk verify --sabotage theta; echo $?")
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
@click.option(
    "--sabotage",
    type=click.Choice(FAULTS),
    help="Break the implementation in one way, to see that the gate can fail (it then exits 1).",
)
def command(as_json: bool, sabotage: str | None) -> None:
    """Check ropewalk's own numbers: four golden cases, and 245 scores by two independent roads.

    Exits 1 when any deviation is above its tolerance.
    """
    from ..gate import sabotages, verify
    from ._output import console, print_json

    gate = verify(sabotages()[sabotage] if sabotage else None)
    if as_json:
        print_json(gate.to_dict())
    else:
        out = console()
        for case in gate.cases:
            mark = "[green]ok  [/green]" if case.ok else "[bold red]FAIL[/bold red]"
            out.print(f"{mark} {case.name}: {case.checks} checks, largest deviation {case.deviation:.1e}")
        verdict = "The numbers hold" if gate.ok else "The numbers do not hold"
        out.print(f"{verdict}. Largest deviation {gate.deviation:.1e}, tolerance {gate.cases[0].tolerance:.0e}.")
    raise SystemExit(0 if gate.ok else 1)
