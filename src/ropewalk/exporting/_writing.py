"""Layers to the keys of a Hugging Face configuration, in the spelling of transformers 5 or 4."""

from collections.abc import Mapping
from typing import Any

from ..axes import Sections, Single
from ..models._sizes import SPELLINGS
from ..models.architectures import Architecture, Label
from ..rope import Rope
from ..scaling import LongRope, Ntk, Proportional, Yarn, scaling_to_dict
from ._subject import Group, Subject

Config = dict[str, Any]
# classes whose head_dim is a property, so that a configuration cannot set it
DERIVED = frozenset(("falcon",))
# classes with scaling or bases of their own, which stay where an old configuration has no block to replace them
OWN_BLOCK = frozenset(
    """
    ApertusConfig Apertus1p5Config Apertus1p5TextConfig CwmConfig GptOssConfig HiggsAudioV2Config Ministral3Config
    MistralLarge4Config MistralLarge4TextConfig OpenAIPrivacyFilterConfig MiMoV2FlashConfig MoonshineStreamingConfig
    MuseSparkConfig MuseSparkTextConfig
    """.split()
)


class UnwritableError(Exception):
    """No key of the configuration says this.

    Attributes:
        reason: why.
        lost: the fields that have no key.
    """

    def __init__(self, reason: str, *lost: str) -> None:
        super().__init__(reason)
        self.reason = reason
        self.lost = lost


def config_of(subject: Subject, *, spelling: int = 5) -> Config:
    """Give the rotary keys of a configuration, under the key of the part where the model has several.

    Raises:
        UnwritableError: where no key says some of it.
    """
    part = _part_of(subject, spelling)
    if not subject.home:
        return part
    return {"model_type": subject.root, subject.home: part}


def _part_of(subject: Subject, spelling: int) -> Config:
    arch, groups, layers = subject.arch, subject.groups, subject.layers
    if not groups:
        raise UnwritableError("no layer's attention has a rope", "ropes")
    config: Config = {"model_type": subject.model_type}
    many = bool(subject.part)
    if many:
        config[_key(arch, "num_hidden_layers")] = len(layers)
    _put_kinds(config, subject)
    lengths = {group.rope.max_position_embeddings for group in groups} - {None}
    if len(lengths) > 1:
        raise UnwritableError("one configuration has one max_position_embeddings", "max_position_embeddings")
    if lengths:
        config[_key(arch, "max_position_embeddings")] = lengths.pop()
    _put_widths(config, subject)
    _put_indexer(config, subject)
    labels = [group.label for group in groups]
    if len(set(labels)) < len(labels):
        twice = next(label for label in labels if labels.count(label) > 1)
        raise UnwritableError(
            f"layers of type {twice} have different ropes, and a configuration one for a type", "ropes"
        )
    blocks = {group.label: _block(subject, group) for group in groups}
    if spelling == 4:
        _put_old(config, arch, groups, blocks)
    elif labels == [None]:
        config["rope_parameters"] = blocks[None]
    else:
        config["rope_parameters"] = _by_type(subject, blocks)
    return config


def _by_type(subject: Subject, blocks: Mapping[str | None, Config]) -> dict[str, Config | None]:
    """Give the blocks by layer type, null for a type without RoPE: the classes look up every type that a layer has."""
    found: dict[str, Config | None] = {label or "full_attention": block for label, block in blocks.items()}
    if subject.arch.kinds:
        return found  # the class has names of its own for its blocks
    for layer in subject.layers:
        if layer.kind is None or layer.kind in found:
            continue
        if layer.rope is not None:
            words = f"{subject.arch.config_class} has no rope_parameters for layers of type {layer.kind}"
            raise UnwritableError(words, "layer_types")
        found[layer.kind] = None
    return found


def _key(arch: Architecture, name: str) -> str:
    """Give the first spelling of a size that the architecture reads."""
    return next(iter((*arch.keys.get(name, ()), *SPELLINGS.get(name, (name,)))))


def _put_kinds(config: Config, subject: Subject) -> None:
    kinds = [layer.kind for layer in subject.layers]
    rule = subject.arch.layers or {}
    if "keys" in rule and not rule["keys"]:
        return  # the class's own code deals out the layers
    if rule.get("rule") == "indices" and subject.part:
        first = rule.get("first", 0)
        config[rule["keys"][0]] = [number + first for number, kind in enumerate(kinds) if kind == rule["hit"]]
    elif any(kind is not None for kind in kinds) and subject.part:
        config["layer_types"] = kinds
    if subject.arch.off_layers is not None and subject.part:
        config["no_rope_layers"] = [int(layer.rope is not None) for layer in subject.layers]


def _put_widths(config: Config, subject: Subject) -> None:
    arch = subject.arch
    for group in subject.groups:
        facts = arch.labels.get(group.label or "", Label())
        name = (facts.head_dim_keys or arch.head_dim_keys or ("head_dim",))[0]
        if subject.model_type in DERIVED:
            if arch.defaults["hidden_size"] != arch.defaults["num_attention_heads"] * group.rope.head_dim:
                raise UnwritableError(f"{arch.config_class} has no head_dim but that of its sizes", "head_dim")
        elif config.setdefault(name, group.rope.head_dim) != group.rope.head_dim:
            raise UnwritableError(f"a configuration of {arch.config_class} has one {name}", "head_dim")
        if arch.pairing_key is not None:
            config[arch.pairing_key] = group.rope.pairing == "interleaved"
        if arch.rotary_dim_keys or arch.rotary_dim:
            config[(*arch.rotary_dim_keys, "rotary_dim")[0]] = group.rope.width
        original = getattr(group.rope.scaling, "original_max_position_embeddings", None)
        if "original_max_position_embeddings" in arch.defaults and original is not None:
            config["original_max_position_embeddings"] = original


def _put_indexer(config: Config, subject: Subject) -> None:
    facts = subject.arch.indexer
    found = next((layer.ropes["indexer"] for layer in subject.layers if "indexer" in layer.ropes), None)
    if facts is None or found is None:
        return
    config[facts.get("key", "index_head_dim")] = found.head_dim
    if "pairing_key" in facts:
        config[facts["pairing_key"]] = found.pairing == "interleaved"


def _block(subject: Subject, group: Group) -> Config:
    """Give the parameters of one rope as transformers 5 holds them."""
    rope, arch, scaling = group.rope, subject.arch, group.rope.scaling
    if arch.theta_fixed and rope.rope_theta != arch.theta:
        raise UnwritableError(f"the base of {arch.config_class} is a constant of its code", "rope_theta")
    data = {name: value for name, value in scaling_to_dict(scaling).items() if value is not None}
    data.pop("scale_softmax", None)
    if isinstance(scaling, Ntk):
        if scaling.method == "base":
            raise UnwritableError("no rope_type multiplies the base alone", "scaling")
        data = {"rope_type": "dynamic", "factor": 1.0, "alpha": scaling.factor}  # transformers asks for a factor too
        if scaling.method == "vllm":
            data = {"rope_type": "ntk", "factor": scaling.factor}
    if isinstance(scaling, LongRope):
        data |= {name: list(data[name]) for name in ("short_factor", "long_factor")}
    if isinstance(scaling, Yarn) and scaling.truncate:
        del data["truncate"]
    if isinstance(scaling, Proportional) and scaling.factor == 1:
        del data["factor"]
    block: Config = {"rope_type": data.pop("rope_type"), "rope_theta": rope.rope_theta, **data}
    if not isinstance(scaling, Proportional) and not arch.ignore_partial and not arch.rotary_dim:
        facts = arch.labels.get(group.label or "", Label())
        if rope.width != rope.head_dim or facts.partial_rotary_factor or arch.partial_rotary_factor:
            block["partial_rotary_factor"] = _fraction(rope)
    _put_sections(block, rope, arch)
    scale = next((layer.query_scale for layer in subject.layers if layer.query_scale is not None), None)
    if scale is not None and (arch.query_scale or {}).get("form") == "beta":
        block["llama_4_scaling_beta"] = scale.attn_scale
    return block


def _fraction(rope: Rope) -> float:
    """Give R/D, so that its product with D is cut off to R."""
    fraction = rope.width / rope.head_dim
    while int(rope.head_dim * fraction) < rope.width:
        fraction += 2**-53
    return fraction


def _put_sections(block: Config, rope: Rope, arch: Architecture) -> None:
    axes, template = rope.axes, arch.axes or {}
    if not isinstance(axes, Sections) or template.get("shares"):
        if not isinstance(axes, Single | Sections) and axes.kind != template.get("kind"):
            raise UnwritableError("no key deals the pairs to these axes", "axes")
        return
    sections = list(axes.sections)
    if "order" in template:
        for place, entry in zip(template["order"], axes.sections, strict=True):
            sections[place] = entry
    block["mrope_section"] = sections
    if axes.arrangement == "interleaved":
        block["mrope_interleaved"] = True


def _put_old(
    config: Config, arch: Architecture, groups: tuple[Group, ...], blocks: Mapping[str | None, Config]
) -> None:
    """Spell the parameters as transformers 4 did: bases at the top, one block rope_scaling."""
    if arch.ignore_partial and arch.config_class == "Mistral4Config":
        raise UnwritableError(
            "an old block drops the rotated part, which Mistral4Config puts into the new one alone", "rotary_dim"
        )
    for group in groups:
        block, facts = dict(blocks[group.label]), arch.labels.get(group.label or "", Label())
        if block["rope_type"] == "proportional":
            raise UnwritableError("the old spelling has no rope_type 'proportional'", "scaling")
        if group.label is not None and not facts.theta_keys:
            raise UnwritableError(f"no key of the old spelling holds the base of {group.label}", "rope_theta")
        theta = block.pop("rope_theta")
        config[next(iter((*facts.theta_keys, *arch.theta_keys, "rope_theta")))] = theta
        if "partial_rotary_factor" in block:
            fraction = block.pop("partial_rotary_factor")
            if config.setdefault("partial_rotary_factor", fraction) != fraction:
                raise UnwritableError("the old spelling has one partial_rotary_factor", "rotary_dim")
        if block == {"rope_type": "default"} and arch.config_class not in OWN_BLOCK:
            continue
        if not facts.scaled or config.setdefault("rope_scaling", block) is not block:
            raise UnwritableError(f"the old spelling cannot scale {group.label} by itself", "scaling")
    if len(groups) > 1 and "rope_scaling" in config:
        others = [g.label for g in groups if blocks[g.label]["rope_type"] == "default"]
        if any(arch.labels.get(label or "", Label()).scaled for label in others):
            raise UnwritableError("the old spelling scales every layer type alike", "scaling")
