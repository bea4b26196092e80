"""Hidden keys: where they stand, and what the model is said to hold likely, against transformers' plain logits."""

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
from ropewalk import RopewalkError  # noqa: E402
from ropewalk.measuring import own_ropes, passkey, passkeys  # noqa: E402
from ropewalk.scaling import Linear  # noqa: E402

from .tiny import Characters, ids, tiny, unchanged  # noqa: E402

HAY = ids(300)


@pytest.fixture(scope="module")
def llama():
    return tiny()


def ropes(model):
    own = own_ropes(model)[None]
    return {"untouched": own, "linear": own.replace(scaling=Linear(factor=4.0))}


def text_of(trial):
    """The ids of a trial's text, put together anew."""
    needle = Characters()(passkey.HIDDEN.format(key=trial.key)).input_ids
    end = Characters()(f"{passkey.ASKED} {trial.key}").input_ids
    room = trial.length - len(needle) - len(end)
    before = round(trial.depth * room)
    hay = HAY[:room].tolist()
    return torch.tensor(hay[:before] + needle + hay[before:] + end)


def test_losses_and_ranks_are_those_of_the_plain_logits(llama):
    with unchanged(llama):
        (found,) = passkeys(llama, Characters(), HAY, {"it": ropes(llama)["untouched"]}, lengths=(140, 200))
    assert [(one.length, one.depth) for one in found.trials] == [(n, d) for n in (140, 200) for d in (0.1, 0.5, 0.9)]
    for trial in found.trials:
        text = text_of(trial)
        with torch.no_grad():
            logits = llama(text[None]).logits[0, -7:-1]  # a space and five digits
        chances = logits.exp() / logits.exp().sum(dim=1, keepdim=True)
        right = text[-6:]
        assert trial.loss == pytest.approx(float(-chances[range(6), right].log().mean()), rel=1e-5)
        assert trial.ranks == tuple(int((row > row[i]).sum()) for row, i in zip(logits, right, strict=True))
        assert len(trial.ranks) == 6 and trial.found == (set(trial.ranks) == {0})


def test_a_model_that_gives_the_key_back_is_said_to_find_it(llama):
    (first,) = passkeys(llama, Characters(), HAY, {"it": ropes(llama)["untouched"]}, lengths=(150,), depths=(0.5,))
    text = text_of(first.trials[0])

    def copy(module, args, out):
        """Make the logits say the text's next token, wherever the head is asked."""
        out = torch.zeros_like(out)
        out[0, range(out.shape[1]), text[-out.shape[1] :]] = 5.0
        return out

    handle = llama.lm_head.register_forward_hook(copy)
    (again,) = passkeys(llama, Characters(), HAY, {"it": ropes(llama)["untouched"]}, lengths=(150,), depths=(0.5,))
    handle.remove()
    assert again.trials[0].key == first.trials[0].key
    assert again.trials[0].found and again.trials[0].ranks == (0,) * 6
    assert not first.trials[0].found


def test_every_method_is_asked_for_the_same_keys_and_answers_by_its_own_rope(llama):
    both = list(passkeys(llama, Characters(), HAY, ropes(llama), lengths=(160,)))
    assert [one.key for one in both[0].trials] == [one.key for one in both[1].trials]
    assert len({one.key for one in both[0].trials}) == 3
    assert all(a.loss != pytest.approx(b.loss, rel=1e-3) for a, b in zip(both[0].trials, both[1].trials, strict=True))
    assert both[0].to_dict()["trials"][1]["depth"] == 0.5


def test_another_seed_draws_other_keys(llama):
    asked = {"lengths": (150,), "depths": (0.5,)}
    keys = {next(passkeys(llama, Characters(), HAY, ropes(llama), seed=i, **asked)).trials[0].key for i in (0, 0, 1)}
    assert len(keys) == 2


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"lengths": (50,)}, "no room"),
        ({"lengths": (600,)}, "has 300 tokens"),
        ({"lengths": (150,), "depths": (1.5,)}, "depth must be from 0 to 1"),
    ],
)
def test_what_cannot_be_hidden_is_told(llama, asked, words):
    with pytest.raises(RopewalkError, match=words):
        list(passkeys(llama, Characters(), HAY, ropes(llama), **asked))
