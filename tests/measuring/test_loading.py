"""Models and texts from files: what is loaded, and what each missing or broken file is called."""

import json
import shutil
import sys

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
tokenizers = pytest.importorskip("tokenizers")
from ropewalk import RopewalkError  # noqa: E402
from ropewalk.measuring import load, own_ropes, read_tokens  # noqa: E402

from .tiny import Characters, ids, tiny  # noqa: E402


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A model's directory as transformers writes it."""
    path = tmp_path_factory.mktemp("model")
    model = tiny().float()
    model.save_pretrained(path)
    words = tokenizers.Tokenizer(
        tokenizers.models.WordLevel({f"w{i}": i for i in range(63)} | {"?": 63}, unk_token="?")
    )
    words.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    transformers.PreTrainedTokenizerFast(tokenizer_object=words, unk_token="?").save_pretrained(path)
    return path, model


@pytest.fixture
def copied(saved, tmp_path):
    path = tmp_path / "model"
    shutil.copytree(saved[0], path)
    return path


def test_a_directory_is_loaded_in_bfloat16_and_ready_to_measure(saved):
    path, original = saved
    model, tokenizer = load(path)
    assert next(model.parameters()).dtype == torch.bfloat16 and not model.training
    assert tokenizer("w3 w62 other").input_ids == [3, 62, 63]
    model, _ = load(str(path), dtype="float32")
    tokens = ids(20)[None]
    with torch.no_grad():
        assert torch.equal(model(tokens).logits, original(tokens).logits)
    assert own_ropes(model)[None].rope_theta == 50.0


def test_loading_is_silent_and_leaves_the_log_as_it_was(saved, capfd):
    transformers.logging.set_verbosity_warning()
    load(saved[0])
    assert capfd.readouterr() == ("", "")
    assert transformers.logging.get_verbosity() == transformers.logging.WARNING
    assert transformers.logging.is_progress_bar_enabled()


def remove(pattern):
    def spoil(path):
        for one in path.glob(pattern):
            one.unlink()

    return spoil


def pickle_only(path):
    remove("*.safetensors")(path)
    (path / "pytorch_model.bin").write_bytes(b"not looked at")


def foreign_code(path):
    config = json.loads((path / "config.json").read_text())
    config |= {"model_type": "mine", "auto_map": {"AutoConfig": "mine.Config", "AutoModelForCausalLM": "mine.Model"}}
    (path / "config.json").write_text(json.dumps(config))
    (path / "mine.py").write_text(f"open({str(path / 'ran')!r}, 'w')\n")


def cut_weights(path):
    file = next(path.glob("*.safetensors"))
    file.write_bytes(file.read_bytes()[:-100])


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (shutil.rmtree, "is not there"),
        (remove("config.json"), "no config.json"),
        (remove("*.safetensors"), "holds no weights"),
        (pickle_only, "only pickled ones"),
        (remove("tokenizer*"), "the tokenizer in .* cannot be loaded"),
        (foreign_code, "cannot be loaded"),
        (cut_weights, "the model in .* cannot be loaded"),
        (lambda path: (path / "config.json").write_text("{"), "configuration in .* cannot be loaded"),
    ],
)
def test_what_cannot_be_loaded_is_told_in_one_line(copied, spoil, words):
    spoil(copied)
    with pytest.raises(RopewalkError, match=words) as caught:
        load(copied)
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 600
    assert not (copied / "ran").exists()


def test_a_file_that_is_no_model_is_refused(tmp_path):
    for name, words in (("model.safetensors", "a file of another kind"), ("model.gguf", "no GGUF file")):
        (tmp_path / name).write_bytes(b"something else")
        with pytest.raises(RopewalkError, match=words):
            load(tmp_path / name)


def test_an_unknown_dtype_is_refused_before_anything_is_read(tmp_path):
    with pytest.raises(RopewalkError, match="dtype must be one of"):
        load(tmp_path / "absent", dtype="int4")


@pytest.mark.parametrize(("name", "remedy"), [("torch", "ropewalk\\[torch\\]"), ("transformers", "install transf")])
def test_a_missing_package_is_named_with_its_remedy(saved, monkeypatch, name, remedy):
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(RopewalkError, match=remedy):
        load(saved[0])


def test_the_first_tokens_of_a_text_are_given(tmp_path):
    file = tmp_path / "text"
    file.write_text("\ufeffäbc" * 1000, encoding="utf-8")
    tokens = read_tokens(file, Characters(), 7)
    assert tokens.tolist() == [ord(letter) % 64 for letter in "äbc\ufeffäbc"]
    assert len(read_tokens(file, Characters(), 10**9)) == 3999


def test_a_long_text_is_read_only_as_far_as_it_is_needed(tmp_path):
    file = tmp_path / "text"
    file.write_text("é" * 40_000, encoding="utf-8")  # the cut falls between the bytes of a character, for odd counts
    seen = []

    class Watching(Characters):
        def __call__(self, text, **kwargs):
            seen.append(len(text))
            return super().__call__(text, **kwargs)

    assert len(read_tokens(file, Watching(), 100)) == 100
    assert seen == [1600]


@pytest.mark.parametrize(
    ("data", "words"),
    [(b"\xff\xfe\x00", "not UTF-8"), (b"ab\x00cd", "NUL"), (b"", "has 0 tokens"), (b"abc", "at least 5 are needed")],
)
def test_a_file_that_is_no_text_or_too_short_is_told(tmp_path, data, words):
    file = tmp_path / "text"
    file.write_bytes(data)
    with pytest.raises(RopewalkError, match=words):
        read_tokens(file, Characters(), 100, least=5)


def test_a_directory_in_the_place_of_a_text_is_told(tmp_path):
    with pytest.raises(RopewalkError, match="cannot be read"):
        read_tokens(tmp_path, Characters(), 10)
