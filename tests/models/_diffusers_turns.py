"""How diffusers' own code turns a head: for each class its positions, its table and its function, none of them copied.

The rope module comes out of the class's own ``__init__``, run without weights and otherwise with its defaults, so its
base and widths are the class's. A function that stands inside an attention processor is taken out of its code.
"""

import inspect
import types
from importlib import import_module
from pathlib import Path

import numpy as np
import torch

FRAMES, ROWS, COLUMNS = 3, 4, 6
PLACE = "diffusers.models.transformers."


def module_of(file):
    return import_module(PLACE + file)


def class_of(file, name):
    return getattr(module_of(file), name)


def defaults_of(cls):
    """The defaults of a class's configuration."""
    return {name: value.default for name, value in inspect.signature(cls.__init__).parameters.items()}


def models():
    """The names of every model among diffusers' transformers."""
    mixin = import_module("diffusers.configuration_utils").ConfigMixin
    folder = Path(import_module("diffusers.models.transformers").__file__).parent
    for file in sorted(path.stem for path in folder.glob("*.py") if path.stem != "__init__"):
        for name, thing in vars(module_of(file)).items():
            if inspect.isclass(thing) and issubclass(thing, mixin) and thing.__module__ == PLACE + file:
                yield name


def built(file, name, rope=None, **keys):
    """Build a class without weights; give it, and the module of the rope class (with its numbers) that it built."""
    module, made = module_of(file), []
    original = getattr(module, rope) if rope else None

    def recorder(*args, **options):
        with torch.device("cpu"):
            made.append(original(*args, **options))
        return made[-1]

    if rope:
        setattr(module, rope, recorder)
    try:
        with torch.device("meta"):
            model = getattr(module, name)(**keys)
    finally:
        if rope:
            setattr(module, rope, original)
    return model, next(iter(made), None)


def nested(owner, name):
    """Take a function out of the code of another that closes over nothing."""
    code = next(c for c in owner.__code__.co_consts if isinstance(c, types.CodeType) and c.co_name == name)
    return types.FunctionType(code, owner.__globals__)


def embeddings(name):
    return getattr(import_module("diffusers.models.embeddings"), name)


def grid(*sizes):
    """[A, S] the positions of a grid, the last axis fastest."""
    return np.stack([axis.reshape(-1) for axis in np.meshgrid(*map(np.arange, sizes), indexing="ij")])


def scattered(axes, count=24, high=90):
    """[A, S] positions anywhere."""
    return np.random.default_rng(0).integers(0, high, (axes, count))


def in_rows(apply, **options):
    """A turn of x [S, D] by a function of [B, S, H, D] and a table."""
    return lambda x, table: apply(x[None, :, None], table, **options)[0, :, 0]


def turned(positions, table, turn):
    return positions, lambda x: turn(x, table)


REAL = {"sequence_dim": 1}


def _flux(rope, axes=3):
    def case(file, name, keys):
        ids = scattered(axes)
        table = built(file, name, rope, **keys)[1](torch.tensor(ids.T))
        return turned(ids, table, in_rows(embeddings("apply_rotary_emb"), **REAL))

    return case


def _hidden(rope, sizes=(FRAMES, ROWS, COLUMNS), unbind=-1, **keys_too):
    """Modules that take the latents and make the grid of their patches."""

    def case(file, name, keys):
        model, module = built(file, name, rope, **keys, **keys_too)
        patch = model.config.patch_size
        patch = patch if isinstance(patch, tuple | list) else (getattr(model.config, "patch_size_t", 1), patch, patch)
        patch = patch[-len(sizes) :]
        latents = torch.zeros(1, 1, *(size * side for size, side in zip(sizes, patch, strict=True)))
        apply = in_rows(embeddings("apply_rotary_emb"), use_real_unbind_dim=unbind, **REAL)
        return turned(grid(*sizes), module(latents), apply)

    return case


def _wan(rope, processor):
    def case(file, name, keys):
        model, module = built(file, name, rope, **keys)
        apply = nested(module_of(file).__dict__.get(processor, wan()).__call__, "apply_rotary_emb")
        _, high, wide = model.config.patch_size
        table = module(torch.zeros(1, 1, FRAMES, ROWS * high, COLUMNS * wide))
        return turned(grid(FRAMES, ROWS, COLUMNS), table, lambda x, pair: apply(x[None, :, None], *pair)[0, :, 0])

    return case


def wan():
    return class_of("transformer_wan", "WanAttnProcessor")


def _wan_animate_2(file, name, keys):
    module = module_of(file)
    model, _ = built(file, name, **keys)
    table = model._rope_freqs((0, 0, 0), torch.device("cpu"))
    sizes = torch.tensor([[FRAMES, ROWS, COLUMNS]])
    apply = in_rows(lambda x, freqs: module.rope_apply(x, sizes, freqs))
    return turned(grid(FRAMES, ROWS, COLUMNS), table, apply)


def _anyflow(rope):
    def case(file, name, keys):
        table = built(file, name, rope, **keys)[1]._forward_full_frame(FRAMES, ROWS, COLUMNS, torch.device("cpu"))
        apply = module_of(file).apply_rotary_emb
        return turned(
            grid(FRAMES, ROWS, COLUMNS),
            table.flatten(0, 2),
            lambda x, freqs: apply(x[None, None], freqs[None, None])[0, 0],
        )

    return case


def _sana_wm(file, name, keys):
    table = built(file, name, "SanaWMRotaryPosEmbed", **keys)[1]((FRAMES, ROWS, COLUMNS))
    apply = module_of(file)._apply_rotary_emb
    return turned(grid(FRAMES, ROWS, COLUMNS), table, lambda x, freqs: apply(x.T[None, None], freqs)[0, 0].T)


def _cogvideox(file, name, keys):
    head = defaults_of(class_of(file, name))["attention_head_dim"]
    table = embeddings("get_3d_rotary_pos_embed")(head, ((0, 0), (ROWS, COLUMNS)), (ROWS, COLUMNS), FRAMES)
    return turned(grid(FRAMES, ROWS, COLUMNS), table, in_rows(embeddings("apply_rotary_emb"), **REAL))


def _easyanimate(file, name, keys):
    module = built(file, name, "EasyAnimateRotaryPosEmbed", **keys)[1]
    table = module(torch.zeros(1, 4, FRAMES, 60, 90))  # the grid that is not resampled
    return turned(grid(FRAMES, 30, 45), table, in_rows(embeddings("apply_rotary_emb"), **REAL))


def _allegro(file, name, keys):
    head = defaults_of(class_of(file, name))["attention_head_dim"]
    crop = ((0, 0), (ROWS, COLUMNS))
    table = embeddings("get_3d_rotary_pos_embed_allegro")(head, crop, (ROWS, COLUMNS), FRAMES)[:3]
    positions = grid(FRAMES, ROWS, COLUMNS)
    apply = embeddings("apply_rotary_emb_allegro")
    ids = torch.tensor(positions)[:, None]
    return turned(positions, table, lambda x, tables: apply(x[None, None], tables, ids)[0, 0])


def _hunyuan_dit(file, name, keys):
    head = defaults_of(class_of(file, name))["attention_head_dim"]
    table = embeddings("get_2d_rotary_pos_embed")(head, ((0, 0), (ROWS, COLUMNS)), (ROWS, COLUMNS))
    return turned(grid(ROWS, COLUMNS), table, in_rows(embeddings("apply_rotary_emb"), **REAL))


def _lumina_next(file, name, keys):
    head = built(file, name, **keys)[0].head_dim
    table = embeddings("get_2d_rotary_pos_embed_lumina")(head, ROWS, COLUMNS).flatten(0, 1)[None]
    return turned(grid(ROWS, COLUMNS), table, in_rows(embeddings("apply_rotary_emb"), use_real=False))


def _lumina_2(file, name, keys):
    ids = scattered(3)
    table = built(file, name, "Lumina2RotaryPosEmbed", **keys)[1]._get_freqs_cis(torch.tensor(ids.T)[None])
    return turned(ids, table, in_rows(embeddings("apply_rotary_emb"), use_real=False))


def _z_image(processor):
    def case(file, name, keys):
        ids = scattered(3)
        table = built(file, name, "RopeEmbedder", **keys)[1](torch.tensor(ids.T, dtype=torch.int32))[None]
        return turned(ids, table, in_rows(nested(class_of(file, processor).__call__, "apply_rotary_emb")))

    return case


def _matrices(rope, axes, apply_of):
    """Tables of 2 x 2 matrices: [S, D/2, 2, 2] whatever dimensions of one stand between."""

    def case(file, name, keys):
        ids = scattered(axes)
        table = built(file, name, rope, **keys)[1](torch.tensor(ids.T, dtype=torch.float32)[None])
        table = table.reshape(1, len(ids.T), 1, -1, 2, 2)
        return turned(ids, table, lambda x, matrices: _rotary_part(apply_of(file), x, matrices))

    return case


def _rotary_part(apply, x, matrices):
    width = 2 * matrices.shape[-3]
    front = apply(x[None, :, None, :width], matrices)[0, :, 0]
    return torch.cat([front, x[:, width:]], dim=-1)


def _prx(file):
    return module_of(file).apply_rope


def _hidream(file):
    apply = module_of(file).apply_rope
    return lambda x, matrices: apply(x, x, matrices)[0]


def _kandinsky(rope):
    def case(file, name, keys):
        model, module = built(file, name, rope, **keys)
        places = tuple(torch.arange(size) for size in (FRAMES, ROWS, COLUMNS))
        scale = getattr(model.config, "scale_factor", (1.0, 1.0, 1.0))
        shape = ((1, FRAMES, ROWS, COLUMNS),) if name.startswith("Kandinsky5") else ()
        table = module(*shape, places, scale)
        table = table.reshape(1, -1, 1, *table.shape[-3:])
        apply = class_of("transformer_kandinsky6", "apply_rotary")  # that of Kandinsky 5 gives bfloat16
        positions = grid(FRAMES, ROWS, COLUMNS) / np.array(scale)[:, None]
        return turned(positions, table, in_rows(apply))

    return case


def _framepack(file, name, keys):
    model, module = built(file, name, "HunyuanVideoFramepackRotaryPosEmbed", **keys)
    side = model.config.patch_size
    table = module(torch.arange(FRAMES), ROWS * side, COLUMNS * side, torch.device("cpu"))
    return turned(grid(FRAMES, ROWS, COLUMNS), table, in_rows(embeddings("apply_rotary_emb"), **REAL))


def _qwen(rope, apply):
    def case(file, name, keys):
        module = built(file, name, rope, **keys)[1]
        table = module([(1, ROWS, COLUMNS)], max_txt_seq_len=8, device=torch.device("cpu"))[0]
        positions = grid(1, ROWS, COLUMNS) - np.array([[0], [ROWS // 2], [COLUMNS // 2]])
        return turned(positions, table, in_rows(getattr(module_of(file), apply), use_real=False))

    return case


def _qwen_21(file, name, keys):
    module = built(file, name, "QwenImage21Rope", **keys)[1]
    image = torch.ones(ROWS * COLUMNS, dtype=torch.bool)
    table = module([(1, ROWS, COLUMNS)], image, torch.device("cpu"))
    positions = grid(1, ROWS, COLUMNS) - np.array([[0], [ROWS // 2], [COLUMNS // 2]])
    return turned(positions, table, in_rows(module_of(file).apply_rotary_emb_qwen, use_real=False))


def _cogview_4(file, name, keys):
    model, module = built(file, name, "CogView4RotaryPosEmbed", **keys)
    side, (rows, columns) = model.config.patch_size, model.config.rope_axes_dim
    table = module(torch.zeros(1, 1, ROWS * side, COLUMNS * side))
    positions = grid(ROWS, COLUMNS) * np.array([[rows], [columns]]) // np.array([[ROWS], [COLUMNS]])
    apply = in_rows(embeddings("apply_rotary_emb"), use_real_unbind_dim=-2, **REAL)
    return turned(positions, table, apply)


def _helios(file, name, keys):
    module = built(file, name, "HeliosRotaryPosEmbed", **keys)[1]
    table = module(torch.arange(FRAMES)[None], ROWS, COLUMNS, torch.device("cpu")).flatten(2).transpose(1, 2)
    return turned(grid(FRAMES, ROWS, COLUMNS), table, in_rows(module_of(file).apply_rotary_emb_transposed))


def _joyimage(file, name, keys):
    table = built(file, name, **keys)[0].get_rotary_pos_embed([FRAMES, ROWS, COLUMNS])[0]
    apply = module_of(file)._apply_rotary_emb
    return turned(grid(FRAMES, ROWS, COLUMNS), table, in_rows(lambda x, pair: apply(x, x, pair)[0]))


def _joyimage_plus(file, name, keys):
    cos, sin = built(file, name, **keys)[0]._get_rotary_pos_embed_for_range((0, 0, 0), (FRAMES, ROWS, COLUMNS))
    apply = module_of(file)._apply_rotary_emb_batched
    return turned(grid(FRAMES, ROWS, COLUMNS), (cos[None], sin[None]), in_rows(lambda x, pair: apply(x, x, pair)[0]))


def _minimax_h3(file, name, keys):
    ids = scattered(3)
    table = built(file, name, "MiniMaxH3RotaryPosEmbed", **keys)[1](torch.tensor(ids.T))
    return turned(ids, table, in_rows(lambda x, pair: module_of(file)._apply_rotary_emb(x, *pair)))


def _half(file):
    """The turn that Cosmos 3 and Ideogram 4 write out in their processors, around their own function."""
    rotate_half = module_of(file)._rotate_half
    return lambda x, pair: x * pair[0][0] + rotate_half(x) * pair[1][0]


def _cosmos_3(file, name, keys):
    ids = scattered(3)
    module = built(file, name, "Cosmos3VLTextRotaryEmbedding", **keys)[1]
    return turned(ids, module(torch.tensor(ids)[:, None], torch.device("cpu"), torch.float32), _half(file))


def _ideogram_4(file, name, keys):
    ids = scattered(3)
    return turned(ids, built(file, name, "Ideogram4MRoPE", **keys)[1](torch.tensor(ids.T)[None]), _half(file))


COUNT = 40


def _ace_step(file, name, keys):
    model, _ = built(file, name, **keys)
    options = (COUNT, model.head_dim, model.rope_theta, torch.device("cpu"), torch.float32)
    apply = in_rows(embeddings("apply_rotary_emb"), use_real_unbind_dim=-2, **REAL)
    return turned(np.arange(COUNT), module_of(file)._ace_step_rotary_freqs(*options), apply)


def _longcat_audio(file, name, keys):
    module = built(file, name, "AudioDiTRotaryEmbedding", **keys)[1]
    return turned(np.arange(COUNT), module(torch.zeros(1, COUNT, 1)), in_rows(module_of(file)._apply_rotary_emb))


def _stable_audio(file, name, keys):
    width = defaults_of(class_of(file, name))["attention_head_dim"] // 2  # StableAudioPipeline.__init__
    table = embeddings("get_1d_rotary_pos_embed")(width, COUNT, use_real=True, repeat_interleave_real=False)
    processor = import_module("diffusers.models.attention_processor").StableAudioAttnProcessor2_0()
    apply = processor.apply_partial_rotary_emb
    return turned(np.arange(COUNT), table, lambda x, pair: apply(x[None, None], pair)[0, 0])


def _stable_audio_3(file, name, keys):
    module = built(file, name, "StableAudio3RotaryEmbedding", **keys)[1]
    return turned(np.arange(COUNT), module(COUNT, "cpu"), in_rows(module_of(file)._apply_rotary_partial))


def _minimax_music_3(file, name, keys):
    module = built(file, name, "MiniMaxMusic3RotaryEmbedding", **keys)[1]
    return turned(
        np.arange(COUNT), module(COUNT, torch.device("cpu")), in_rows(module_of(file)._apply_partial_rotary_emb)
    )


LISTS = {"short_factor": [1.0 + i / 48 for i in range(48)], "long_factor": [1.0 + i for i in range(48)]}


def omnigen(count):
    def case(file, name, keys):
        module = built(file, name, "OmniGenSuScaledRotaryEmbedding", **keys)[1]
        table = module(torch.zeros(1), torch.arange(count)[None])
        return turned(np.arange(count), table, in_rows(embeddings("apply_rotary_emb"), use_real_unbind_dim=-2, **REAL))

    return case


# by class: how it turns, and keys beside the defaults
TURNS = {
    "FluxTransformer2DModel": (_flux("FluxPosEmbed"), {}),
    "ChromaTransformer2DModel": (_flux("FluxPosEmbed"), {}),
    "BriaTransformer2DModel": (_flux("BriaEmbedND"), {}),
    "BriaFiboTransformer2DModel": (_flux("BriaFiboEmbedND"), {}),
    "BriaFibo2Transformer2DModel": (_z_image("BriaFibo2AttnProcessor"), {}),
    "LongCatImageTransformer2DModel": (_flux("LongCatImagePosEmbed"), {}),
    "OvisImageTransformer2DModel": (_flux("OvisImagePosEmbed"), {}),
    "Flux2Transformer2DModel": (_flux("Flux2PosEmbed", 4), {}),
    "Flux3Transformer2DModel": (_flux("Flux3PosEmbed", 4), {}),
    "Krea2Transformer2DModel": (_flux("Krea2RotaryPosEmbed"), {}),
    "QwenImageTransformer2DModel": (_qwen("QwenEmbedRope", "apply_rotary_emb_qwen"), {}),
    "QwenImage21Transformer2DModel": (_qwen_21, {}),
    "NucleusMoEImageTransformer2DModel": (_qwen("NucleusMoEEmbedRope", "_apply_rotary_emb_nucleus"), {}),
    "HiDreamImageTransformer2DModel": (
        _matrices("HiDreamImageEmbedND", 2, _hidream),
        {"patch_size": 2, "caption_channels": [4096, 4096]},
    ),
    "PRXTransformer2DModel": (_matrices("PRXEmbedND", 2, _prx), {}),
    "Lumina2Transformer2DModel": (_lumina_2, {}),
    "LuminaNextDiT2DModel": (_lumina_next, {"num_kv_heads": 32, "ffn_dim_multiplier": 1.0}),
    "ZImageTransformer2DModel": (_z_image("ZSingleStreamAttnProcessor"), {}),
    "HunyuanVideoTransformer3DModel": (_hidden("HunyuanVideoRotaryPosEmbed"), {}),
    "HunyuanVideo15Transformer3DModel": (_hidden("HunyuanVideo15RotaryPosEmbed"), {}),
    "HunyuanVideoFramepackTransformer3DModel": (_framepack, {}),
    "HunyuanImageTransformer2DModel": (_hidden("HunyuanImageRotaryPosEmbed", (ROWS, COLUMNS)), {}),
    "HunyuanDiT2DModel": (_hunyuan_dit, {}),
    "MotifVideoTransformer3DModel": (_hidden("MotifVideoRotaryPosEmbed"), {}),
    "JoyImageEditTransformer3DModel": (_joyimage, {}),
    "JoyImageEditPlusTransformer3DModel": (_joyimage_plus, {}),
    "WanTransformer3DModel": (_wan("WanRotaryPosEmbed", "WanAttnProcessor"), {}),
    "WanVACETransformer3DModel": (_wan("WanRotaryPosEmbed", "WanAttnProcessor"), {"vace_layers": [0]}),
    "WanAnimateTransformer3DModel": (_wan("WanRotaryPosEmbed", "WanAttnProcessor"), {}),
    "WanAnimate2Transformer3DModel": (_wan_animate_2, {}),
    "SkyReelsV2Transformer3DModel": (_wan("SkyReelsV2RotaryPosEmbed", "SkyReelsV2AttnProcessor"), {}),
    "ChronoEditTransformer3DModel": (_wan("ChronoEditRotaryPosEmbed", "WanAttnProcessor"), {}),
    "SanaVideoTransformer3DModel": (_wan("WanRotaryPosEmbed", "SanaLinearAttnProcessor3_0"), {}),
    "SanaWMTransformer3DModel": (_sana_wm, {}),
    "AnyFlowTransformer3DModel": (_anyflow("AnyFlowRotaryPosEmbed"), {}),
    "AnyFlowFARTransformer3DModel": (_anyflow("AnyFlowCausalRotaryPosEmbed"), {}),
    "HeliosTransformer3DModel": (_helios, {}),
    "Kandinsky5Transformer3DModel": (_kandinsky("Kandinsky5RoPE3D"), {}),
    "Kandinsky6Transformer3DModel": (_kandinsky("Kandinsky6RoPE3D"), {}),
    "Kandinsky6SRTransformer3DModel": (_kandinsky("Kandinsky6SRRoPE3D"), {}),
    "CogVideoXTransformer3DModel": (_cogvideox, {"use_rotary_positional_embeddings": True}),
    "ConsisIDTransformer3DModel": (_cogvideox, {"use_rotary_positional_embeddings": True}),
    "EasyAnimateTransformer3DModel": (_easyanimate, {"in_channels": 4, "out_channels": 4, "patch_size": 2}),
    "AllegroTransformer3DModel": (_allegro, {}),
    "CogView4Transformer2DModel": (_cogview_4, {}),
    "GlmImageTransformer2DModel": (_hidden("GlmImageRotaryPosEmbed", (ROWS, COLUMNS), unbind=-2), {}),
    "CosmosTransformer3DModel": (_hidden("CosmosRotaryPosEmbed", unbind=-2), {"rope_scale": (3.0, 3.0, 3.0)}),
    "MiniMaxH3Transformer3DModel": (_minimax_h3, {}),
    "Cosmos3OmniTransformer": (_cosmos_3, {}),
    "Ideogram4Transformer2DModel": (_ideogram_4, {}),
    "AceStepTransformer1DModel": (_ace_step, {}),
    "LongCatAudioDiTTransformer": (_longcat_audio, {}),
    "StableAudioDiTModel": (_stable_audio, {}),
    "StableAudio3DiTModel": (_stable_audio_3, {}),
    "MiniMaxMusic3Transformer1DModel": (_minimax_music_3, {}),
    "OmniGenTransformer2DModel": (omnigen(COUNT), {"rope_scaling": LISTS}),
}
