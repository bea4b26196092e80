"""Models compared layer by layer: what is found, in words, and under which codes."""

import json
import re
from pathlib import Path

import pytest

from ropewalk import Layer, Model, QueryScale, Rope, RopewalkError, Sections, read
from ropewalk.comparison import compare
from ropewalk.findings import KINDS
from ropewalk.scaling import Dynamic, Linear, Llama3, LongRope, Ntk, Yarn

DOCS = Path(__file__).resolve().parents[2] / "docs" / "findings.md"
HALF = Rope(head_dim=96, rope_theta=3e5, pairing="half")
LLAMA3 = Llama3(factor=16.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=4096)
CONFIG = {"model_type": "llama", "head_dim": 96, "num_hidden_layers": 4, "max_position_embeddings": 4096}


def config(block=None, **keys):
    return {**CONFIG, "rope_theta": 3e5, **({"rope_scaling": block} if block else {}), **keys}


def codes(compared):
    return [finding.code for finding in compared.findings]


def words(a, b, **options):
    """What is said of the first group that differs."""
    compared = compare(a, b, **options)
    assert not compared.equal
    return compared.first.words


def test_the_first_pair_that_differs_is_named_with_its_cause():
    said = "in B, pair 20 of 48 turns 1.22867 times too fast: llama3 scaling is missing"
    assert words(HALF.replace(scaling=LLAMA3), HALF) == said
    assert words(HALF, HALF.replace(scaling=LLAMA3)) == said.replace("fast", "slow").replace("missing", "added")


def test_a_pinned_factor_is_named_with_both_numbers():
    # F414: pair 20's divisor is 1.228669046 for 16; for 8 it is 1/((1-t)/8 + t) with the same t
    t = (1 / 1.228669046 - 1 / 16) / (1 - 1 / 16)
    ratio = 1.228669046 * ((1 - t) / 8 + t)
    pinned = Llama3(factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=4096)
    said = words(HALF.replace(scaling=LLAMA3), HALF.replace(scaling=pinned))
    assert said == f"in B, pair 20 of 48 turns {ratio:.6g} times too fast: llama3: factor is 8, not 16"


@pytest.mark.parametrize(
    ("change", "said", "expected"),
    [
        ({"pairing": "interleaved"}, "joins channels 0 and 1, not 0 and 48: pairing is interleaved, not half", "RW301"),
        ({"direction": -1}, "turns the other way: direction is -1, not 1", "RW304"),
        ({"rope_theta": 1e4}, "turns 1.07343 times too fast: rope_theta is 10000, not 300000", "RW305"),
        ({"rotary_dim": 48}, "joins channels 0 and 24, not 0 and 48: rotary_dim is 48, not 96", "RW302"),
        (
            {"axes": Sections(sections=(20, 14, 14))},
            "pair 20 of 48 listens to axis 1, not 0: axes are sections, not single",
            "RW303",
        ),
    ],
)
def test_every_convention_that_differs_is_named(change, said, expected):
    compared = compare(HALF, HALF.replace(**change))
    assert compared.first.words.endswith(said)
    assert expected in codes(compared)
    assert all(KINDS[finding.name] == (finding.code, finding.severity) for finding in compared.findings)
    assert not compared.equal


def test_a_magnitude_alone_is_a_difference():
    # F217: attention_factor 1.0 against 0.1·ln 50 + 1
    yarn = {"factor": 50.0, "original_max_position_embeddings": 4096}
    a, b = (HALF.replace(scaling=Yarn(**yarn, **more)) for more in ({}, {"attention_factor": 1.0}))
    compared = compare(a, b)
    assert (codes(compared), compared.equal) == (["RW306"], False)
    assert "every pair turns alike, but B takes cos and sin × 1, not 1.3912023" in compared.first.words


@pytest.mark.parametrize(
    "scaling",
    [
        Linear(factor=1.0),
        Ntk(factor=1.0),
        Llama3(factor=1.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=4096),
        Yarn(factor=1.0, original_max_position_embeddings=4096),
    ],
    ids=lambda scaling: scaling.rope_type,
)
def test_an_equivalent_description_is_equal_and_said_to_be_another(scaling):
    compared = compare(HALF, HALF.replace(scaling=scaling))
    assert (compared.equal, codes(compared)) == (True, ["RW351"])
    assert compared.first.words == f"the same pairs, described differently: {scaling.rope_type} scaling is added"


def test_the_same_description_gives_no_finding():
    compared = compare("llama-3.1-8b", "llama-3.1-8b")
    assert (compared.equal, compared.findings, compared.first.words) == (True, (), "the same description")
    assert compared.pairs and compared.angles and compared.factors.equal


def test_dynamic_scaling_is_followed_beyond_the_trained_length():
    # F218: theta 50049.86754 at 3073, 250042.6554 at 7000; at and below 3072 nothing changes
    plain = HALF.replace(rope_theta=5e4, max_position_embeddings=3072)
    dynamic = plain.replace(scaling=Dynamic(factor=3.0))
    compared = compare(plain, dynamic)
    assert (compared.equal, compared.first.length) == (False, 3073)
    assert compared.pairs[47].ratio == pytest.approx((50049.86754 / 5e4) ** (-94 / 96), rel=1e-9)
    assert "RW350" in codes(compared)
    assert compare(plain, dynamic, length=3072).equal
    at = compare(plain, dynamic, length=7000)
    assert at.pairs[24].ratio == pytest.approx((250042.6554 / 5e4) ** (-48 / 96), rel=1e-9)
    assert at.first.words.startswith("for a sequence of 7000 tokens, in B, pair 1 of 48 turns")


def test_longrope_lists_that_differ_beyond_the_switch_only():
    # F223: short all 1, long all 2.5
    lists = {"short_factor": (1.0,) * 48, "original_max_position_embeddings": 3072, "attention_factor": 1.0}
    a, b = (
        HALF.replace(max_position_embeddings=49152, scaling=LongRope(long_factor=(far,) * 48, **lists))
        for far in (2.5, 5.0)
    )
    compared = compare(a, b)
    assert (compared.equal, compared.first.length) == (False, 3073)
    assert {row.ratio for row in compared.pairs} == {0.5}
    assert "long_factor is another list" in compared.first.words
    assert compare(a, b, length=3072).equal


def test_layers_alike_are_taken_together_and_kinds_apart():
    # F125: linear reaches global layers only
    gemma = {
        "model_type": "gemma3_text",
        "head_dim": 96,
        "num_hidden_layers": 7,
        "sliding_window_pattern": 3,
        "rope_theta": 8e5,
        "rope_local_base_freq": 2e4,
    }
    compared = compare({**gemma, "rope_scaling": {"rope_type": "linear", "factor": 6}}, gemma)
    said = {group.place: group.words for group in compared.groups}
    assert said == {
        "text: layers 0-1, 3-4, 6": "the same description",
        "text: layers 2, 5": "in B, pair 0 of 48 turns 6 times too fast: linear scaling is missing",
    }
    # pair 1 in the global layers: 0.1255647419 scaled, six times that unscaled
    (scaled,) = (group.result for group in compared.groups if not group.equal)
    assert scaled.pairs[1].a.inv_freq == pytest.approx(0.1255647419, rel=1e-9)
    assert compared.pairs == scaled.pairs


def test_a_layer_without_rope_on_one_side_is_a_difference():
    # F126: interval 3 of 6 layers leaves 2 and 5 without RoPE
    smol = {"model_type": "smollm3", "head_dim": 96, "num_hidden_layers": 6, "rope_theta": 3e5}
    compared = compare({**smol, "no_rope_layer_interval": 3}, {**smol, "no_rope_layers": [1] * 6})
    assert [(group.place, group.equal) for group in compared.groups] == [
        ("text: layers 0-1, 3-4", True),
        ("text: layers 2, 5", False),
    ]
    assert codes(compared) == ["RW307"]
    assert compared.first.words == "A has no RoPE where B has"
    assert compared.pairs == () and compared.factors is None


def test_more_layers_of_one_kind_are_no_difference():
    compared = compare(config(), config(num_hidden_layers=9))
    assert (compared.equal, codes(compared)) == (True, ["RW352"])


def test_plans_of_unequal_length_are_compared_as_far_as_they_go():
    layers = (Layer(ropes={"attention": HALF}), Layer())
    a, b = (Model(parts={"text": layers * times}) for times in (2, 3))
    compared = compare(a, b)
    assert (compared.equal, codes(compared)) == (True, ["RW320"])
    assert [group.place for group in compared.groups] == ["text: layers 0, 2"]


def test_a_part_that_one_side_lacks_is_named():
    compared = compare("qwen2-vl-7b", "qwen2.5-7b")
    assert {"RW308", "RW303"} <= set(codes(compared))
    text = compare("qwen2-vl-7b", "qwen2.5-7b", part="text")
    assert "RW308" not in codes(text) and not text.equal
    with pytest.raises(RopewalkError, match="no part 'vision'"):
        compare("qwen2-vl-7b", "qwen2.5-7b", part="vision")


def test_what_layers_do_besides_turning_is_compared():
    turned = Layer(ropes={"attention": HALF})
    scaled = Layer(ropes={"attention": HALF}, query_scale=QueryScale(attn_scale=0.1, floor_scale=8192, offset=1))
    back = Layer(ropes={"attention": HALF}, output_inverse=True)
    for other, said in ((scaled, "1 + 0.1·log1p(floor((m + 1) / 8192))"), (back, "output turned back: yes")):
        compared = compare(Model(parts={"text": (turned,)}), Model(parts={"text": (other,)}))
        assert (codes(compared), compared.equal) == (["RW309"], False)
        assert said in compared.findings[0].message


def test_a_second_rope_of_a_layer_is_compared_by_its_use():
    both = Layer(ropes={"attention": HALF, "indexer": HALF.replace(pairing="interleaved")})
    compared = compare(Model(parts={"text": (both,)}), Model(parts={"text": (Layer(ropes={"attention": HALF}),)}))
    assert [(group.use, group.equal) for group in compared.groups] == [("attention", True), ("indexer", False)]


def test_a_lone_rope_stands_beside_every_rope_of_a_model():
    model = read(config())
    assert compare(model.rope, model).equal
    assert compare(model, model.rope).equal
    assert not compare(model.rope.replace(rope_theta=1e4), model).equal


def test_sides_may_be_what_to_dict_gives():
    model = read(config())
    assert compare(model.to_dict(), model.rope.to_dict()).equal


def test_parts_by_another_name_are_compared_where_each_side_has_one():
    layers = (Layer(ropes={"attention": HALF}),)
    compared = compare(Model(parts={"text": layers}), Model(parts={"decoder": layers}))
    assert compared.equal and compared.groups[0].place == "text and decoder: layer 0"


@pytest.mark.parametrize(
    ("a", "b", "said"),
    [
        (config({"rope_type": "spiral"}), config(), "A, a dict, cannot be described whole"),
        (config(), config({"rope_type": "linear", "factor": "x"}), "B, a dict, cannot be described whole"),
        ("no-such-preset", config(), "neither an existing path, nor a hub id"),
        ({"model_type": "gpt2", "n_layer": 2}, {"model_type": "gpt2", "n_layer": 2}, "there is no RoPE to compare"),
    ],
)
def test_what_cannot_be_described_cannot_be_compared(a, b, said):
    with pytest.raises(RopewalkError, match=re.escape(said)):
        compare(a, b)


def test_a_comparison_is_one_json_document():
    document = json.loads(json.dumps(compare("llama-3.1-8b", "llama-3-8b").to_dict(), allow_nan=False))
    assert (document["schema"], document["equal"]) == ("ropewalk.compare/1", False)
    (group,) = document["groups"]
    assert group["result"]["pairs"][29]["differs"] == ["frequency"]
    assert [row["distance"] for row in group["result"]["angles"]] == [1, 128, 4096, 32768, 131072]
    assert group["changes"]["scaling"] == "llama3 scaling is missing"
    assert document["findings"][0]["code"] == "RW305"


def documented():
    """The examples of docs/findings.md by code: A and B of every comparison's finding."""
    sections = re.split(r"^## ", DOCS.read_text(encoding="utf-8"), flags=re.MULTILINE)
    found = {}
    for section in sections:
        if section.startswith("RW3"):
            heading, body = section.split("\n", 1)
            assert "```json" in body or "```python" in body  # the latter are run with the probe's tests
            found[heading] = [json.loads(one) for one in re.findall(r"```json\n(.*?)```", body, re.DOTALL)], body
    return found


def test_docs_have_a_section_for_every_code_of_comparisons():
    wanted = {f"{code} {name} ({level})" for name, (code, level) in KINDS.items() if code.startswith("RW3")}
    assert set(documented()) == wanted


@pytest.mark.parametrize("heading", [heading for heading, (examples, _) in documented().items() if examples])
def test_docs_show_two_configurations_that_give_the_finding(heading):
    (a, b), body = documented()[heading]
    assert heading.split()[0] in codes(compare(a, b))
    assert "**What to do.**" in body
