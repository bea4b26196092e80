"""Files made to harm: every one ends in a RopewalkError or a Model, within two seconds and 200 MB."""

import contextlib
import gc
import io
import json
import math
import os
import random
import resource
import struct
import subprocess
import sys
import textwrap
import time
import zipfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ropewalk import Model, RopewalkError, read
from ropewalk.models._files import read_some

HERE = Path(__file__).resolve()
BIN = HERE.parents[3] / "shared" / "configs" / "bin"
LIMIT_S, LIMIT_MB = 2.0, 200


def text(word):
    raw = word if isinstance(word, bytes) else word.encode()
    return struct.pack("<Q", len(raw)) + raw


def key(name, kind, payload):
    return text(name) + struct.pack("<I", kind) + payload


def header(keys=0, tensors=0, version=3, magic=b"GGUF"):
    return magic + struct.pack("<IQQ", version, tensors, keys)


def npy(kind, shape, fortran=False):
    """The start of a .npy file, spelled out."""
    words = f"{{'descr': {kind!r}, 'fortran_order': {fortran}, 'shape': {shape}, }}".encode()
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(words)) + words


ARCH = key("general.architecture", 8, text("llama"))
HUGE = 2**63
GGUFS = {
    "magic alone": b"GGUF",
    "half a header": header()[:-1],
    "version 1": header(version=1),
    "version 99": header(version=99),
    "huge key count": header(keys=HUGE),
    "huge tensor count": header(keys=1, tensors=HUGE) + ARCH,
    "many keys, none there": header(keys=2**31),
    "huge key name": header(keys=1) + struct.pack("<Q", HUGE),
    "huge string": header(keys=1) + text("a") + struct.pack("<IQ", 8, HUGE),
    "huge array of numbers": header(keys=1) + text("a") + struct.pack("<IIQ", 9, 4, HUGE),
    "array whose bytes overflow": header(keys=1) + text("a") + struct.pack("<IIQ", 9, 12, 2**61 + 1),
    "huge array of strings": header(keys=1) + text("a") + struct.pack("<IIQ", 9, 8, HUGE),
    "arrays in arrays": header(keys=1) + text("a") + struct.pack("<I", 9) + struct.pack("<IQ", 9, 1) * 5000,
    "unknown type": header(keys=1) + text("a") + struct.pack("<I", 77),
    "a key twice": header(keys=2) + ARCH + ARCH,
    "no architecture": header(keys=1) + key("a", 4, struct.pack("<I", 1)),
    "architecture is a number": header(keys=1) + key("general.architecture", 4, struct.pack("<I", 1)),
    "architecture is a long string": header(keys=1) + key("general.architecture", 8, text("x" * 5000)),
    "alignment 0": header(keys=2) + ARCH + key("general.alignment", 4, struct.pack("<I", 0)),
    "tensor of 9 dimensions": header(keys=1, tensors=1) + ARCH + text("t") + struct.pack("<I", 9) + bytes(200),
    "NUL bytes": bytes(4096),
}
FILES = {
    "empty": (b"", "is empty"),
    "spaces": (b"  \n", "is empty"),
    "YAML": (b"---\nmodel_type: llama\n", "looks like YAML"),
    "YAML without a mark": (b"model_type: llama\nrope_theta: 10000\n", "looks like YAML"),
    "pickle": (b"\x80\x04\x95\x10\x00\x00\x00}\x94.", "pickle, which ropewalk never loads"),
    "zip": (b"PK\x03\x04" + bytes(50), "zip archive"),
    "HTML": (b"<!DOCTYPE html>", "looks like an HTML page"),
    "LFS pointer": (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "git lfs pull"),
    "BOM": (b"\xef\xbb\xbf{}", "byte order mark"),
    "UTF-16": ('{"model_type": "llama"}'.encode("utf-16"), "UTF-16"),
    "NUL": (b'{"model_type": "llama\x00"}', "NUL bytes"),
    "Latin-1": (b'{"model_type": "llam\xe1"}', "is not text"),
    "brackets": (b"[" * 1_000_000, "too deeply nested"),
    "objects": (b'{"text_config":' * 100_000, "too deeply nested"),
    "empty lists": (b"[" + b"[]," * 699_000 + b"1]", "must hold a JSON object"),
    "a number too long": (b'{"rope_theta": ' + b"9" * 100_000 + b"}", "is not JSON"),
}


@contextlib.contextmanager
def in_time():
    """The processor's time alone, and no rubbish of other tests looked through: both are not the reader's."""
    gc.freeze()
    started = time.process_time()
    try:
        yield
    finally:
        gc.unfreeze()
    assert time.process_time() - started < LIMIT_S


def refused(target):
    with in_time(), pytest.raises(RopewalkError) as told:
        read(target)
    return str(told.value)


def test_a_model_among_a_million_lists_is_read_in_time(tmp_path):
    path = tmp_path / "config.json"
    path.write_bytes(b'{"model_type": "llama", "a": [' + b"[]," * 1_398_000 + b"[]]}")
    with in_time():
        assert read(path).model_type == "llama"


@pytest.mark.parametrize("name", GGUFS)
def test_damaged_ggufs(tmp_path, name):
    path = tmp_path / "model.gguf"
    path.write_bytes(GGUFS[name])
    assert str(path) in refused(path)


@pytest.mark.parametrize("name", FILES)
def test_files_that_are_no_configuration(tmp_path, name):
    body, words = FILES[name]
    path = tmp_path / "config.json"
    path.write_bytes(body)
    assert words in refused(path)


def sparse(path, start, size):
    """A file that claims a size and takes no room."""
    path.write_bytes(start)
    os.truncate(path, size)
    return path


def test_divisors_without_a_dimension_are_a_finding(tmp_path):
    numbers = {"block_count": 2, "embedding_length": 256, "attention.head_count": 4, "context_length": 9}
    keys = [ARCH, *(key(f"llama.{name}", 4, struct.pack("<I", value)) for name, value in numbers.items())]
    tensor = text("rope_freqs.weight") + struct.pack("<IIQ", 0, 0, 0)
    path = tmp_path / "m.gguf"
    path.write_bytes(header(keys=len(keys), tensors=1) + b"".join(keys) + tensor + bytes(64))
    model = read(path)
    errors = [finding.message for finding in model.findings if finding.severity == "error"]
    assert model.ropes == () and "must be a row of 1 to 65536" in errors[0]


def test_divisors_that_are_a_signalling_nan_are_a_finding(tmp_path):
    path = tmp_path / "m.gguf"
    path.write_bytes(
        SEEDS[".gguf"].replace(struct.pack("<f", 1.0) * 64, b"\x01\x00\xa0\x7f" + struct.pack("<f", 1.0) * 63)
    )
    assert any(finding.severity == "error" for finding in read(path).findings)


LARGE = {
    "a gigabyte of empty tokens": (header(keys=2) + ARCH + text("t") + struct.pack("<IIQ", 9, 8, 2**27), ".gguf"),
    "a gigabyte of keys": (header(keys=16_000) + ARCH, ".gguf"),
    "a string of a gigabyte, then more": (header(keys=3) + ARCH + text("t") + struct.pack("<IQ", 8, 2**29), ".gguf"),
    "a million and a half tokens": (header(keys=2) + ARCH + text("t") + struct.pack("<IIQ", 9, 8, 1_500_000), ".gguf"),
    "tensors without end": (header(keys=1, tensors=32_768) + ARCH, ".gguf"),
    "a gigabyte of JSON": (b'{"model_type": "llama", "x": "', ".json"),
    "a safetensors header of a gigabyte": (struct.pack("<Q", 2**30 - 8), ".safetensors"),
    "a safetensors header of 64 MiB": (struct.pack("<Q", 2**26), ".safetensors"),
    "an ONNX graph of a gigabyte": (b"\x08\x0a", ".onnx"),
    "a table of 4 GiB": (npy("<f4", (2**23, 128)), ".npy"),
    "a table of one long row": (npy("<f4", (2, 2**40)), ".npy"),
    "a table's header of 4 GiB": (b"\x93NUMPY\x02\x00\xff\xff\xff\xff", ".npy"),
    "an archive of nothing": (b"PK\x03\x04", ".npz"),
    "a llama2.c header": (struct.pack("<7i", 2**20, 2**20, 9999, 2, 2, 2**30, 2**30), ".bin"),
}


def test_what_claims_a_gigabyte_takes_neither_time_nor_memory(tmp_path):
    (tmp_path / "config.json").write_text('{"model_type": "llama", "head_dim": 64, "rope_theta": 10000}')
    paths = [str(sparse(tmp_path / f"{n}{suffix}", start, 2**30)) for n, (start, suffix) in enumerate(LARGE.values())]
    program = f"""
        import json, resource, time
        import ropewalk
        for path in {paths!r}:
            started = time.process_time()
            try:
                ropewalk.read(path)
            except ropewalk.RopewalkError:
                pass
            seconds = time.process_time() - started
            try:  # ru_maxrss starts from what the process that forked held
                held = next(line for line in open("/proc/self/status") if line.startswith("VmHWM")).split()[1]
            except OSError:
                held = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            print(json.dumps([seconds, int(held) / 1024]))
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, timeout=60)
    assert done.stderr == ""
    figures = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(figures) == len(LARGE)
    for name, (seconds, megabytes) in zip(LARGE, figures, strict=True):
        assert seconds < LIMIT_S and megabytes < LIMIT_MB, (name, seconds, megabytes)


def test_special_files_are_refused_without_waiting(tmp_path):
    os.mkfifo(tmp_path / "config.json")
    assert "no config.json" in refused(tmp_path)
    assert "no regular file" in refused(tmp_path / "config.json")
    os.mkfifo(tmp_path / "m.gguf")
    assert "no regular file" in refused(tmp_path / "m.gguf")
    assert "no regular file" in refused("/dev/zero")


def test_links_that_loop(tmp_path):
    loop = tmp_path / "config.json"
    loop.symlink_to("config.json")
    assert refused(loop)
    (tmp_path / "a").symlink_to(tmp_path)
    assert refused(tmp_path / "a" / "a" / "a")
    (tmp_path / "m.safetensors").symlink_to("m.safetensors")
    assert refused(tmp_path / "m.safetensors")


@pytest.mark.skipif(not Path("/proc/self/mem").exists(), reason="there is no /proc")
def test_a_regular_file_that_cannot_be_read_is_one_error():
    assert "cannot be read" in refused("/proc/self/mem")
    with Path("/proc/self/mem").open("rb", buffering=0) as stream, pytest.raises(RopewalkError, match="cannot be read"):
        read_some(stream, 8, Path("/proc/self/mem"))


def test_a_file_that_has_nothing_yet_is_one_error():
    class Waiting:
        def read(self, _):
            return None  # what a read without blocking gives

    with pytest.raises(RopewalkError, match="waits for data"):
        read_some(Waiting(), 8, Path("here"))


def test_a_hundred_thousand_unused_keys_are_a_hundred_findings():
    block = {"type": "linear", "factor": 2, **{f"k{n}": n for n in range(100_000)}}
    model = read({"model_type": "llama", "head_dim": 64, "rope_theta": 1e4, "rope_scaling": block})
    unused = [one for one in model.findings if one.name == "key-unused"]
    assert len(unused) == 100 and unused[-1].message.endswith("Any further ones of this kind are left out.")
    assert model.rope.scaling.factor == 2


def test_odd_names_are_refused():
    for name in ("", "\0", "a\0b", "x" * 5000, "hf://", "hf://\0", "//", "..", "org/" + "n" * 500, "\ud800/x"):
        try:
            read(name)
        except RopewalkError:
            continue
        pytest.fail(f"{name!r} was read")


def test_stored_frequencies_that_differ_are_said(tmp_path):
    import numpy as np

    config = {"model_type": "llama", "head_dim": 8, "num_hidden_layers": 1, "rope_theta": 500}
    (tmp_path / "config.json").write_text(json.dumps(config))
    name = "model.layers.0.self_attn.rotary_emb.inv_freq"
    right = 500.0 ** (-np.arange(4) / 4)
    for values, dtype, said in ((right, "F32", False), (right, "F16", False), (right / 4, "F32", True)):
        body = values.astype({"F32": "<f4", "F16": "<f2"}[dtype]).tobytes()
        entry = json.dumps({name: {"dtype": dtype, "shape": [4], "data_offsets": [0, len(body)]}}).encode()
        (tmp_path / "model.safetensors").write_bytes(struct.pack("<Q", len(entry)) + entry + body)
        model = read(tmp_path / "model.safetensors")
        assert any(one.code == "RW176" for one in model.findings) is said
        assert model.rope.rope_theta == 500


@pytest.mark.skipif(not BIN.is_dir(), reason="the shared files are not there")
def test_llama2c_is_read_from_its_tables(tmp_path):
    raw = (BIN / "stories260K.bin").read_bytes()
    rope = read(BIN / "stories260K.bin").rope
    assert (rope.head_dim, rope.rope_theta, rope.pairing, rope.max_position_embeddings) == (8, 1e4, "interleaved", 512)
    path = tmp_path / "m.bin"
    path.write_bytes(raw[:-1])
    assert "pickle" in refused(path)


# --- fuzzers ---------------------------------------------------------------------------------------------------------


def _seeds():
    """One small file of every kind that is read."""
    numbers = [
        ("block_count", 4, "<I", 2),
        ("embedding_length", 4, "<I", 256),
        ("attention.head_count", 4, "<I", 2),
        ("context_length", 4, "<I", 512),
        ("rope.freq_base", 6, "<f", 1e4),
        ("rope.scaling.factor", 6, "<f", 4.0),
        ("rope.scaling.original_context_length", 4, "<I", 128),
    ]
    keys = [ARCH, *(key(f"llama.{name}", kind, struct.pack(code, value)) for name, kind, code, value in numbers)]
    keys.append(key("llama.rope.scaling.type", 8, text("linear")))
    keys.append(key("tokenizer.ggml.tokens", 9, struct.pack("<IQ", 8, 3) + text("a") + text("bc") + text("")))
    tensor = text("rope_freqs.weight") + struct.pack("<IQIQ", 1, 64, 0, 0)
    whole = header(keys=len(keys), tensors=1) + b"".join(keys) + tensor
    gguf = whole + bytes(-len(whole) % 32) + struct.pack("<64f", *([1.0] * 64))
    config = json.dumps(
        {
            "model_type": "llama",
            "head_dim": 64,
            "num_hidden_layers": 2,
            "rope_theta": 1e4,
            "rope_scaling": {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 99},
        }
    )
    entry = json.dumps({"a.0.inv_freq": {"dtype": "F32", "shape": [32], "data_offsets": [0, 128]}}).encode()
    llama = struct.pack("<7i", 4, 4, 1, 2, 2, 3, 2)
    floats = 3 * 4 + (2 * 4 + 2 * 16 + 2 * 16 + 3 * 16) + 4 + 2 * 2
    return {
        ".gguf": gguf,
        ".json": config.encode(),
        ".safetensors": struct.pack("<Q", len(entry)) + entry + struct.pack("<32f", *([0.5] * 32)),
        ".bin": llama + struct.pack(f"<{floats}f", *([0.5] * floats)),
        ".onnx": _onnx(),
        ".npy": npy("<f4", (4, 4)) + _rows(),
        ".npz": _npz(npy("<f4", (4, 4)) + _rows()),
    }


def _rows():
    """Four positions of two pairs: cos, then sin."""
    angles = [(m, m / 100) for m in range(4)]
    return struct.pack("<16f", *(f(one) for pair in angles for f in (math.cos, math.sin) for one in pair))


def _npz(array):
    memory = io.BytesIO()
    with zipfile.ZipFile(memory, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("cos_sin_cache.npy", array)
    return memory.getvalue()


def _onnx():
    try:
        from onnx import TensorProto, helper
    except ImportError:
        return b"\x08\x0a"
    rows = {"c": [1.0, 1.0, math.cos(1.0), math.cos(0.01)], "s": [0.0, 0.0, math.sin(1.0), math.sin(0.01)]}
    tables = [helper.make_tensor(name, TensorProto.FLOAT, [2, 2], values) for name, values in rows.items()]
    node = helper.make_node("RotaryEmbedding", ["x", "c", "s"], ["y"], interleaved=0)
    return helper.make_model(helper.make_graph([node], "g", [], [], initializer=tables)).SerializeToString()


SEEDS = _seeds()


def spoil(raw, rng):
    """Change a file as damage or malice would."""
    data = bytearray(raw)
    for _ in range(rng.choice((1, 1, 2, 3, 8))):
        at = rng.randrange(len(data) + 1)
        what = rng.randrange(7)
        if what == 0 and data:
            data[min(at, len(data) - 1)] ^= 1 << rng.randrange(8)
        elif what == 1:
            del data[at:]
        elif what == 2:
            del data[at : at + rng.randrange(1, 16)]
        elif what == 3:
            data[at:at] = rng.randbytes(rng.randrange(1, 16))
        elif what == 4:
            data[at : at + 8] = struct.pack(
                "<Q", rng.choice((0, 1, 2**31, 2**32 - 1, 2**63, 2**64 - 1, rng.getrandbits(16)))
            )
        elif what == 5:
            data[at : at + 4] = rng.choice(
                (b"\xff\xff\xff\xff", b"\0\0\0\0", b"\0\0\xc0\x7f", b"null", b"1e99", b"-1,")
            )
        else:
            other = rng.randrange(len(data) + 1)
            data[at:at] = data[other : other + rng.randrange(1, 64)]
    return bytes(data)


def tried(path, raw):
    """Read some bytes as a file: a Model or a RopewalkError, nothing else."""
    path.write_bytes(raw)
    try:
        assert isinstance(read(path), Model)
    except RopewalkError:
        pass


@pytest.mark.parametrize("suffix", SEEDS)
def test_seeds_are_read(tmp_path, suffix):
    (tmp_path / "config.json").write_bytes(SEEDS[".json"])
    path = tmp_path / f"m{suffix}"
    path.write_bytes(SEEDS[suffix])
    assert read(path).ropes or suffix == ".bin"


@pytest.mark.parametrize("suffix", SEEDS)
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(seed=st.integers(0, 2**32))
def test_fuzzed_files_give_a_model_or_an_error(tmp_path, suffix, seed):
    (tmp_path / "config.json").write_bytes(SEEDS[".json"])
    tried(tmp_path / f"m{suffix}", spoil(SEEDS[suffix], random.Random(seed)))


@pytest.mark.slow
@pytest.mark.parametrize("suffix", SEEDS)
def test_a_long_time_of_fuzzing(tmp_path, suffix, record_property):
    """As long as ROPEWALK_FUZZ_S says; prints how many inputs were tried."""
    (tmp_path / "config.json").write_bytes(SEEDS[".json"])
    until = time.monotonic() + float(os.environ.get("ROPEWALK_FUZZ_S", "60"))
    rng, count, worst = random.Random(suffix), 0, 0.0
    while time.monotonic() < until:
        started = time.process_time()
        tried(tmp_path / f"m{suffix}", spoil(SEEDS[suffix], rng))
        worst = max(worst, time.process_time() - started)
        count += 1
    record_property("inputs", count)
    print(f"{suffix}: {count} inputs, the slowest {worst:.3f} s")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert worst < LIMIT_S and peak < 2**22
