"""What pytest leaves alone: modules of optional packages that are not installed, whose doctests cannot be collected."""

from importlib.util import find_spec

NEEDS = {
    "src/ropewalk/turning/_triton_kernels.py": "triton",
    "src/ropewalk/turning/op.py": "torch",
    "src/ropewalk/turning/devices.py": "torch",
    "src/ropewalk/turning/torch_ops.py": "torch",
    "src/ropewalk/turning/torch_calls.py": "torch",
    "src/ropewalk/torch.py": "torch",
    "src/ropewalk/turning/jax_angles.py": "jax",
    "src/ropewalk/turning/jax_calls.py": "jax",
    "src/ropewalk/turning/jax_ops.py": "jax",
    "src/ropewalk/turning/jax_tables.py": "jax",
    "src/ropewalk/jax.py": "jax",
}
collect_ignore = [path for path, package in NEEDS.items() if find_spec(package) is None]
