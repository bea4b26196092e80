"""What tests of several files of this folder are given."""

import pytest


@pytest.fixture
def file(tmp_path):
    """A function that writes a GGUF file from keys, with a base unless it is given another."""
    pytest.importorskip("gguf")
    from ._gguf import write

    def make(architecture="llama", name="model.gguf", **keys):
        return write(tmp_path / name, architecture, **{"rope__freq_base": 10000.0, **keys})

    return make
