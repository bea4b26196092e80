"""GGUF files: parts, byte order, findings about them, and what is no model."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

import ropewalk
from ropewalk import Rope, RopewalkError, read
from ropewalk.findings import FILE_KINDS
from ropewalk.scaling import Default, Llama3, Ntk

gguf = pytest.importorskip("gguf")
from ._gguf import llama3_divisors, named, write  # noqa: E402

HERE = Path(__file__).resolve()


def test_a_gguf_is_known_by_its_first_bytes(file):
    assert read(file(name="sha256-0123")).rope.pairing == "interleaved"


def test_split_models_are_read_from_any_part(tmp_path):
    names = [tmp_path / f"m-0000{number}-of-00002.gguf" for number in (1, 2)]
    write(names[0], "llama", rope__freq_base=5e5)
    write(
        names[1],
        "llama",
        block_count=None,
        tensors={"rope_freqs.weight": llama3_divisors(128, 5e5, 8.0, 1.0, 4.0, 8192)},
    )
    ropes = [read(name).rope for name in (*names, tmp_path)]
    assert ropes == [ropes[0]] * 3 and ropes[0].scaling.rope_type == "llama3"
    names[0].unlink()
    with pytest.raises(RopewalkError, match=r"m-00001-of-00002\.gguf, which holds the metadata, is not beside it"):
        read(names[1])


def test_parts_that_are_not_there_are_said(tmp_path):
    path = tmp_path / "m-00001-of-00003.gguf"
    writer = gguf.GGUFWriter(path, "llama")
    for key, value in (("llama.block_count", 2), ("llama.embedding_length", 256), ("llama.attention.head_count", 2)):
        writer.add_uint32(key, value)
    writer.add_uint16("split.count", 3)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    (one,) = named(read(path), "gguf-parts")
    assert one.seen == "1 of 3 parts"


def test_big_endian_files_are_read(tmp_path):
    path = tmp_path / "m.gguf"
    writer = gguf.GGUFWriter(path, "qwen2", endianess=gguf.GGUFEndian.BIG)
    for key, value in (("block_count", 2), ("embedding_length", 256), ("attention.head_count", 2)):
        writer.add_uint32(f"qwen2.{key}", value)
    writer.add_float32("qwen2.rope.freq_base", 1e6)
    writer.add_array("tokenizer.ggml.tokens", ["a", "bc"])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    assert read(path).rope == Rope(head_dim=128, rope_theta=1e6, pairing="half")


@pytest.mark.parametrize("kind", ["adapter", "imatrix"])
def test_a_gguf_that_is_no_model_is_refused(file, kind):
    path = file()
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_type(kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    with pytest.raises(RopewalkError, match=f"of type {kind}"):
        read(path)


def test_a_directory_with_one_gguf_is_read_and_with_two_is_not(file):
    path = file(name="a.gguf")
    file(name="mmproj-a.gguf")
    assert read(path.parent).rope.pairing == "interleaved"
    file(name="b.gguf")
    with pytest.raises(RopewalkError, match="holds 2 GGUF models"):
        read(path.parent)


def test_findings_of_files_are_documented():
    text = (HERE.parents[2] / "docs" / "findings.md").read_text(encoding="utf-8")
    headings = re.findall(r"^## (RW1[78].+)$", text, flags=re.MULTILINE)
    assert sorted(headings) == sorted(f"{code} {name} ({severity})" for name, (code, severity) in FILE_KINDS.items())


def test_a_model_survives_json(file):
    model = read(file("gemma3", attention__sliding_window=512))
    assert ropewalk.Model.from_dict(json.loads(json.dumps(model.to_dict()))) == model


def test_a_signalling_nan_among_the_divisors_is_an_error_finding_and_no_warning(tmp_path):
    path = write(tmp_path / "m.gguf", "llama", tensors={"rope_freqs.weight": [1.0] * 64})
    raw = path.read_bytes()
    at = raw.rindex(np.ones(64, dtype="<f4").tobytes())
    path.write_bytes(raw[:at] + b"\x00\x00\xa0\x7f" + raw[at + 4 :])
    model = read(path)
    assert model.ropes == () and any(one.code == "RW110" for one in model.findings)


@pytest.mark.parametrize(
    ("low", "high", "original", "stated"), [(1, 1, 4096, False), (1, 1, 5000, True), (1, 1.5, 8192, True)]
)
def test_a_step_and_a_ramp_of_one_pair_are_fitted(tmp_path, low, high, original, stated):
    """The numbers of F205: 25 pairs kept, the others divided, nothing between."""
    theta, width = (3e5, 96) if high == 1 else (5e5, 128)
    scaling = Llama3(factor=16, low_freq_factor=low, high_freq_factor=high, original_max_position_embeddings=original)
    rope = Rope(head_dim=width, rope_theta=theta, pairing="interleaved", scaling=scaling, max_position_embeddings=4096)
    plain = rope.replace(scaling=Default()).pairs().inv_freq
    keys = {"rope__scaling__original_context_length": original} if stated else {}
    path = write(
        tmp_path / "m.gguf", "llama", embedding_length=8 * width, rope__freq_base=theta,
        tensors={"rope_freqs.weight": plain / rope.pairs().inv_freq}, **keys,
    )  # fmt: skip
    assert read(path).rope == rope


@pytest.mark.parametrize("name", ["long", "short"])
def test_one_list_without_its_twin_is_said(tmp_path, name):
    model = read(write(tmp_path / "m.gguf", "phi3", tensors={f"rope_factors_{name}.weight": [2.5] * 64}))
    assert model.rope.scaling == Default()
    assert any(one.code == "RW171" and f"{name} sequences alone" in one.message for one in model.findings)


def test_two_lists_without_the_length_of_the_switch_are_said(tmp_path):
    tensors = {"rope_factors_long.weight": [2.5] * 64, "rope_factors_short.weight": [1.0] * 64}
    model = read(write(tmp_path / "m.gguf", "phi3", tensors=tensors))
    assert model.rope.scaling.original_max_position_embeddings == 4096
    assert [one.code for one in model.findings if one.code == "RW121"] == ["RW121"]
    assert model.sources["text.original_max_position_embeddings"] == "phi3.context_length"


def test_alpha_raises_hunyuans_base_and_no_others(tmp_path):
    dense = read(write(tmp_path / "h.gguf", "hunyuan-dense", rope__freq_base=20000.0, rope__scaling__alpha=50.0))
    assert dense.rope.scaling == Ntk(factor=50.0)
    other = read(write(tmp_path / "q.gguf", "qwen3", rope__freq_base=20000.0, rope__scaling__alpha=50.0))
    assert other.rope.scaling == Default()
    assert [one.code for one in other.findings if one.code == "RW174"] == ["RW174"]
