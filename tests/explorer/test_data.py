"""The numbers of a page, as its .json gives them.

The road: expected values are the lesson's, typed in as lesson-and-simulator.md prints them, or come from formulas
written out here with Python's math; none is the explorer's own output.
"""

import json
import math

import pytest

from ropewalk import preset_names
from ropewalk.explorer import analysis
from ropewalk.explorer.data import SCHEMA, describe, document
from ropewalk.explorer.state import Side, State
from ropewalk.models.targets import read
from ropewalk.rope import Rope


def data(query=""):
    """The document of a query string, through JSON, which must not need NaN or infinity."""
    state, messages = State.parse(query)
    assert messages == ()
    return json.loads(json.dumps(document(state).to_dict(), allow_nan=False))


def frequencies(seen):
    return [row["inv_freq"] for row in seen["turns"]]


def test_the_keys_of_the_schema():
    seen = data("b.base=500000")
    assert seen["schema"] == SCHEMA == "ropewalk.explorer/1"
    keys = (
        "schema query state messages description_message rope length odd q k pair turns key_turns angle_between score"
    )
    assert list(seen) == [*keys.split(), *"speeds factor gate curve precision b".split()]
    assert list(seen["turns"][0]) == "pair dims inv_freq angle degrees in out radius deviation".split()
    assert (
        list(seen["score"])
        == ("distance unrotated score shifted difference rows still total query_length key_length bound").split()
    )
    assert list(seen["score"]["rows"][0]) == "pair inv_freq angle straight cross contribution".split()
    assert (
        list(seen["speeds"])
        == ("rows fastest slowest slowest_pair turns_of_slowest ratio window slower_than_window").split()
    )
    assert (
        list(seen["speeds"]["rows"][0])
        == ("pair first second axis inv_freq second_inv_freq wavelength turns divisor angle").split()
    )
    assert list(seen["curve"]) == "distances mean given".split()
    assert (
        list(seen["b"])
        == (
            "rope message pairs inv_freq difference ratio angle_difference dims_differ factor_difference largest"
        ).split()
    )
    assert seen["gate"]["ok"] is True and seen["gate"]["schema"] == "ropewalk.verify/1"
    assert data()["b"] is None


def test_table_a():
    expected = """
        0 | 0, 1 | 1.000000 | 7.0000 | (1.000, 0.000) | (0.754, 0.657)
        1 | 2, 3 | 0.100000 | 0.7000 | (0.500, 0.500) | (0.060, 0.705)
        2 | 4, 5 | 0.010000 | 0.0700 | (1.000, -1.000) | (1.067, -0.928)
        3 | 6, 7 | 0.001000 | 0.0070 | (0.250, 0.000) | (0.250, 0.002)
    """
    rows = [
        f"{row['pair']} | {row['dims'][0]}, {row['dims'][1]} | {row['inv_freq']:.6f} | {row['angle']:.4f} | "
        f"({row['in'][0]:.3f}, {row['in'][1]:.3f}) | ({row['out'][0]:.3f}, {row['out'][1]:.3f})"
        for row in data()["turns"]
    ]
    assert rows == [line.strip() for line in expected.strip().splitlines()]


def test_readings_of_a():
    seen = data()
    query, key = seen["turns"][0], seen["key_turns"][0]
    assert f"{query['degrees']:.2f}" == "41.07"
    assert key["angle"] == 2
    assert f"{seen['angle_between']:.2f}" == "163.52"
    assert [abs(row["deviation"]) < 1e-15 for row in seen["turns"]] == [True] * 4
    assert [f"{value:.6f}" for value in query["out"]] == ["0.753902", "0.656987"]


def test_table_b_and_its_readings():
    score = data()["score"]
    columns = {"inv_freq": 6, "angle": 6, "straight": 4, "cross": 4, "contribution": 6}
    rows = [[f"{row[name]:.{digits}f}" for name, digits in columns.items()] for row in score["rows"]]
    assert rows == [
        ["1.000000", "5.000000", "0.0000", "1.0000", "-0.958924"],
        ["0.100000", "0.500000", "0.5000", "-0.5000", "0.199079"],
        ["0.010000", "0.050000", "0.0000", "1.0000", "0.049979"],
        ["0.001000", "0.005000", "0.0000", "0.0625", "0.000312"],
    ]
    assert score["distance"] == 5
    assert f"{score['unrotated']:.9f}" == "0.500000000"
    assert f"{score['score']:.9f}" == f"{score['shifted']:.9f}" == "-0.709554095"
    assert abs(score["difference"]) <= 1e-15
    assert f"{score['total']:.6f}" == "-0.709554"
    assert [f"{length:.6f}" for length in score["query_length"]] == ["1.887459"] * 2
    assert [f"{length:.6f}" for length in score["key_length"]] == ["1.600781"] * 2
    assert score["bound"] == pytest.approx(1.887459 * 1.600781, abs=1e-5)


@pytest.mark.parametrize(
    ("query", "score"), [("n=3", "-0.450741836"), ("m=2&n=7", "1.587136657"), ("m=107&n=102", "-0.709554095")]
)
def test_scores_at_other_positions(query, score):
    assert f"{data(query)['score']['score']:.9f}" == score


@pytest.mark.parametrize("shift", [100, -1000, 4096, 0, 10**9])
def test_a_shift_of_both_positions_changes_the_score_by_noise_alone(shift):
    assert abs(data(f"s={shift}")["score"]["difference"]) <= (1e-12 if abs(shift) < 10**6 else 1e-6)


def test_table_c_and_its_readings():
    speeds = data()["speeds"]
    rows = [
        [f"{row['inv_freq']:.8f}", f"{row['wavelength']:.2f}", f"{row['turns']:.4f}", f"{row['angle']:.3f}"]
        for row in speeds["rows"]
    ]
    assert rows == [
        ["1.00000000", "6.28", "325.9493", "41.070"],
        ["0.10000000", "62.83", "32.5949", "40.107"],
        ["0.01000000", "628.32", "3.2595", "4.011"],
        ["0.00100000", "6283.19", "0.3259", "0.401"],
    ]
    assert f"{speeds['turns_of_slowest']:.4f}" == "0.3259"
    assert f"{speeds['ratio']:.2f}" == "1000.00"
    assert (speeds["slowest_pair"], speeds["slower_than_window"]) == (3, 1)


def test_a_wider_window_lowers_the_count_of_slow_pairs():
    assert data("window=6284")["speeds"]["slower_than_window"] == 0
    assert data("window=62")["speeds"]["slower_than_window"] == 3


def test_128_dimensions_in_a_window_of_8192():
    speeds = data("d=128&window=8192")["speeds"]
    assert (speeds["slowest_pair"], speeds["slower_than_window"], len(speeds["rows"])) == (63, 14, 64)
    assert f"{speeds['slowest']:.2f}" == "54410.14"
    assert f"{speeds['slowest'] / 8192:.2f}" == "6.64"


def test_base_1_has_one_speed():
    seen = data("base=1")
    assert {row["inv_freq"] for row in seen["turns"]} == {1.0}
    assert f"{seen['speeds']['ratio']:.2f}" == "1.00"
    assert seen["description_message"] == ""


def test_an_odd_width_copies_the_last_dimension_and_keeps_the_exponents_as_typed():
    seen = data("d=7&s=4096")
    assert seen["odd"] is True
    assert [row["dims"] for row in seen["turns"]] == [[0, 1], [2, 3], [4, 5]]
    assert frequencies(seen) == pytest.approx([10000 ** (-2 * i / 7) for i in range(3)], rel=1e-14)
    # the seventh numbers are 0.25 and 0: what never turns adds nothing; the score still sees only the distance
    assert seen["score"]["still"] == 0.25 * 0
    assert abs(seen["score"]["difference"]) <= 1e-12
    assert [row["dims"] for row in data("d=7&pairing=half")["turns"]] == [[0, 3], [1, 4], [2, 5]]


def test_an_odd_widths_last_dimension_adds_its_product_to_the_score():
    seen = data("d=3&q=1,2,3&k=4,5,6")
    by_hand = 14 * math.cos(5) + (1 * 5 - 2 * 4) * math.sin(5) + 18
    assert seen["score"]["still"] == 18
    assert seen["score"]["score"] == pytest.approx(by_hand, abs=1e-13)


def test_the_other_pairing_changes_the_dims_alone():
    one, other = data(), data("pairing=half")
    assert [row["dims"] for row in other["turns"]] == [[0, 4], [1, 5], [2, 6], [3, 7]]
    for column in ("inv_freq", "angle", "degrees"):
        assert [row[column] for row in one["turns"]] == [row[column] for row in other["turns"]]
    assert abs(other["score"]["difference"]) <= 1e-15


def test_the_pair_drawn_stays_within_the_pairs_there_are():
    assert data("pair=99")["pair"] == 3
    assert data("d=128&pair=63")["pair"] == 63


@pytest.mark.parametrize(
    "query", ["b.base=10000", "d=7&b.d=7", "model=llama-3.1-8b&b.base=10000", "d=64&scaling=yarn&b.d=64"]
)
def test_two_equal_descriptions_differ_by_zeros(query):
    other = data(query)["b"]
    assert {*other["difference"], *other["angle_difference"]} == {0.0}
    assert set(other["ratio"]) == {1.0}
    assert not any(other["dims_differ"])
    assert (other["largest"], other["factor_difference"]) == (0.0, 0.0)


def test_a_second_description_is_held_beside_the_first():
    other = data("b.scaling=linear&b.factor=4")["b"]
    assert other["inv_freq"] == pytest.approx([0.25, 0.025, 0.0025, 0.00025], rel=1e-15)
    assert other["ratio"] == pytest.approx([4.0] * 4, rel=1e-15)
    assert other["largest"] == 0.75
    assert data("b.pairing=half")["b"]["dims_differ"] == [True] * 4
    assert data("d=128&b.d=64")["b"]["pairs"] == [64, 32]
    yarn = data("d=64&b.scaling=yarn&b.factor=4")["b"]
    assert yarn["factor_difference"] == pytest.approx(0.1 * math.log(4), rel=1e-14)


@pytest.mark.parametrize("name", preset_names())
def test_every_preset_gives_its_own_description(name):
    seen = data(f"model={name}&window=8192")
    model = read(name)
    ropes = [layer.rope for layers in model.parts.values() for layer in layers if layer.rope is not None]
    assert Rope.from_dict(seen["rope"]) == ropes[0]
    assert seen["description_message"] == ""
    assert seen["score"]["total"] == pytest.approx(seen["score"]["score"], abs=1e-9)
    assert abs(seen["score"]["difference"]) <= 1e-9


def test_a_preset_with_several_axes_and_parts():
    text, vision = data("model=qwen2.5-vl-7b"), data("model=qwen2.5-vl-7b&part=vision")
    assert {row["axis"] for row in text["speeds"]["rows"]} == {"t", "h", "w"}
    assert {row["axis"] for row in vision["speeds"]["rows"]} == {"h", "w"}
    assert text["rope"] != vision["rope"]
    assert abs(vision["score"]["difference"]) <= 1e-12


def test_a_layer_of_its_own():
    globals_, local = data("model=gemma-3-4b&layer=5"), data("model=gemma-3-4b&layer=0")
    assert (globals_["rope"]["rope_theta"], local["rope"]["rope_theta"]) == (1_000_000, 10_000)


def test_a_length_dependent_preset_changes_with_the_length():
    short, long = data("model=phi-3-mini-128k"), data("model=phi-3-mini-128k&length=100000")
    assert short["length"] is None and long["length"] == 100_000
    assert [row["inv_freq"] for row in short["turns"]] != [row["inv_freq"] for row in long["turns"]]


def test_dynamic_ntk_at_a_length():
    # transformers: base · (factor·length/trained - (factor - 1))^(d/(d-2))
    base = 10000 * (4 * 8192 / 4096 - 3) ** (8 / 6)
    seen = data("scaling=dynamic&factor=4&original=4096&length=8192")
    assert frequencies(seen) == pytest.approx([base ** (-2 * i / 8) for i in range(4)], rel=1e-13)
    assert frequencies(data("scaling=dynamic")) == pytest.approx([1, 0.1, 0.01, 0.001], rel=1e-14)


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("scaling=dynamic&d=2", "above 2"),
        ("scaling=yarn&base=1", "above 1"),
        ("scaling=proportional&fraction=0.001", "no pair of it turns"),
        ("model=start", "no model was given"),
        ("model=gemma-3-4b&part=radio", "no such part"),
        ("model=llama-3.1-8b&layer=99", "no RoPE"),
        ("model=llama-4-scout&layer=3", "no RoPE"),
    ],
)
def test_a_description_that_cannot_be_made_says_why_and_shows_another(query, words):
    seen = data(query)
    assert words in seen["description_message"]
    assert seen["turns"]


def test_a_second_description_that_cannot_be_made_says_why():
    assert "no pair of it turns" in data("b.scaling=proportional&b.fraction=0.001")["b"]["message"]


def test_the_model_of_the_command_line_is_shown():
    start = read("llama-3.1-8b")
    assert describe(Side(model="start"), start).rope == start.rope
    no_rope = read({"model_type": "gpt2", "n_layer": 2, "n_head": 2, "n_embd": 8})
    assert "no RoPE" in describe(Side(model="start"), no_rope).message


def half_rope(d):
    return Rope(head_dim=d, rope_theta=10000.0, pairing="half")


def test_half_precision_loses_what_the_lesson_says():
    """Frequencies rounded alone at 128 channels, at two positions; all three rounded at 64, anywhere below 2048."""
    rows = {row["position"]: row for row in analysis.precision(half_rope(128), None)}
    assert f"{rows[4096]['half']:.3f}" == "0.495"
    assert f"{rows[32768]['half']:.2f}" == "1.66"
    assert f"{analysis.worst_in_half(half_rope(64), None):.2f}" == "0.78"


def test_precision_by_hand():
    """bfloat16 keeps 8 bits: 10000^(-2/8) = 0.1 becomes 205/2048; half keeps 11: 1638/16384; float32 is far finer."""
    row = next(row for row in analysis.precision(half_rope(8), None) if row["position"] == 128)

    def off(second, third, fourth):
        pairs = ((0.1, second), (0.01, third), (0.001, fourth))
        return max(abs(math.cos(128 * rounded) - math.cos(128 * exact)) for exact, rounded in pairs)

    assert row["bfloat16"] == pytest.approx(off(205 / 2048, 164 / 2**14, 131 / 2**17), abs=1e-15)
    assert row["half"] == pytest.approx(off(1638 / 2**14, 1311 / 2**17, 1049 / 2**20), abs=1e-15)
    assert row["float32"] < 1e-6
    beyond = analysis.precision(half_rope(8), None)[-1]
    assert beyond["position"] > 65_504 and beyond["half_all"] is None  # half ends there


def test_the_curve_is_the_score_by_distance():
    curve = data()["curve"]
    at = dict(zip(curve["distances"], curve["given"], strict=True))
    assert f"{at[0]:.9f}" == "0.500000000"
    assert f"{at[4]:.9f}" == "-0.450741836"
    assert f"{at[5]:.9f}" == "-0.709554095"
    assert max(curve["distances"]) == 2048
    mean = dict(zip(curve["distances"], curve["mean"], strict=True))
    assert mean[5] == pytest.approx(sum(math.cos(5 * 10.0**-i) for i in range(4)) / 4, abs=1e-15)


def test_the_heat_map_is_the_cosine_of_the_angle():
    seen = analysis.heat_map(half_rope(8), None, 100, columns=11, rows=64)
    assert seen["pairs"] == [0, 1, 2, 3]
    assert seen["positions"] == [10.0 * i for i in range(11)]
    assert seen["cos"][2][3] == pytest.approx(math.cos(0.3), abs=1e-15)
    assert len(analysis.heat_map(half_rope(256), None, 100, rows=24)["pairs"]) == 24


def test_the_arithmetic_of_a_pair_ends_in_table_a():
    steps = analysis.arithmetic(document(State()))
    assert [f"{step['float64']:.6f}" for step in steps] == [
        "1.000000", "7.000000", "0.753902", "0.656987", "0.753902", "0.656987",
    ]  # fmt: skip
    assert steps[2]["bfloat16"] == 193 / 256  # cos 7 = 0.753902 lies nearest to 193/256 = 0.75390625
