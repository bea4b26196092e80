"""`ropewalk inspect`, as a user meets it."""

import json
import re

import pytest

from ._inspecting import ERROR, seen, table

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
