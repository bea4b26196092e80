"""The Triton kernel: run by Triton's interpreter, compiled for real devices, and what a launch hands over."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
triton = pytest.importorskip("triton", minversion="3.3")  # the way of compiling by hand was another before

from triton.backends.compiler import GPUTarget  # noqa: E402
from triton.compiler import ASTSource  # noqa: E402

from ropewalk import Ladders, Rope, Sections  # noqa: E402
from ropewalk.turning import _triton_kernels, tables  # noqa: E402
from ropewalk.turning import triton as kernel  # noqa: E402

KERNEL = _triton_kernels.turn_kernel
POINTERS = {
    torch.float32: "*fp32",
    torch.float64: "*fp64",
    torch.bfloat16: "*bf16",
    torch.float16: "*fp16",
    torch.int32: "*i32",
    torch.int64: "*i64",
}
not_interpreted = pytest.mark.skipif(
    os.environ.get("TRITON_INTERPRET") == "1", reason="where Triton interprets, nothing is compiled"
)


def rope(head_dim=128, pairing="half", **rest):
    return Rope(head_dim=head_dim, rope_theta=10000.0, pairing=pairing, **rest)


def test_the_kernel_turns_as_the_truth_does_in_tritons_interpreter():
    # In a process of its own: whether Triton interprets is settled when it is imported.
    tests = Path(__file__).with_name("interpreted_triton.py")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tests)]
    environment = {**os.environ, "TRITON_INTERPRET": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]
    passed = re.search(r"^(\d+) passed in", done.stdout, flags=re.MULTILINE)
    assert passed and int(passed[1]) > 150, done.stdout[-2000:]


# -- what a launch hands over


class Launches(list):
    """Stands in for the kernel: keeps the arguments of every launch by their names."""

    def __getitem__(self, grid):
        def launch(*args, **rest):
            self.append({**dict(zip(KERNEL.arg_names, args, strict=False)), **rest, "grid": grid})

        return launch


@pytest.fixture
def launched(monkeypatch):
    """A function that turns an unfilled tensor on the CPU and gives what would have been launched."""
    launches = Launches()
    monkeypatch.setattr(kernel, "available", lambda device: None)
    monkeypatch.setattr(_triton_kernels, "turn_kernel", launches)

    def launch(shape, description, ids=None, dtype=torch.bfloat16, in_place=False):
        x = torch.empty(shape, dtype=dtype)
        kernel.turn(x, ids, description.pairs(), out=x if in_place else None)
        return launches.pop()

    return launch


def variant(launch):
    """What Triton compiles anew for: the types of all arguments, and the values that are compiled in."""
    key = {}
    for parameter in KERNEL.params:
        value = launch[parameter.name]
        if parameter.is_constexpr:
            key[parameter.name] = value
        elif isinstance(value, torch.Tensor):
            key[parameter.name] = value.dtype, parameter.do_not_specialize or value.data_ptr() % 16 == 0
        else:
            assert parameter.do_not_specialize, parameter.name
            key[parameter.name] = -(2**31) <= value < 2**31
    return key


@not_interpreted
@pytest.mark.parametrize("head_dim", [128, 80, 6])
def test_a_growing_sequence_compiles_nothing_anew(launched, head_dim):
    grown = [
        variant(launched((2, seq, 6, head_dim), rope(head_dim), torch.zeros(1, 2, seq, dtype=torch.int64)))
        for seq in (1, 2, 7, 16, 1000, 4096)
    ]
    assert all(one == grown[0] for one in grown)


@not_interpreted
def test_positions_cut_from_a_longer_row_compile_nothing_anew(launched):
    row = torch.zeros(1, 1, 8, dtype=torch.int64)
    cut = [variant(launched((1, 1, 8, 128), rope(), row[..., at : at + 1])) for at in range(3)]
    assert all(one == cut[0] for one in cut)


@not_interpreted
def test_queries_and_keys_share_one_variant(launched):
    assert variant(launched((1, 9, 32, 128), rope())) == variant(launched((1, 9, 8, 128), rope()))


def test_every_head_of_every_token_has_its_program(launched):
    for shape in ((1, 1, 32, 128), (1, 4096, 32, 128), (32, 1, 8, 128), (1, 77, 5, 96), (3, 1, 1, 64), (1, 9, 130, 8)):
        launch = launched(shape, rope(shape[3]))
        tokens, heads = shape[0] * shape[1], shape[2]
        assert launch["heads_each"] % launch["BH"] == 0
        assert launch["chunks"] == -(-heads // launch["heads_each"])
        assert launch["grid"] == (-(-tokens // launch["BT"]) * launch["chunks"],)


def test_the_heads_of_few_tokens_are_dealt_to_many_programs(launched):
    assert launched((1, 1, 32, 128), rope())["chunks"] == 8
    assert launched((1, 8192, 32, 128), rope())["chunks"] == 1


def test_the_kernel_counts_as_the_tables_and_the_caller_do():
    names = _triton_kernels
    assert (names.LEVEL_ROWS.value, names.LEVEL_BITS.value) == (tables.ROWS, tables.BITS)
    assert (names.RUNS.value, names.ADJACENT.value, names.LISTED.value) == (
        kernel._RUNS,
        kernel._ADJACENT,
        kernel._LISTED,
    )
    assert (names.COUNTED.value, names.ONE_AXIS.value, names.AXES.value) == (
        kernel._COUNTED,
        kernel._ONE_AXIS,
        kernel._AXES,
    )


# -- compiled for real devices, though none is here


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    """A new cache for Triton, so that everything is compiled, and once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRITON_CACHE_DIR", str(tmp_path_factory.mktemp("triton")))
        yield


def compiled(launch, capability=90):
    """Compile a launch to machine code."""
    signature, constants, attributes = {}, {}, {}
    for index, parameter in enumerate(KERNEL.params):
        value = launch[parameter.name]
        if parameter.is_constexpr:
            signature[parameter.name], constants[(index,)] = "constexpr", value
        elif isinstance(value, torch.Tensor):
            signature[parameter.name] = POINTERS[value.dtype]
            if not parameter.do_not_specialize:
                attributes[(index,)] = [["tt.divisibility", 16]]
        else:
            signature[parameter.name] = "i32"
    source = ASTSource(KERNEL, signature=signature, constexprs=constants, attrs=attributes)
    options = {name: launch[name] for name in ("num_warps", "enable_fp_fusion")}
    return triton.compile(source, target=GPUTarget("cuda", capability, 32), options=options)


INTEGERS = torch.zeros(1, 1, 9, dtype=torch.int64)
CASES = {
    "half": ((1, 9, 32, 128), rope(), INTEGERS),
    "interleaved": ((1, 9, 32, 128), rope(pairing="interleaved"), INTEGERS),
    "counted": ((1, 9, 32, 128), rope(), None),
    "partial": ((1, 9, 32, 128), rope(rotary_dim=32), INTEGERS),
    "tail": ((1, 9, 32, 192), rope(192, "interleaved", rotary_start=128), INTEGERS),
    "floats": ((1, 9, 32, 128), rope(), INTEGERS.double()),
    "multimodal": ((1, 9, 32, 128), rope(axes=Sections(sections=(16, 24, 24))), INTEGERS.expand(3, 1, 9)),
    "grid": ((1, 9, 16, 72), rope(72, axes=Ladders(widths=(36, 36), pairing_within="axis")), INTEGERS.expand(2, 1, 9)),
    "wide": ((1, 9, 4, 1024), rope(1024), INTEGERS),
    "narrow": ((1, 9, 1, 6), rope(6), INTEGERS),
}


@not_interpreted
@pytest.mark.parametrize("case", CASES)
def test_every_case_compiles_to_machine_code_that_reduces_angles_in_full(case, launched, cache):
    code = compiled(launched(*CASES[case]))
    assert code.asm["cubin"]
    assert "i2opi" in code.asm["ptx"]  # the bits of 2/π, for large angles
    assert not re.search(r"(sin|cos)\.approx", code.asm["ptx"])


@not_interpreted
@pytest.mark.parametrize(
    ("case", "dtype"),
    [
        *((case, torch.bfloat16) for case in ("half", "interleaved", "partial", "tail")),
        *(("half", dtype) for dtype in (torch.float32, torch.float64, torch.float16)),
    ],
    ids=str,
)
def test_whole_vectors_are_read_and_written(case, dtype, launched, cache):
    ptx = compiled(launched(*CASES[case], dtype)).asm["ptx"]
    wide = r"v2\.b64" if dtype == torch.float64 else r"v4\.b32"  # 16 bytes for each thread
    assert re.search(rf"ld\.global\.{wide}", ptx)
    assert set(re.findall(r"st\.global\.([\w.]+)", ptx)) == {wide.replace("\\", "")}


@not_interpreted
@pytest.mark.parametrize("capability", [10 * kernel.OLDEST[0] + kernel.OLDEST[1], 80, 89, 100])
def test_older_and_newer_devices_are_compiled_for(capability, launched, cache):
    assert compiled(launched(*CASES["half"]), capability).asm["cubin"]


@not_interpreted
def test_in_place_nothing_is_copied(launched, cache):
    stores = [
        len(re.findall(r"st\.global", compiled(launch).asm["ptx"]))
        for launch in (launched(*CASES["partial"], in_place=True), launched(*CASES["partial"]))
    ]
    assert stores[0] < stores[1]


# -- where it can be used


@pytest.mark.parametrize("device", ["cpu", "mps", "meta", "xpu:1"])
def test_other_devices_than_cuda_are_named(device, monkeypatch):
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    assert kernel.available(device) == f"it turns tensors of CUDA devices, and this one is {device.split(':')[0]}"
    assert kernel.available(torch.device(device)) == kernel.available(device)


def test_the_interpreter_takes_tensors_of_the_cpu(monkeypatch):
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    assert kernel.available("cpu") is None


@pytest.mark.parametrize("package", ["torch", "triton"])
def test_a_missing_package_is_named(package, monkeypatch):
    found = kernel.find_spec
    monkeypatch.setattr(kernel, "find_spec", lambda name: None if name == package else found(name))
    kernel._missing.cache_clear()
    assert kernel.available("cuda:0") == f"{package} is not installed"
    kernel._missing.cache_clear()


@pytest.mark.parametrize(
    ("there", "capability", "reason"),
    [
        (False, None, "torch sees no CUDA device"),
        (True, (7, 0), "it needs compute capability 7.5, and this device has 7.0"),
        (True, (7, 5), None),
        (True, (12, 0), None),
    ],
)
def test_a_missing_or_old_device_is_named(there, capability, reason, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: there)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
    kernel._missing.cache_clear()
    assert kernel.available("cuda") == reason
    kernel._missing.cache_clear()
