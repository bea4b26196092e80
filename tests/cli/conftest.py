"""A configuration that the tests of `ropewalk inspect` start from, with changes, as a file."""

import json

import pytest

from ._inspecting import LLAMA


@pytest.fixture
def config(tmp_path):
    def write(**changes):
        path = tmp_path / "config.json"
        path.write_text(json.dumps({**LLAMA, **changes}), encoding="utf-8")
        return path

    return write
