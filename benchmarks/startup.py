"""How long starting takes: `import ropewalk` beside `import numpy`, `ropewalk --help` beside an empty Python.

Runs are interleaved, so that a busy moment of the machine hits all alike; medians are compared. Byte code is compiled
once, into a folder of its own, as an installer does it. The last line is one JSON document. Exits 1 where a limit is
broken.

    python benchmarks/startup.py [--runs 20]
"""

import argparse
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PYTHON = [sys.executable, "-c"]
# the console script that an install makes; python -m does the same work
SCRIPT = shutil.which("ropewalk", path=str(Path(sys.executable).parent))
HELP = [SCRIPT] if SCRIPT else [sys.executable, "-m", "ropewalk"]
# what is timed, what it is compared with, and how much more it may take
COMMANDS = {
    "python -c pass": [*PYTHON, "pass"],
    "import numpy": [*PYTHON, "import numpy"],
    "import ropewalk": [*PYTHON, "import ropewalk"],
    "import ropewalk, every name": [*PYTHON, "import ropewalk\nfor name in ropewalk.__all__: getattr(ropewalk, name)"],
    "ropewalk --help": [*HELP, "--help"],
    "ropewalk inspect llama-3.1-8b": [*HELP, "inspect", "llama-3.1-8b"],
}
LIMITS = (
    ("import ropewalk", "import numpy", 100),
    ("ropewalk --help", "python -c pass", 150),
)


def milliseconds(command: list[str], environment: dict[str, str]) -> float:
    """Time one run of a command, its output thrown away."""
    start = time.perf_counter()
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True, env=environment)
    return 1000 * (time.perf_counter() - start)


def main() -> int:
    """Measure, print a table and a line of JSON, and say whether the limits hold."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--runs", type=int, default=20, help="runs of each command (default 20)")
    runs = max(1, parser.parse_args().runs)
    times: dict[str, list[float]] = {name: [] for name in COMMANDS}
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "PYTHONPYCACHEPREFIX": folder}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        for number in range(runs + 1):
            for name, command in COMMANDS.items():
                taken = milliseconds(command, environment)
                if number:  # the first round fills the disk's cache and that of byte code
                    times[name].append(taken)
    medians = {name: statistics.median(taken) for name, taken in times.items()}
    print(f"{'command':<32}{'median ms':>10}{'fastest':>10}{'slowest':>10}")
    for name, taken in times.items():
        print(f"{name:<32}{medians[name]:>10.1f}{min(taken):>10.1f}{max(taken):>10.1f}")
    limits = []
    print()
    for name, base, limit in LIMITS:
        more = medians[name] - medians[base]
        limits.append({"what": name, "over": base, "more_ms": round(more, 1), "limit_ms": limit, "ok": more <= limit})
        print(f"{name}: {more:+.1f} ms over {base}, limit {limit}: {'ok' if more <= limit else 'TOO SLOW'}")
    document = {
        "schema": "ropewalk.bench.startup/1",
        "runs": runs,
        "python": platform.python_version(),
        "cpus": os.cpu_count(),
        "load": round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None,
        "help_by": "script" if SCRIPT else "python -m",
        "median_ms": {name: round(value, 1) for name, value in medians.items()},
        "limits": limits,
    }
    print(json.dumps(document))
    return int(not all(limit["ok"] for limit in limits))


if __name__ == "__main__":
    sys.exit(main())
