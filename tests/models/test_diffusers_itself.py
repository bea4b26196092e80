"""The facts of diffusers.json against diffusers itself, which need not be installed: class by class what it turns.

Each class is built without weights and with its defaults; what its code makes of random heads is what ropewalk makes of
them from the class's name. The facts hold for 0.42.1; another version may have changed its classes.
"""

import importlib.util
import warnings
from pathlib import Path

import numpy as np
import pytest

from ropewalk import read
from ropewalk.models.diffusers import classes
from ropewalk.turning import naive

pytestmark = [
    pytest.mark.census,
    pytest.mark.filterwarnings("ignore"),
    pytest.mark.skipif(
        any(importlib.util.find_spec(name) is None for name in ("torch", "diffusers")),
        reason="diffusers is not installed; it is no dependency, its facts stand in diffusers.json",
    ),
]


@pytest.fixture(scope="module")
def turns():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what diffusers warns of when it is imported is not ours
        from . import _diffusers_turns

        return _diffusers_turns


DESCRIBED = [name for name, facts in classes().items() if "theta" in facts and name != "WanModel"]  # Wan's own class


def file_of(name):
    """The module of a class, by the source that its facts name."""
    return Path(classes()[name]["source"]).stem


@pytest.mark.parametrize("name", DESCRIBED)
def test_a_class_turns_a_head_as_its_facts_say(turns, name):
    case, keys = turns.TURNS[name]
    _compare(name, keys, *case(file_of(name), name, keys | dict.fromkeys(classes()[name]["layers"], 2)))


def test_omnigen_takes_its_long_list_beyond_the_original_length(turns):
    name, keys = "OmniGenTransformer2DModel", {"rope_scaling": turns.LISTS}
    _compare(name, keys, *turns.omnigen(4100)(file_of(name), name, keys))


def _compare(name, keys, positions, turn):
    import torch

    rope = read({"_class_name": name, **keys}).rope
    heads = np.random.default_rng(1).standard_normal((positions.shape[-1], rope.head_dim)).astype(np.float32)
    ids = positions if positions.ndim == 1 else positions[:, None]
    mine = naive.rotate(heads[:, None], ids, rope, length=positions.shape[-1])[:, 0]
    assert np.abs(mine - heads).max() > 0.5
    # θ^(-2i/d) and m·θ^(-2i/d) are rounded to float32: m·2^-23 radians, on channels below 5
    np.testing.assert_allclose(turn(torch.tensor(heads)).numpy(), mine, atol=5 * 2**-22 * max(positions.max(), 8))


@pytest.mark.parametrize("name", [name for name in classes() if name != "WanModel"])
def test_the_defaults_are_those_of_the_class(turns, name):
    facts = classes()[name]
    stated = turns.defaults_of(turns.class_of(file_of(name), name))
    for key, default in {**facts["layers"], **facts.get("defaults", {})}.items():
        assert stated[key] == default, key
    keys = {
        "theta_key": "theta",
        "widths_key": "widths",
        "ntk_key": "ntk",
        "pairs_key": "pairs",
        "rotary_key": "rotary",
    }
    for key, default in keys.items():
        if key in facts and stated[facts[key]] is not None:
            given = stated[facts[key]]
            assert (list(given) if isinstance(given, tuple) else given) == facts[default], key
    if "toggle" in facts:
        assert stated[facts["toggle"]] is facts.get("toggle_default", False)


def test_every_model_of_diffusers_transformers_has_facts(turns):
    assert set(turns.models()) - set(classes()) == set()


def test_ernie_images_map_is_no_rotation(turns):
    import torch

    ernie = turns.module_of("transformer_ernie_image")
    table = ernie.ErnieImageEmbedND3(dim=128, theta=256, axes_dim=(32, 48, 48))(torch.full((1, 1, 3), 3.0))
    heads = torch.eye(128)[None, :, None]
    matrix = turns.nested(ernie.ErnieImageSingleStreamAttnProcessor.__call__, "apply_rotary_emb")(heads, table)[0, :, 0]
    assert (matrix @ matrix.T - torch.eye(128)).abs().max() > 0.1
