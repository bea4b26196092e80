"""`ropewalk inspect`, run in this process, and the shape of its answers."""

import re

from click.testing import CliRunner

from ropewalk.cli import main

FINE, ERROR, COULD_NOT_RUN = 0, 1, 2
LLAMA = {
    "model_type": "llama",
    "head_dim": 128,
    "num_hidden_layers": 2,
    "max_position_embeddings": 8192,
    "rope_parameters": {"rope_type": "default", "rope_theta": 10000},
}


def run(*arguments, columns=120):
    return CliRunner().invoke(main, ["inspect", *map(str, arguments)], env={"COLUMNS": str(columns)})


def seen(*arguments, columns=120, code=FINE):
    """The output of a run that ends as it should: nothing on stderr, no traceback."""
    done = run(*arguments, columns=columns)
    assert (done.exit_code, done.stderr) == (code, "")
    return done.stdout


def refused(*arguments):
    """The one line on stderr of a run that could not be done."""
    done = run(*arguments)
    assert (done.exit_code, done.stdout) == (COULD_NOT_RUN, "")
    assert done.stderr.endswith("\n")
    (line,) = done.stderr.splitlines()
    assert line.startswith("ropewalk: ")
    return line


def table(output):
    """The rows of the first pair table, split at two spaces or more, without its header."""
    lines = output.splitlines()
    start = next(number for number, line in enumerate(lines) if line.lstrip().startswith("pair "))
    rows = []
    for line in lines[start + 1 :]:
        if not re.match(r" *(\d+|…) ", line):
            break
        rows.append(re.split(r" {2,}", line.strip()))
    return rows
