"""TARGET of `ropewalk check`: what it names, what runs, and what is refused in one line."""

import sys

import numpy as np
import pytest

from ropewalk import Rope, RopewalkError
from ropewalk.probe.checking import check
from ropewalk.probe.targets import of_config, resolve
from ropewalk.turning import naive

ROPE = Rope(head_dim=8, rope_theta=500.0, pairing="half")
X = np.random.default_rng(0).standard_normal((2, 3, 2, 8))
IDS = np.array([[4, 0, 9], [1, 2, 7]])
CODE = """
import numpy as np

STEP = 500.0 ** (-np.arange(4) / 4)


def turn(x, position_ids):
    angles = (np.asarray(position_ids)[..., None] * np.concatenate([STEP, STEP]))[:, :, None]
    return x * np.cos(angles) + np.concatenate([-x[..., 4:], x[..., :4]], -1) * np.sin(angles)


def positions_first(positions, x):
    return turn(x, positions)


def both(q, k, position_ids):
    return turn(q, position_ids), turn(k, position_ids)


def make():
    return turn


class Holder:
    turn = staticmethod(turn)

    def __call__(self, x, position_ids):
        return turn(x, position_ids)


class Told:
    def __init__(self, theta):
        pass


def broken():
    raise KeyError("no theta")


number = 3
"""


@pytest.fixture
def file(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", list(sys.path))
    path = tmp_path / "somebodys_rope.py"
    path.write_text(CODE, encoding="utf-8")
    yield path
    sys.modules.pop("somebodys_rope", None)


def only(target, **options):
    (found,) = resolve(target, **options).found
    return found


@pytest.mark.parametrize("attribute", ["turn", "positions_first", "both", "make", "Holder", "Holder.turn"])
def test_an_attribute_of_a_file(file, attribute):
    got = only(f"{file}:{attribute}").fn(X, IDS)
    assert np.abs(got - naive.rotate(X, IDS, ROPE)).max() < 1e-12


def test_the_place_and_whose_code_runs_are_told(file):
    named = resolve(f"{file}:both")
    assert "imported and its code run" in named.runs
    assert named.found[0].place == (str(file), CODE.splitlines().index("def both(q, k, position_ids):") + 1)


def test_a_modules_name_is_found_beside_the_working_directory(file, monkeypatch):
    monkeypatch.chdir(file.parent)
    got = only("somebodys_rope:turn").fn(X, IDS)
    assert np.abs(got - naive.rotate(X, IDS, ROPE)).max() < 1e-12


def test_the_layout_of_a_function_of_queries_and_keys_is_the_adapters_business(file):
    assert only(f"{file}:both", layout="bhsd").options["layout"] == "bshd"
    assert only(f"{file}:turn", layout="bhsd").options["layout"] == "bhsd"


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("{file}:absent", "has no absent; it has .*turn"),
        ("{file}:number", "is 3, which cannot be called"),
        ("{file}:Told", r"must be told theta.*rope = Told\(…\)"),
        ("{file}:broken", "raised KeyError: 'no theta'"),
        ("{file}", "is no target"),
        ("{folder}/absent.py:turn", "there is no file"),
        ("{folder}/absent.onnx", "there is no file"),
        ("no_such_package_at_all:turn", "cannot be imported: ModuleNotFoundError"),
        ("not a name:turn", "neither a file"),
        ("transformers:", "must be followed by"),
    ],
)
def test_what_is_no_target_is_one_line(file, target, words):
    with pytest.raises(RopewalkError, match=words) as caught:
        resolve(target.format(file=file, folder=file.parent))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("code", "words"),
    [("import absent_thing", "ModuleNotFoundError"), ("def f(:", "SyntaxError"), ("raise SystemExit(3)", "SystemExit")],
)
def test_a_file_that_cannot_be_imported_is_one_line(file, code, words):
    file.write_text(code, encoding="utf-8")
    with pytest.raises(RopewalkError, match=f"cannot be imported: {words}"):
        resolve(f"{file}:turn")


def test_a_file_named_like_a_module_that_is_loaded_leaves_that_alone(file):
    other = file.with_name("json.py")
    other.write_text(CODE, encoding="utf-8")
    import json

    only(f"{other}:turn")
    assert sys.modules["json"] is json


# --- transformers ----------------------------------------------------------------------------------------------------


def near_own_rope(one, room=2e-5):
    import torch

    rope, axes = one.expect, one.expect.axes.num_axes
    rows = np.stack([np.roll(IDS, axis, axis=1) + axis for axis in range(axes)])
    x = np.random.default_rng(3).standard_normal((2, 3, 2, rope.head_dim)).astype(np.float32)
    ids = rows if axes > 1 else rows[0]
    got = one.fn(torch.from_numpy(x), torch.from_numpy(ids)).numpy()
    return np.abs(got - naive.rotate(x, ids, rope, length=20 if rope.length_dependent else None)).max() < room


@pytest.fixture
def quiet():
    pytest.importorskip("torch")
    pytest.importorskip("transformers")


def test_a_model_type_has_one_target_for_each_layer_type(quiet):
    named = resolve("transformers:gemma3")
    labels = [one.name for one in named.found if "Gemma3" in one.name]
    assert [label.split("[")[1].split("]")[0] for label in labels] == ["full_attention", "sliding_attention"]
    assert all(near_own_rope(one) for one in named.found)
    assert {one.expect.rope_theta for one in named.found} == {1_000_000.0, 10_000.0}


def test_an_indexer_has_a_target_of_its_own(quiet):
    named = resolve("transformers:deepseek_v32")
    attention, indexer = named.found
    assert (attention.expect.pairing, indexer.expect.pairing) == ("interleaved", "half")
    assert indexer.name.endswith("indexer") and near_own_rope(indexer)


@pytest.mark.parametrize("kind", ["llama4", "clvp", "gemma4", "qwen2_5_omni"])
def test_other_call_shapes_are_found(quiet, kind):
    named = resolve(f"transformers:{kind}")
    assert named.found and all(near_own_rope(one) for one in named.found if one.expect.pairing == "half")


def test_a_module_that_cannot_be_given_positions_is_left_with_the_reason(quiet):
    named = resolve("transformers:musicflamingo")
    left = dict(named.left)
    assert left["pos_emb (MusicFlamingoRotaryEmbedding)"] == "it makes its positions itself, from the size of its input"


@pytest.mark.parametrize(
    ("kind", "notes", "words"),
    [
        ("dinov3_vit", {"state-cast"}, "2π times the coordinates of a patch"),
        ("efficientloftr", {"offset", "table-end", "negative-ids"}, "a grid of features, which counts from 1"),
        ("llama4_vision_model", {"offset", "table-end", "negative-ids"}, "square image"),
    ],
)
def test_modules_that_place_their_patches_are_asked_for_places_of_our_choice(quiet, kind, notes, words):
    (one,) = resolve(f"transformers:{kind}").found
    report = check(one.fn, expect=one.expect, **one.options)
    assert words in one.note and report.recipe == "as declared"
    assert {(finding.severity, finding.name) for finding in report.findings} == {("note", name) for name in notes}


def test_v_jepa_2_is_asked_through_its_attention_and_has_its_tiled_table(quiet):
    (one,) = resolve("transformers:vjepa2").found
    report = check(one.fn, expect=one.expect, **one.options)
    assert one.expect.pairing == "hybrid_tile" and report.recipe == "as declared"
    assert report.ok and {finding.severity for finding in report.findings} <= {"note"}
    plain = check(one.fn, expect=one.expect.replace(pairing="interleaved"), **one.options)
    assert "hybrid-tile" in [finding.name for finding in plain.findings if finding.severity == "error"]


def test_nanochat_is_right_as_it_is_and_the_conjugate_of_the_usual(quiet):
    (one,) = resolve("transformers:nanochat").found
    report = check(one.fn, expect=one.expect, **one.options)
    assert one.expect.direction == -1 and {finding.severity for finding in report.findings} <= {"note"}
    usual = check(one.fn, expect=one.expect.replace(direction=1), **one.options)
    assert [finding.name for finding in usual.findings if finding.severity == "error"] == ["conjugate"]


@pytest.mark.parametrize("truncate", [True, False])
def test_a_nested_truncate_that_transformers_does_not_read_is_a_rounded_ramp(quiet, truncate):
    from transformers import Olmo3Config

    block = {"rope_type": "yarn", "rope_theta": 3e5, "factor": 12.0, "original_max_position_embeddings": 6144}
    nested = {
        "full_attention": {**block, "truncate": truncate},
        "sliding_attention": {"rope_type": "default", "rope_theta": 2e4},
    }
    found = of_config(Olmo3Config(rope_parameters=nested, max_position_embeddings=73728)).found
    errors = {
        one.name.partition("[")[2].partition("]")[0]: [
            finding.name
            for finding in check(one.fn, expect=one.expect, **one.options).findings
            if finding.severity != "note"
        ]
        for one in found
    }
    assert errors == {"full_attention": [] if truncate else ["yarn-rounded"], "sliding_attention": []}


def test_two_axes_in_one_pair_are_one_verdict(quiet):
    from transformers import HunYuanVLConfig

    rope = {"rope_type": "dynamic", "factor": 1.0, "alpha": 50.0, "rope_theta": 2e4, "mrope_section": [8, 8, 16, 16]}
    text = {"hidden_size": 384, "num_attention_heads": 4, "head_dim": 96, "rope_parameters": rope}
    (one,) = of_config(HunYuanVLConfig(text_config=text)).found
    report = check(one.fn, expect=one.expect, **one.options)
    (error,) = [finding for finding in report.findings if finding.severity == "error"]
    assert error.name == "not-a-rotation" and "turned by different axes" in error.seen
    assert error.right == "one axis for the two channels of a pair"


@pytest.mark.parametrize("kind", ["codegen", "clvp"])
def test_float32_from_an_apply_function_is_a_note_where_the_attention_answers_for_it(quiet, kind):
    one = resolve(f"transformers:{kind}").found[0]
    options = {**one.options, "max_position": 600}
    report = check(one.fn, expect=one.expect, **options)
    assert ("note", "float32-out") in [(finding.severity, finding.name) for finding in report.findings] and report.ok
    alone = check(lambda x, ids: one.fn(x, ids), expect=one.expect, **options)
    assert [finding.name for finding in alone.findings if finding.severity == "error"] == ["float32-out"]


def test_a_directory_is_read_and_nothing_of_it_is_run(quiet, tmp_path):
    from transformers import LlamaConfig

    config = LlamaConfig(hidden_size=96, num_attention_heads=6, num_hidden_layers=2, rope_theta=7000.0)
    config.auto_map = {"AutoConfig": "evil.Config"}
    config.save_pretrained(tmp_path)
    (tmp_path / "evil.py").write_text("raise SystemExit('run')", encoding="utf-8")
    (found,) = resolve(f"transformers:{tmp_path}").found
    assert found.expect.rope_theta == 7000.0 and near_own_rope(found)


def test_an_unknown_model_type_names_what_is_near(quiet):
    with pytest.raises(RopewalkError, match="knows no model type 'lamma'"):
        resolve("transformers:lamma")


def test_a_model_that_cannot_be_built_is_asked_by_its_classes(quiet):
    found = [one for one in resolve("transformers:nemotron").found if near_own_rope(one)]
    assert [one.name for one in found] == ["NemotronRotaryEmbedding"]


def test_a_faulty_configuration_is_expected_to_be_what_it_says(quiet):
    """transformers reads `truncate` of YaRN at the top level only; the target expects what the nested block says."""
    from transformers import LlamaConfig

    block = {"rope_type": "yarn", "rope_theta": 3e5, "factor": 12.0, "original_max_position_embeddings": 6144}
    config = LlamaConfig(hidden_size=96, num_attention_heads=1, rope_parameters=block, max_position_embeddings=73728)
    (found,) = of_config(config).found
    assert near_own_rope(found)
    config.rope_parameters["rope_theta"] = 1e4
    (found,) = of_config(config).found
    assert found.expect.rope_theta == 1e4
