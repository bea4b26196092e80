"""`ropewalk verify`: the number gate."""

import click

FAULTS = ("direction", "theta", "pairing", "still")


@click.command(
    "verify",
    short_help="Check ropewalk's own numbers: golden cases and 245 scores.",
    epilog="""\b
    Examples:
      ropewalk verify
      ropewalk verify --sabotage theta""",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
@click.option(
    "--sabotage",
    metavar="FAULT",
    type=click.Choice(FAULTS),
    help=f"Break the implementation in one way ({', '.join(FAULTS)}), to see that the gate can fail: it then exits 1.",
)
def command(as_json: bool, sabotage: str | None) -> None:
    """Check ropewalk's own numbers: four golden cases, and 245 scores by two independent roads.

    Exits 1 when any deviation is above its tolerance.
    """
    from ..gate import sabotages, verify
    from ._output import console, print_json, print_table, print_words

    gate = verify(sabotages()[sabotage] if sabotage else None)
    if as_json:
        print_json(gate.to_dict())
    else:
        from rich.text import Text

        out = console()
        rows = [
            (
                Text("ok", "green") if case.ok else Text("FAIL", "bold red"),
                case.name,
                str(case.checks),
                f"{case.deviation:.1e}",
            )
            for case in gate.cases
        ]
        print_table(out, ("", "case", "checks", "largest deviation"), rows, left=("", "case"))
        verdict = "The numbers hold" if gate.ok else "The numbers do not hold"
        limit = gate.cases[0].tolerance
        print_words(out, f"{verdict}: largest deviation {gate.deviation:.1e}, tolerance {limit:.0e}.")
    raise SystemExit(0 if gate.ok else 1)
