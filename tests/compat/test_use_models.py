"""`use` on small random models: exact tables, and logits that change by the original's own table error and no more."""

import contextlib

import pytest

from ropewalk import read

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
from ropewalk.compat.transformers import use  # noqa: E402

from .tiny import BUILDERS, build, parts, rotary_of, truth  # noqa: E402

FIVE = ["llama", "qwen2_vl", "gemma3", "glm", "deepseek_v3"]
FAR = torch.tensor([[0, 1, 777, 4095, 7001], [2, 5, 4096, 8000, 8191]])


def ropes_of(model):
    """The ropes that the config says, by the layer types that the rotary module is asked with."""
    labels = getattr(rotary_of(model)[1], "rope_type", None)
    layers = read(model.config).layers
    if not isinstance(labels, dict):
        return {None: next(layer.rope for layer in layers if layer.rope)}
    return {label: next(layer.rope for layer in layers if layer.kind == label) for label in labels}


def ids_for(name, text):
    """Positions [B, S], or unequal ones on three axes for Qwen2-VL."""
    return torch.stack([text, text // 2 + 1, text // 3 + 7]) if name == "qwen2_vl" else text


@contextlib.contextmanager
def tables_replaced(model, function):
    """Give the model the tables that function makes of (ids, label) and what the module itself returned."""
    module = rotary_of(model)[1]
    own = module.forward

    def forward(x, position_ids, layer_type=None):
        label = layer_type if isinstance(getattr(module, "rope_type", None), dict) else None
        given = own(x, position_ids, layer_type) if label else own(x, position_ids)
        made = function(position_ids, label, given)
        return made.to(given.dtype) if isinstance(made, torch.Tensor) else tuple(part.to(x.dtype) for part in made)

    module.forward = forward
    try:
        yield
    finally:
        del module.forward


def logits(model, ids, **more):
    with torch.no_grad():
        return model(input_ids=ids, **more).logits


def tokens(batch, seq, seed=5):
    return torch.randint(3, 53, (batch, seq), generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("name", BUILDERS)
def test_tables_are_float64_truth_and_of_the_original_form(name):
    model = build(name, torch.float32)
    path, module = rotary_of(model)
    ropes = ropes_of(model)
    ids = ids_for(name, FAR)
    for dtype in (torch.float32, torch.bfloat16):
        x = torch.zeros(1, dtype=dtype)
        for label, rope in ropes.items():
            extra = {} if label is None else {"layer_type": label}
            before = module(x, ids, **extra)
            with use(model):
                after = model.get_submodule(path)(x, position_ids=ids, **extra)
            assert type(after) is type(before)
            for ours, theirs, exact in zip(*map(parts, (after, before, truth(name, rope, ids))), strict=True):
                assert (ours.shape, ours.dtype) == (theirs.shape, theirs.dtype)
                step = torch.finfo(ours.dtype).eps / 4 * (2 if rope.pairs().cos_sin_factor > 1 else 1)
                assert (ours.double() - exact).abs().max() <= step * 1.01


@pytest.mark.parametrize("name", ["phi3", "dynamic"])
def test_tables_follow_the_length_below_at_and_above_the_switch_and_back(name):
    model = build(name)
    rope = ropes_of(model)[None]
    with use(model):
        rotary = rotary_of(model)[1]
        for last in (20, 31, 32, 60, 31):
            ids = torch.arange(last + 1)[None]
            for ours, exact in zip(rotary(torch.zeros(1), ids), truth(name, rope, ids), strict=True):
                assert (ours.double() - exact).abs().max() < 6.1e-8


@pytest.mark.parametrize("name", FIVE)
def test_logits_change_by_no_more_than_table_errors_of_the_same_size_make(name):
    model = build(name)
    ropes = ropes_of(model)
    ids = tokens(2, 24)
    positions = {"position_ids": ids_for(name, torch.stack([torch.arange(7000, 7024), torch.arange(24)]))}
    deviations = {}

    def exact(position_ids, label, given):
        made = truth(name, ropes[label], position_ids)
        deviations[label] = [(a - b).abs() for a, b in zip(given, made, strict=True)]
        return made

    def shaken(seed):
        noise = torch.Generator().manual_seed(seed)

        def tables(position_ids, label, given):
            made = truth(name, ropes[label], position_ids)
            signs = [torch.randint(0, 2, part.shape, generator=noise) * 2 - 1 for part in made]
            return tuple(m + s * d for m, s, d in zip(made, signs, deviations[label], strict=True))

        return tables

    before = logits(model, ids, **positions)
    with tables_replaced(model, exact):
        right = logits(model, ids, **positions)
    with use(model):
        after = logits(model, ids, **positions)
    with tables_replaced(model, lambda p, label, given: truth(name, ropes[label].replace(rope_theta=9e3), p)):
        elsewhere = logits(model, ids, **positions)
    explained = []
    for seed in range(4):
        with tables_replaced(model, shaken(seed)):
            explained.append((logits(model, ids, **positions) - right).abs().max())
    largest = max(part.max() for pair in deviations.values() for part in pair)
    scale = right.abs().max()
    print(
        f"{name}: original tables off by {largest:.1e}, its logits by {(before - right).abs().max():.1e}, "
        f"ours by {(after - right).abs().max():.1e} of {scale:.1f}; random errors of that size {max(explained):.1e}"
    )
    assert (elsewhere - right).abs().max() > max(0.01 * scale, 30 * (before - right).abs().max())  # they do look at it
    # float32 angles: a relative error of a few 2^-24 of at most 7023 radians
    assert 1e-5 < largest < 7023 * 8 * 2.0**-24
    # entry by entry of the same size and random sign; the original's own errors are alike for neighbours, so 3 times
    assert (before - after).abs().max() <= 3 * max(explained)
    assert (after - right).abs().max() < 1e-11 * scale


@pytest.mark.parametrize("name", FIVE)
def test_in_float32_rounding_adds_to_that_and_nothing_else_does(name):
    exact, model = build(name), build(name, torch.float32)
    ids = tokens(2, 24)
    positions = {"position_ids": ids_for(name, torch.stack([torch.arange(3000, 3024), torch.arange(24)]))}
    with use(exact):
        right = logits(exact, ids, **positions)
    table_error = (logits(exact, ids, **positions) - right).abs().max()
    before = logits(model, ids, **positions)
    with use(model):
        after = logits(model, ids, **positions)
    rounding = (after.double() - right).abs().max()
    print(f"{name}: table error {table_error:.1e}, float32 rounding {rounding:.1e}")
    assert rounding < 2e-4 * right.abs().max()
    assert (before - after).abs().max() <= 3 * table_error + 4 * rounding


@pytest.mark.parametrize("name", [*FIVE, "phi3", "cohere", "gpt_neox"])
def test_left_padding_and_cached_decoding_give_what_the_whole_sequence_gives(name):
    model = build(name)
    ids = tokens(2, 14)
    pads = torch.tensor([[0], [5]])
    mask = (torch.arange(14) >= pads).long()
    text = (mask.cumsum(-1) - 1).clamp(min=0)
    position_ids = ids_for(name, text)
    with use(model):
        padded = logits(model, ids, attention_mask=mask, position_ids=position_ids)
        alone = logits(model, ids[1:, 5:], position_ids=position_ids[..., 1:, 5:])
        assert (padded[1, 5:] - alone[0]).abs().max() < 1e-9
        with torch.no_grad():
            first = model(
                input_ids=ids[:, :8], attention_mask=mask[:, :8], position_ids=position_ids[..., :8], use_cache=True
            )
            steps, cache = [first.logits], first.cache
            for n in range(8, 14):
                out = model(
                    input_ids=ids[:, n : n + 1],
                    attention_mask=mask[:, : n + 1],
                    position_ids=position_ids[..., n : n + 1],
                    cache=cache,
                    use_cache=True,
                )
                steps.append(out.logits)
                cache = out.cache
    decoded = torch.cat(steps, dim=1)
    real = mask.bool()
    assert (decoded[real] - padded[real]).abs().max() < 1e-9
    original = logits(model, ids, attention_mask=mask, position_ids=position_ids)
    gap = (original[real] - padded[real]).abs().max()
    assert 0 < gap < 1e-4 * padded[real].abs().max()


def test_generate_writes_the_same_tokens_before_and_after():
    model = build("llama")
    ids = tokens(2, 6)
    mask = torch.tensor([[1] * 6, [0] * 2 + [1] * 4])
    more = {"attention_mask": mask, "max_new_tokens": 12, "do_sample": False, "eos_token_id": None}
    before = model.generate(ids, **more)
    with use(model):
        assert torch.equal(model.generate(ids, **more), before)


def test_the_vision_tower_of_qwen2_vl_is_swapped_too():
    model = build("qwen2_vl")
    grid = torch.tensor([[1, 4, 6]])
    pixels = torch.randn(24, 3 * 2 * 4 * 4, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    with torch.no_grad():
        before = model.model.visual(pixels, grid).pooler_output
        with use(model) as swap:
            after = model.model.visual(pixels, grid).pooler_output
    assert {one.class_name for one in swap.swapped} == {"Qwen2VLRotaryEmbedding", "Qwen2VLVisionRotaryEmbedding"}
    assert 0 < (before - after).abs().max() < 1e-5 * before.abs().max()


def test_gradients_pass_as_before():
    model = build("glm")
    ids = tokens(2, 9)

    def gradient():
        model.zero_grad()
        model(input_ids=ids, labels=ids).loss.backward()
        return model.model.layers[0].self_attn.q_proj.weight.grad.clone()

    before = gradient()
    with use(model):
        after = gradient()
    assert 0 < (before - after).abs().max() < 1e-4 * before.abs().max()
