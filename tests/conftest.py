"""Fixtures and settings that every test may use."""

import os
from pathlib import Path

import pytest
from hypothesis import settings

# No deadline: a loaded machine is not a fault of the code. Under CI the examples are the same on every run.
settings.register_profile("ropewalk", deadline=None, print_blob=True, derandomize=os.environ.get("CI") == "true")
settings.load_profile("ropewalk")

# The width of what is printed is that of no terminal: the workers of pytest-xdist inherit one.
for name in ("COLUMNS", "LINES"):
    os.environ.pop(name, None)


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Leave helper modules alone: --doctest-modules would import them, and torch or transformers with them."""
    helper = collection_path.suffix == ".py" and not collection_path.name.startswith("test_")
    return True if helper else None


@pytest.fixture(scope="session")
def shared_configs() -> Path:
    """The folder of collected model configs that lies beside some checkouts; the test is skipped elsewhere."""
    folder = Path(__file__).resolve().parents[2] / "shared" / "configs"
    if not folder.is_dir():
        pytest.skip("the collected configs (../shared/configs) are not beside this checkout")
    return folder
