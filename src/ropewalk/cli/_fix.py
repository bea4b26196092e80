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
    try:
        fixed = fix(read_json(path), target=str(path))
        text = _text(path, fixed.config)
    except RecursionError as error:
        raise RopewalkError(f"{path} is too deeply nested to be written anew. Correct it by hand.") from error
    kept = _write(path, text) if write and fixed.done else None
    if not write:
        click.echo(text, nl=False)
    _report(path, fixed, kept)
    return exit_code(fixed.left, strict=strict)


def _report(path: Path, fixed: "Fixed", kept: Path | None) -> None:
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
    if kept is not None:
        say(f"{path} is written anew; what stood there is in {kept.name} beside it")


def _text(path: Path, config: Any) -> str:
    """Write the configuration indented as the file was."""
    old = path.read_text(encoding="utf-8")
    indent = re.search(r"\{\r?\n([ \t]+)\"", old)
    indentation = indent[1] if indent else None if "\n" not in old.strip() else 2
    text = json.dumps(config, indent=indentation, ensure_ascii=False)
    if re.search(r"[\ud800-\udfff]", text):  # half a character, which UTF-8 cannot hold: escaped, as it was
        text = json.dumps(config, indent=indentation)
    return text + "\n"


def _write(path: Path, text: str) -> Path:
    """Keep a copy of the file, write beside it, rename, and give the copy; a link is not replaced by a file."""
    if path.is_symlink():
        raise RopewalkError(f"{path} is a link to {path.readlink()}. Give --write the file itself.")
    backup = path.with_name(f"{path.name}.bak")
    number = 1
    while backup.exists() or backup.is_symlink():  # a dangling link counts
        backup = path.with_name(f"{path.name}.bak{number}")
        number += 1
    try:
        shutil.copy2(path, backup)
        write_beside(path, text.encode(), mode=stat.S_IMODE(path.stat().st_mode))
    except OSError as error:
        raise RopewalkError(f"{path} cannot be written: {error.strerror or error}. Check its rights.") from error
    return backup
