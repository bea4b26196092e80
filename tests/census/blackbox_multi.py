"""Rotary classes of transformers with several position axes, and those of vision towers, as black boxes.

Rows of the positions of a case follow the columns (or rows) of position ids that the model's own code makes:
`row_names` gives their names. Where a module makes its positions from a grid inside itself, the case feeds it
chosen positions through the grid function it calls (DINOv3, EoMT, Sapiens 2, EfficientLoFTR), or picks rows out of
a grid that holds them (Llama 4).
"""

import copy
import importlib
import inspect
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import ModuleType, SimpleNamespace
from typing import Any
from unittest import mock

import numpy as np

from .cases import Case, NotCovered

Tables = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]
Turn = Callable[[np.ndarray, np.ndarray], np.ndarray]

THW = ("t", "h", "w")
HW = ("h", "w")
WH = ("w", "h")
ONE = ("position",)

# Names of the rows of positions where they are not (h, w) for a vision class or (t, h, w) for a text class.
_ROWS: dict[str, tuple[str, ...]] = {
    "DeepseekOcr2VisionRotaryEmbedding": ONE,
    "Granite4VisionTextRotaryEmbedding": ONE,
    "HunYuanVLRotaryEmbedding": ("position", "w", "h", "image"),
    "NeoMMERotaryEmbedding": ("row", "column"),
    "MusicFlamingoRotaryEmbedding": ("window", "time"),
    "MiniMaxM3VLVisionRotaryEmbedding": THW,
    "Gemma4VisionRotaryEmbedding": WH,
    "Llama4VisionRotaryEmbedding": WH,
    "MuseGlimmerVisionRotaryEmbedding": WH,
    "MuseSparkVisionRotaryEmbedding": WH,
    "EdgeTamVideoVisionRotaryEmbedding": WH,
    "Sam2VideoVisionRotaryEmbedding": WH,
    "Sam3TrackerVideoVisionRotaryEmbedding": WH,
    "Sam3ViTRotaryEmbedding": WH,
    "MLCDRotaryEmbedding": HW,
    "EfficientLoFTRRotaryEmbedding": HW,
    "EomtDinov3RotaryEmbedding": HW,
    "DINOv3ViTRopePositionEmbedding": HW,
    "Sapiens2RopePositionEmbedding": HW,
    "VJEPA2RopeAttention": ("t", "h", "w"),
}
_ATTENTION_TWINS = {  # attention classes of the "skip" group: the rotary class whose tables they apply
    "EdgeTamVideoRoPESelfAttention": "EdgeTamVideoVisionRotaryEmbedding",
    "EdgeTamVideoRoPECrossAttention": "EdgeTamVideoVisionRotaryEmbedding",
    "Sam2VideoRoPEAttention": "Sam2VideoVisionRotaryEmbedding",
    "Sam3ViTRoPEAttention": "Sam3ViTRotaryEmbedding",
    "Sam3TrackerVideoRoPEAttention": "Sam3TrackerVideoVisionRotaryEmbedding",
}
# Config class that the module really takes, where the annotation of its __init__ names another one.
_CONFIGS = {
    "PaddleOCRRotaryEmbedding": ("PaddleOCRTextConfig",),
    "Qwen2VLRotaryEmbedding": ("Qwen2VLTextConfig",),
    "Qwen2_5_VLRotaryEmbedding": ("Qwen2_5_VLTextConfig",),
    "Qwen2_5OmniRotaryEmbedding": ("Qwen2_5OmniTextConfig", "Qwen2_5OmniTalkerConfig"),
    "DeepseekOcr2VisionRotaryEmbedding": ("DeepseekOcr2VisionEncoderConfig",),
    "VJEPA2RopeAttention": ("VJEPA2Config",),
}
# Root configs of other files that hold the class's config by default: (module, config class).
_OTHER_ROOTS = {"PixtralVisionRotaryEmbedding": ("mistral3", "Mistral3Config")}
# Arguments of the root config, where the class's own defaults cannot build a working module; the note says why.
_GLM4V_TEXT = {"mrope_section": [8, 12, 12], "partial_rotary_factor": 0.5}
_ARGUMENTS: dict[str, tuple[dict[str, Any], str]] = {
    "CohereCompassRotaryEmbedding": (
        {
            "text_config": {
                "layer_types": ["sliding_attention", "sliding_attention", "sliding_attention", "full_attention"] * 10,
                "rope_parameters": {
                    "sliding_attention": {
                        "rope_type": "default",
                        "rope_theta": 50000.0,
                        "mrope_section": [24, 20, 20],
                    },
                    "full_attention": None,
                },
            }
        },
        "the default config has no rope_parameters, the module then raises KeyError",
    ),
    "Gemma4VisionRotaryEmbedding": ({"vision_config": {}}, "the default config has no vision_config"),
    "Glm4vTextRotaryEmbedding": (
        {"text_config": {"rope_parameters": _GLM4V_TEXT}},
        "the default partial_rotary_factor is 1, which does not fit the default mrope_section [8, 12, 12]",
    ),
    "Glm4vMoeTextRotaryEmbedding": (
        {"text_config": {"rope_parameters": _GLM4V_TEXT, "head_dim": 128}},
        "the default head_dim is 4096 // 96 = 42, which does not fit the default mrope_section [8, 12, 12]",
    ),
    "GlmImageTextRotaryEmbedding": (
        {"text_config": {"rope_parameters": _GLM4V_TEXT}},
        "the default partial_rotary_factor is 1, which does not fit the default mrope_section [8, 12, 12]",
    ),
    "HunYuanVLRotaryEmbedding": (
        {
            "text_config": {
                "head_dim": 128,
                "rope_parameters": {
                    "rope_type": "dynamic",
                    "rope_theta": 10000.0,
                    "alpha": 1000.0,
                    "factor": 1.0,
                    "mrope_section": [16, 16, 16, 16],
                },
            }
        },
        "the default config has no mrope_section, the module then raises TypeError",
    ),
    "Qwen3OmniMoeThinkerTextRotaryEmbedding": (
        {"thinker_config": {"text_config": {"head_dim": 128}}},
        "the default head_dim is 2048 // 28 = 73, odd: the module's tables then do not fit",
    ),
}
_PARTS = {
    "text_config": "text",
    "vision_config": "vision",
    "encoder_config": "vision",
    "backbone_config": "vision",
    "audio_config": "audio",
    "talker_config": "talker",
}
_PARTS_OF_ROOT = {
    "NeoMMERotaryEmbedding": "text",
    "MusicFlamingoRotaryEmbedding": "audio_time",
    "EdgeTamVideoVisionRotaryEmbedding": "memory_attention",
    "Sam2VideoVisionRotaryEmbedding": "memory_attention",
    "Sam3TrackerVideoVisionRotaryEmbedding": "memory_attention",
}
_DINO = ("DINOv3ViTRopePositionEmbedding", "EomtDinov3RotaryEmbedding", "Sapiens2RopePositionEmbedding")
_SAM = tuple(dict.fromkeys(_ATTENTION_TWINS.values()))


@dataclass(frozen=True)
class Found:
    """One config that a rotary class takes, inside the root config of its model."""

    class_name: str
    module: ModuleType
    config: Any
    root: Any
    path: tuple[str, ...]
    asked: str  # class_name, or the attention class that applies its tables


def row_names(class_name: str) -> tuple[str, ...]:
    """What each row of the positions of this class's cases counts, in the order of the model's own position ids."""
    class_name = _ATTENTION_TWINS.get(class_name, class_name)
    if class_name in _ROWS:
        return _ROWS[class_name]
    return HW if "Vision" in class_name and "Text" not in class_name else THW


def sample_positions(class_name: str) -> np.ndarray:
    """Positions [A, S] that the class can be asked for: unequal on every axis, in the range its own code makes."""
    axes = len(row_names(class_name))
    if class_name in _DINO:
        return 2 * math.pi * np.array([[-0.75, 0.25, 0.5], [-0.9, 0.3, 0.7]])
    if class_name == "MusicFlamingoRotaryEmbedding":
        return np.array([[-0.5, 0.25, 3.0], [-1.5, 0.75, 30.0]])
    rows = np.array([[3, 30, 7], [5, 11, 23], [2, 17, 29], [13, 1, 19]], dtype=np.float64)
    return rows[:axes]


def _positions(positions: np.ndarray, axes: int) -> np.ndarray:
    """Positions as [A, S]; a row [S] counts on every axis."""
    positions = np.asarray(positions, dtype=np.float64)
    if positions.ndim == 1:
        positions = np.broadcast_to(positions, (axes, positions.shape[0]))
    if positions.shape[0] != axes:
        raise ValueError(f"positions have {positions.shape[0]} rows, the class has {axes} axes")
    return positions


def _walk(config: Any, wanted: type, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    if type(config) is wanted:
        yield path, config
        return
    for name in config.sub_configs or {}:
        sub = getattr(config, name, None)
        if hasattr(sub, "sub_configs"):
            yield from _walk(sub, wanted, (*path, name))


def _roots(module: ModuleType) -> list[type]:
    """Config classes of a configuration file that no other class of the file holds."""
    classes = [value for value in vars(module).values() if inspect.isclass(value) and hasattr(value, "sub_configs")]
    own = [cls for cls in classes if cls.__module__ == module.__name__]
    held = {sub for cls in own for sub in (getattr(cls, "sub_configs", None) or {}).values()}
    return [cls for cls in own if cls not in held]


def _find(asked: str, file: str) -> list[Found]:
    import transformers

    class_name = _ATTENTION_TWINS.get(asked, asked)

    transformers.logging.set_verbosity_error()
    module = importlib.import_module("transformers." + file.removesuffix(".py").replace("/", "."))
    cls = getattr(module, class_name)
    annotation = list(inspect.signature(cls.__init__).parameters.values())[1].annotation
    names = _CONFIGS.get(class_name, (getattr(annotation, "__name__", str(annotation)),))
    configuration = importlib.import_module(module.__name__.replace("modeling_", "configuration_"))
    roots = _roots(configuration)
    if class_name in _OTHER_ROOTS:
        name, other = _OTHER_ROOTS[class_name]
        roots = [getattr(importlib.import_module(f"transformers.models.{name}.configuration_{name}"), other), *roots]
    arguments = _ARGUMENTS.get(class_name, ({}, ""))[0]
    found = []
    for name in names:
        wanted = getattr(configuration, name)
        for root_class in sorted(roots, key=lambda root: root is wanted):
            root = root_class(**copy.deepcopy(arguments))
            hit = next(_walk(root, wanted), None)
            if hit is not None:
                found.append(Found(class_name, module, hit[1], root, hit[0], asked))
                break
        else:
            raise NotCovered(f"no config of {configuration.__name__} holds a {name}")
    return found


def _part(found: Found) -> str:
    for name in reversed(found.path):
        if name in _PARTS:
            return _PARTS[name]
    return _PARTS_OF_ROOT.get(found.class_name, "vision")


def _layer_types(config: Any) -> list[str]:
    return list(getattr(config, "layer_types", None) or [])


def _layer(found: Found, label: str | None) -> int:
    types = _layer_types(found.config)
    if label is not None:
        return types.index(label)
    attention = [i for i, kind in enumerate(types) if kind.endswith("_attention") and kind != "linear_attention"]
    return attention[0] if attention else 0


def _case(
    found: Found,
    tables: Tables | None,
    turn: Turn,
    head_dim: int,
    inv_freq: Any = None,
    attention_scaling: float = 1.0,
    label: str | None = None,
    note: str = "",
) -> Case:
    notes = (note, _ARGUMENTS.get(found.class_name, ({}, ""))[1])
    return Case(
        class_name=found.asked,
        file="models/" + "/".join(found.module.__name__.split(".")[2:]) + ".py",
        model_type=found.root.model_type,
        config=found.root.to_dict(),
        part=_part(found),
        label=label,
        layer=_layer(found, label),
        rope_key="attention",
        head_dim=head_dim,
        axes=len(row_names(found.class_name)),
        inv_freq=None if inv_freq is None else inv_freq.detach().numpy().astype(np.float64),
        attention_scaling=float(attention_scaling),
        tables=tables,
        turn=turn,
        note="; ".join(filter(None, notes)),
    )


def _numpy(*tensors: Any) -> tuple[np.ndarray, ...]:
    return tuple(tensor.detach().double().numpy() for tensor in tensors)


def _same(query: Any, key: Any) -> Any:
    if not (query == key).all():
        raise NotCovered("the apply function turns queries and keys differently")
    return query


# --- text classes: position ids [A, batch, seq], q and k [batch, heads, seq, head_dim] -------------------------------


def _text_cases(found: Found) -> list[Case]:
    rotary = getattr(found.module, found.class_name)(found.config)
    labels = sorted({label for label in _layer_types(found.config) if hasattr(rotary, f"{label}_inv_freq")})
    return [_text_case(found, rotary, label) for label in labels or [None]]


def _text_case(found: Found, rotary: Any, label: str | None) -> Case:
    import torch

    axes = len(row_names(found.class_name))
    layout = "tables are half-split, the apply function is interleaved" if "HYV4" in found.class_name else ""
    prefix = "" if label is None else f"{label}_"
    apply = found.module.apply_rotary_pos_emb
    extra = () if label is None else (label,)

    def embeddings(positions: np.ndarray) -> tuple[Any, Any]:
        ids = torch.from_numpy(_positions(positions, axes).copy())[:, None]
        return rotary(torch.zeros(1), ids if axes > 1 else ids[0], *extra)

    def tables(positions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        cos, sin = _numpy(*embeddings(positions))
        return cos[0], sin[0]

    def turn(x: np.ndarray, positions: np.ndarray) -> np.ndarray:
        q = torch.from_numpy(np.asarray(x, dtype=np.float64)).transpose(0, 1)[None]
        q, k = apply(q, q.clone(), *embeddings(positions))
        return _same(q, k)[0].transpose(0, 1).double().numpy()

    return _case(
        found,
        tables,
        turn,
        _head_dim(found.config),
        label=label,
        inv_freq=getattr(rotary, f"{prefix}inv_freq"),
        attention_scaling=getattr(rotary, f"{prefix}attention_scaling"),
        note=layout,
    )


def _head_dim(config: Any) -> int:
    width = getattr(config, "embed_dim", None) or config.hidden_size
    return getattr(config, "head_dim", None) or width // config.num_attention_heads


# --- vision classes: position ids [tokens, A], q and k [tokens, heads, head_dim] -------------------------------------


def _vision_case(found: Found) -> Case:
    import torch

    axes = len(row_names(found.class_name))
    rotary = getattr(found.module, found.class_name)(found.config)
    name = found.class_name
    module = found.module

    def embeddings(positions: np.ndarray) -> tuple[Any, Any]:
        ids = torch.from_numpy(_positions(positions, axes).T.copy())
        if name == "Gemma4VisionRotaryEmbedding":  # one more axis: the batch
            ids = ids[None]
        return rotary(torch.zeros(1), ids)

    def tables(positions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        cos, sin = _numpy(*embeddings(positions))
        return cos.reshape(-1, cos.shape[-1]), sin.reshape(-1, sin.shape[-1])

    def turn(x: np.ndarray, positions: np.ndarray) -> np.ndarray:
        q = torch.from_numpy(np.asarray(x, dtype=np.float64))
        cos, sin = embeddings(positions)
        if name == "Gemma4VisionRotaryEmbedding":
            ids = torch.from_numpy(_positions(positions, axes).T.copy())[None]
            return module.apply_multidimensional_rope(q[None], cos, sin, ids)[0].numpy()
        if name == "PixtralVisionRotaryEmbedding" or name in _SAM:
            q = q.transpose(0, 1)[None]
            return _same(*_apply_2d(found, q, cos, sin))[0].transpose(0, 1).numpy()
        return _same(*module.apply_rotary_pos_emb_vision(q, q.clone(), cos, sin)).numpy()

    head_dim = tables(np.zeros(1))[0].shape[-1] if name in _SAM else _head_dim(found.config)
    return _case(found, tables, turn, head_dim, inv_freq=rotary.inv_freq, attention_scaling=rotary.attention_scaling)


def _apply_2d(found: Found, q: Any, cos: Any, sin: Any) -> tuple[Any, Any]:
    """Apply functions for q and k of shape [batch, heads, tokens, head_dim]: Pixtral, SAM 2 and 3, EdgeTAM."""
    module = found.module
    if found.class_name == "PixtralVisionRotaryEmbedding":
        return module.apply_rotary_pos_emb(q, q.clone(), cos, sin, unsqueeze_dim=0)
    if found.class_name != "EdgeTamVideoVisionRotaryEmbedding":
        return module.apply_rotary_pos_emb_2d(q, q.clone(), cos, sin)
    if found.asked == "EdgeTamVideoRoPECrossAttention":
        return module.apply_rotary_pos_emb_2d_cross_attn(q, q.clone(), cos, sin, cos, sin)
    return module.apply_rotary_pos_emb_2d_self_attn(q, q.clone(), cos, sin)


def _dino_case(found: Found) -> Case:
    """DINOv3 and its kin: coordinates of patch centres in (-1, 1), times 2 pi; positions here are radians at rate 1."""
    import torch

    rotary = getattr(found.module, found.class_name)(found.config).eval()
    module = found.module

    def embeddings(positions: np.ndarray) -> tuple[Any, Any]:
        coordinates = torch.from_numpy(_positions(positions, 2).T / (2 * math.pi)).float()
        with mock.patch.object(module, "get_patches_center_coordinates", lambda *args, **kwargs: coordinates):
            return rotary(torch.zeros(1, 3, 64, 64))

    def tables(positions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        cos, sin = _numpy(*embeddings(positions))
        return cos, sin

    def turn(x: np.ndarray, positions: np.ndarray) -> np.ndarray:
        q = torch.from_numpy(np.asarray(x, dtype=np.float64)).transpose(0, 1)[None]
        q, k = module.apply_rotary_pos_emb(q, q.clone(), *embeddings(positions))
        return _same(q, k)[0].transpose(0, 1).numpy()

    note = "positions are 2*pi*(2*(i + 0.5)/patches - 1), floats"
    return _case(found, tables, turn, _head_dim(found.config), inv_freq=rotary.inv_freq, note=note)


def _llama4_case(found: Found) -> Case:
    """Llama 4 vision: one complex table of a square grid; positions from 1, and (0, 0) for the class token."""
    import torch

    module, config = found.module, found.config
    rotary_class = getattr(module, found.class_name)

    def rows(positions: np.ndarray) -> Any:
        w, h = _positions(positions, 2)
        side = int(max(w.max(), h.max(), 1))
        shape = {"image_size": side * config.patch_size, "patch_size": config.patch_size}
        for key in ("hidden_size", "num_attention_heads", "rope_parameters"):
            shape[key] = getattr(config, key)
        table = rotary_class(SimpleNamespace(**shape))(torch.zeros(1))
        zero = (w == 0) & (h == 0)
        if ((w < 1) | (h < 1) | (w % 1 != 0) | (h % 1 != 0))[~zero].any():
            raise ValueError("Llama 4 vision has positions 1, 2, … on both axes, and (0, 0) for the class token")
        index = np.where(zero, side * side, (h - 1) * side + (w - 1)).astype(np.int64)
        return table[torch.from_numpy(index)]

    def tables(positions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        table = rows(positions)[:, 0]
        cos, sin = _numpy(table.real, table.imag)
        return cos, sin

    def turn(x: np.ndarray, positions: np.ndarray) -> np.ndarray:
        q = torch.from_numpy(np.asarray(x, dtype=np.float64))[None]
        return _same(*module.vision_apply_rotary_emb(q, q.clone(), rows(positions)))[0].numpy()

    note = "tables have one column a pair; positions are 1, 2, … (grid index + 1), (0, 0) for the class token"
    return _case(found, tables, turn, _head_dim(config), note=note)


def _loftr_case(found: Found) -> Case:
    """EfficientLoFTR: turns the whole hidden vector before it is split into heads; positions count from 1.

    `compute_embeddings` gives the angles of a grid, linear in both positions: three cells give both slopes.
    """
    import torch

    module, config = found.module, found.config
    rotary = getattr(module, found.class_name)(config)
    grid = module.compute_embeddings(rotary.inv_freq, 2, 2, config.hidden_size)[0]
    slopes = torch.stack([grid[1, 0] - grid[0, 0], grid[0, 1] - grid[0, 0]])
    if not torch.equal(slopes.sum(0), grid[0, 0]):
        raise NotCovered("the first cell of the grid is not at position (1, 1)")

    def embeddings(positions: np.ndarray) -> tuple[Any, Any]:
        angles = torch.from_numpy(_positions(positions, 2).T.copy()).float() @ slopes
        with mock.patch.object(module, "compute_embeddings", lambda *args: angles[None, :, None]):
            cos, sin = rotary(torch.zeros(1, config.hidden_size, 8, 8))
        return cos[:, :, 0], sin[:, :, 0]

    def tables(positions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        cos, sin = _numpy(*embeddings(positions))
        return cos[0], sin[0]

    def turn(x: np.ndarray, positions: np.ndarray) -> np.ndarray:
        q = torch.from_numpy(np.asarray(x, dtype=np.float64))[None]
        q, k = module.apply_rotary_pos_emb(q, q.clone(), *embeddings(positions), unsqueeze_dim=2)
        return _same(q, k)[0].numpy()

    note = "turns hidden_size channels before the split into heads; positions are grid index + 1"
    return _case(found, tables, turn, config.hidden_size, inv_freq=rotary.inv_freq, note=note)


def _flamingo_case(found: Found) -> Case:
    """Music Flamingo: turns audio features, not queries; each token's angles come from its timestamp and its index.

    Row 0 is -2 pi t k/L (t the token's time, k the window's number, L max_position_embeddings), row 1 is
    -4 pi^2 t n/L (n the token's index in its window). Each row is asked for alone, and the two turns follow each other.
    """
    import torch

    module, config = found.module, found.config
    rotary = getattr(module, found.class_name)(config)
    length = rotary.max_seq_len_cached
    window = config.audio_frame_step * 4 * 2  # seconds that two tokens last

    def one_row(values: np.ndarray, row: int) -> tuple[Any, Any]:
        """Tables of the second token (n = 1) of windows of two; row 0 in window k = L, with the part of n off."""
        if row == 0:
            stamps = np.stack([np.full_like(values, window * length), values / (-2 * math.pi)], axis=1)
            still = torch.zeros_like(rotary.position_angles)
            with mock.patch.object(rotary, "position_angles", still):
                cos, sin = rotary(torch.from_numpy(stamps), seq_len=2)
        else:
            stamps = np.stack([np.zeros_like(values), values * length / (-4 * math.pi**2)], axis=1)
            cos, sin = rotary(torch.from_numpy(stamps), seq_len=2)
        return cos[:, 1], sin[:, 1]

    def tables(positions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        first, second = (_numpy(*one_row(values, row)) for row, values in enumerate(_positions(positions, 2)))
        angle = np.arctan2(first[1], first[0]) + np.arctan2(second[1], second[0])
        return np.cos(angle), np.sin(angle)

    def turn(x: np.ndarray, positions: np.ndarray) -> np.ndarray:
        y = torch.from_numpy(np.asarray(x, dtype=np.float64))
        for row, values in enumerate(_positions(positions, 2)):
            cos, sin = one_row(values, row)
            y = module.apply_rotary_time_emb(y, cos[:, None], sin[:, None])
        return y.numpy()

    note = "turns audio features (width audio hidden_size), not queries and keys; positions are products of two times"
    return _case(found, tables, turn, config.head_dim, inv_freq=rotary.inv_freq, note=note)


def _vjepa2_case(found: Found) -> Case:
    """V-JEPA 2: its own attention class turns d_dim, h_dim and w_dim channels one after the other."""
    import torch

    attention = found.module.VJEPA2RopeAttention(
        found.config, hidden_size=found.config.hidden_size, num_attention_heads=found.config.num_attention_heads
    )

    def turn(x: np.ndarray, positions: np.ndarray) -> np.ndarray:
        q = torch.from_numpy(np.asarray(x, dtype=np.float64)).transpose(0, 1)[None]
        ids = tuple(torch.from_numpy(row.copy()) for row in _positions(positions, 3))
        return attention.apply_rotary_embeddings(q, ids)[0].transpose(0, 1).numpy()

    return _case(found, None, turn, _head_dim(found.config))


_TEXT_LIKE = ("NeoMMERotaryEmbedding", "DeepseekOcr2VisionRotaryEmbedding")


def _cases(found: Found) -> list[Case]:
    name = found.class_name
    if name in _DINO:
        return [_dino_case(found)]
    if name == "Llama4VisionRotaryEmbedding":
        return [_llama4_case(found)]
    if name == "EfficientLoFTRRotaryEmbedding":
        return [_loftr_case(found)]
    if name == "MusicFlamingoRotaryEmbedding":
        return [_flamingo_case(found)]
    if name == "VJEPA2RopeAttention":
        return [_vjepa2_case(found)]
    if name not in _TEXT_LIKE and (len(row_names(name)) == 2 or "VLVision" in name):
        return [_vision_case(found)]
    return _text_cases(found)


def cases_for(class_name: str, file: str) -> list[Case]:
    """Cases of one class of the "multi" group (or of an attention class of the "skip" group), without weights."""
    return [case for found in _find(class_name, file) for case in _cases(found)]
