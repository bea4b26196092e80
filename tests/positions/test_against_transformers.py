"""Positions against transformers' own code: its get_rope_index, vision grids, padding, and a small cached Llama."""

from copy import deepcopy
from importlib import import_module
from types import SimpleNamespace

import numpy as np
import pytest

from ropewalk import Rope
from ropewalk.positions import decode, from_mask, grid2d, mrope_from_ids, next_positions, patch_grid, rerotate

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

MERGE, PER_SECOND = 2, 2


def rope_index(model_type, class_name, **given):
    """Call a model's own get_rope_index without making the model."""
    model = getattr(import_module(f"transformers.models.{model_type}.modeling_{model_type}"), class_name)
    vision = SimpleNamespace(spatial_merge_size=MERGE, tokens_per_second=PER_SECOND, temporal_merge_size=2)
    stand_in = SimpleNamespace(config=SimpleNamespace(vision_config=vision))
    stand_in.get_vision_position_ids = lambda *args, **rest: model.get_vision_position_ids(stand_in, *args, **rest)
    return model.get_rope_index(stand_in, **given)


def prompts(rows, temporal_merge=1, frames_apart=False):
    """Left-padded token types (0 text, 1 image, 2 video), their mask and grids, of rows of pieces."""
    types, images, videos = [], [], []
    for row in rows:
        kinds = []
        for piece in row:
            if isinstance(piece, int):
                kinds += [0] * piece
                continue
            t, h, w = piece
            (images if t == 1 else videos).append([t, MERGE * h, MERGE * w])
            if t > 1 and frames_apart:
                kinds += ([0] + [2] * (h * w)) * t
            else:
                kinds += [1 if t == 1 else 2] * ((t if t == 1 else t // temporal_merge) * h * w)
        types.append(kinds)
    width = max(map(len, types))
    padded = torch.tensor([[0] * (width - len(kinds)) + kinds for kinds in types])
    mask = torch.tensor([[0] * (width - len(kinds)) + [1] * len(kinds) for kinds in types])
    grids = {"image_grid_thw": torch.tensor(images), "video_grid_thw": torch.tensor(videos)}
    return padded, mask, {name: grid for name, grid in grids.items() if grid.numel()}


IMAGES = [[4, (1, 2, 3), 2], [12], [3, (1, 5, 2), 1, (1, 1, 4), 6], [(1, 2, 2), 1]]
VIDEOS = [[2, (4, 2, 3), 3, (1, 4, 2), 2], [9, (6, 3, 3), 1]]


@pytest.mark.parametrize(
    ("model_type", "class_name", "rows", "theirs", "ours"),
    [
        ("qwen2_vl", "Qwen2VLModel", IMAGES, {}, {}),
        ("qwen2_vl", "Qwen2VLModel", VIDEOS, {}, {"advance": "side"}),
        ("qwen2_5_vl", "Qwen2_5_VLModel", IMAGES, {}, {"tokens_per_second": PER_SECOND}),
        ("qwen2_5_vl", "Qwen2_5_VLModel", VIDEOS, {}, {"tokens_per_second": PER_SECOND, "advance": "side"}),
        (
            "qwen2_5_vl",
            "Qwen2_5_VLModel",
            VIDEOS,
            {"second_per_grid_ts": torch.tensor([0.7, 1.9])},
            {"second_per_grid_ts": torch.tensor([0.7, 1.9]), "tokens_per_second": PER_SECOND, "advance": "side"},
        ),
        ("qwen3_vl", "Qwen3VLModel", IMAGES + VIDEOS, {}, {"frames_apart": True}),
        ("glm4v", "Glm4vModel", IMAGES + VIDEOS, {}, {"frames_apart": True}),
        ("ernie4_5_vl_moe", "Ernie4_5_VLMoeModel", IMAGES, {}, {}),
        ("ernie4_5_vl_moe", "Ernie4_5_VLMoeModel", VIDEOS, {}, {"temporal_merge_size": 2, "advance": "side"}),
    ],
)
def test_f609_positions_and_deltas_are_those_of_get_rope_index(model_type, class_name, rows, theirs, ours):
    types, mask, grids = prompts(rows, ours.get("temporal_merge_size", 1), ours.get("frames_apart", False))
    position_ids, deltas = rope_index(
        model_type, class_name, input_ids=types, mm_token_type_ids=types, attention_mask=mask, **grids, **theirs
    )
    found = mrope_from_ids(
        types, image_token_id=1, video_token_id=2, attention_mask=mask, spatial_merge_size=MERGE, **grids, **ours
    )
    assert torch.equal(found.position_ids, position_ids)
    assert torch.equal(found.delta, deltas)
    assert torch.equal(found.next_position, mask.sum(-1, keepdim=True) + deltas)


def test_text_after_a_long_video_is_where_transformers_5_and_the_paper_part():
    types, mask, grids = prompts([[2, (6, 2, 2), 3]])
    theirs, _ = rope_index(
        "qwen2_vl", "Qwen2VLModel", input_ids=types, mm_token_type_ids=types, attention_mask=mask, **grids
    )
    ours = mrope_from_ids(types, image_token_id=1, video_token_id=2, spatial_merge_size=MERGE, **grids).position_ids
    video = types[0] == 2
    assert torch.equal(ours[:, 0, video], theirs[:, 0, video])
    assert theirs[0, 0, -3:].tolist() == [4, 5, 6]  # positions of the video's own frames, taken again
    assert ours[0, 0, -3:].tolist() == [8, 9, 10]


def test_f607_patches_stand_as_in_the_vision_towers():
    from transformers.vision_utils import get_vision_position_ids

    grids = torch.tensor([[1, 4, 6], [3, 2, 8], [1, 2, 2]])
    for merge in (1, 2):
        expected = get_vision_position_ids(grids, merge)
        assert torch.equal(patch_grid(grids, merge_size=merge)[:, 0].T, expected)
        expected = get_vision_position_ids(grids, merge, include_temporal=True)
        assert torch.equal(patch_grid(grids, merge_size=merge, with_time=True)[:, 0].T, expected)


def test_unit_coordinates_are_those_of_dinov3():
    from transformers.models.dinov3_vit.modeling_dinov3_vit import get_patches_center_coordinates

    expected = get_patches_center_coordinates(3, 5, dtype=torch.float64, device=torch.device("cpu"))
    found = grid2d(3, 5, coordinates="unit", like=expected)[:, 0].T
    assert torch.allclose(found, expected, rtol=0, atol=2**-51)  # theirs divides, doubles and subtracts


# -- a small Llama


@pytest.fixture(scope="module")
def llama():
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(1)
    config = LlamaConfig(
        vocab_size=64,
        hidden_size=60,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=6,
        num_key_value_heads=2,
        head_dim=10,
        max_position_embeddings=128,
        rope_parameters={"rope_type": "default", "rope_theta": 500.0},
        attn_implementation="eager",
    )
    return LlamaForCausalLM(config).eval()


TOKENS = torch.tensor([[11, 7, 3, 29]])
ROPE = Rope(head_dim=10, rope_theta=500.0, pairing="half")


@torch.no_grad()
def test_f301_a_padded_prompt_gives_the_logits_of_the_tokens_alone(llama):
    alone = llama(TOKENS).logits
    for pads in ((3, 0), (0, 2)):
        padded = torch.nn.functional.pad(TOKENS, pads)
        mask = torch.nn.functional.pad(torch.ones_like(TOKENS), pads)
        logits = llama(padded, attention_mask=mask, position_ids=from_mask(mask)).logits
        assert torch.allclose(logits[mask > 0], alone[0], atol=2e-6)


@torch.no_grad()
def test_f301_f302_padded_rows_decode_as_they_would_alone(llama):
    rows = [TOKENS[0], torch.tensor([5, 9, 1, 2, 40, 8])]
    width = 6
    ids = torch.stack([torch.nn.functional.pad(row, (width - len(row), 0)) for row in rows])
    mask = torch.stack([torch.nn.functional.pad(torch.ones_like(row), (width - len(row), 0)) for row in rows])
    first = llama(ids[:, :-1], attention_mask=mask[:, :-1], position_ids=from_mask(mask[:, :-1]), use_cache=True)

    def step(ids_of_step):
        cache = deepcopy(first.cache)  # a step adds to it
        return llama(ids[:, -1:], attention_mask=mask, position_ids=ids_of_step, cache=cache).logits[:, -1]

    alone = torch.stack([llama(row[None]).logits[0, -1] for row in rows])
    assert torch.allclose(step(next_positions(mask[:, :-1])), alone, atol=2e-6)
    shared = step(torch.tensor([[5], [5]]))  # F302: the longest row's counter for all
    assert torch.allclose(shared[1], alone[1], atol=2e-6)
    assert not torch.allclose(shared[0], alone[0], atol=1e-4)


@torch.no_grad()
@pytest.mark.parametrize("shift", [7, 60])
def test_a_dynamic_cache_moves_to_where_the_model_would_have_put_it(llama, shift):
    old = decode(torch.tensor([0]), 4)
    caches = [llama(TOKENS, position_ids=ids, use_cache=True).cache for ids in (old, old + shift)]
    for before, after in zip(*(cache.layers for cache in caches), strict=True):
        moved = rerotate(before.keys, ROPE, old=old, new=old + shift, layout="bhsd")
        assert moved.shape == (1, 2, 4, 10)
        assert torch.allclose(moved, after.keys, rtol=0, atol=2e-5)  # float32 angles of theirs, and of layer 2's input
        assert not torch.allclose(moved, before.keys, atol=1e-2)


@torch.no_grad()
def test_dropped_tokens_leave_a_cache_that_decodes_as_if_they_had_never_been(llama):
    """In the first layer, whose keys depend on no other token."""
    whole = llama(TOKENS, use_cache=True).cache.layers[0].keys
    kept = [0, 1, 3]
    short = llama(TOKENS[:, kept], use_cache=True).cache.layers[0].keys
    moved = rerotate(whole[:, :, kept], ROPE, old=np.array(kept), new=np.arange(3), layout="bhsd")
    assert torch.allclose(moved, short, rtol=0, atol=2e-6)
