"""What `use` swaps, says, refuses and puts back."""

import copy
import pickle
import re

import numpy as np
import pytest

from ropewalk import Ladders, Rope, RopewalkError, read
from ropewalk.scaling import Yarn
from ropewalk.turning.naive import tables

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
from ropewalk.compat.transformers import RotaryEmbedding, use  # noqa: E402

from .tiny import BUILDERS, build, rotary_of  # noqa: E402

X, IDS = torch.zeros(1), torch.tensor([[0, 3, 777, 8000]])


def cos_of(rope, ids=IDS, **more):
    return torch.from_numpy(tables(rope, ids.numpy(), **more)[0])


def off(table, exact):
    return float((table.double()[..., : exact.shape[-1]] - exact).abs().max())


def test_the_report_names_path_class_and_rope():
    model = build("gemma3")
    swap = use(model)
    (one,) = swap.swapped
    assert (one.path, one.class_name) == ("model.rotary_emb", "Gemma3RotaryEmbedding")
    assert set(one.ropes) == {"sliding_attention", "full_attention"} and swap.left == ()
    assert repr(swap).splitlines() == [
        "1 of 1 rotary modules of Gemma3ForCausalLM swapped",
        "  model.rotary_emb  Gemma3RotaryEmbedding  full_attention: θ=1e+06, 24 channels, linear; "
        "sliding_attention: θ=10000, 24 channels, default",
    ]


def test_undo_puts_the_very_modules_back():
    model = build("llama")
    path, original = rotary_of(model)
    swap = use(model)
    assert isinstance(model.get_submodule(path), RotaryEmbedding)
    swap.undo()
    assert model.get_submodule(path) is original
    swap.undo()
    assert model.get_submodule(path) is original


def test_a_with_block_puts_back_also_after_an_error():
    model = build("llama")
    path, original = rotary_of(model)
    with pytest.raises(ZeroDivisionError), use(model) as swap:
        assert swap.swapped and model.get_submodule(path) is not original
        raise ZeroDivisionError
    assert model.get_submodule(path) is original


def test_undo_leaves_what_was_put_there_since():
    model = build("llama")
    swap = use(model)
    model.model.rotary_emb = other = torch.nn.Identity()
    swap.undo()
    assert model.model.rotary_emb is other


def test_undo_brings_the_original_to_where_the_model_is_and_keeps_its_frequencies(monkeypatch):
    model = build("llama", torch.float32)
    original, moved = rotary_of(model)[1], []
    monkeypatch.setattr(original, "to", moved.append)
    swap = use(model)
    model.to("meta")
    model.to_empty(device="cpu")
    swap.undo()
    assert moved == [torch.device("cpu")] and original.inv_freq[0] == 1


def test_a_module_shared_by_several_parents_stays_shared():
    model = build("llama")
    for layer in model.model.layers:
        layer.self_attn.rotary_emb = model.model.rotary_emb
    original = model.model.rotary_emb
    swap = use(model)
    assert len(swap.swapped) == 1
    assert all(layer.self_attn.rotary_emb is model.model.rotary_emb for layer in model.model.layers)
    swap.undo()
    assert all(layer.self_attn.rotary_emb is original for layer in model.model.layers)


def test_nothing_is_added_to_the_state_of_the_model():
    model = build("qwen2_vl")
    before = set(model.state_dict())
    with use(model):
        assert set(model.state_dict()) == before
        assert not [name for name, _ in model.named_buffers() if "rotary" in name]


def test_frequencies_that_a_cast_has_rounded_are_exact_again():
    model = build("llama", torch.bfloat16)
    rope = read(model.config).rope
    rounded = rotary_of(model)[1](X, IDS)[0]
    assert off(rounded, cos_of(rope)) > 0.1
    with use(model):
        assert off(rotary_of(model)[1](X, IDS)[0], cos_of(rope)) < 3.1e-8
        model.half()
        assert off(rotary_of(model)[1](X, IDS)[0], cos_of(rope)) < 3.1e-8


def test_copies_and_pickles_of_a_swapped_model_stay_exact():
    model = build("glm", torch.float32)
    ids = torch.tensor([[5, 6, 7]])
    use(model)
    expected = model(input_ids=ids).logits
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert isinstance(rotary_of(other)[1], RotaryEmbedding)
        assert torch.equal(other(input_ids=ids).logits, expected)


def test_a_model_on_the_meta_device_is_swapped_from_its_config():
    with torch.device("meta"):
        model = BUILDERS["llama"]()
    use(model)
    model.to_empty(device="cpu")
    assert off(rotary_of(model)[1](X, IDS)[0], cos_of(read(model.config).rope)) < 3.1e-8


def test_training_mode_and_what_models_read_off_the_module_are_kept():
    model = build("gemma3").train()
    original = rotary_of(model)[1]
    use(model)
    new = rotary_of(model)[1]
    assert new.training and new.config is original.config and new.layer_types == original.layer_types


def test_a_compiled_model_runs_in_one_graph():
    model = build("llama", torch.float32)
    use(model)
    compiled = torch.compile(model.model.rotary_emb, fullgraph=True, dynamic=True, backend="eager")
    for seq in (5, 6, 9):
        ids = torch.arange(seq)[None]
        assert torch.equal(compiled(X, ids)[0], model.model.rotary_emb(X, ids)[0])


# ---------------------------------------------------------------- another rope


def test_another_rope_takes_the_place_of_the_models_own():
    model = build("llama")
    rope = read(model.config).rope
    wish = rope.replace(scaling=Yarn(factor=16.0, original_max_position_embeddings=1024))
    with use(model, wish) as swap:
        assert off(rotary_of(model)[1](X, IDS)[0], cos_of(wish)) < 6.1e-8
    assert swap.swapped[0].ropes == {None: wish} and swap.swapped[0].remarks == ()


def test_a_rope_for_one_layer_type_leaves_the_other_its_own():
    model = build("gemma3")
    own = {layer.kind: layer.rope for layer in read(model.config).layers}
    wish = own["full_attention"].replace(rope_theta=7e6)
    with use(model, {"full_attention": wish}):
        rotary = rotary_of(model)[1]
        assert off(rotary(X, IDS, "full_attention")[0], cos_of(wish)) < 3.1e-8
        assert off(rotary(X, IDS, "sliding_attention")[0], cos_of(own["sliding_attention"])) < 3.1e-8


def test_another_rope_is_for_the_text_and_not_for_the_vision_tower():
    model = build("qwen2_vl")
    ropes = read(model.config)
    wish = ropes.layers[0].rope.replace(rope_theta=77777.0)
    swap = use(model, wish)
    taken = {one.class_name: one.ropes[None] for one in swap.swapped}
    assert taken["Qwen2VLRotaryEmbedding"] == wish
    assert taken["Qwen2VLVisionRotaryEmbedding"] == ropes.parts["vision"][0].rope


def test_a_softmax_factor_that_tables_cannot_apply_is_said():
    model = build("llama")
    scaling = Yarn(factor=16.0, original_max_position_embeddings=1024, mscale_all_dim=1.0, scale_softmax=True)
    wish = read(model.config).rope.replace(scaling=scaling)
    assert wish.pairs().softmax_factor > 1
    assert "is not applied: the attention keeps its scale" in repr(use(model, wish))


@pytest.mark.parametrize(
    ("name", "change", "told"),
    [
        ("llama", {"pairing": "interleaved"}, "pairing='interleaved', the model has 'half'"),
        ("llama", {"direction": -1}, "direction=-1, the model has 1"),
        ("llama", {"rotary_dim": 8}, "width=8, the model has 16"),
        ("llama", {"axes": Ladders(widths=(8, 8))}, "axes=2, the model has 1"),
        ("gemma3", {}, "give a dict with 'full_attention'"),
    ],
)
def test_a_rope_that_the_apply_function_cannot_turn_by_is_refused(name, change, told):
    model = build(name)
    original = rotary_of(model)[1]
    with pytest.raises(RopewalkError, match=told):
        use(model, read(model.config).layers[0].rope.replace(**change))
    assert rotary_of(model)[1] is original


def test_a_layer_type_that_the_model_does_not_have_is_refused():
    model = build("gemma3")
    rope = read(model.config).layers[0].rope
    with pytest.raises(RopewalkError, match="rope for main was given and not used"):
        use(model, {"main": rope})
    for wrong in ("llama-3.1-8b", {"full_attention": "yarn"}):
        with pytest.raises(RopewalkError, match="rope must be a Rope or a dict of Ropes"):
            use(model, wrong)


# ---------------------------------------------------------------- what is left alone


@pytest.mark.parametrize("name", ["inv_freq", "original_inv_freq"])
def test_frequencies_that_someone_changed_are_left_alone_unless_a_rope_is_named(name):
    model = build("llama", torch.float32)
    getattr(model.model.rotary_emb, name).mul_(0.25)
    with pytest.raises(RopewalkError, match=rf"its {name} is not that of its config.*use\(model, rope="):
        use(model)
    rope = read(model.config).rope
    with use(model, rope):
        assert off(rotary_of(model)[1](X, IDS)[0], cos_of(rope)) < 3.1e-8


def test_dynamic_frequencies_that_a_long_call_has_changed_are_no_fault():
    model = build("dynamic", torch.float32)
    model(input_ids=torch.full((1, 50), 7))
    assert not torch.equal(model.model.rotary_emb.inv_freq, model.model.rotary_emb.original_inv_freq)
    assert len(use(model).swapped) == 1


class StrangeRotaryEmbedding(torch.nn.Module):
    """Tables that no rope of the config has: frequencies doubled."""

    def __init__(self, config):
        super().__init__()
        self.config = config
        self.inv_freq = torch.nn.Buffer(torch.tensor([2.0, 0.5, 0.25]), persistent=False)

    def forward(self, x, position_ids):
        angles = position_ids[..., None].float() * self.inv_freq
        return torch.cat((angles, angles), dim=-1).cos(), torch.cat((angles, angles), dim=-1).sin()


class LearnedRotaryEmbedding(StrangeRotaryEmbedding):
    def __init__(self, config):
        super().__init__(config)
        self.alpha = torch.nn.Parameter(torch.zeros(3))


class PictureRopePositionEmbedding(torch.nn.Module):
    def forward(self, pixel_values):
        return pixel_values.cos(), pixel_values.sin()


@pytest.mark.parametrize(
    ("module", "reason"),
    [
        (lambda config: StrangeRotaryEmbedding(config), "its tables are not those of θ="),
        (lambda config: LearnedRotaryEmbedding(config), r"learned parameters \(alpha\)"),
        (lambda config: PictureRopePositionEmbedding(), "does not give tables of"),
    ],
)
def test_what_cannot_be_swapped_is_left_and_said(module, reason):
    model = build("llama")
    model.extra = stranger = module(model.config)
    swap = use(model)
    (left,) = swap.left
    assert model.extra is stranger and left.path == "extra" and left.class_name == type(stranger).__name__
    assert f"left: extra  {left.class_name}: " in repr(swap) and "1 of 2 rotary modules" in repr(swap)
    assert re.search(reason, left.reason)


def test_a_module_known_by_its_call_only_is_found():
    class Positions(torch.nn.Module):
        def __init__(self, config):
            super().__init__()
            self.config = config

        def forward(self, x, position_ids):
            angles = position_ids[..., None].float() * torch.tensor([1.0, 0.1, 0.01])
            return torch.cat((angles, angles), dim=-1).cos(), torch.cat((angles, angles), dim=-1).sin()

    model = torch.nn.Sequential(
        Positions({"model_type": "llama", "head_dim": 6, "num_hidden_layers": 1, "rope_theta": 1000})
    )
    (one,) = use(model).swapped
    assert one.class_name == "Positions" and one.ropes[None].width == 6


def test_the_rope_of_a_module_without_a_readable_config_may_be_given():
    class Bare(torch.nn.Module):
        def forward(self, x, position_ids):
            angles = position_ids[..., None].float() * torch.tensor([1.0, 0.01])
            return angles.repeat_interleave(2, dim=-1).cos(), angles.repeat_interleave(2, dim=-1).sin()

    model = torch.nn.Sequential(Bare())
    with pytest.raises(RopewalkError, match="finds no rope in its config"):
        use(model)
    rope = Rope(head_dim=4, rope_theta=50.0, pairing="interleaved")
    with use(model, rope):
        assert off(model[0](X, IDS)[0][..., ::2], cos_of(rope)) < 3.1e-8
    with pytest.raises(RopewalkError, match="given and not used"):
        use(model, Rope(head_dim=6, rope_theta=50.0, pairing="interleaved"))


def test_nothing_to_swap_is_an_error_that_says_why():
    gpt2 = transformers.AutoModelForCausalLM.from_config(
        transformers.GPT2Config(n_embd=8, n_head=2, n_layer=1, vocab_size=11, n_positions=16)
    )
    with pytest.raises(RopewalkError, match="no rotary module of GPT2LMHeadModel can be swapped: it has none"):
        use(gpt2)
    with pytest.raises(RopewalkError, match="must be a live torch module, got str"):
        use("llama-3.1-8b")
    with pytest.raises(RopewalkError, match="no rotary module of Linear"):
        use(torch.nn.Linear(2, 2))


def test_swapping_twice_is_refused():
    model = build("llama")
    use(model)
    with pytest.raises(RopewalkError, match="swapped already: undo that first"):
        use(model)


def test_the_random_state_is_not_touched():
    model = build("qwen2_vl")
    torch.manual_seed(3)
    expected = torch.rand(1)
    torch.manual_seed(3)
    use(model)
    assert torch.equal(torch.rand(1), expected)
    assert np.isfinite(expected.item())
