"""What is said about the machine."""

import json
import platform

import pytest

torch = pytest.importorskip("torch")

import ropewalk  # noqa: E402
from ropewalk.bench import machine  # noqa: E402
from ropewalk.turning import kernel  # noqa: E402


def test_the_description_is_plain_and_names_what_decides_speed(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    monkeypatch.setenv("UNRELATED", "x")
    monkeypatch.setenv("LD_PRELOAD", "/opt/lib/libjemalloc.so.2:/opt/lib/other.so")
    found = machine.describe()
    assert json.loads(json.dumps(found)) == found
    assert found["cpu"] and found["cpus"] >= 1
    assert found["threads"] == torch.get_num_threads()
    assert found["kernel"] == kernel.why
    assert found["settings"]["OMP_NUM_THREADS"] == "3"
    assert "UNRELATED" not in found["settings"]
    assert found["preloaded"] == ["libjemalloc.so.2", "other.so"]
    assert found["python"] == platform.python_version()
    assert found["versions"]["ropewalk"] == ropewalk.__version__
    assert found["versions"]["torch"].split("+")[0] == torch.__version__.split("+")[0]
    assert found["load"] is None or found["load"] >= 0


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("processor\t: 0\nmodel name\t: A Fine CPU @ 2GHz\nmodel name\t: another\n", "A Fine CPU @ 2GHz"),
        ("processor\t: 0\nCPU part\t: 0xd0c\n", None),
    ],
)
def test_the_processor_has_a_name_or_at_least_a_kind(monkeypatch, tmp_path, text, name):
    info = tmp_path / "cpuinfo"
    info.write_text(text)
    monkeypatch.setattr(machine, "CPU_INFO", info)
    assert machine.cpu_name() == (name or platform.processor() or platform.machine())
    monkeypatch.setattr(machine, "CPU_INFO", tmp_path / "absent")
    assert machine.cpu_name()


@pytest.mark.parametrize(
    ("text", "mode"), [("always [madvise] never\n", "madvise"), ("[always] never", "always"), ("", None)]
)
def test_the_mode_of_huge_pages_is_the_word_in_brackets(monkeypatch, tmp_path, text, mode):
    enabled = tmp_path / "enabled"
    enabled.write_text(text)
    monkeypatch.setattr(machine, "HUGE_PAGES", enabled)
    assert machine.huge_pages() == mode
    monkeypatch.setattr(machine, "HUGE_PAGES", tmp_path / "absent")
    assert machine.huge_pages() is None
