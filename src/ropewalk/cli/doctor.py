"""`ropewalk doctor`: versions, what is installed, which paths are active and why not."""

import platform
import sys
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import click

from .._version import __version__

SCHEMA = "ropewalk.doctor/1"
REQUIRED = ("numpy", "click", "rich")
OPTIONAL = ("torch", "transformers")


@click.command("doctor", epilog="Examples: ropewalk doctor | ropewalk doctor --json")
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
def command(as_json: bool) -> None:
    """Say which versions are installed, and which ways of turning vectors are active."""
    from ._output import console, print_json

    report = diagnose()
    if as_json:
        print_json(report)
        return
    out = console()
    out.print(f"ropewalk {report['ropewalk']}, Python {report['python']}, {report['platform']}")
    for name, found in report["packages"].items():
        out.print(f"  {name}: {found or 'not installed'}")
    for path in report["paths"]:
        out.print(f"  path {path['name']}: {'active' if path['active'] else 'not active'} ({path['why']})")


def diagnose() -> dict[str, Any]:
    """Give the report as plain values; packages are looked up, never imported."""
    return {
        "schema": SCHEMA,
        "ropewalk": __version__,
        "python": platform.python_version(),
        "platform": f"{sys.platform} {platform.machine()}",
        "packages": {name: _installed(name) for name in (*REQUIRED, *OPTIONAL)},
        "paths": [
            {"name": "numpy float64", "active": True, "why": "the truth, always there"},
            {"name": "C++ kernel", "active": False, "why": "this version has none; everything runs in NumPy"},
        ],
    }


def _installed(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
