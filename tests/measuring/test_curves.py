"""Losses by position: against transformers' own logits, and against models that transformers builds with each rope."""

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
from ropewalk import Rope, RopewalkError  # noqa: E402
from ropewalk.measuring import curves, measure, own_ropes, trained_tokens  # noqa: E402
from ropewalk.scaling import Dynamic, Linear, Llama3, Ntk, Yarn  # noqa: E402

from .tiny import THETA, TRAINED, ids, plain_losses, tiny, unchanged  # noqa: E402

N = 80  # two and a half times the trained length
OWN = Rope(head_dim=16, rope_theta=THETA, pairing="half", max_position_embeddings=TRAINED)


@pytest.fixture(scope="module")
def llama():
    return tiny()


def only(model, tokens, rope=OWN, **asked):
    (curve,) = measure(model, tokens, {"it": rope}, **asked).curves
    return curve


def test_buckets_are_means_of_the_plain_losses(llama):
    tokens = ids(N)
    plain = plain_losses(llama, tokens)
    curve = only(llama, tokens, bucket=32)
    assert curve.counts == (31, 32, 16)  # the first token is predicted from nothing
    expected = [plain[:31].mean(), plain[31:63].mean(), plain[63:].mean()]
    assert curve.losses == pytest.approx([float(one) for one in expected], rel=1e-6)  # its float32 inv_freq, ours not
    assert curve.inside == pytest.approx(float(plain[:31].mean()), rel=1e-6)
    assert curve.beyond == pytest.approx(float(plain[31:].mean()), rel=1e-6)


def test_the_logits_are_never_held_all_at_once_and_the_pieces_change_nothing(llama):
    tokens, seen = ids(N), []
    handle = llama.lm_head.register_forward_hook(lambda module, args, out: seen.append(out.shape[1]))
    whole = only(llama, tokens, bucket=8, rows=1000)
    pieces = only(llama, tokens, bucket=8, rows=7)
    handle.remove()
    assert seen == [N - 1, *[7] * 11, 2]
    assert pieces.losses == pytest.approx(whole.losses, rel=1e-12)


def test_what_a_model_does_after_its_head_is_kept():
    model = tiny("Gemma2", final_logit_softcapping=3.0, sliding_window=16, query_pre_attn_scalar=16)
    tokens = ids(N)
    plain = plain_losses(model, tokens)
    curve = only(model, tokens, rope=own_ropes(model)[None], bucket=N, rows=9)
    assert curve.losses == pytest.approx([float(plain.mean())], rel=1e-6)
    assert float(plain.std()) > 0.1


STRETCHED = {
    "linear": (Linear(factor=2.0), {"rope_type": "linear", "factor": 2.0}),
    "dynamic": (Dynamic(factor=2.0), {"rope_type": "dynamic", "factor": 2.0}),
    "yarn": (
        Yarn(factor=2.0, original_max_position_embeddings=TRAINED, beta_fast=4.0, beta_slow=0.5),
        {
            "rope_type": "yarn",
            "factor": 2.0,
            "original_max_position_embeddings": TRAINED,
            "beta_fast": 4.0,
            "beta_slow": 0.5,
        },
    ),
    "llama3": (
        Llama3(factor=2.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=TRAINED),
        {
            "rope_type": "llama3",
            "factor": 2.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": TRAINED,
        },
    ),
    "ntk": (Ntk(factor=2.0), {"rope_type": "default", "rope_theta": THETA * 2.0 ** (16 / 14)}),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", STRETCHED)
def test_each_method_gives_the_loss_of_a_model_that_transformers_builds_with_it(llama, name):
    scaling, parameters = STRETCHED[name]
    built = tiny(rope_parameters={"rope_theta": THETA, **parameters})
    assert all(torch.equal(a, b) for a, b in zip(built.parameters(), llama.parameters(), strict=True))
    tokens = ids(N)
    with unchanged(llama):
        curve = only(llama, tokens, OWN.replace(scaling=scaling), bucket=16)
    expected = torch.cat([torch.tensor([torch.nan]), plain_losses(built, tokens)]).split(16)
    assert curve.losses == pytest.approx([float(part.nanmean()) for part in expected], rel=1e-5)
    untouched = only(llama, tokens, bucket=16)
    assert max(abs(a - b) for a, b in zip(curve.losses, untouched.losses, strict=True)) > 0.05


@pytest.mark.filterwarnings("ignore")
def test_growing_turns_all_keys_again_with_the_base_of_each_length(llama):
    tokens = ids(N)
    rope = OWN.replace(scaling=Dynamic(factor=2.0))
    grown = only(llama, tokens, rope, bucket=16, growing=16)
    expected = list(plain_losses(llama, tokens[:32]).split([15, 16]))
    for length in (48, 64, 80):  # the base of transformers' dynamic NTK at each length, by its formula
        theta = THETA * (2.0 * length / TRAINED - 1.0) ** (16 / 14)
        model = tiny(rope_parameters={"rope_type": "default", "rope_theta": theta})
        expected.append(plain_losses(model, tokens[:length])[-16:])
    assert grown.losses == pytest.approx([float(part.mean()) for part in expected], rel=1e-5)
    assert grown.passes == 4
    assert only(llama, tokens, rope, bucket=16).losses[0] != pytest.approx(grown.losses[0], rel=1e-3)
    assert only(llama, tokens, bucket=16, growing=16).passes == 1  # nothing depends on the length


def test_curves_come_one_by_one_and_the_model_is_itself_between_them(llama):
    with unchanged(llama):
        wanted = {"untouched": OWN, "linear": OWN.replace(scaling=Linear(factor=2.0))}
        found = curves(llama, ids(N), wanted, trained=TRAINED)
        assert next(found).name == "untouched"
        assert only(llama, ids(N)).losses  # another measurement in between
        assert [one.name for one in found] == ["linear"]


class Broken(Exception):
    pass


@pytest.mark.parametrize("error", [Broken, KeyboardInterrupt])
@pytest.mark.parametrize("where", ["layer", "head", "progress"])
def test_the_model_is_itself_after_an_error_or_ctrl_c(llama, error, where):
    def fail(*_):
        raise error

    module = {"layer": llama.model.layers[1], "head": llama.lm_head}.get(where)
    with unchanged(llama):
        handle = module.register_forward_pre_hook(fail) if module is not None else None
        with pytest.raises(error):
            only(llama, ids(N), OWN.replace(scaling=Linear(factor=2.0)), progress=fail if handle is None else None)
        if handle is not None:
            handle.remove()


def test_progress_rises_to_one_for_each_method(llama):
    told = []
    wanted = {"a": OWN, "b": OWN.replace(scaling=Dynamic(factor=2.0))}
    measure(llama, ids(N), wanted, growing=16, progress=lambda name, share: told.append((name, share)))
    for name in wanted:
        shares = [share for one, share in told if one == name]
        assert shares == sorted(shares) and shares[0] > 0 and shares[-1] == pytest.approx(1)
    assert [name for name, _ in told] == sorted(name for name, _ in told)


def test_the_trained_length_is_that_before_scaling(llama):
    assert trained_tokens(llama) == TRAINED
    yarn = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16, "rope_theta": THETA}
    assert trained_tokens(tiny(rope_parameters=yarn, max_position_embeddings=64)) == 16


def test_a_model_of_two_ropes_takes_one_for_each_layer_type():
    model = tiny(
        "Gemma3",
        layer_types=["sliding_attention", "full_attention"],
        sliding_window=16,
        query_pre_attn_scalar=16,
        rope_parameters={
            "sliding_attention": {"rope_type": "default", "rope_theta": THETA},
            "full_attention": {"rope_type": "default", "rope_theta": 4 * THETA},
        },
    )
    own = dict(own_ropes(model))
    stretched = {**own, "full_attention": own["full_attention"].replace(scaling=Linear(factor=4.0))}
    found = measure(model, ids(N), {"untouched": own, "global": stretched}, bucket=N)
    assert abs(found.curves[0].losses[0] - found.curves[1].losses[0]) > 1e-3


def test_best_is_the_least_loss_beyond_the_trained_length(llama):
    names = {"untouched": OWN, **{name: OWN.replace(scaling=one) for name, (one, _) in STRETCHED.items()}}
    found = measure(llama, ids(N), names, bucket=16)
    assert found.best is min(found.curves, key=lambda one: one.beyond)
    assert measure(llama, ids(TRAINED), {"untouched": OWN}, bucket=16).best is None
    document = found.to_dict()
    assert document["schema"] == "ropewalk.measurement/1" and document["best"] == found.best.name
    assert [one["name"] for one in document["curves"]] == list(names)
    assert Rope.from_dict(document["curves"][1]["rope"]) == names["linear"]


@pytest.mark.parametrize(
    ("tokens", "words"),
    [
        ([5], "N at least 2"),
        ([[1, 2], [3, 4]], "N at least 2"),
        ([0.5, 1.5], "whole numbers"),
        ([1, 64], "the tokenizer is another model's"),
        ([1, -1], "the tokenizer is another model's"),
    ],
)
def test_token_ids_that_the_model_cannot_take_are_refused(llama, tokens, words):
    with pytest.raises(RopewalkError, match=words):
        measure(llama, tokens, {"untouched": OWN})


def test_a_rope_of_another_width_is_refused(llama):
    with unchanged(llama), pytest.raises(RopewalkError, match="width"):
        only(llama, ids(N), OWN.replace(head_dim=32, rotary_dim=32))


def test_a_model_without_rope_is_refused():
    config = transformers.GPT2Config(
        vocab_size=64, n_positions=128, n_embd=32, n_layer=1, n_head=2, bos_token_id=0, eos_token_id=1
    )
    with pytest.raises(RopewalkError, match="no rotary module"):
        measure(transformers.GPT2LMHeadModel(config).eval(), ids(20), {"untouched": OWN})


def test_losses_that_are_not_finite_are_told(llama):
    model = tiny()
    with torch.no_grad():
        model.lm_head.weight[3] = torch.nan
    with pytest.raises(RopewalkError, match="not finite"):
        only(model, ids(N))
