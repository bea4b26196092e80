"""`ropewalk inspect`, as a user meets it."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

import ropewalk
from ropewalk import Model, read
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


@pytest.fixture
def config(tmp_path):
    def write(**changes):
        path = tmp_path / "config.json"
        path.write_text(json.dumps({**LLAMA, **changes}), encoding="utf-8")
        return path

    return write


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


# --- what is shown --------------------------------------------------------------------------------------------------


def test_description_names_every_convention():
    output = seen("llama-3.1-8b")
    for words in (
        "preset llama-3.1-8b (llama)",
        "text  layers 0-31: attention, θ=500000, llama3",
        "RoPE of text: layers 0-31",
        "head_dim 128, rotary_dim 128",
        "rope_theta  500000",
        "pairing     half",
        "context     131072",
        "llama3, factor=8, low_freq_factor=1, high_freq_factor=4, original_max_position_embeddings=8192",
        "cos and sin × 1, softmax scale × 1",
        "Where each value came from",
        "No findings.",
    ):
        assert words in output


def test_description_names_what_is_unusual():
    output = seen("chatglm-6b")
    assert "ladders, widths=[64,64], pairing_within=axis, arrangement=blocks, names=[position,block_position]" in output
    assert "rotary_dim 64, from channel 448" in seen("deepseek-v4-flash")
    assert "softmax scale × 1.87385421" in seen("deepseek-v3")
    words = "attention, no RoPE, query temperature by position (attn_scale=0.1, floor_scale=8192)"
    assert words in seen("llama-4-scout", columns=200)


def test_a_reversed_direction_and_a_map_that_is_no_rotation_are_named(config):
    assert "direction   -1" in seen(config(model_type="nanochat", head_dim=32))
    path = config(model_type="vjepa2", hidden_size=1024, num_attention_heads=16, head_dim=None)
    assert "not a rotation  the two channels of a pair turn by different angles" in seen(path)


def test_pair_table_has_its_columns():
    output = seen("llama-3.1-8b")
    assert re.search(
        r"^pair +dims +axis +θ_i \(rad/token\) +wavelength +turns in window +divisor$", output, re.MULTILINE
    )
    rows = table(output)
    assert rows[0] == ["0", "0, 64", "position", "1", "6.28", "20860.7567", "1"]
    assert rows[1] == ["1", "1, 65", "position", "0.81461723", "7.71", "16993.5319", "1"]


def test_twelve_rows_then_how_many_are_left_out_then_the_slowest_pair(config):
    output = seen(config())
    rows = table(output)
    assert [row[0] for row in rows] == [*map(str, range(12)), "…", "63"]
    assert rows[12] == ["…", "52 more"]
    assert rows[13] == ["63", "63, 127", "position", "0.0001154782", "54410.14", "0.1506", "1"]
    assert "Slowest pair 63: one turn in 54410.14 positions, 6.64 windows of 8192." in output
    assert "14 of 64 pairs are slower than the window." in output


def test_all_pairs_shows_every_row(config):
    assert [row[0] for row in table(seen(config(), "--all-pairs"))] == [str(i) for i in range(64)]


@pytest.mark.parametrize("pairs", [1, 12, 13])
def test_a_short_table_is_not_cut(config, pairs):
    assert [row[0] for row in table(seen(config(head_dim=2 * pairs)))] == [str(i) for i in range(pairs)]


def test_slowest_pair_is_shown_where_later_pairs_are_faster_or_still(config):
    rows = table(seen("chatglm-6b"))
    assert (rows[-1][0], rows[-1][4]) == ("31", "47117.24")
    block = {"rope_type": "proportional", "partial_rotary_factor": 0.5, "rope_theta": 10000}
    output = seen(config(rope_parameters=block), columns=200)
    assert table(output)[-1][0] == "31"
    assert "0 of 64 pairs are slower than the window, 32 keep still." in output


def test_window_changes_turns_and_the_count_and_nothing_else(config):
    path = config()
    own, wide = table(seen(path)), table(seen(path, "--window", 65536))
    assert [row[:5] for row in own] == [row[:5] for row in wide]
    assert float(wide[-1][5]) == pytest.approx(65536 / 54410.14, abs=1e-4)
    assert "0 of 64 pairs are slower than the window." in seen(path, "--window", 65536)
    assert "1 of 64 pairs is slower than the window." in seen(path, "--window", 50000)


def test_without_a_known_window_the_output_asks_for_one(config):
    path = config(model_type="some_new_model", max_position_embeddings=None)
    output = seen(path)
    assert "context     not stated" in output
    assert "No window is known: give --window." in output
    assert {row[5] for row in table(output) if len(row) == 7} == {"-"}


def test_length_resolves_a_rope_that_depends_on_it(config):
    path = config(rope_parameters={"rope_type": "dynamic", "factor": 2.0, "rope_theta": 10000})
    trained, longer = seen(path), seen(path, "--length", 32768)
    assert "(resolved for the trained length or less)" in trained
    assert "(resolved for 32768 tokens)" in longer
    assert (table(trained)[-1][-1], table(longer)[-1][-1]) == ("1", "7")


def test_part_shows_that_part_only():
    output = seen("llama-4-scout", "--part", "vision")
    assert "RoPE of vision: layers 0-33" in output
    assert not re.search(r"\btext\b", output)
    assert "  vision\n    layers " in output


def test_layer_shows_the_rope_of_that_layer():
    assert "RoPE of text: layer 5\n" in seen("gemma-3-4b", "--layer", 5)
    assert "rope_theta  1000000" in seen("gemma-3-4b", "--layer", 5)
    assert "rope_theta  10000\n" in seen("gemma-3-4b", "--layer", 4)


def test_a_layer_without_rope_says_so():
    output = seen("smollm3-3b", "--layer", 3)
    assert "No RoPE in layer 3." in output
    assert "RoPE of" not in output


def test_a_model_without_rope_says_what_positions_it_uses(tmp_path):
    path = tmp_path / "config.json"
    path.write_text(json.dumps({"model_type": "gpt2", "n_layer": 12, "n_head": 12, "n_embd": 768}))
    output = seen(path)
    assert "12 layers without RoPE; positions: learned absolute" in output
    assert "No RoPE here." in output


def test_sources_are_grouped_by_part_and_kind_of_layer():
    output = seen("gemma-3-4b")
    for heading in ("\n  text\n", "\n  text.sliding_attention\n", "\n  text.full_attention\n", "\n  vision\n"):
        assert heading in output
    assert re.search(r"^    pairing +default of Gemma3TextConfig$", output, re.MULTILINE)
    assert re.search(r"^    rope_theta +text_config.rope_parameters.full_attention.rope_theta$", output, re.MULTILINE)


def test_findings_come_errors_first_with_key_and_right_value(config):
    block = {"type": "yarn", "factor": 4.0, "rope_theta": 10000, "beta_fast": 1, "beta_slow": 32}
    output = seen(config(rope_parameters=block), code=ERROR)
    heads = re.findall(r"^  (error|warning|note) (RW\d+) ", output, re.MULTILINE)
    assert [severity for severity, _ in heads] == sorted((s for s, _ in heads), key=["error", "warning", "note"].index)
    assert heads[0] == ("error", "RW109")
    assert "error RW109 betas-swapped, text: rope_parameters.beta_fast" in output
    assert re.search(r"^    seen: .*; right: .*", output, re.MULTILINE)


# --- one screen ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", ["llama-3.1-8b", "gemma-3-4b", "deepseek-v3", "phi-3-mini-128k", "qwen2-vl-7b"])
def test_80_columns_hold_every_line_but_a_name_that_is_longer(target):
    for line in seen(target, columns=80).splitlines():
        assert len(line) <= 80 or len(line.split()) == 1, line


@pytest.mark.parametrize("columns", [20, 50, 80, 200])
def test_nothing_is_cut_whatever_the_width(columns):
    def words(output):
        return sorted(output.split())

    for target in ("chatglm-6b", "deepseek-v4-flash"):
        assert words(seen(target, "--all-pairs", columns=columns)) == words(seen(target, "--all-pairs", columns=1000))


def test_lines_carry_no_trailing_blanks():
    assert [line for line in seen("llama-3.1-8b").splitlines() if line != line.rstrip()] == []


# --- JSON ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", ["llama-3.1-8b", "gemma-3-4b", "qwen2-vl-7b", "phi-3-mini-128k"])
def test_json_is_one_document_that_gives_the_model_back(target):
    document = json.loads(seen(target, "--json"))
    assert document["schema"] == "ropewalk.inspect/1"
    assert Model.from_dict(document["model"]) == read(target)


def test_json_holds_every_pair_and_what_the_table_says():
    (rope,) = json.loads(seen("llama-3.1-8b", "--json", "--window", 8192))["ropes"]
    assert [row["pair"] for row in rope["pairs"]] == list(range(64))
    assert rope["slowest"] == rope["pairs"][63]
    assert rope["window"] == 8192
    assert rope["slower_than_window"] == sum(row["wavelength"] > 8192 for row in rope["pairs"])
    assert (rope["cos_sin_factor"], rope["softmax_factor"]) == (1, 1)


def test_json_of_a_part_and_of_a_layer_holds_their_ropes_only():
    (vision,) = json.loads(seen("llama-4-scout", "--json", "--part", "vision"))["ropes"]
    assert vision["places"] == ["vision: layers 0-33"]
    assert json.loads(seen("smollm3-3b", "--json", "--layer", 3))["ropes"] == []


def test_json_is_printed_with_an_error_finding_too(config):
    document = json.loads(seen(config(rope_parameters={"rope_type": "spiral"}), "--json", code=ERROR))
    assert "RW101" in {finding["code"] for finding in document["findings"]}


# --- exit codes ------------------------------------------------------------------------------------------------------


def test_exit_code_is_0_with_warnings_1_with_errors_and_strict_minds_warnings(config):
    warned = config(rope_parameters={"rope_type": "dynamic", "factor": 2.0, "rope_theta": 10000})
    assert "warning RW" in seen(warned, code=FINE)
    seen(warned, "--strict", code=ERROR)
    seen(warned, "--strict", "--json", code=ERROR)
    noted = config(rope_parameters=None, rope_theta=10000, rope_scaling=None)
    assert "note RW" in seen(noted, "--strict", code=FINE)
    broken = config(rope_parameters={"rope_type": "spiral", "rope_theta": 10000})
    assert "error RW101" in seen(broken, code=ERROR)
    assert "No RoPE could be read: the errors below say why." in seen(broken, code=ERROR)


# --- bad input: one line on stderr that says what to do ---------------------------------------------------------------


def test_a_missing_file(tmp_path):
    assert "there is no file" in refused(tmp_path / "gone.json")


def test_a_file_that_is_not_json(tmp_path):
    path = tmp_path / "config.json"
    path.write_text("model_type: llama\n")
    assert f"{path} is not JSON" in refused(path)


def test_an_empty_file(tmp_path):
    path = tmp_path / "config.json"
    path.write_text("")
    assert "is empty" in refused(path)


@pytest.mark.parametrize("text", ["[1, 2]", "3", "null", '"llama"', "true"])
def test_json_that_is_no_object(tmp_path, text):
    path = tmp_path / "config.json"
    path.write_text(text)
    assert "must hold a JSON object" in refused(path)


@pytest.mark.parametrize("text", ["{}", '{"a": 1}'])
def test_an_object_that_describes_no_model(tmp_path, text):
    path = tmp_path / "config.json"
    path.write_text(text)
    assert "describes no model" in refused(path)


def test_a_binary_file(tmp_path):
    path = tmp_path / "config.json"
    path.write_bytes(bytes(range(1, 256)) * 8)
    assert "is not text" in refused(path)
    path.write_bytes(bytes(range(256)) * 8)
    assert "NUL bytes" in refused(path)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("m.gguf", "is no GGUF file"),
        ("m.safetensors", "checkpoint of weights.*config\\.json"),
        ("m.bin", "pickle, which ropewalk never loads"),
        ("m.pt", "pickle, which ropewalk never loads"),
    ],
)
def test_a_file_of_weights(tmp_path, name, words):
    path = tmp_path / name
    path.write_bytes(b"\x80\x02}q\x00.")
    assert re.search(words, refused(path))


def test_a_directory_without_a_config(tmp_path):
    assert "has no config.json" in refused(tmp_path)


def test_a_directory_of_another_family_is_read(tmp_path):
    (tmp_path / "params.json").write_text('{"dim": 4096, "n_layers": 32, "n_heads": 32, "rope_theta": 500000.0}')
    assert "RoPE of text: layers 0-31" in seen(tmp_path)
    assert "RoPE of text: layers 0-31" in seen(tmp_path / "params.json")


def test_a_directory_with_a_config_is_read(config):
    assert "RoPE of text: layers 0-1" in seen(config().parent)


def test_an_unreadable_file(tmp_path):
    if os.name == "nt" or os.geteuid() == 0:
        pytest.skip("root may read everything")
    path = tmp_path / "config.json"
    path.write_text(json.dumps(LLAMA))
    path.chmod(0)
    assert "cannot be read" in refused(path)


def test_a_directory_named_config_json(tmp_path):
    (tmp_path / "config.json").mkdir()
    assert "has no config.json" in refused(tmp_path)


def test_a_huge_file_is_not_read(tmp_path):
    path = tmp_path / "config.json"
    with path.open("wb") as file:
        file.truncate(200 * 2**20)  # sparse: takes no room
    assert "has more than 4 MiB" in refused(path)


@pytest.mark.parametrize(("left", "right"), [("[", "]"), ('{"text_config":', "}")])
def test_deeply_nested_json(tmp_path, left, right):
    path = tmp_path / "config.json"
    path.write_text(left * 100_000 + "1" + right * 100_000)
    assert "too deeply nested" in refused(path)


@pytest.mark.parametrize("literal", ["NaN", "Infinity", "-Infinity", "1e999"])
def test_a_number_that_is_not_finite_is_an_error_finding(tmp_path, literal):
    path = tmp_path / "config.json"
    path.write_text(json.dumps(LLAMA).replace("10000", literal))
    assert "error RW110 value-unusable" in seen(path, code=ERROR)
    document = seen(path, "--json", code=ERROR)
    json.loads(document, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))


@pytest.mark.parametrize(
    ("name", "nearest"),
    [("llama-3.1-8bb", "llama-3.1-8b"), ("Llama-3.1-8B", "llama-3.1-8b"), ("gemma3-4b", "gemma-3-4b")],
)
def test_an_unknown_preset_names_the_nearest(name, nearest):
    assert re.search(rf"nearest presets are {re.escape(nearest)}\b", refused(name))


@pytest.mark.parametrize("name", ["meta-llama/Llama-3.1-8B", "hf://meta-llama/Llama-3.1-8B", "a/b@main"])
def test_a_hub_id_is_not_asked_for_offline(name, tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert re.search(r"there is no config\.json .* HF_HUB_OFFLINE forbids", refused(name))


def test_code_beside_a_config_is_never_run(tmp_path, config):
    witness = tmp_path / "ran"
    code = f"import pathlib\npathlib.Path({str(witness)!r}).write_text('')\n"
    for name in ("configuration_evil.py", "modeling_evil.py", "__init__.py", "json.py", "numpy.py"):
        (tmp_path / name).write_text(code)
    auto = {"AutoConfig": "configuration_evil.EvilConfig", "AutoModel": "modeling_evil.EvilModel"}
    path = config(model_type="evil", auto_map=auto, trust_remote_code=True)
    assert "RW156 remote-code" in seen(path)
    # -P: else Python itself, not ropewalk, would take its modules from the folder that it is started in
    command = [sys.executable, "-P", "-m", "ropewalk", "inspect", "."]
    package = str(Path(ropewalk.__file__).parents[1])
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, env={**os.environ, "PYTHONPATH": package})
    assert (done.returncode, done.stderr) == (FINE, b"")
    assert not witness.exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--part", "video"], "no part 'video'; its parts are text"),
        (["--layer", "32"], "layers 0 to 31, got layer 32"),
        (["--layer", "-1"], "layers 0 to 31, got layer -1"),
        (["--layer", "first"], "'first' is not a valid integer"),
        (["--window", "0"], "0 is not in the range x>=1"),
        (["--window", "1e3"], "'1e3' is not a valid integer"),
        (["--window", "9" * 30], "window must be a whole number"),
        (["--length", "-5"], "-5 is not in the range x>=1"),
        (["--colour"], "No such option"),
        (["another"], "unexpected extra argument (another)"),
    ],
)
def test_a_choice_that_cannot_be_met(options, message):
    assert message in refused("llama-3.1-8b", *options)


def test_a_missing_target_points_to_the_help():
    assert refused() == "ropewalk: Missing argument 'TARGET'. See ropewalk inspect --help."


def test_a_files_words_cannot_command_the_terminal(config):
    path = config(model_type="\x1b[31mred\r\n[bold]x[/bold]\u202e")
    output = seen(path)
    assert "\x1b" not in output
    assert "\u202e" not in output
    assert r"(\x1b[31mred\r\n[bold]x[/bold]\u202e)" in output
    assert "\x1b" not in refused("\x1b[31m")


def test_half_a_surrogate_pair_in_a_file_can_be_shown(config):
    path = config(model_type="half\ud800")
    assert r"(half\ud800)" in seen(path)
    assert json.loads(seen(path, "--json"))["model"]["model_type"] == "half\ud800"


# --- a real process --------------------------------------------------------------------------------------------------


def process(*arguments, **environment):
    command = [sys.executable, "-W", "error", "-m", "ropewalk", "inspect", *arguments]
    return subprocess.run(command, capture_output=True, env={**os.environ, **environment}, check=False)


def test_a_process_prints_data_on_stdout_and_errors_on_stderr():
    fine = process("llama-3.1-8b", "--json")
    assert (fine.returncode, fine.stderr) == (FINE, b"")
    assert json.loads(fine.stdout)["schema"] == "ropewalk.inspect/1"
    bad = process("gone.json")
    assert (bad.returncode, bad.stdout, bad.stderr.count(b"\n")) == (COULD_NOT_RUN, b"", 1)


def test_an_ascii_terminal_gets_escapes_and_no_traceback():
    done = process("llama-3.1-8b", PYTHONIOENCODING="ascii", PYTHONUTF8="0")
    assert (done.returncode, done.stderr) == (FINE, b"")
    assert rb"\u03b8=500000" in done.stdout


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")  # noqa: PTH110
@pytest.mark.parametrize("options", [[], ["--json"]])
def test_a_full_disk_is_one_line_and_no_traceback(options):
    command = [sys.executable, "-m", "ropewalk", "inspect", "llama-3.1-8b", *options]
    with open("/dev/full", "wb") as full:  # noqa: PTH123
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, check=False)
    assert done.returncode == COULD_NOT_RUN
    assert done.stderr.startswith(b"ropewalk: the output cannot be written")
    assert done.stderr.count(b"\n") == 1


def test_a_reader_that_leaves_early_sees_no_traceback():
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "ropewalk", "inspect", "llama-3.1-8b", "--json"]
    done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, check=False)
    os.close(writer)
    assert b"Traceback" not in done.stderr
