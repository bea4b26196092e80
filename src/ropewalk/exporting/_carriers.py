"""Which architecture carries a rope that comes without a model: pairing, direction and axes are its code, no keys.

Source: transformers 5.24.0, modeling_*.py of each; mlx-lm 0.32.2, mlx_lm/models/*.py.
"""

from collections.abc import Iterator
from dataclasses import replace

from ..axes import Sections, Single
from ..inspection import _layers_words as layers_words
from ..models.model import Layer
from ..rope import Rope
from ..scaling import LongRope, Ntk, Yarn
from ._subject import Subject
from ._writing import UnwritableError

# model types whose code turns the leading part of a head
PARTIAL = frozenset(
    """
    bamba diffusion_gemma dots3_note glm glm4 glm4_moe glm4_moe_lite glm4v_text glm4v_moe_text glm_image_text
    glm_ocr_text glmasr_encoder gpt_neox gpt_neox_japanese gptj codegen laguna mellum mimo_v2_flash minimax_m2
    minimax_m3_vl_text moonshine moonshine_streaming nemotron persimmon phi phi3 phi4_multimodal qwen3_5_text
    qwen3_5_moe_text qwen3_next qwen4_exp recurrent_gemma solar_open stablelm step3p5 zaya deepseek_v4 clvp_encoder
    """.split()
)


def carried(subject: Subject) -> Iterator[Subject]:
    """Give the subject under every architecture that could carry its one rope, the plainest first.

    Every layer turns there: which of its own have no RoPE is what `carrier_notes` says.

    Raises:
        UnwritableError: where no architecture turns vectors like that, or there are several ropes.
    """
    rope = subject.single
    if rope is None:
        raise UnwritableError(
            f"it has {len(subject.ropes)} ropes, and the architecture that deals them to layers is not known here",
            "ropes",
        )
    found = list(_types(rope))
    layers = (Layer(ropes={"attention": rope}),) * len(subject.layers)
    part = "text" if subject.part else ""
    for model_type in found:
        yield replace(
            subject, layers=layers, model_type=model_type, root=model_type, home="", part=part, stands_in=True
        )


def carrier_notes(chosen: Subject, subject: Subject, kind: str) -> tuple[str, ...]:
    """Say what an architecture stands for that is not the subject's own; kind is what an engine calls its code."""
    if not chosen.stands_in:
        return ()
    said = f"model_type {chosen.model_type} stands for any {kind} like it"
    if not subject.without_rope:
        return (said,)
    return said, f"{layers_words(list(subject.without_rope))}: no RoPE there, which no key here says"


def _types(rope: Rope) -> Iterator[str]:
    half, partial = rope.pairing == "half", rope.width != rope.head_dim
    scaling, axes = rope.scaling, rope.axes
    if rope.rotary_start:
        raise UnwritableError("no key moves the first turned channel", "rotary_start")
    if rope.pairing == "hybrid_tile":
        raise UnwritableError("only V-JEPA 2's own code turns neighbours by a tiled table", "pairing")
    if rope.width % 2:
        raise UnwritableError("no class passes an odd channel through", "odd")
    if isinstance(axes, Sections):
        named = {("chunked", True): "qwen2_vl_text", ("interleaved", True): "qwen3_vl_text"}
        named |= {("alternating", False): "ernie4_5_vl_moe_text"}
        kind = named.get((axes.arrangement, half))
        if kind is None or partial or rope.direction < 0:
            raise UnwritableError(f"no class deals {axes.arrangement} sections to such pairs", "axes")
        yield kind
    elif not isinstance(axes, Single):
        raise UnwritableError("no key deals the pairs to several axes of their own", "axes")
    elif rope.direction < 0:
        if partial or not half:
            raise UnwritableError("only NanoChat's code turns backwards, whole heads of half-split pairs", "direction")
        yield "nanochat"
    elif isinstance(scaling, Yarn) and scaling.scale_softmax:
        if partial:
            raise UnwritableError("MLA turns its rope part whole; give the width of that part as head_dim", "head_dim")
        yield "deepseek_v3"
    elif isinstance(scaling, Ntk) and scaling.method == "aware":
        if partial or not half:
            raise UnwritableError("only HunYuan's code reads alpha, for whole heads of half-split pairs", "scaling")
        yield "hunyuan_v1_dense"
    elif isinstance(scaling, LongRope) and (scaling.short_mscale or scaling.long_mscale) and half and not partial:
        yield "phimoe"
    elif partial:
        yield "glm4_moe" if half else "glm"
    else:
        yield "llama" if half else "cohere"
