"""What pytest leaves alone: modules of optional packages that are not installed, whose doctests cannot be collected."""

from importlib.util import find_spec

NEEDS = {
    "torch": [
        "compat/*.py",
        "measuring/_losses.py",
        "probe/_models.py",
        "probe/_transformers.py",
        "probe/_uses.py",
        "torch.py",
        "turning/devices.py",
        "turning/op.py",
        "turning/torch_calls.py",
        "turning/torch_ops.py",
    ],
    "triton": ["turning/_triton_kernels.py"],
    "jax": ["jax.py", "turning/jax_*.py"],
    "onnxscript": ["onnx.py", "turning/onnx_*.py"],
}
MISSING = [package for package in NEEDS if find_spec(package) is None]
collect_ignore_glob = [f"src/ropewalk/{pattern}" for package in MISSING for pattern in NEEDS[package]]
