"""The engines: for each the rule of what it makes of a block of rope parameters, and where that rule was read.

A rule starts from the rope that ropewalk reads (its channels, width and base) and says how an engine's scaling differs.
"""

from collections.abc import Callable
from typing import NamedTuple

from ._outcome import Outcome
from ._ports import genai, llama_cpp, mlx
from ._servers import sglang, transformers, vllm
from .sources import Source


class Engine(NamedTuple):
    """An engine and where its rule was read.

    Attributes:
        name: "vLLM".
        version: of the release or snapshot that was read.
        files: what was read, relative to the engine's own source tree.
        verified: "run": the engine's own code was run beside the rule; "read": the source was only read.
        rule: from a source to an outcome.
    """

    name: str
    version: str
    files: tuple[str, ...]
    verified: str
    rule: Callable[[Source], Outcome]


ENGINES: tuple[Engine, ...] = (
    Engine("transformers", "5.24.0", ("modeling_rope_utils.py",), "run", transformers),
    Engine(
        "vLLM",
        "0.33.0",
        ("vllm/model_executor/layers/rotary_embedding/", "vllm/transformers_utils/config.py"),
        "run",
        vllm,
    ),
    Engine("SGLang", "0.5.23", ("sglang/srt/layers/rotary_embedding/",), "run", sglang),
    Engine(
        "llama.cpp",
        "converter 00bd27a, runtime of llama-cpp-python 0.3.36",
        ("conversion/base.py", "src/llama-context.cpp", "ggml/src/ggml-cpu/ops.cpp"),
        "read",
        llama_cpp,
    ),
    Engine("mlx-lm", "0.32.2", ("mlx_lm/models/rope_utils.py", "mlx_lm/models/"), "run", mlx),
    Engine("onnxruntime-genai", "0.18.0", ("onnxruntime_genai/models/builders/",), "run", genai),
)
