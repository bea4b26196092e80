"""One rope of a GGUF file: its width, base, pairing and axes."""

from .._checks import MAX_HEAD_DIM, MAX_POSITION
from ..axes import Axes, Sections, Single
from ..errors import RopewalkError
from ..rope import Rope
from ..scaling import Ntk, Scaling
from ._gguf_scaling import read_gguf_scaling
from ._gguf_source import Source
from ._numbers import check_even
from ._reading import View
from .gguf_facts import ENGINE, PAIRINGS

DEFAULT_BASE = 10000.0


def read_gguf_rope(source: Source, label: str | None) -> Rope:
    """Read the rope of all layers, or of those of one label; raises UnreadableError behind an error finding."""
    view, facts = source.view, source.facts
    reading = view.reading
    width, rotary_dim = _widths(source, label)
    theta = _theta(source, label)
    longest = view.whole("context_length", at_most=MAX_POSITION)
    reading.source("max_position_embeddings", view.key("context_length") if longest else "missing", label)
    axes = _axes(source, rotary_dim, label)
    pairing = PAIRINGS[facts.sections_rope if facts.sections_rope and _has_sections(view) else facts.rope]
    reading.source("pairing", source.described, label)
    scaling: Scaling = read_gguf_scaling(source, label, theta=theta, rotary_dim=rotary_dim, longest=longest)
    alpha = view.number("rope.scaling.alpha")
    if alpha and not facts.reads_alpha:
        reading.find(
            "gguf-engine", key=view.key("rope.scaling.alpha"), seen=f"{alpha:g}", right="a base raised already",
            message=f"{ENGINE} reads alpha for Hunyuan's dense and vision models alone, so it raises no base here, and "
            "so it is described. Write the raised base as rope.freq_base.",
        )  # fmt: skip
    elif alpha:
        reading.source("factor", view.key("rope.scaling.alpha"), label)
        scaling = Ntk(factor=source.tidy(alpha))
    try:
        return Rope(
            head_dim=width,
            rotary_dim=rotary_dim,
            rotary_start=width - rotary_dim if facts.tail else 0,
            rope_theta=theta,
            pairing=pairing,
            scaling=scaling,
            axes=axes,
            max_position_embeddings=longest,
        )
    except RopewalkError as error:
        raise reading.fail(
            "scaling-impossible",
            key=view.key("rope"),
            seen=scaling.rope_type,
            right="values that fit together",
            message=f"the rope cannot be built: {error}",
        ) from error


def _widths(source: Source, label: str | None) -> tuple[int, int]:
    """Give D and R. Of MLA the rope part alone is described, as everywhere in ropewalk."""
    view, facts = source.view, source.facts
    reading = view.reading
    inside = label == "sliding_attention"
    names = ("rope.dimension_count_swa", "rope.dimension_count") if inside else ("rope.dimension_count",)
    name = view.first(names)
    stated = None if name is None else view.whole(name, at_most=MAX_HEAD_DIM)
    rope_part_alone = facts.scale_softmax and view.first(("attention.key_length", "embedding_length")) is None
    if name is not None and stated is not None and rope_part_alone:
        width, origin = stated, view.key(name)
    else:
        width, origin = _head_dim(view, swa=inside)
    if name is None or stated is None:
        rotary_dim, rotary_origin = width, origin
    else:
        rotary_dim, rotary_origin = stated, view.key(name)
    if not inside and facts.full_share != 1:
        rotary_dim = int(rotary_dim * facts.full_share)
    if "attention.kv_lora_rank" in view and rotary_dim < width:
        width, origin = rotary_dim, rotary_origin
    check_even(reading, rotary_dim, width, rotary_origin, (rotary_origin, origin), "Convert the model again.")
    reading.source("head_dim", origin, label)
    reading.source("rotary_dim", rotary_origin, label)
    return width, rotary_dim


def _head_dim(view: View, *, swa: bool) -> tuple[int, str]:
    names = ("attention.key_length_swa", "attention.key_length") if swa else ("attention.key_length",)
    name = view.first(names)
    if name is not None:
        width = view.whole(name, at_most=MAX_HEAD_DIM)
        assert width is not None
        return width, view.key(name)
    heads = view.data.get("attention.head_count")
    if isinstance(heads, list):  # one number for each layer, 0 for layers without attention
        view = View({**view.data, "attention.head_count": next(filter(None, heads), None)}, view.reading, view.path)
    number = view.whole("attention.head_count", at_most=2**40)
    hidden = view.whole("embedding_length", at_most=2**40)
    if number is None or hidden is None or hidden < number or hidden // number > MAX_HEAD_DIM:
        raise view.reading.fail(
            "width-missing",
            key=view.key("attention.key_length"),
            seen=f"embedding_length {hidden}, attention.head_count {number}, no attention.key_length",
            right=f"attention.key_length, or two sizes whose ratio is 1 to {MAX_HEAD_DIM}",
            message="the width of a head cannot be told from embedding_length and attention.head_count, and there is "
            "no attention.key_length. Convert the model again.",
        )
    return hidden // number, f"{view.key('embedding_length')} / {view.key('attention.head_count')}"


def _theta(source: Source, label: str | None) -> float:
    view, window = source.view, source.facts.window
    reading = view.reading
    names = ["rope.freq_base"]
    if label == "sliding_attention":
        names = ["rope.freq_base_swa", *(names if window is not None and window.theta == "same" else [])]
    elif label == "compress":
        names = ["attention.compress_rope_freq_base"]
    for name in names:
        value = view.number(name, above=0)
        if value is not None:
            reading.source("rope_theta", view.key(name), label)
            return source.tidy(value)
    reading.source("rope_theta", f"default of {ENGINE}", label)
    reading.find(
        "theta-default",
        key=view.key(names[0]),
        seen="absent",
        right=f"{DEFAULT_BASE:g}, the default of llama.cpp",
        message=f"there is no {view.key(names[0])}: the default of {ENGINE}, {DEFAULT_BASE:g}, is taken. The model may "
        "have been trained with another; compare with its config.json.",
    )
    return DEFAULT_BASE


def _sections(view: View) -> tuple[int, ...]:
    given = view.data.get("rope.dimension_sections")
    entries = given if isinstance(given, list) and len(given) <= 8 else []
    whole = all(isinstance(entry, int) and 0 <= entry <= MAX_HEAD_DIM for entry in entries)
    return tuple(map(int, entries)) if whole else ()


def _has_sections(view: View) -> bool:
    return any(_sections(view))


def _axes(source: Source, rotary_dim: int, label: str | None) -> Axes:
    view, facts = source.view, source.facts
    kind = facts.sections_rope if facts.sections_rope and _has_sections(view) else facts.rope
    if kind not in ("mrope", "imrope"):
        return Single()
    key = view.key("rope.dimension_sections")
    sections = _sections(view)
    while len(sections) > 3 and not sections[-1]:
        sections = sections[:-1]
    if 2 * sum(sections) != rotary_dim:
        raise view.reading.fail(
            "sections-sum",
            key=key,
            seen=f"{list(sections)}, sum {sum(sections)}",
            right=f"a sum of rotary_dim/2 = {rotary_dim // 2}",
            message=f"the sections {list(sections)} sum to {sum(sections)}, but there are rotary_dim/2 = "
            f"{rotary_dim // 2} pairs. Convert the model again.",
        )
    view.reading.source("axes", key, label)
    if len(sections) > 1 and not any(sections[1:]):
        return Single()
    names = ("t", "h", "w", "e")[: len(sections)]
    if len(names) != len(sections):
        names = tuple(f"axis{number}" for number in range(len(sections)))
    return Sections(sections=sections, arrangement="interleaved" if kind == "imrope" else "chunked", names=names)
