"""`ropewalk inspect DIR --recursive`: one line a configuration, a bar on stderr, a summary at the end."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..errors import RopewalkError

if TYPE_CHECKING:
    from ..models.tree import Line, Summary


def inspect_tree(target: str, *, json_lines: bool, strict: bool) -> int:
    """Inspect every configuration under a directory and give the exit code."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    from ..models.tree import Summary, files_in, survey

    root = Path(target)
    if not root.is_dir():
        raise RopewalkError(
            f"{target} is no directory, which --recursive needs. Leave --recursive out for a single file."
        )
    files = files_in(root)
    summary = Summary()
    bad = 0
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    shown = Console(stderr=True)
    # stdout keeps its own way: lines there must not end up in the bar's console
    with Progress(
        *columns,
        console=shown,
        transient=True,
        disable=not shown.is_terminal,
        redirect_stdout=False,
        redirect_stderr=False,
    ) as progress:
        task = progress.add_task("inspecting", total=len(files))
        for line in survey(files):
            if line is None:
                summary.skipped += 1
            else:
                summary.add(line)
                bad += bool(line.count("error") or (strict and line.count("warning")))
                click.echo(json.dumps(line.to_dict(), allow_nan=False) if json_lines else _words(line, root))
            progress.advance(task)
    if not summary.files:
        raise RopewalkError(
            f"{target} holds no configuration that describes a model, and no GGUF. Give a directory with config.json "
            "files under it."
        )
    if json_lines:
        click.echo(json.dumps(summary.to_dict()))
    else:
        _print_summary(summary)
    sys.stdout.flush()
    return int(bad > 0)


def _words(line: "Line", root: Path) -> str:
    """Write a configuration in one line."""
    from ..inspection import number_words
    from ._output import clean

    try:
        name = str(line.path.relative_to(root))
    except ValueError:
        name = str(line.path)
    if line.error is not None or line.model is None:
        return clean(f"{name}: not readable: {' '.join((line.error or '').split())}")
    ropes = [f"θ={number_words(one.rope_theta)} {one.scaling.rope_type} {one.pairing}" for one in line.ropes[:4]]
    ropes += ["…"] if len(line.ropes) > 4 else []
    said = "; ".join(ropes) or ", ".join(dict.fromkeys(line.model.positions.values())) or "no RoPE"
    counts = [_counted(line.count(name), name) for name in ("error", "warning") if line.count(name)]
    codes = sorted({one.code for one in line.findings if one.severity != "note"})
    told = f" [{', '.join(counts)}: {' '.join(codes)}]" if counts else ""
    return clean(f"{name}: {line.model.model_type or 'no model_type'}, {said}{told}")


def _counted(count: int, name: str) -> str:
    return f"{count} {name}{'s' * (count != 1)}"


def _print_summary(summary: "Summary") -> None:
    click.echo()
    skipped = f", {_counted(summary.skipped, 'other JSON file')} skipped" if summary.skipped else ""
    click.echo(f"{_counted(summary.files, 'configuration')}, {summary.unreadable} not readable{skipped}")
    severities = [_counted(summary.severities[name], name) for name in ("error", "warning", "note")]
    click.echo(f"findings: {', '.join(severities)}")
    for name, count in summary.rope_types.most_common():
        click.echo(f"  {name:<14}{count}")
