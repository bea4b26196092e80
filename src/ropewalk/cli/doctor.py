"""`ropewalk doctor`: versions, what is installed, which paths are active and why not."""

from pathlib import Path
from typing import Any

import click

from .._version import __version__

SCHEMA = "ropewalk.doctor/1"
REQUIRED = ("numpy", "click", "rich")
OPTIONAL = ("torch", "triton", "jax", "onnx", "onnxruntime", "transformers", "huggingface-hub", "gguf")


@click.command(
    "doctor",
    short_help="Say what is installed and which ways of turning are active.",
    epilog="""\b
    Examples:
      ropewalk doctor
      ropewalk doctor --json""",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
def command(as_json: bool) -> None:
    """Say which versions are installed, and which ways of turning vectors are active, and why not."""
    from ._output import console, print_fields, print_json

    report = diagnose()
    if as_json:
        print_json(report)
        return
    out = console()
    out.print(f"[bold]ropewalk {report['ropewalk']}[/bold]")
    print_fields(out, [(name, report[name]) for name in ("python", "platform", "location")], indent=2)
    out.print("\n[bold]Packages[/bold]")
    print_fields(out, [(name, found or "not installed") for name, found in report["packages"].items()], indent=2)
    out.print("\n[bold]Ways of turning[/bold]")
    rows = [(path["name"], f"{'' if path['active'] else 'not '}active: {path['why']}") for path in report["paths"]]
    print_fields(out, rows, indent=2)


def diagnose() -> dict[str, Any]:
    """Give the report as plain values; optional packages are looked up, never imported."""
    import platform
    import sys

    packages = {name: _installed(name) for name in (*REQUIRED, *OPTIONAL)}
    return {
        "schema": SCHEMA,
        "ropewalk": __version__,
        "python": platform.python_version(),
        "platform": f"{sys.platform} {platform.machine()}",
        "location": str(Path(__file__).resolve().parents[1]),
        "packages": packages,
        "paths": _paths(packages),
    }


def _paths(packages: dict[str, str | None]) -> list[dict[str, Any]]:
    """Give each way of turning, whether it is active here, and why."""
    from ..turning import kernel

    torch, triton, jax = packages["torch"], packages["triton"], packages["jax"]
    on_cuda = "for tensors on a CUDA device" if triton else "triton is not installed; torch operations do the work"
    return [
        {"name": "numpy float64", "active": True, "why": "the truth, always there"},
        {"name": "C++ kernel", "active": kernel.module is not None, "why": kernel.why},
        {
            "name": "torch operations",
            "active": bool(torch),
            "why": "wherever the kernel does not reach" if torch else "torch is not installed",
        },
        {
            "name": "Triton",
            "active": bool(torch and triton),
            "why": on_cuda if torch else "torch is not installed",
        },
        {"name": "JAX", "active": bool(jax), "why": "for JAX arrays" if jax else "jax is not installed"},
    ]


def _installed(name: str) -> str | None:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(name)
    except PackageNotFoundError:
        return None
