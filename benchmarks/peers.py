"""Other libraries' rotary embeddings, each as ropewalk check's TARGET; docs/peers.md says what came out.

    ropewalk check benchmarks/peers.py:torchtune_llama3

Each function here makes fn(x, position_ids), x [B, S, H, D], with the Rope that the library says it is as `fn.rope`.
The packages are looked for where Python finds them; `pip install --no-deps` is enough for all of them, since a package
whose own __init__ wants more than its rotary file is loaded without that.
"""

import importlib
import importlib.util
import itertools
import sys
import types
from importlib.metadata import version
from pathlib import Path

import torch

from ropewalk import Rope, rotate
from ropewalk.probe import adapt
from ropewalk.scaling import Dynamic, Linear, Llama3, Ntk, Yarn

HALF = {"pairing": "half"}
ADJACENT = {"pairing": "interleaved"}
YARN = {"factor": 12.0, "original_max_position_embeddings": 6144, "beta_fast": 32.0, "beta_slow": 1.0}


def loaded(name):
    """Import a package's module without running the __init__ of the packages around it."""
    parts = name.split(".")
    for cut in range(1, len(parts)):
        parent = ".".join(parts[:cut])
        if parent not in sys.modules:
            place = importlib.util.find_spec(parent)
            if place is None:
                raise ModuleNotFoundError(f"No module named {parent!r}", name=parent)
            bare = types.ModuleType(parent)
            bare.__path__ = list(place.submodule_search_locations or ())
            bare.__spec__ = place
            sys.modules[parent] = bare
    return importlib.import_module(name)


def functions_of(name, *wanted):
    """Compile some functions and classes of a module whose imports want the whole library."""
    import ast
    import math

    place = importlib.util.find_spec(name.split(".")[0])
    path = "/".join([place.submodule_search_locations[0], *name.split(".")[1:]]) + ".py"
    tree = ast.parse(Path(path).read_text(encoding="utf-8"))
    body = [one for one in tree.body if getattr(one, "name", None) in wanted]
    home = {"torch": torch, "math": math, "nn": torch.nn, "np": importlib.import_module("numpy")}
    code = ast.unparse(
        ast.Module(body=[ast.parse("from __future__ import annotations").body[0], *body], type_ignores=[])
    )
    exec(compile(code, path, "exec"), home)
    return [home[one] for one in wanted]


def meant(fn, **fields):
    """Give fn with the Rope that it is meant to be."""
    fn.rope = Rope(**{"head_dim": 64, "rope_theta": 10000.0, **fields})
    return fn


# --- rotary-embedding-torch ------------------------------------------------------------------------------------------


def ret_lang():
    """rotary-embedding-torch, freqs_for "lang": apply_rotary_emb of forward(positions)."""
    from rotary_embedding_torch import RotaryEmbedding, apply_rotary_emb

    rotary = RotaryEmbedding(dim=64)

    def fn(x, position_ids):
        rows = position_ids.expand(x.shape[0], -1) if position_ids.ndim == 2 else position_ids[None]
        freqs = torch.stack([rotary(row.float()) for row in rows])
        return apply_rotary_emb(freqs[:, :, None], x)

    return meant(fn, **ADJACENT)


def _runs(row):
    """Give (start, stop) of the runs of consecutive positions, which are all that an offset can say."""
    cuts = [0, *(i for i in range(1, len(row)) if row[i] != row[i - 1] + 1), len(row)]
    return itertools.pairwise(cuts)


def _rotated_by_offset(rotary):
    def fn(x, position_ids):
        rows = position_ids.expand(x.shape[0], -1).tolist()
        out = []
        for one, row in zip(x, rows, strict=True):
            pieces = [
                rotary.rotate_queries_or_keys(one[None, a:b], seq_dim=-3, offset=row[a])[0] for a, b in _runs(row)
            ]
            out.append(torch.cat(pieces))
        return torch.stack(out)

    return fn


def ret_queries():
    """rotary-embedding-torch, rotate_queries_or_keys with an offset; positions are made in the dtype of x."""
    from rotary_embedding_torch import RotaryEmbedding

    return meant(_rotated_by_offset(RotaryEmbedding(dim=64)), **ADJACENT)


def ret_linear():
    """rotary-embedding-torch, interpolate_factor 4: linear interpolation."""
    from rotary_embedding_torch import RotaryEmbedding

    return meant(
        _rotated_by_offset(RotaryEmbedding(dim=64, interpolate_factor=4.0)), scaling=Linear(factor=4.0), **ADJACENT
    )


def ret_ntk():
    """rotary-embedding-torch, theta_rescale_factor 4: NTK-aware."""
    from rotary_embedding_torch import RotaryEmbedding

    return meant(
        _rotated_by_offset(RotaryEmbedding(dim=64, theta_rescale_factor=4.0)), scaling=Ntk(factor=4.0), **ADJACENT
    )


# --- x-transformers --------------------------------------------------------------------------------------------------


def xt_rotary():
    """x-transformers, RotaryEmbedding and apply_rotary_pos_emb, 32 of 64 channels as its attention has by default."""
    from x_transformers.x_transformers import RotaryEmbedding, apply_rotary_pos_emb

    rotary = RotaryEmbedding(32)

    def fn(x, position_ids):
        freqs, scale = rotary(position_ids)
        return apply_rotary_pos_emb(x.transpose(1, 2), freqs, scale).transpose(1, 2)

    return meant(fn, rotary_dim=32, **ADJACENT)


def xt_interpolated():
    """x-transformers, interpolation_factor 4."""
    from x_transformers.x_transformers import RotaryEmbedding, apply_rotary_pos_emb

    rotary = RotaryEmbedding(64, interpolation_factor=4.0)

    def fn(x, position_ids):
        freqs, scale = rotary(position_ids)
        return apply_rotary_pos_emb(x.transpose(1, 2), freqs, scale).transpose(1, 2)

    return meant(fn, scaling=Linear(factor=4.0), **ADJACENT)


# --- torchtune -------------------------------------------------------------------------------------------------------


def torchtune_rope():
    """torchtune, RotaryPositionalEmbeddings: Meta's pairing, a table of 65,536 rows."""
    file = loaded("torchtune.modules.position_embeddings")
    return _torchtune(file.RotaryPositionalEmbeddings(64, max_seq_len=65_536), **ADJACENT)


def torchtune_llama3():
    """torchtune, Llama3ScaledRoPE as Llama 3.1 has it."""
    file = loaded("torchtune.models.llama3_1._position_embeddings")
    scaling = Llama3(factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=8192)
    module = file.Llama3ScaledRoPE(64, max_seq_len=65_536, base=500_000)
    return _torchtune(module, rope_theta=500000.0, scaling=scaling, **ADJACENT)


def torchtune_phi3():
    """torchtune, Phi3RotaryPositionalEmbeddings."""
    file = loaded("torchtune.models.phi3._position_embeddings")
    return _torchtune(file.Phi3RotaryPositionalEmbeddings(64, max_seq_len=65_536), **HALF)


def torchtune_qwen2():
    """torchtune, Qwen2RotaryPositionalEmbeddings."""
    file = loaded("torchtune.models.qwen2._positional_embeddings")
    return _torchtune(file.Qwen2RotaryPositionalEmbeddings(64, max_seq_len=65_536), rope_theta=1e6, **HALF)


def _torchtune(module, **fields):
    return meant(adapt.module(module), **fields)


# --- litgpt ----------------------------------------------------------------------------------------------------------


def _litgpt(**options):
    build, apply, _ = functions_of("litgpt.model", "build_rope_cache", "apply_rope", "yarn_get_mscale")
    tables = build(131_072, 64, base=options.pop("base", 10000), **options)
    return adapt.tables(apply, tables, layout="bhsd")


def litgpt_rope():
    """litgpt, build_rope_cache and apply_rope."""
    return meant(_litgpt(), **HALF)


def litgpt_llama3():
    """litgpt, the Llama 3 scaling."""
    block = {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_seq_len": 8192}
    scaling = Llama3(factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=8192)
    return meant(_litgpt(base=500_000, extra_config=block), rope_theta=500000.0, scaling=scaling, **HALF)


def litgpt_yarn():
    """litgpt, YaRN."""
    block = {"factor": 12.0, "beta_fast": 32.0, "beta_slow": 1.0, "original_max_seq_len": 6144}
    block |= {"mscale": 1.0, "mscale_all_dim": 0.0}
    return meant(_litgpt(base=300_000, extra_config=block), rope_theta=3e5, scaling=Yarn(**YARN), **HALF)


# --- torchtitan ------------------------------------------------------------------------------------------------------


def torchtitan_yarn():
    """torchtitan, _yarn_inv_freq and CosSinRoPE.apply_rotary_emb; the magnitude is left to the softmax there."""
    (inv_freq,) = functions_of("torchtitan.models.common.rope", "_yarn_inv_freq")
    speeds = inv_freq(64, 3e5, 12.0, 32.0, 1.0, 6144, True)

    def source(position_ids):
        angles = torch.outer(position_ids.flatten().float(), speeds).view(*position_ids.shape, -1)
        return torch.cat([angles, angles], -1).cos(), torch.cat([angles, angles], -1).sin()

    def apply(x, cos, sin):
        x1, x2 = x.float().chunk(2, -1)
        return (x * cos[..., None, :] + torch.cat([-x2, x1], -1) * sin[..., None, :]).type_as(x)

    return meant(adapt.tables(apply, source), rope_theta=3e5, scaling=Yarn(**YARN, attention_factor=1.0), **HALF)


# --- keras-hub -------------------------------------------------------------------------------------------------------


def _keras(**options):
    import os

    os.environ.setdefault("KERAS_BACKEND", "torch")
    file = loaded("keras_hub.src.layers.modeling.rotary_embedding")
    layers = {}

    def fn(x, position_ids):
        kind = str(x.dtype).removeprefix("torch.")  # a layer casts what it is given to its own dtype
        if kind not in layers:
            layers[kind] = file.RotaryEmbedding(dtype=kind, **options)
        return layers[kind](x, positions=position_ids)

    return fn


def keras_rope():
    """keras-hub, RotaryEmbedding."""
    return meant(_keras(), **HALF)


def keras_linear():
    """keras-hub, RotaryEmbedding with scaling_factor 4."""
    return meant(_keras(scaling_factor=4.0), scaling=Linear(factor=4.0), **HALF)


def keras_dynamic():
    """keras-hub, rope_type "dynamic", scaling_factor 4."""
    rope = {"scaling": Dynamic(factor=4.0), "max_position_embeddings": 4096}
    return meant(_keras(rope_type="dynamic", scaling_factor=4.0), **rope, **HALF)


def keras_yarn():
    """keras-hub, rope_type "yarn"."""
    options = {"max_wavelength": 3e5, "rope_type": "yarn", "scaling_factor": 12.0}
    layer = _keras(**options, original_max_position_embeddings=6144)
    return meant(layer, rope_theta=3e5, scaling=Yarn(**YARN), **HALF)


# --- diffusers -------------------------------------------------------------------------------------------------------


def _diffusers(repeat, unbind, **options):
    build, apply = functions_of("diffusers.models.embeddings", "get_1d_rotary_pos_embed", "apply_rotary_emb")

    def fn(x, position_ids):
        out = []
        for one, row in zip(x, position_ids.expand(x.shape[0], -1), strict=True):
            tables = build(x.shape[-1], row.float(), use_real=True, repeat_interleave_real=repeat, **options)
            out.append(apply(one[None], tables, use_real_unbind_dim=unbind, sequence_dim=1)[0])
        return torch.stack(out)

    return fn


def diffusers_flux():
    """diffusers, get_1d_rotary_pos_embed and apply_rotary_emb as Flux calls them."""
    return meant(_diffusers(True, -1, freqs_dtype=torch.float64), **ADJACENT)


def diffusers_cogview():
    """diffusers, the same as CogView4 and Stable Audio call them."""
    return meant(_diffusers(False, -2), **HALF)


def diffusers_ntk():
    """diffusers, ntk_factor 4: theta times 4."""
    return meant(_diffusers(True, -1, ntk_factor=4.0), rope_theta=40000.0, **ADJACENT)


# --- timm ------------------------------------------------------------------------------------------------------------


def timm_half():
    """timm, apply_rot_embed with half=True on tables of this project's own (timm makes tables of grids)."""
    (_, apply) = functions_of("timm.layers.pos_embed_sincos", "rope_rotate_half", "apply_rot_embed")
    return _timm(apply, True, HALF)


def timm_adjacent():
    """timm, apply_rot_embed with half=False."""
    (_, apply) = functions_of("timm.layers.pos_embed_sincos", "rot", "apply_rot_embed")
    return _timm(apply, False, ADJACENT)


def _timm(apply, half, pairing):
    speeds = 10000.0 ** (-torch.arange(0, 64, 2, dtype=torch.float64) / 64)

    def fn(x, position_ids):
        angles = position_ids.double()[..., None] * speeds
        angles = torch.cat([angles, angles], -1) if half else angles.repeat_interleave(2, -1)
        tables = [one.float()[..., None, :] for one in (angles.sin(), angles.cos())]
        return apply(x, *tables, half=half)

    return meant(fn, **pairing)


# --- MLX -------------------------------------------------------------------------------------------------------------


def _mlx(traditional, **options):
    import mlx.core as mx
    import numpy as np

    def fn(x, position_ids):
        out = []
        for one, row in zip(np.asarray(x), np.broadcast_to(position_ids, x.shape[:2]), strict=True):
            pieces = []
            for a, b in _runs(row.tolist()):
                part = mx.array(one[a:b]).transpose(1, 0, 2)[None]
                turned = mx.fast.rope(part, x.shape[-1], traditional=traditional, offset=int(row[a]), **options)
                pieces.append(np.array(turned[0].transpose(1, 0, 2)))
            out.append(np.concatenate(pieces))
        return np.stack(out)

    return adapt.numpy(fn)


def mlx_half():
    """MLX, mx.fast.rope with traditional=False."""
    return meant(_mlx(False, base=10000.0, scale=1.0), **HALF)


def mlx_traditional():
    """MLX, mx.fast.rope with traditional=True and scale 1/4."""
    return meant(_mlx(True, base=10000.0, scale=0.25), scaling=Linear(factor=4.0), **ADJACENT)


# --- ours ------------------------------------------------------------------------------------------------------------


def ropewalk_rotate():
    """This project's own rotate, for the record."""
    rope = Rope(head_dim=64, rope_theta=3e5, pairing="half", scaling=Yarn(**YARN))

    def fn(x, position_ids):
        return rotate(x, position_ids, rope)

    return meant(fn, rope_theta=3e5, scaling=Yarn(**YARN), **HALF)


PACKAGES = {
    "ret": "rotary-embedding-torch",
    "xt": "x-transformers",
    "torchtune": "torchtune",
    "litgpt": "litgpt",
    "torchtitan": "torchtitan",
    "keras": "keras-hub",
    "diffusers": "diffusers",
    "timm": "timm",
    "mlx": "mlx",
}


def main():
    """Check every peer that is installed; print the rows of docs/peers.md."""
    from ropewalk.probe.checking import check

    for name, make in list(globals().items()):
        package = PACKAGES.get(name.split("_")[0])
        if package is None or "_" not in name or not isinstance(make, types.FunctionType) or name.startswith("_"):
            continue
        for dtype in ("float32", "bfloat16") if name.endswith(("queries", "lang")) else ("float32",):
            try:
                fn = make()
                report = check(fn, head_dim=64, expect=fn.rope, dtype=dtype)
            except Exception as error:
                print(f"| {name} | {package} | not checked: {type(error).__name__}: {str(error)[:100]} |")
                continue
            told = "; ".join(f"{one.severity} `{one.name}`" for one in report.findings) or "nothing"
            what = make.__doc__.partition(", ")[2].rstrip(".")
            option = "" if dtype == "float32" else f" --dtype {dtype}"
            command = f"`ropewalk check benchmarks/peers.py:{name} --head-dim 64{option}`"
            print(f"| {package} {version(package)} | {what} | {told} | {command} |", flush=True)


if __name__ == "__main__":
    main()
