"""Run the tests of turning with a kernel built under sanitizers; `make sanitize` calls it with the built file.

NumPy alone is used: torch under AddressSanitizer reports what is not ours. Blocks are allocated by malloc, one each, so
that a read or write one element beyond an array is seen.
"""

import importlib.util
import sys
from pathlib import Path

import pytest


def main() -> int:
    """Load the sanitized kernel in the place of the installed one and run pytest."""
    (built,) = Path(sys.argv[1]).glob("_kernel*.so")
    name = "ropewalk.turning._kernel"
    spec = importlib.util.spec_from_file_location(name, built)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    from ropewalk.turning import kernel

    assert kernel.module is module, kernel.why
    print(f"{built}: {kernel.why}")
    sys.modules["torch"] = None  # type: ignore[assignment]  # tests that need it are skipped
    folder = Path(__file__).resolve().parents[1] / "turning"
    names = ("kernel", "laws", "rotate", "rotate_errors", "rotate_lengths", "rotate_memory", "rotate_positions")
    tests = [str(folder / f"test_{name}.py") for name in (*names, "rotate_values")]
    return pytest.main([*tests, "-q", "-s", "-p", "no:cacheprovider", "-k", "not plain", *sys.argv[2:]])


if __name__ == "__main__":
    sys.exit(main())
