"""`ropewalk extend … --measure`, as a user meets it, on a tiny random model."""

import json
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
tokenizers = pytest.importorskip("tokenizers")
from ropewalk import Rope  # noqa: E402
from ropewalk.cli import _measure, main  # noqa: E402
from ropewalk.measuring import Loaded, load, measure  # noqa: E402
from ropewalk.planning import extend  # noqa: E402

from ..measuring.tiny import THETA, TRAINED, ids, tiny, unchanged  # noqa: E402
from ..planning import _documents  # noqa: E402

NAMES = ["untouched", "linear", "ntk", "dynamic", "yarn", "llama3"]
TOKENS = 96


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A model's directory, with a tokenizer whose words are numbers."""
    path = tmp_path_factory.mktemp("tiny")
    tiny().float().save_pretrained(path)
    words = tokenizers.Tokenizer(tokenizers.models.WordLevel({f"w{i}": i for i in range(64)}, unk_token="w0"))
    words.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    transformers.PreTrainedTokenizerFast(tokenizer_object=words).save_pretrained(path)
    return path


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    file = tmp_path_factory.mktemp("text") / "text.txt"
    file.write_text(" ".join(f"w{i}" for i in ids(TOKENS).tolist()), encoding="utf-8")
    return file


def run(*arguments):
    return CliRunner().invoke(main, ["extend", *map(str, arguments)], env={"COLUMNS": "120"})


def seen(*arguments):
    done = run(*arguments)
    assert done.exit_code == 0, done.output
    return done


def test_the_document_holds_the_losses_that_measure_gives(model, text):
    asked = (model, "--to", TOKENS, "--measure", text, "--bucket", 16, "--dtype", "float32", "--json")
    done = seen(*asked)
    assert done.stderr == ""
    document = json.loads(done.stdout)
    assert document["schema"] == "ropewalk.measurement/1" and document["complete"] is True
    assert (document["tokens"], document["bucket"], document["trained"]) == (TOKENS, 16, TRAINED)
    assert document["model"] == str(model) and document["passkey"] is None
    assert [one["name"] for one in document["curves"]] == NAMES
    live, _ = load(model, dtype="float32")
    for one in document["curves"]:
        (curve,) = measure(live, ids(TOKENS), {one["name"]: Rope.from_dict(one["rope"])}, bucket=16).curves
        assert one["losses"] == pytest.approx(list(curve.losses), rel=1e-5)
    assert document["machine"]["versions"]["torch"]


def test_the_table_marks_the_trained_length_and_says_who_lost_least(model, text):
    out = seen(model, "--to", TOKENS, "--measure", text, "--bucket", 16).stdout
    lines = out.splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("positions"))
    assert lines[start].split()[1:] == NAMES
    assert lines[start + 1].startswith("0–15 ") and len(lines[start + 1].split()) == 7
    assert lines[start + 3].startswith("trained to 32") and lines[start + 4].startswith("32–47")
    assert lines[start + 7].startswith("80–95")
    assert "Beyond 32 tokens" in out and "text, the first 96 tokens" in out.replace(str(text), "text")


def test_one_method_is_measured_beside_the_untouched_model(model, text):
    document = json.loads(seen(model, "--to", 64, "--method", "yarn", "--measure", text, "--json").stdout)
    assert [one["name"] for one in document["curves"]] == ["untouched", "yarn"]
    assert document["tokens"] == 64


def test_fewer_tokens_may_be_asked_for(model, text):
    asked = (model, "--to", TOKENS, "--method", "linear", "--measure", text, "--tokens", 20)
    document = json.loads(seen(*asked, "--json").stdout)
    assert (document["tokens"], document["best"]) == (20, None)
    assert "Nothing was measured beyond 32 tokens" in seen(*asked).stdout


def test_keys_are_hidden_within_and_beyond_the_trained_length(model, text, monkeypatch):
    from ropewalk.measuring import passkey

    monkeypatch.setattr(passkey, "HIDDEN", "w1 w5 w9")  # the tiny tokenizer knows 64 words
    monkeypatch.setattr(passkey, "ASKED", "w7 w8")
    asked = (model, "--to", TOKENS, "--method", "yarn", "--measure", text, "--passkey")
    document = json.loads(seen(*asked, "--json").stdout)
    assert [one["name"] for one in document["passkey"]] == ["untouched", "yarn"]
    lengths = [one["length"] for one in document["passkey"][0]["trials"]]
    assert lengths == [n for n in (16, 32, 64, 96) for _ in range(3)]
    assert set(_documents.keys(document)) == _documents.explained("The measurement as JSON")
    out = seen(*asked).stdout
    assert "Passkey: keys given back" in out and "/3  " in out


@pytest.mark.parametrize("suffix", [".svg", ".png"])
def test_the_plot_is_a_picture_of_every_method(model, text, tmp_path, suffix):
    pytest.importorskip("matplotlib")
    file = tmp_path / f"plot{suffix}"
    done = seen(model, "--to", TOKENS, "--measure", text, "--bucket", 16, "--plot", file)
    assert f"drawn: {file}" in done.stderr
    if suffix == ".svg":
        ElementTree.fromstring(file.read_bytes())
    else:
        assert file.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"


def test_ctrl_c_prints_what_was_measured_and_leaves_the_model_as_it_was(model, text, monkeypatch):
    live, tokenizer = load(model, dtype="float32")
    monkeypatch.setattr("ropewalk.measuring.load", lambda *_, **__: Loaded(live, tokenizer))
    calls = []

    def count(*_):
        calls.append(None)
        if len(calls) == 4:  # two layers a method: in the last layer of the second
            raise KeyboardInterrupt

    hook = torch.nn.modules.module.register_module_forward_hook(
        lambda module, args, out: count() if type(module).__name__ == "LlamaDecoderLayer" else None
    )
    with unchanged(live):
        done = run(model, "--to", TOKENS, "--measure", text, "--json")
        hook.remove()
    assert done.exit_code == 130
    document = json.loads(done.stdout)
    assert document["complete"] is False and [one["name"] for one in document["curves"]] == ["untouched"]
    assert "stopped: 1 of 6 methods" in done.stderr


def refused(*arguments):
    done = run(*arguments)
    assert (done.exit_code, done.stdout) == (2, ""), done.output
    (line,) = done.stderr.splitlines()
    return line


def test_what_cannot_be_measured_is_told_in_a_line(model, text, tmp_path):
    short = tmp_path / "short.txt"
    short.write_text("w1 w2 w3", encoding="utf-8")
    assert "has 3 tokens, and at least 34 are needed" in refused(model, "--to", TOKENS, "--measure", short)
    picture = tmp_path / "picture"
    picture.write_bytes(b"\x89PNG\r\n\x1a\n\x00\xff")
    assert "not UTF-8 text" in refused(model, "--to", TOKENS, "--measure", picture)
    assert "must be a directory" in refused("llama-2-7b", "--to", 8192, "--measure", text)
    told = refused("llama-2-7b", "--to", 8192, "--measure", text, "--model", model)
    assert "the plan is of preset llama-2-7b" in told and "θ=50" in told
    assert "dtype must be one of" in refused(model, "--to", TOKENS, "--measure", text, "--dtype", "int8")


def test_a_plan_of_interleaved_pairs_is_measured_with_the_pairs_of_the_loaded_model():
    own = Rope(head_dim=16, rope_theta=THETA, pairing="half", max_position_embeddings=TRAINED)
    stored = own.replace(pairing="interleaved", rope_theta=THETA * (1 + 1e-7))  # a GGUF file's float32
    found = _measure.fitted(extend(stored, TOKENS), {None: own})
    assert list(found) == NAMES
    assert all(rope.pairing == "half" for rope in found.values())
    assert found["yarn"].scaling.factor == 3.0


def test_the_local_ropes_of_a_model_are_left_as_they_are():
    wide = Rope(head_dim=16, rope_theta=1e4, pairing="half", max_position_embeddings=TRAINED)
    local = wide.replace(rope_theta=100.0)
    found = _measure.fitted(extend(wide, TOKENS), {"sliding_attention": local, "full_attention": wide})
    assert found["linear"]["sliding_attention"] == local
    assert found["linear"]["full_attention"].scaling.factor == 3.0
