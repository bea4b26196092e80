"""export(): a rope or a model as the settings of an engine, read back by that engine's rule before they are shown."""

from collections.abc import Callable, Mapping

from .._checks import choice
from ._hugging import transformers, transformers_v4, vllm
from ._llama import flags, gguf
from ._mlx import mlx
from ._pythonic import python
from ._settings import Settings
from ._subject import Refused, Subject, subject_of

__all__ = ["ENGINES", "Refused", "Settings", "export", "settings"]

_WRITERS: Mapping[str, Callable[[Subject], Settings]] = {
    "transformers": transformers,
    "transformers-v4": transformers_v4,
    "vllm": vllm,
    "llama.cpp": flags,
    "gguf": gguf,
    "mlx": mlx,
    "python": python,
}
ENGINES = tuple(_WRITERS)


def settings(target: object, engine: str, *, part: str | None = None, layer: int | None = None) -> Settings:
    """Give an engine's settings with what else a user should know: the version, what stays the architecture's.

    Args:
        target: a Rope, a Model, or whatever `read` takes.
        engine: one of ENGINES.
        part: the part of a model; None takes its language model.
        layer: the number of a layer, to export its rope alone.

    Raises:
        Refused: where the engine cannot say the rope; nothing else is written instead.
        RopewalkError: where nothing can be read, or there is no RoPE.

    >>> settings("llama-2-7b", "llama.cpp").text.split()
    ['--rope-scaling', 'none', '--rope-freq-base', '10000']
    """
    choice("engine", engine, ENGINES)
    return _WRITERS[engine](subject_of(target, part, layer))


def export(target: object, engine: str, *, part: str | None = None, layer: int | None = None) -> str:
    """Write a rope, or the ropes of a model, as the settings of an engine.

    What is written has been read back by ropewalk and by the engine's own rule, and gives the same pairs and factors.

    Args:
        target: a Rope, a Model, or whatever `read` takes.
        engine: ``"transformers"`` (config.json of transformers 5), ``"transformers-v4"`` (its older spelling),
            ``"vllm"`` and ``"llama.cpp"`` (flags), ``"gguf"`` (metadata and tensors as JSON), ``"mlx"`` (config.json)
            or ``"python"``.
        part: the part of a model; None takes its language model.
        layer: the number of a layer, to export its rope alone.

    Returns:
        The settings, ending in a line break.

    Raises:
        Refused: where the engine cannot say the rope; it lists what would be lost.
        RopewalkError: where nothing can be read, or there is no RoPE.

    >>> from ropewalk.scaling import Linear
    >>> from ropewalk import Rope
    >>> rope = Rope(head_dim=64, rope_theta=10000.0, pairing="half", scaling=Linear(factor=4.0))
    >>> print(export(rope, "llama.cpp"), end="")
    --rope-scaling linear --rope-scale 4 --rope-freq-base 10000
    """
    return settings(target, engine, part=part, layer=layer).text
