"""`ropewalk inspect FILE --fix [--write]`: the configuration after the repairs that have one right answer."""

import json
import re
import shutil
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..errors import RopewalkError
from ..models._files import write_beside

if TYPE_CHECKING:
    from ..models.fixing import Fixed


def fix_file(target: str, *, write: bool, strict: bool) -> int:
    """Print the corrected configuration, or write it in place of the old one, and give the exit code."""
    from ..models.families import config_in
    from ..models.fixing import fix
    from ..models.json_file import read_json
    from ._output import exit_code

    path = Path(target)
    if path.is_dir():
        path = config_in(path) or path / "config.json"
    if not path.is_file():
        raise RopewalkError(f"there is no file {path}; --fix repairs a config.json on this machine.")
    fixed = fix(read_json(path), target=str(path))
    if write and fixed.done:
        _write(path, fixed.config)
    elif not write:
        click.echo(_text(path, fixed.config), nl=False)
    _report(path, fixed, write=write)
    return exit_code(fixed.left, strict=strict)


def _report(path: Path, fixed: "Fixed", *, write: bool) -> None:
    """Say on stderr what was repaired and what was not, and why."""
    from ._output import clean

    def say(words: str) -> None:
        click.echo(clean(words), err=True)

    say(f"repaired: {len(fixed.done)}" if fixed.done else "nothing to repair without guessing")
    for words in fixed.done:
        say(f"  {words}")
    if fixed.left:
        say(f"not touched, there is no single right answer: {len(fixed.left)}")
    for one in fixed.left:
        say(f"  {one.severity} {one.code} {one.name}, {one.where}: {one.message}")
    if write and fixed.done:
        say(f"{path} is written anew; what stood there is in {path.name}.bak or a numbered copy beside it")


def _text(path: Path, config: Any) -> str:
    """Write the configuration indented as the file was."""
    old = path.read_text(encoding="utf-8")
    indent = re.search(r"\{\r?\n([ \t]+)\"", old)
    text = json.dumps(
        config, indent=indent[1] if indent else None if "\n" not in old.strip() else 2, ensure_ascii=False
    )
    return text + "\n"


def _write(path: Path, config: Any) -> None:
    """Keep a copy of the file, write beside it, and rename; a link is not replaced by a file."""
    if path.is_symlink():
        raise RopewalkError(f"{path} is a link to {path.readlink()}. Give --write the file itself.")
    text = _text(path, config)
    backup = path.with_name(f"{path.name}.bak")
    number = 1
    while backup.exists():
        backup = path.with_name(f"{path.name}.bak{number}")
        number += 1
    try:
        shutil.copy2(path, backup)
        write_beside(path, text.encode(), mode=stat.S_IMODE(path.stat().st_mode))
    except OSError as error:
        raise RopewalkError(f"{path} cannot be written: {error.strerror or error}. Check its rights.") from error
