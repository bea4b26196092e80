"""Tables of cos and sin taken back to a description: made here in float64 from a formula, not by the reader's kin."""

import io
import struct
import zipfile

import numpy as np
import pytest

from ropewalk import Rope, RopewalkError, read
from ropewalk.models.tables import read_tables
from ropewalk.scaling import Default, Linear, Llama3, LongRope, Proportional, Yarn

LLAMA3 = Llama3(factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=8192)
YARN = Yarn(factor=32.0, original_max_position_embeddings=4096)
UNTRUNCATED = Yarn(factor=32.0, original_max_position_embeddings=4096, truncate=False)


def a_rope(scaling=None, *, theta=500000.0, width=64, pairing="half", length=2048, **more):
    return Rope(
        head_dim=width,
        rope_theta=theta,
        pairing=pairing,
        scaling=scaling or Default(),
        max_position_embeddings=length,
        **more,
    )


def made(rope, dtype=np.float32, *, float32_angles=False):
    pairs = rope.pairs(1)
    ids = np.arange(rope.max_position_embeddings)[:, None]
    angles = ids * pairs.inv_freq
    if float32_angles:
        angles = ids.astype(np.float32) * pairs.inv_freq.astype(np.float32)
    return [(f(angles) * pairs.cos_sin_factor).astype(dtype) for f in (np.cos, np.sin)]


def codes(model):
    return {one.code for one in model.findings}


@pytest.mark.parametrize("kind", ["float32", "float16", "float64", "float32 angles", "bfloat16"])
@pytest.mark.parametrize(
    "rope",
    [
        a_rope(),
        a_rope(theta=10000.0, width=10, length=64),
        a_rope(theta=1e6, width=128, length=512),
        a_rope(Linear(factor=8.0), theta=1e6),
        a_rope(LLAMA3, width=128),
        a_rope(YARN, theta=150000.0),
        a_rope(UNTRUNCATED, theta=150000.0),
        a_rope(Proportional(partial_rotary_factor=0.25, factor=1.0), theta=1e6, width=128),
        a_rope(direction=-1),
    ],
    ids=["default", "narrow", "wide", "linear", "llama3", "yarn", "untruncated", "proportional", "backwards"],
)
def test_a_table_tells_base_scaling_and_magnitude(rope, kind):
    if kind == "bfloat16":
        dtype = pytest.importorskip("ml_dtypes").bfloat16
    else:
        dtype = np.dtype(kind.split()[0])
    cos, sin = made(rope, dtype, float32_angles=" " in kind)
    model = read_tables(cos, sin, pairing="half")
    assert model.rope == rope
    assert codes(model) == {"RW178"}


def test_frequencies_come_out_to_float32_and_better():
    rope = a_rope(LLAMA3, width=128, length=4096)
    divisors = tuple((1 + np.random.default_rng(1).random(64)).tolist())
    own = LongRope(short_factor=divisors, long_factor=divisors, original_max_position_embeddings=8)
    for one, most in ((rope, 6e-8), (rope.replace(scaling=own), 6e-8)):
        seen = read_tables(*made(one), pairing="half").rope.pairs(1)
        assert np.abs(seen.inv_freq / one.pairs(1).inv_freq - 1).max() < most


def test_a_table_of_its_own_is_kept_with_its_magnitude():
    divisors = tuple((1 + np.random.default_rng(1).random(32)).tolist())
    own = LongRope(
        short_factor=divisors, long_factor=divisors, original_max_position_embeddings=8, attention_factor=1.19
    )
    model = read_tables(*made(a_rope(own)), pairing="interleaved")
    assert codes(model) == {"RW181"} and model.rope.pairing == "interleaved"
    assert model.rope.pairs(9000).cos_sin_factor == pytest.approx(1.19, rel=1e-7)


def test_frequencies_rounded_to_bfloat16_are_no_known_scaling():
    ml_dtypes = pytest.importorskip("ml_dtypes")
    rounded = a_rope().pairs().inv_freq.astype(ml_dtypes.bfloat16).astype(np.float64)
    angles = np.arange(2048)[:, None] * rounded
    model = read_tables(np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32), pairing="half")
    assert codes(model) == {"RW181"}
    np.testing.assert_allclose(model.rope.pairs(1).inv_freq, rounded, rtol=1e-7)


def test_a_factor_on_an_unscaled_table_is_seen():
    cos, sin = made(a_rope(), np.float64)
    pairs = read_tables(1.25 * cos, 1.25 * sin, pairing="half").rope.pairs()
    assert pairs.cos_sin_factor == pytest.approx(1.25, rel=1e-12)
    np.testing.assert_allclose(pairs.inv_freq, a_rope().pairs().inv_freq, rtol=1e-12)


@pytest.mark.parametrize("axes", [(0,), (0, 1), (1,), (1, 2)], ids=str)
@pytest.mark.parametrize(
    ("double", "pairing"),
    [
        (lambda part, sign: np.concatenate([sign * part, part], axis=-1), "half"),
        (lambda part, sign: np.stack([sign * part, part], axis=-1).reshape(len(part), -1), "interleaved"),
    ],
    ids=["tiled", "repeated"],
)
@pytest.mark.parametrize("sign", [1, -1])
def test_doubled_tables_tell_the_pairing(double, pairing, axes, sign):
    cos, sin = made(a_rope())
    cos, sin = double(cos, 1), double(sin, sign)
    model = read_tables(np.expand_dims(cos, axes), np.expand_dims(sin, axes))
    assert model.rope == a_rope(pairing=pairing) and codes(model) == {"RW178"}


def test_what_is_given_wins_over_the_form_of_the_table():
    cos, sin = (np.concatenate([part, part], axis=-1) for part in made(a_rope()))
    model = read_tables(cos, sin, pairing="interleaved", head_dim=96)
    assert model.rope == a_rope(pairing="interleaved").replace(head_dim=96, rotary_dim=64)


def test_a_single_table_leaves_the_pairing_open():
    model = read_tables(*made(a_rope()))
    assert model.rope.pairing == "half" and codes(model) == {"RW180", "RW178"}


def test_torch_tensors_are_taken():
    torch = pytest.importorskip("torch")
    cos, sin = (torch.from_numpy(part).bfloat16().requires_grad_() for part in made(a_rope()))
    assert read_tables(cos, sin, pairing="half").rope == a_rope()


def test_the_caches_of_vllm_and_flashinfer_read_back():
    pytest.importorskip("torch")
    from ropewalk.compat import flash_attn, flashinfer

    rope = read("llama-3.1-8b").rope
    model = read_tables(flashinfer.cos_sin_cache(rope, 4096), pairing="half")
    assert model.rope == rope.replace(max_position_embeddings=4096)
    model = read_tables(*flash_attn.cos_sin(rope, 4096), pairing="half")
    assert model.rope == rope.replace(max_position_embeddings=4096)


@pytest.mark.parametrize(
    "save",
    [
        lambda path, cos, sin: np.savez(path, cos=cos, sin=sin, inv_freq=cos[0]),
        lambda path, cos, sin: np.savez_compressed(path, cos_cached=cos, sin_cached=sin),
        lambda path, cos, sin: np.savez(path, anything=np.concatenate([cos, sin], axis=1)),
        lambda path, cos, sin: np.savez(path, freqs_cis=cos + 1j * sin),
        lambda path, cos, sin: np.save(path, np.concatenate([cos, sin], axis=1)),
        lambda path, cos, sin: np.save(path, np.stack([cos, sin], axis=-1)),
        lambda path, cos, sin: np.save(path, np.asfortranarray(np.concatenate([cos, sin], axis=1))),
        lambda path, cos, sin: np.save(path, (cos + 1j * sin).astype(np.complex64)),
        lambda path, cos, sin: np.save(path, np.concatenate([cos, sin], axis=1).astype(">f4")),
    ],
    ids=["cos, sin", "cached", "one", "complex npz", "one npy", "last axis", "columns first", "complex", "big-endian"],
)
def test_files_are_read(tmp_path, save):
    with (tmp_path / "tables").open("wb") as file:
        save(file, *made(a_rope(LLAMA3)))
    suffix = ".npz" if (tmp_path / "tables").read_bytes().startswith(b"PK") else ".npy"
    path = (tmp_path / "tables").rename(tmp_path / f"tables{suffix}")
    model = read(path)
    assert model.rope == a_rope(LLAMA3) and model.target == str(path)
    assert codes(model) == {"RW180", "RW178"}


def test_a_file_of_bfloat16_is_read(tmp_path):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    np.save(tmp_path / "t.npy", np.concatenate(made(a_rope(), ml_dtypes.bfloat16), axis=1))
    assert read(tmp_path / "t.npy").rope == a_rope()


def test_of_a_long_table_the_leading_rows_are_read(tmp_path, monkeypatch):
    monkeypatch.setattr("ropewalk.models.npy_file.MAX_BYTES", 2**20)
    rope = a_rope(width=128, length=5000)  # 2.4 MiB
    np.save(tmp_path / "t.npy", np.concatenate(made(rope), axis=1))
    assert read(tmp_path / "t.npy").rope == rope


def test_the_explained_table_and_its_configuration_are_equal(tmp_path):
    from ropewalk import compare

    rope = read("gpt-oss-20b").rope
    cos, sin = (np.concatenate([part, part], axis=1) for part in made(rope.replace(max_position_embeddings=4096)))
    np.savez(tmp_path / "t.npz", cos=cos, sin=sin)
    assert compare(read(tmp_path / "t.npz").rope, rope).equal


ANGLES = np.arange(64)[:, None] * 10000.0 ** (-np.arange(4) / 4)
COS, SIN = np.cos(ANGLES), np.sin(ANGLES)
SWITCHED = np.concatenate([ANGLES[:40], ANGLES[40:] / 4])


@pytest.mark.parametrize(
    ("cos", "sin", "words"),
    [
        (COS[1:], SIN[1:], "position 0"),
        (SIN, COS, "position 0"),
        (COS * np.linspace(1, 2, 4), SIN * np.linspace(1, 2, 4), "one magnitude"),
        (np.where(COS > 0.9999, np.nan, COS), SIN, "not finite"),
        (np.cos(SWITCHED), np.sin(SWITCHED), "one frequency a pair"),
        (np.ones((9, 4)), np.zeros((9, 4)), "no pair of the table turns"),
        (COS, SIN * [1, 1, 1, -1], "some the other"),
        (COS[:1], SIN[:1], "two rows"),
        (COS, SIN[:, :2], "equal tables"),
        (COS, None, "cos, then sin"),
        (np.stack([COS] * 3), np.stack([SIN] * 3), "one row a position"),
        (COS.astype(int), SIN, "floating-point"),
        ("cos", SIN, "cos must be"),
        (COS + 1j * SIN, SIN, "complex"),
    ],
    ids=lambda one: one if isinstance(one, str) else "",
)
def test_what_is_no_table_is_named(cos, sin, words):
    with pytest.raises(RopewalkError, match=words):
        read_tables(cos, sin)


def zipped(*names, **more):
    memory = io.BytesIO()
    with zipfile.ZipFile(memory, "w", zipfile.ZIP_DEFLATED, **more) as archive:
        for name in names:
            archive.writestr(name, b"\x93NUMPY\x01\x00\x0a\x00")
    return memory.getvalue()


def npy(words):
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(words)) + words.encode()


HEADER = "{{'descr': {}, 'fortran_order': {}, 'shape': {}}}"


@pytest.mark.parametrize(
    ("suffix", "raw", "words"),
    [
        (".npy", b"", "header"),
        (".npy", b"\x93NUMPY\x09\x00", "header"),
        (".npy", npy("__import__('os').abort()"), "header"),
        (".npy", npy("(" * 5000), "header"),
        (".npy", npy(HEADER.format("'|O'", False, (4, 4))) + b"\x80\x04]q\x00.", "not unpickled"),
        (".npy", npy(HEADER.format("[('a', '<f4')]", False, (4, 4))), "no plain numbers"),
        (".npy", npy(HEADER.format("'<i8'", False, (4, 4))) + bytes(128), "floating-point"),
        (".npy", npy(HEADER.format("'<f4'", False, (4,))) + bytes(16), "positions, pairs"),
        (".npy", npy(HEADER.format("'<f4'", False, (-4, 4))) + bytes(16), "positions, pairs"),
        (".npy", npy(HEADER.format("'<f4'", False, (4, 10**4000))), "header"),
        (".npy", npy(HEADER.format("'<f4'", False, (4, 4))) + bytes(60), "cut off"),
        (".npy", npy(HEADER.format("'<f4'", True, (2**40, 4))), "C order"),
        (".npz", b"PK\x03\x04", "cut off"),
        (".npz", zipped(), "no arrays"),
        (".npz", zipped("a.npy", "b.npy"), "holds a, b"),
        (".npz", zipped("cos.npy", "sin.npy"), "header"),
        (".npz", zipped("cos.npy", "sin.npy")[:-40] + bytes(18) + zipped("a")[-22:], "no .npz file"),
        (".npz", zipped(*(f"{n}.npy" for n in range(300))), "300 arrays"),
    ],
)
def test_hostile_files_give_one_clear_error(tmp_path, suffix, raw, words):
    path = tmp_path / f"t{suffix}"
    path.write_bytes(raw)
    with pytest.raises(RopewalkError, match=words) as told:
        read(path)
    assert str(path) in str(told.value) and len(str(told.value)) < 400 + len(str(path))


def test_a_small_archive_of_a_huge_array_is_read_no_further_than_asked(tmp_path):
    words = HEADER.format("'<f4'", False, (2**22, 128))
    with zipfile.ZipFile(tmp_path / "t.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        with archive.open("cos_sin_cache.npy", "w", force_zip64=True) as member:
            member.write(npy(words))
            member.write(bytes(2**22))
    with pytest.raises(RopewalkError, match="promises"):
        read(tmp_path / "t.npz")
