"""What the configuration classes of transformers load, found by loading them all: what else is refused.

Source: transformers 5.24.0, configuration_utils.py, configuration_*.py and the rotary modules of modeling_*.py.
"""

from ..axes import Sections, Single
from ..engines._servers import LONGROPE_ONLY
from ..scaling import Default, LongRope, Proportional
from ._subject import Refused, Subject
from ._writing import Config

# the types of layers that any class loads, and the older names that they take for them
LAYER_TYPES = frozenset(
    """
    full_attention sliding_attention chunked_attention window_attention indexed_attention compressed_sparse_attention
    heavily_compressed_attention minimax_m3_sparse conv moe hybrid hybrid_sliding reference_sliding_attention
    linear_attention sparse dense mamba attention deepseek_sparse_attention qwen_sparse_attention
    """.split()
)
# layer types without which a class does not load unless another key stands beside them
NEEDED = {"hybrid_sliding": "sliding_window"}
# classes that refuse scaling, or never read it
BASE_ALONE = frozenset({"clvp", "clvp_encoder", "ernie4_5_vl_moe", "ernie4_5_vl_moe_text", "recurrent_gemma"})
# classes that read the base at the top, in both spellings, and no rope_parameters
TOP_BASE = frozenset({"dinov3_vit", "sapiens2"})
# classes that count layers otherwise than their layer_types, or have no such key
NO_PLAN = frozenset({"falcon_h1", "hrm_text", "longcat_flash"})
# classes that look up a block of every type of theirs, or take no null
EVERY_BLOCK = frozenset({"lfm3", "modernbert", "modernbert-decoder", "neomme", "ultrabert"})
# classes that read the old spelling where layers of every type of theirs are there
EVERY_TYPE_V4 = frozenset({"mimo_v2_flash", "olmo3"})


def check_class(subject: Subject, spelling: int, name: str) -> None:
    """Refuse ropes and layers that a class does not load, or loads and does not read.

    Raises:
        Refused: with what would be lost.
    """
    kind, arch = subject.model_type, subject.arch
    class_name = arch.config_class
    labels = {group.label for group in subject.groups}
    if not arch.labels and labels - {None}:
        raise Refused(name, f"{class_name} has one rope for all layers", ("ropes",))
    if kind == "ultrabert" and labels != set(arch.labels):
        raise Refused(name, f"{class_name} looks up a block of every type of layer", ("layer_types",))
    if spelling == 4 and kind in EVERY_TYPE_V4 and labels != set(arch.labels):
        raise Refused(name, f"{class_name} reads the old spelling where every type of layer is there", ("ropes",))
    for rope in subject.ropes:
        scaling = rope.scaling
        if kind == "mistral4" and isinstance(scaling, Default | Proportional):
            raise Refused(name, f"{class_name} turns whole heads without yarn", ("rotary_dim",))
        if isinstance(scaling, Default):
            continue
        if kind in LONGROPE_ONLY and not isinstance(scaling, LongRope):
            raise Refused(name, f"{class_name} loads no scaling but longrope", ("scaling",))
        mscales = isinstance(scaling, LongRope) and None not in (scaling.short_mscale, scaling.long_mscale)
        if kind == "phimoe" and not mscales:
            raise Refused(name, f"{class_name} loads no scaling but longrope with both mscales", ("scaling",))
        towers = not isinstance(rope.axes, Single | Sections)
        if towers or kind in BASE_ALONE or (kind == "cohere2_moe" and spelling == 4):
            raise Refused(name, f"{class_name} reads a base alone", ("scaling",))


def check_layer_types(subject: Subject, config: Config, spelling: int, name: str) -> None:
    """Refuse a plan of layers that a class does not load, or changes.

    Raises:
        Refused: with what would be lost.
    """
    arch, part = subject.arch, config.get(subject.home, config)
    given = [kind for kind in part.get("layer_types", ()) if kind is not None]
    strange = next((kind for kind in given if kind not in LAYER_TYPES), None)
    if strange is not None:
        raise Refused(name, f"no class of it loads layers of type {strange}", ("layer_types",))
    if given and subject.model_type in NO_PLAN:
        raise Refused(name, f"{arch.config_class} loads no layer_types", ("layer_types",))
    forced = (arch.layers or {}).get("forced_last")
    if given and forced not in (None, given[-1]):
        raise Refused(name, f"{arch.config_class} makes its last layer {forced}", ("layer_types",))
    blocks = part.get("rope_parameters", {})
    nulls = [kind for kind, block in blocks.items() if block is None and (subject.model_type, kind) != ("lfm3", "conv")]
    if spelling == 4 and arch.labels and not arch.kinds:
        nulls = [kind for kind in given if kind not in arch.labels]
    if nulls and (spelling == 4 or subject.model_type in EVERY_BLOCK):
        raise Refused(name, f"{arch.config_class} looks up a block for layers of type {nulls[0]}", ("layer_types",))
