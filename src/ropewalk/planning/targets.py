"""Which rope of a target is planned, from which length, and what the plan leaves alone."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from .._checks import MAX_POSITION, whole
from ..axes import Sections, Single
from ..errors import RopewalkError
from ..inspection import _layers_words as layers_words
from ..inspection import number_words
from ..models.architectures import architecture
from ..models.model import Layer, Model
from ..models.targets import read
from ..rope import SCHEMA as ROPE_SCHEMA
from ..rope import Rope
from ..scaling import Default, Linear, Ntk, Proportional, Yarn

LINEAR = frozenset({"linear_attention", "lightning_attention"})  # no softmax over distances
LOCAL = frozenset({"sliding_attention", "chunked_attention"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """The rope to plan, and what stands around it.

    Attributes:
        target: what was read, in words.
        rope: as given.
        model: the model it stands in, or None.
        part: the name of its part.
        layers: the numbers of the layers that use it.
        place: those layers, in words.
        scales_softmax: the architecture multiplies its softmax scale by yarn's magnitude (MLA).
        caveats: what the plan leaves alone.
    """

    target: str
    rope: Rope
    model: Model | None
    part: str
    layers: tuple[int, ...]
    place: str
    scales_softmax: bool
    caveats: tuple[str, ...]


def choose(target: object, part: str | None = None, layer: int | None = None) -> Chosen:
    """Give the rope of a target whose context can be planned.

    Raises:
        RopewalkError: where there is none, where there are several that may be meant, or where its positions are no
            tokens.
    """
    if isinstance(target, Mapping) and target.get("schema") == ROPE_SCHEMA:
        target = Rope.from_dict(target)
    if isinstance(target, Rope):
        if part is not None or layer is not None:
            raise RopewalkError("a single rope has no parts and layers: leave out part and layer.")
        softmax = isinstance(target.scaling, Yarn) and target.scaling.scale_softmax
        chosen = Chosen(
            target="a rope",
            rope=target,
            model=None,
            part="rope",
            layers=(),
            place="rope",
            scales_softmax=softmax,
            caveats=tuple(_caveats(target, None, (), softmax)),
        )
    else:
        chosen = _choose_in(read(target), part, layer)
    _plannable(chosen)
    return chosen


def _choose_in(model: Model, part: str | None, layer: int | None) -> Chosen:
    name = part or next((name for name, layers in model.parts.items() if layers is model.layers), "text")
    if name not in model.parts:
        raise RopewalkError(f"the model has no part {name!r}; its parts are {', '.join(model.parts) or 'none'}.")
    layers = model.parts[name]
    if layer is not None and not 0 <= layer < len(layers):
        raise RopewalkError(f"part {name} has layers 0 to {len(layers) - 1}, got layer {layer}.")
    found: dict[Rope, list[int]] = {}
    for number, one in enumerate(layers):
        if one.rope is not None:
            found.setdefault(one.rope, []).append(number)
    asked = None if layer is None else layers[layer].rope
    if not found or (layer is not None and asked is None):
        raise RopewalkError(_no_rope(model, name, layer))
    rope = asked or _only(found, layers, name)
    numbers = tuple(found[rope])
    own = rope.scaling
    softmax = own.scale_softmax if isinstance(own, Yarn) else architecture(model.model_type).scale_softmax
    return Chosen(
        target=model.target or "a model",
        rope=rope,
        model=model,
        part=name,
        layers=numbers,
        place=f"{name}: {layers_words(list(numbers))}",
        scales_softmax=softmax,
        caveats=tuple(_caveats(rope, model, layers, softmax)),
    )


def _only(found: dict[Rope, list[int]], layers: tuple[Layer, ...], part: str) -> Rope:
    """Give the rope of the layers that see the whole context."""
    wide = [rope for rope, numbers in found.items() if any(layers[n].kind not in LOCAL for n in numbers)]
    if len(found) == 1 or len(wide) == 1:
        return wide[0] if wide else next(iter(found))
    listed = "; ".join(
        f"layer {numbers[0]}: θ={number_words(rope.rope_theta)}, {rope.scaling.rope_type}"
        for rope, numbers in list(found.items())[:8]
    )
    raise RopewalkError(f"part {part} has {len(found)} ropes ({listed}); say with layer (--layer N) whose is meant.")


def _no_rope(model: Model, part: str, layer: int | None) -> str:
    where = f"part {part} of {model.target or 'the model'}" if layer is None else f"layer {layer} of part {part}"
    errors = [finding for finding in model.findings if finding.severity == "error" and finding.where.startswith(part)]
    if errors:
        return f"the rope of {where} could not be read: {errors[0].message}"
    uses = model.positions.get(part)
    return f"{where} has no RoPE{f' (positions: {uses})' if uses else ''}: there is nothing to extend."


def _plannable(chosen: Chosen) -> None:
    rope = chosen.rope
    if not isinstance(rope.axes, Single | Sections):
        names = ", ".join(getattr(rope.axes, "names", ("several",)))
        raise RopewalkError(
            f"the rope of {chosen.place} turns by positions on the axes {names}, each with frequencies of its own, and "
            "a longer context is planned for tokens in a row: a larger image or a second row of positions is another "
            "question."
        )
    if not rope.pairs().is_rotation:
        raise RopewalkError(
            f"the map of {chosen.place} is no rotation (pairing {rope.pairing}): the two channels of a pair turn by "
            "different angles, and no method of stretching says which is meant."
        )


def trained_length(rope: Rope, given: int | None) -> tuple[int, str]:
    """Give L0, tokens, and where it comes from.

    Raises:
        RopewalkError: where the description does not say it.
    """
    if given is not None:
        return whole("trained", given, at_least=1, at_most=MAX_POSITION), "given"
    original = getattr(rope.scaling, "original_max_position_embeddings", None)
    if original is not None:
        return original, "original_max_position_embeddings"
    longest = rope.max_position_embeddings
    if isinstance(rope.scaling, Linear | Ntk | Proportional) and rope.scaling.factor != 1:
        kind = rope.scaling.rope_type
        raise RopewalkError(
            f"the rope already has {kind} scaling by {rope.scaling.factor:g}, which does not say the length before it "
            f"(max_position_embeddings, {longest or 'not stated'}, is the one after it); a second scaling on top would "
            "slow pairs twice. Give the length trained before stretching: --trained N (trained=N in Python)."
        )
    if longest is None:
        raise RopewalkError(
            "the trained length is not stated: there is no max_position_embeddings. Give it: --trained N (trained=N in "
            "Python)."
        )
    return longest, "max_position_embeddings"


def unscaled(rope: Rope, trained: int) -> Rope:
    """Give the rope before any stretching, with the trained length as its context."""
    own = rope.scaling
    plain = (
        Proportional(partial_rotary_factor=own.partial_rotary_factor) if isinstance(own, Proportional) else Default()
    )
    return rope.replace(scaling=plain, max_position_embeddings=trained)


def _caveats(rope: Rope, model: Model | None, layers: tuple[Layer, ...], scales_softmax: bool) -> list[str]:
    said = []
    if rope.width < rope.head_dim:
        said.append(
            f"{rope.width} of {rope.head_dim} channels of a head turn; the others carry no position and no method "
            "touches them. yarn's magnitude on cos and sin reaches the turning channels alone."
        )
    if isinstance(rope.axes, Sections):
        said.append(
            "M-RoPE: the plan counts text tokens, which have one position on all axes. Images and video move their "
            "axes more slowly than tokens, and were trained on positions of their own: measure them apart."
        )
    if scales_softmax:
        said.append(
            "MLA: this is the rope part of the head alone. Its architecture puts yarn's magnitude on the softmax scale "
            "of the whole head (mscale_all_dim), and on cos and sin only the ratio of mscale to it."
        )
    if model is not None:
        said += _layer_caveats(rope, layers)
        errors = sum(finding.severity == "error" for finding in model.findings)
        if errors:
            said.append(f"The configuration has {errors} error finding(s): `ropewalk inspect` says which.")
    return said


def _layer_caveats(rope: Rope, layers: tuple[Layer, ...]) -> list[str]:
    said = []
    same = [number for number, layer in enumerate(layers) if layer.rope == rope]
    local = [number for number in same if layers[number].kind in LOCAL]
    others = [number for number, layer in enumerate(layers) if layer.rope not in (None, rope)]
    none = [number for number, layer in enumerate(layers) if layer.rope is None and layer.kind not in LINEAR]
    if local and len(local) == len(same):
        kind = (layers[local[0]].kind or "").removesuffix("_attention")
        said.append(
            f"Every layer with RoPE has {kind} attention: no distance exceeds its window, and stretching gains nothing "
            "where the trained length covers it."
        )
    elif local:
        said.append(
            f"{_layers(local)} ({layers[local[0]].kind}) share this rope: they never see beyond their window, and "
            "need no stretching; keep theirs where the engine takes settings by layer type."
        )
    if others:
        kinds = ", ".join(dict.fromkeys(layers[number].kind or "attention" for number in others))
        said.append(f"{_layers(others)} ({kinds}) have a rope of their own and stay as they are.")
    if none:
        said.append(f"{_layers(none)} have no RoPE: no method reaches them.")
    if any(layer.query_scale is not None for layer in layers):
        said.append("Queries have a temperature that grows with the position; it stays as configured.")
    if any("indexer" in layers[number].ropes for number in same):
        said.append("The indexer of sparse attention has a rope of its own that must be changed alike.")
    return said


def _layers(numbers: list[int]) -> str:
    words = layers_words(numbers)
    return words[:1].upper() + words[1:]


def planned(chosen: Chosen, rope: Rope) -> Model | Rope:
    """Give the target with the planned rope in place of the one chosen.

    A configuration has one max_position_embeddings: other ropes of the part take the new one too, where it changes
    none of their pairs. An indexer with the base and scaling of the rope chosen reads the same keys, and follows.
    """
    model = chosen.model
    if model is None:
        return rope
    longest = rope.max_position_embeddings
    swapped: dict[tuple[int, bool], Layer] = {}
    layers = []
    for number, layer in enumerate(model.parts[chosen.part]):
        key = (id(layer), number in chosen.layers)
        if key not in swapped:
            ropes = {
                use: one if one.length_dependent else one.replace(max_position_embeddings=longest)
                for use, one in layer.ropes.items()
            }
            if key[1]:
                ropes = {use: _following(one, chosen.rope, rope) for use, one in layer.ropes.items()} | {
                    "attention": rope
                }
            swapped[key] = replace(layer, ropes=ropes)
        layers.append(swapped[key])
    return replace(model, parts={**model.parts, chosen.part: tuple(layers)}, findings=())


def _following(other: Rope, chosen: Rope, rope: Rope) -> Rope:
    """Give another rope of a layer with the planned base and scaling, where it had those of the one chosen."""
    if (other.rope_theta, other.scaling) != (chosen.rope_theta, chosen.scaling):
        return other
    return other.replace(
        rope_theta=rope.rope_theta, scaling=rope.scaling, max_position_embeddings=rope.max_position_embeddings
    )
