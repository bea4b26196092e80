"""`ropewalk bench`: its table, its document, its refusals. No duration is asserted."""

import json
import re
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

torch = pytest.importorskip("torch")

import ropewalk  # noqa: E402
from ropewalk.bench import bars, contenders  # noqa: E402
from ropewalk.bench.bars import Verdict  # noqa: E402
from ropewalk.bench.plan import CASES, DTYPES, PAIRINGS, PEERS  # noqa: E402
from ropewalk.cli import main  # noqa: E402
from ropewalk.cli.bench import command  # noqa: E402

TINY = ("--shape", "2,9,6,2,10", "--rounds", "2")
GUIDE = Path(__file__).parents[2] / "docs" / "bench.md"


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr("ropewalk.bench.timing.MOST_CALLS", 3)
    monkeypatch.setattr("gc.collect", lambda *generation: 0)
    monkeypatch.setattr(bars, "WITHOUT_CLOCK", (("bytes kept", 1.0, lambda: 0.5),))


def run(*arguments):
    return CliRunner().invoke(main, ["bench", *arguments], env={"COLUMNS": "120"})


def last_line(done):
    return json.loads(done.stdout.splitlines()[-1])


def test_a_table_for_each_measurement_then_one_line_of_json():
    done = run(*TINY, "--case", "out-of-place,decode", "--dtype", "float32", "--vs", "none")
    assert (done.exit_code, done.stderr) == (0, "")
    assert "out-of-place, float32, half: results in new memory" in done.stdout
    assert "q [2, 9, 6, 10], k [2, 9, 2, 10]; 2 rounds" in done.stdout
    assert "decode, float32, half: one token" in done.stdout
    assert re.search(r"^ropewalk +[\d.]+ (µs|ms) +[\d.]+ +[\d.]+–[\d.]+ ", done.stdout, re.MULTILINE)
    for name in ("torch.clone", "copy_"):
        assert len(re.findall(rf"^{re.escape(name)} .* 1\.00 ", done.stdout, re.MULTILINE)) == 2
    assert "\n  kernel" not in done.stdout and "\nkernel " in done.stdout
    document = last_line(done)
    assert (document["schema"], document["ok"]) == ("ropewalk.bench/1", True)
    assert [one["case"] for one in document["measurements"]] == ["out-of-place", "decode"]


def test_json_is_one_document_and_nothing_else():
    done = run(*TINY, "--case", "in-place", "--dtype", "bfloat16", "--vs", "none", "--json")
    assert (done.exit_code, done.stderr) == (0, "")
    document = json.loads(done.stdout)
    assert list(document) == ["schema", "ok", "machine", "shape", "rounds", "measurements", "bars"]
    assert document["shape"] == {"batch": 2, "seq": 9, "heads": 6, "kv_heads": 2, "head_dim": 10}
    assert document["rounds"] == 2
    assert document["machine"]["versions"]["ropewalk"] == ropewalk.__version__
    (measured,) = document["measurements"]
    assert list(measured) == ["case", "dtype", "pairing", "q", "k", "rounds", "calls", "rows", "skipped"]
    assert (measured["case"], measured["dtype"], measured["pairing"]) == ("in-place", "bfloat16", "half")
    (ours,) = (row for row in measured["rows"] if row["name"] == "ropewalk")
    assert list(ours) == ["name", "parity", "seconds", "to_clone", "to_copy", "to_ours"]
    assert ours["parity"]["ok"] is True and ours["seconds"]["low"] <= ours["seconds"]["median"]
    assert len(document["bars"]) == len(bars.BARS) + 1
    assert list(document["bars"][0]) == ["words", "sense", "limit", "value", "ok", "why", "aim"]


def test_a_wrong_contender_is_red_without_a_number_and_ends_with_1(monkeypatch):
    honest = contenders._BUILDERS["complex"]

    def sabotaged(inputs, case):
        turn, precision = honest(inputs, case)
        return (lambda q, k: turn(q, -k)), precision

    monkeypatch.setitem(contenders._BUILDERS, "complex", sabotaged)
    wish = (*TINY, "--case", "out-of-place", "--dtype", "float32", "--pairing", "interleaved", "--vs", "complex")
    done = run(*wish)
    assert done.exit_code == 1
    (row,) = re.findall(r"^complex  .*$", done.stdout, re.MULTILINE)
    assert row.split()[1:5] == ["-"] * 4
    assert "complex: parity is red, so no number: off by" in done.stdout
    document = last_line(done)
    assert document["ok"] is False
    red = document["measurements"][0]["rows"][-1]
    assert red["parity"]["ok"] is False
    assert red["seconds"] is red["to_clone"] is red["to_copy"] is red["to_ours"] is None
    assert run(*wish, "--json").exit_code == 1


def test_a_peer_that_takes_no_part_is_named_with_the_reason():
    done = run(*TINY, "--case", "in-place", "--dtype", "float32", "--vs", "transformers", "--pairing", "half")
    assert done.exit_code == 0
    assert "transformers: skipped: " in done.stdout
    assert list(last_line(done)["measurements"][0]["skipped"]) == ["transformers"]


def test_names_may_be_given_with_commas_or_one_at_a_time():
    rest = ("--vs", "none", "--case", "decode", "--json")
    together = run(*TINY, *rest, "--dtype", "float64,float16", "--pairing", "half, interleaved")
    apart = run(
        *TINY, *rest, "--dtype", "float64", "--dtype", "float16", "--pairing", "half", "--pairing", "interleaved"
    )
    kinds = [
        [(one["dtype"], one["pairing"]) for one in json.loads(done.stdout)["measurements"]]
        for done in (together, apart)
    ]
    assert kinds[0] == kinds[1] == [(dtype, pairing) for dtype in ("float64", "float16") for pairing in PAIRINGS]


@pytest.fixture
def planned(monkeypatch):
    """What a call would measure, measuring nothing."""
    plans = []

    def measure(plan):
        plans.append(plan)
        return iter(())

    monkeypatch.setattr("ropewalk.bench.measuring.measure", measure)
    return plans


def test_without_arguments_every_case_is_measured_beside_transformers(planned):
    done = run()
    assert done.exit_code == 0
    (plan,) = planned
    assert plan.cases == tuple(CASES)
    assert (plan.dtypes, plan.pairings, plan.peers) == (("float32", "bfloat16"), ("half",), ("transformers",))
    assert "why not judged" not in done.stdout  # the bars are shown when asked for


def test_all_is_the_whole_table_of_bars(planned):
    done = run("--case", "all")
    (plan,) = planned
    needed = [(bar.case, bar.dtype, bar.pairing) for bar in bars.BARS]
    assert all(
        case in plan.cases and dtype in plan.dtypes and pairing in plan.pairings for case, dtype, pairing in needed
    )
    assert {bar.row for bar in bars.BARS} - {"ropewalk"} == set(plan.peers)
    assert all(bar.words in done.stdout for bar in bars.BARS)
    run("--case", "all", "--vs", "complex", "--dtype", "float16", "--pairing", "half")
    narrowed = planned[1]
    assert (narrowed.cases, narrowed.dtypes) == (tuple(CASES), ("float16",))
    assert (narrowed.pairings, narrowed.peers) == (("half",), ("complex",))


@pytest.mark.parametrize(
    ("verdicts", "strict"), [((True, True), 0), ((True, None), 0), ((True, False), 1), ((None, None), 1)]
)
def test_speed_decides_the_exit_code_only_when_strict(planned, monkeypatch, verdicts, strict):
    made = [
        Verdict(
            words=f"bar {number}", sense="at most", limit=1.0, value=0.9, ok=ok, why="" if ok is not None else "why"
        )
        for number, ok in enumerate((*verdicts, True))
    ]
    monkeypatch.setattr(bars, "judge", lambda measured: made)
    assert run("--floors").exit_code == 0
    done = run("--strict")
    assert done.exit_code == strict
    lines = [line.split() for line in done.stdout.splitlines() if " bar " in line and "limit" not in line]
    marks = {True: "ok", False: "MISSED", None: "-"}
    assert [line[0] for line in lines] == [marks[ok] for ok in (*verdicts, True)]


def test_an_aim_that_is_not_reached_is_no_missed_bar(planned, monkeypatch):
    made = [
        Verdict(words="bar", sense="at most", limit=1.0, value=0.5, ok=True),
        Verdict(words="wish", sense="at most", limit=1.0, value=2.0, ok=False, aim=True),
        Verdict(words="bytes", sense="at most", limit=1.0, value=0.5, ok=True),
    ]
    monkeypatch.setattr(bars, "judge", lambda measured: made)
    done = run("--strict")
    assert done.exit_code == 0
    assert re.search(r"^not yet +wish +aim: at most 1 +2$", done.stdout, re.MULTILINE)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--shape", "1,2,3"], "B,S,H,KV,D"),
        (["--shape", "1,2,3,4,5"], "even"),
        (["--shape", "a,b,c,d,e"], "'a,b,c,d,e'"),
        (["--dtype", "int8"], "'bfloat16'"),
        (["--vs", "numpy"], "'rotary-embedding-torch'"),
        (["--vs", "none,complex"], "'none'"),
        (["--case", "decoding"], "'decode-ragged'"),
        (["--pairing", "quarters"], "'interleaved'"),
        (["--dtype", "float32,float32"], "once"),
        (["--rounds", "0"], "rounds"),
        (["--rounds", "many"], "rounds"),
        (["--nope"], "--help"),
    ],
)
def test_bad_input_is_one_line_and_2(arguments, told):
    done = run(*arguments)
    assert (done.exit_code, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith("ropewalk: ")
    assert told in line


def test_bad_input_is_refused_before_torch_is_loaded():
    code = (
        "import sys; from ropewalk.cli import main\n"
        "try: main(['bench', '--dtype', 'int8'])\n"
        "except SystemExit as end: assert end.code == 2\n"
        "assert not {'torch', 'transformers'} & set(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_without_torch_one_line_names_the_extra():
    code = "import sys; sys.modules['torch'] = None; from ropewalk.cli import main; main(['bench'])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith("ropewalk: bench needs torch")
    assert "pip install 'ropewalk[torch]'" in line


def test_too_little_memory_is_one_line_and_2(monkeypatch):
    monkeypatch.setattr(contenders, "physical_memory", lambda: 1_000_000)
    done = run("--shape", "1,1024,8,2,16", "--case", "out-of-place", "--vs", "none", "--json")
    assert (done.exit_code, done.stdout) == (2, "")
    assert len(done.stderr.splitlines()) == 1


def test_the_last_line_is_plain_ascii():
    # a terminal without ÷ would otherwise get a document with escapes that JSON does not know
    assert run(*TINY, "--case", "decode", "--vs", "none").stdout.splitlines()[-1].isascii()


def test_a_process_prints_what_the_runner_does():
    arguments = [*TINY, "--case", "decode", "--dtype", "float32", "--vs", "none"]
    python = [sys.executable, "-W", "error", "-m", "ropewalk", "bench"]
    done = subprocess.run([*python, *arguments], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout.splitlines()[-1])["schema"] == "ropewalk.bench/1"


def test_help_and_guide_name_every_case_type_peer_and_option():
    text = " ".join(run("--help").stdout.split()).replace("- ", "-")
    guide = GUIDE.read_text(encoding="utf-8")
    for name in (*CASES, *DTYPES, *PAIRINGS, *PEERS):
        assert name in text
        assert f"`{name}`" in guide
    for option in command.params:
        assert isinstance(option, click.Option)
        assert all(f"`{spelling}`" in guide or f"`{spelling} " in guide for spelling in option.opts)


def test_the_guide_explains_every_key_of_the_document():
    guide = GUIDE.read_text(encoding="utf-8")
    document = last_line(run(*TINY, "--case", "decode", "--dtype", "float32", "--vs", "none"))
    measured = document["measurements"][0]
    ours = measured["rows"][-1]
    keys = {*document, *measured, *ours, *ours["parity"], *ours["seconds"], *document["bars"][0], *document["machine"]}
    assert {key for key in keys if f"`{key}`" not in guide} == set()
