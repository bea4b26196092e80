"""Settings of mlx-lm: the rotary keys of the config.json beside converted weights."""

from collections.abc import Mapping
from typing import NamedTuple

from ..axes import Sections
from ..scaling import Default, Dynamic, Linear, Llama3, LongRope, Ntk, Yarn
from ._carriers import carrier_notes
from ._hugging import as_json, candidates
from ._proving import engine_named, prove
from ._settings import Settings
from ._subject import Refused, Subject
from ._writing import Config, UnwritableError, config_of

VERSION = "0.32.2"


class File(NamedTuple):
    """What a model file reads: rope_parameters or the older spelling, scaling or a base alone, which rotated part."""

    spelling: int = 4
    scaled: bool = True
    partial: str | None = None
    every: int | None = None  # the layers that differ are every so-and-so-many, whatever layer_types say


# by model_type, what mlx_lm/models/*.py reads. Source: mlx-lm 0.32.2, ModelArgs and the attention of each file
FILES: Mapping[str, File] = {
    "apertus": File(),
    "cohere": File(scaled=False),
    "deepseek_v2": File(),
    "deepseek_v3": File(),
    "dots1": File(),
    "ernie4_5": File(scaled=False),
    "gemma": File(scaled=False),
    "gemma2": File(scaled=False),
    "gemma3_text": File(every=6),
    "gemma4_text": File(spelling=5),
    "glm4": File(scaled=False, partial="partial_rotary_factor"),
    "glm4_moe": File(scaled=False, partial="partial_rotary_factor"),
    "glm_moe_dsa": File(spelling=5),
    "gpt_neox": File(scaled=False, partial="rotary_pct"),
    "gpt_oss": File(),
    "gptj": File(scaled=False, partial="rotary_dim"),
    "granite": File(),
    "hunyuan_v1_dense": File(),
    "llama": File(),
    "llama4_text": File(every=4),
    "minimax_m2": File(scaled=False, partial="rotary_dim"),
    "ministral3": File(spelling=5),
    "mistral": File(),
    "mistral4": File(spelling=5),
    "mixtral": File(scaled=False),
    "nanochat": File(scaled=False),
    "olmo2": File(),
    "olmoe": File(),
    "phi": File(scaled=False, partial="partial_rotary_factor"),
    "phi3": File(partial="partial_rotary_factor"),
    "phimoe": File(),
    "qwen2": File(),
    "qwen3": File(),
    "qwen3_moe": File(scaled=False),
    "qwen3_next": File(partial="partial_rotary_factor"),
    "seed_oss": File(),
    "smollm3": File(),
    "stablelm": File(scaled=False, partial="partial_rotary_factor"),
    "starcoder2": File(scaled=False),
}


def mlx(subject: Subject) -> Settings:
    """Give the keys of a config.json for mlx-lm."""
    if any(isinstance(rope.axes, Sections) for rope in subject.ropes):
        raise Refused("mlx", "mlx-lm turns text alone: it has one position a token", ("axes",))
    first: Refused | None = None
    for candidate in candidates(subject, "mlx"):
        try:
            return _settings(candidate, subject)
        except UnwritableError as error:
            first = first or Refused("mlx", error.reason, error.lost)
        except Refused as error:
            first = first or error
    assert first is not None
    raise first


def _settings(subject: Subject, given: Subject) -> Settings:
    file = FILES.get(subject.model_type or "")
    if file is None:
        raise Refused(
            "mlx", f"no model file of mlx-lm {VERSION} for {subject.model_type} was verified", ("model_type",)
        )
    _check(subject, file)
    config = config_of(subject, spelling=file.spelling)
    _respell(config.get(subject.home, config), subject, file)
    notes = prove(subject, config, engine_named("mlx-lm"), "mlx")
    file_name = f"mlx_lm/models/{subject.model_type}.py"
    said = f"verified against mlx-lm {VERSION} ({file_name}, rope_utils.py): its own code was run"
    carrier = carrier_notes(subject, given, "file that pairs")
    return Settings(engine="mlx", version=VERSION, text=as_json(config), notes=(said, *carrier, *notes))


def _check(subject: Subject, file: File) -> None:
    """Refuse what the model file does not read."""
    name = subject.model_type
    for rope in subject.ropes:
        scaling = rope.scaling
        if rope.pairing == "half" and subject.arch.pairing_key is not None and name != "mistral4":
            raise Refused("mlx", f"mlx-lm's {name} turns neighbours", ("pairing",))
        if not file.scaled and not isinstance(scaling, Default):
            raise Refused("mlx", f"mlx-lm's {name} reads a base alone", ("scaling",))
        if rope.width != rope.head_dim and file.partial is None and not subject.arch.indexer:
            raise Refused("mlx", f"mlx-lm's {name} turns whole heads", ("rotary_dim",))
        only = {"deepseek_v2": Yarn, "hunyuan_v1_dense": Default | Ntk, "phi3": Default | LongRope}
        only |= {"phimoe": Default | LongRope, "gpt_oss": Default | Linear | Llama3 | Yarn}
        if not isinstance(scaling, only.get(name or "", object)):
            raise Refused("mlx", f"mlx-lm's {name} has no {scaling.rope_type} scaling", ("scaling",))
        if isinstance(scaling, Dynamic) and rope.width != rope.head_dim:
            raise Refused("mlx", "dynamic scaling was verified for whole heads alone", ("scaling",))
    if file.every is not None and subject.part:
        chosen = [
            layer.kind == "full_attention" if name == "gemma3_text" else not layer.ropes for layer in subject.layers
        ]
        if chosen != [(number + 1) % file.every == 0 for number in range(len(chosen))]:
            raise Refused("mlx", f"mlx-lm's {name} has every {file.every}th layer differ", ("layer_types",))


def _respell(part: Config, subject: Subject, file: File) -> None:
    """Write keys under the names that the file reads: `type` before `rope_type`, and other words for width and base."""
    block = part.get("rope_scaling")
    if isinstance(block, dict):
        part["rope_scaling"] = {"type": block["rope_type"], **block}
    rope = subject.groups[0].rope
    if file.partial == "rotary_dim":
        part.pop("partial_rotary_factor", None)
        part["rotary_dim"] = rope.width
    elif file.partial is not None:
        part.pop("partial_rotary_factor", None)
        part[file.partial] = rope.width / rope.head_dim
    if subject.model_type == "gpt_neox":
        part["rotary_emb_base"] = part.pop("rope_theta", rope.rope_theta)
