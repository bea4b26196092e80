"""The tokens of a text file."""

import codecs
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import RopewalkError

if TYPE_CHECKING:
    from torch import Tensor

BYTES_A_TOKEN = 32  # read at most so many for each token that is wanted: a text of any size then takes no time
MOST_BYTES = 2**28


def read_tokens(path: str | Path, tokenizer: Any, most: int, *, least: int = 2) -> "Tensor":
    """Give the first tokens of a text file, [N] ids, as the tokenizer begins a text.

    Args:
        path: a file of UTF-8 text.
        tokenizer: one of transformers.
        most: tokens to give, if the text has as many.
        least: fewer are an error.

    Raises:
        RopewalkError: for a file that cannot be read, is no text, or is too short.
    """
    import torch

    text = _text(Path(path), min(BYTES_A_TOKEN * most, MOST_BYTES))
    try:
        ids = tokenizer(text).input_ids[:most]
    except Exception as error:  # tokenizers raise whatever they like
        raise RopewalkError(f"the tokenizer cannot take {path}: {type(error).__name__}: {error}.") from error
    if len(ids) < least:
        raise RopewalkError(f"{path} has {len(ids)} tokens, and at least {least} are needed: give a longer text.")
    return torch.tensor(ids, dtype=torch.int64)


def _text(path: Path, most: int) -> str:
    try:
        with path.open("rb") as file:
            data = file.read(most)
            more = bool(file.read(1))
    except OSError as error:
        raise RopewalkError(f"{path} cannot be read: {error.strerror or error}.") from error
    try:
        text = codecs.getincrementaldecoder("utf-8-sig")().decode(data, final=not more)
    except UnicodeDecodeError as error:
        raise RopewalkError(f"{path} is not UTF-8 text (byte {error.start}): give a text file.") from error
    if "\0" in text:
        raise RopewalkError(f"{path} is not text, it holds NUL characters: give a text file.")
    return text
