"""The project itself: floors, imports, packaging, and what the documents promise."""

import ast
import json
import os
import re
import subprocess
import sys
import tomllib
import venv
import zipfile
from collections.abc import Iterator
from email.parser import Parser
from importlib.metadata import version
from pathlib import Path

import pytest

import ropewalk

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "ropewalk"
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
SOURCES = sorted(PACKAGE.rglob("*.py"))

# From the ground up. A file imports only from what stands before its own place here; inside one folder it is free.
FLOORS = (
    *("_version", "errors", "_checks", "findings", "pairs", "axes", "scaling", "rope", "turning"),
    *("torch", "jax", "onnx"),
    *(
        "positions",
        "fitting",
        "models",
        "inspection",
        "comparison",
        "engines",
        "exporting",
        "planning",
        "simulation",
        "gate",
    ),
    *("bench", "compat", "measuring", "probe", "testing", "layouts", "fanout", "lab", "explorer"),
    *("__init__", "cli", "__main__"),
)
PUBLIC_FUNCTIONS = "read rotate rotate_qk tables score verify inspect compare check export extend convert".split()


def floor(module: tuple[str, ...]) -> str:
    """The place in FLOORS of a module given as its dotted name's parts: ("ropewalk", "rope") stands on "rope"."""
    return module[1] if len(module) > 1 else "__init__"


def imported(tree: ast.AST, package: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """Every module that a file in package imports, at its top, inside functions and for type checkers alike."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield tuple(alias.name.split("."))
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            base += tuple(node.module.split(".")) if node.module else ()
            for alias in node.names:  # `from ropewalk import rope` reaches the module rope, not the package's own floor
                deeper = base == ("ropewalk",) and alias.name in FLOORS
                yield (*base, alias.name) if deeper else base


def upward_imports(source: str, path: Path) -> list[str]:
    """What a file at path (relative to src/) imports from its own floor or above, in words."""
    parts = path.with_suffix("").parts
    own = floor(parts)
    faults = [] if own in FLOORS else [f"{path}: {own} has no floor yet: give it one in FLOORS"]
    for module in imported(ast.parse(source), parts[:-1]):
        if module[:1] != ("ropewalk",) or own not in FLOORS:
            continue
        other = floor(module)
        same_folder = other == own and len(path.parts) > 2
        if not same_folder and (other not in FLOORS or FLOORS.index(other) >= FLOORS.index(own)):
            faults.append(f"{path}: {own} imports {'.'.join(module)}, which is not below it")
    return faults


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_a_file_imports_only_from_floors_below_its_own(path):
    assert upward_imports(path.read_text(encoding="utf-8"), path.relative_to(PACKAGE.parent)) == []


@pytest.mark.parametrize(
    ("path", "source", "allowed"),
    [
        ("scaling/yarn.py", "from ..errors import RopewalkError", True),
        ("scaling/yarn.py", "from . import linear", True),
        ("scaling/yarn.py", "from .linear import Linear", True),
        ("scaling/yarn.py", "from ..rope import Rope", False),
        ("scaling/yarn.py", "def f():\n    from ropewalk.rope import Rope", False),
        ("scaling/yarn.py", "import ropewalk.rope", False),
        ("scaling/yarn.py", "from ropewalk import rope", False),
        ("scaling/yarn.py", "from ropewalk import read", False),
        ("scaling/yarn.py", "from .. import read", False),
        ("errors.py", "from .findings import Finding", False),
        ("rope.py", "from . import pairs, models", False),
        ("rope.py", "from . import pairs, scaling", True),
        ("rope.py", "import torch.nn", True),
        ("cli/inspect.py", "from ropewalk import read\nfrom ..models import Model", True),
        ("__init__.py", "from .models import read", True),
        ("__init__.py", "from .cli import main", False),
        ("explorer/pages.py", "from ..models.model import Model\nfrom . import figures", True),
        ("explorer/live/attention.py", "from ..i18n import Speech\nfrom ...rope import Rope", True),
        ("explorer/app.py", "from ..cli.explore import command", False),
        ("simulation.py", "from .explorer.state import State", False),
        ("cli/explore.py", "from ..explorer.app import make_app", True),
        ("attic.py", "import json", False),
    ],
)
def test_the_floor_check_sees_upward_imports(path, source, allowed):
    assert (upward_imports(source, Path("ropewalk") / path) == []) is allowed


def test_no_top_level_module_bears_the_name_of_a_public_function():
    modules = {path.stem for path in PACKAGE.glob("*.py")} | {path.name for path in PACKAGE.iterdir() if path.is_dir()}
    assert modules.isdisjoint(PUBLIC_FUNCTIONS)


def requirement_names(requirements: list[str]) -> set[str]:
    """The distribution names of requirement strings, spelled as modules are."""
    return {re.split(r"[^\w.-]", one, maxsplit=1)[0].replace("-", "_").lower() for one in requirements}


# what a distribution is imported as, where that is not its own name
IMPORTED_AS = {"markdown_it_py": "markdown_it"}


def modules_of(requirements: list[str]) -> set[str]:
    """The top-level modules that requirement strings bring."""
    return {IMPORTED_AS.get(name, name) for name in requirement_names(requirements)}


def third_party_imports() -> dict[str, set[str]]:
    """Every third-party module that the package imports, with the files that do, relative to the package."""
    used: dict[str, set[str]] = {}
    for path in SOURCES:
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for module in imported(tree, path.relative_to(PACKAGE.parent).parts[:-1]):
            if module and module[0] not in sys.stdlib_module_names | {"ropewalk"}:
                used.setdefault(module[0], set()).add(path.relative_to(PACKAGE).as_posix())
    return used


def test_every_third_party_import_is_a_declared_dependency():
    extras = PYPROJECT["project"]["optional-dependencies"].values()
    declared = modules_of(PYPROJECT["project"]["dependencies"] + [one for extra in extras for one in extra])
    assert {name: files for name, files in third_party_imports().items() if name not in declared} == {}


def test_only_the_explorer_and_its_command_import_the_extra_web():
    web = modules_of(PYPROJECT["project"]["optional-dependencies"]["web"])
    users = {file for name, files in third_party_imports().items() if name in web for file in files}
    assert {file for file in users if not file.startswith("explorer/")} <= {"cli/explore.py"}
    allowed = web | modules_of(PYPROJECT["project"]["dependencies"])
    others = {
        name: files
        for name, files in third_party_imports().items()
        if name not in allowed and any(file.startswith("explorer/") for file in files)
    }
    assert others == {}


def test_import_is_silent_and_asks_for_no_optional_or_slow_package():
    spy = (
        "import json, sys\n"
        "asked = []\n"
        "class Spy:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        asked.append(name.partition('.')[0])\n"
        "sys.meta_path.insert(0, Spy())\n"
        "import ropewalk\n"
        "for name in ropewalk.__all__: getattr(ropewalk, name)\n"
        "print(json.dumps(asked))\n"
    )
    done = subprocess.run([sys.executable, "-W", "error", "-c", spy], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    asked = set(json.loads(done.stdout))  # what was asked for counts even where it is not installed
    unwanted = {"torch", "triton", "jax", "transformers", "gguf", "safetensors", "huggingface_hub", "matplotlib"}
    unwanted |= {"click", "rich", *modules_of(PYPROJECT["project"]["optional-dependencies"]["web"])}
    assert {"ropewalk", "numpy"} <= asked
    assert asked & unwanted == set()


def test_version_in_the_package_is_that_of_the_metadata():
    assert version("ropewalk") == ropewalk.__version__


def test_extra_all_takes_every_other_extra():
    extras = dict(PYPROJECT["project"]["optional-dependencies"])
    (everything,) = extras.pop("all")
    assert everything == f"ropewalk[{','.join(extras)}]"


def test_group_dev_takes_every_other_group():
    groups = dict(PYPROJECT["dependency-groups"])
    dev = groups.pop("dev")
    assert [one["include-group"] for one in dev] == list(groups)


def test_readme_shows_every_command():
    click = pytest.importorskip("click")
    from ropewalk.cli import main

    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    commands = main.list_commands(click.Context(main))
    assert "inspect" in commands
    assert [name for name in commands if not re.search(rf"\bropewalk {re.escape(name)}\b", readme)] == []


def test_contributing_names_only_make_targets_that_exist():
    contributing = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    targets = re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.MULTILINE)
    named = set(re.findall(r"`make ([a-z]+)", contributing))
    assert {"run", "test", "lint", "census", "slow", "clean"} <= named
    assert named <= set(targets)


NO_COMPILER = {"CXX": "/bin/false", "CC": "/bin/false"}


def run_build(out: Path, *options: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Build the sdist, and from the sdist the wheel."""
    command = [sys.executable, "-m", "build", *options, "--outdir", str(out), str(ROOT)]
    clean = {name: value for name, value in os.environ.items() if not name.startswith("ROPEWALK_")}
    return subprocess.run(command, capture_output=True, text=True, check=False, env={**clean, **environment})


def build(out: Path, *options: str, **environment: str) -> Path:
    """Build the sdist, and from the sdist the wheel; give the wheel."""
    done = run_build(out, *options, **environment)
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(list(out.glob("*.tar.gz"))) == 1
    (wheel,) = out.glob("*.whl")
    return wheel


@pytest.mark.parametrize("environment", [{"ROPEWALK_BUILD_EXT": "1"}, NO_COMPILER], ids=["compiler", "no compiler"])
def test_wheel_built_from_the_sdist_holds_the_package_its_data_and_its_licence(tmp_path, environment):
    pytest.importorskip("build", reason="needs the dependency group test")
    pytest.importorskip("scikit_build_core", reason="needs the dependency group test")
    wheel = build(tmp_path, "--no-isolation", **environment)
    compiled = "ROPEWALK_BUILD_EXT" in environment
    assert wheel.name.endswith("-py3-none-any.whl") is not compiled
    with zipfile.ZipFile(wheel) as archive:
        held = {name for name in archive.namelist() if name.startswith("ropewalk/")}
        info = f"ropewalk-{ropewalk.__version__}.dist-info"
        metadata = Parser().parsestr(archive.read(f"{info}/METADATA").decode())
        entry_points = archive.read(f"{info}/entry_points.txt").decode()
        licence = archive.read(f"{info}/licenses/LICENSE").decode()
    files = {path for path in PACKAGE.rglob("*") if path.is_file() and path.suffix not in (".pyc", ".so", ".pyd")}
    extensions = {name for name in held if name.endswith((".so", ".pyd"))}
    assert len(extensions) == compiled
    assert all(name.startswith("ropewalk/turning/_kernel.") for name in extensions)
    assert held - extensions == {path.relative_to(PACKAGE.parent).as_posix() for path in files}
    assert "ropewalk/py.typed" in held
    assert {name for name in held if name.endswith(".json")}
    explorer = {name.removeprefix("ropewalk/explorer/") for name in held if name.startswith("ropewalk/explorer/")}
    assert {"templates/simulator.html", "static/explorer.js", "static/explorer.css", "static/icon.svg"} <= explorer
    assert {"locale/vi/LC_MESSAGES/explorer.po", "locale/zh/LC_MESSAGES/explorer.po"} <= explorer
    lessons = {lang: {name for name in explorer if name.startswith(f"lessons/{lang}/")} for lang in ("en", "vi", "zh")}
    assert lessons["en"] and len({len(names) for names in lessons.values()}) == 1
    assert metadata["License-Expression"] == "Apache-2.0"
    assert metadata.get_all("License-File") == ["LICENSE"]
    assert metadata["Requires-Python"] == ">=3.11"
    default = [one for one in metadata.get_all("Requires-Dist", []) if "extra ==" not in one]
    assert requirement_names(default) == {"numpy", "click", "rich"}
    assert "ropewalk = ropewalk.cli:main" in entry_points
    assert licence == (ROOT / "LICENSE").read_text(encoding="utf-8")


def test_a_kernel_that_does_not_build_is_an_error_where_it_is_asked_for(tmp_path):
    pytest.importorskip("build", reason="needs the dependency group test")
    done = run_build(tmp_path, "--no-isolation", "--wheel", ROPEWALK_BUILD_EXT="1", **NO_COMPILER)
    assert done.returncode != 0
    assert not list(tmp_path.glob("*.whl"))


@pytest.mark.slow
@pytest.mark.parametrize("environment", [{"ROPEWALK_BUILD_EXT": "1"}, NO_COMPILER], ids=["compiler", "no compiler"])
def test_wheel_works_in_a_new_environment_away_from_the_checkout(tmp_path, environment):
    wheel = build(tmp_path, **environment)
    venv.create(tmp_path / "venv", with_pip=True)
    scripts = tmp_path / "venv" / ("Scripts" if sys.platform == "win32" else "bin")
    subprocess.run([scripts / "python", "-m", "pip", "install", "--quiet", str(wheel)], check=True)
    active = "active: compiled" if "ROPEWALK_BUILD_EXT" in environment else "not active: it was not built"
    for arguments, expected in (
        (["--version"], ropewalk.__version__),
        (["inspect", "llama-3.1-8b"], "500000"),
        (["doctor"], active),
    ):
        done = subprocess.run([scripts / "ropewalk", *arguments], cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert expected in done.stdout.replace(",", "").replace("_", "")
    turn = (
        "import numpy as np, ropewalk; from ropewalk.turning import naive\n"
        "rope = ropewalk.Rope(head_dim=8, rope_theta=1e4, pairing='half')\n"
        "x = np.random.default_rng(0).standard_normal((2, 5, 3, 8)).astype(np.float32)\n"
        "print(abs(ropewalk.rotate(x, range(5), rope) - naive.rotate(x, range(5), rope)).max() < 1e-6)"
    )
    done = subprocess.run([scripts / "python", "-c", turn], cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stdout.strip()) == (0, "True"), done.stderr
