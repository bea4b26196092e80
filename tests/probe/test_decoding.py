"""check_decoder on decoders written for it: none of the right ones is flagged, each faulty twin gets its name."""

import json

import numpy as np
import pytest

from ropewalk import Rope, RopewalkError
from ropewalk.positions import rerotate
from ropewalk.probe.decoding import check_decoder
from ropewalk.probe.decoding_shifts import of_steps
from ropewalk.testing import assert_decoder

from .decoders import ROPE, Decoder

# the slip, the finding, where it is seen, and what the outputs are said to be as if
FAULTS = {
    "not-added": ("stepwise-differs", "prefill 6, then one token", "every new token is at position 0"),
    "one-behind": ("stepwise-differs", "prefill 6, then one token", "one behind"),
    "one-ahead": ("stepwise-differs", "prefill 6, then one token", "one ahead"),
    "frozen": ("stepwise-differs", "prefill 6, then one token", "the counter stands still"),
    "turned-again": ("stepwise-differs", "prefill 6, then one token", "no one shift of positions explains it"),
    "upper-layers-ahead": ("stepwise-differs", "prefill 6, then one token", "no one shift of positions explains it"),
    "window-constant": ("stepwise-differs", "windows of 2", "every token of a window takes the position of its first"),
    "row-0-only": ("rows-share-positions", "three rows of one length", "every new token is at position 0"),
    "longest-row": ("rows-share-positions", "left-padded", "the longest row's position, a shift by 3"),
    "attends-padding": ("padding-shifts-positions", "left-padded", "the padding were tokens: it is not masked"),
    "merged-cursor": ("merged-cache-differs", "11 and 7 tokens, merged", "the longest row's position, a shift by 4"),
    "rows-left": ("eviction-breaks-distances", "the first 4 tokens dropped", "a shift by -4: the rows left"),
    "not-taken-back": (
        "eviction-breaks-distances",
        "the last 3 tokens taken back",
        "a shift by 3: the tokens taken out",
    ),
    "counter-never-reset": ("state-leaks", "then one token a step", "the same calls made twice differ"),
    "module-counter": ("state-leaks", "two sequences decoded in turns", "one counter for both sequences"),
}


def checked(decoder, **options):
    return check_decoder(decoder.step, decoder.prefill, merge=decoder.merge, evict=decoder.evict, **options)


def test_a_right_decoder_is_asked_everything_and_has_no_finding():
    report = checked(Decoder(layers=2), right_padding=True)
    assert report.findings == () and report.left == () and report.ok
    assert len(report.evidence) == 52 and report.dtype == "float64"
    assert max(one.detail["gap"] for one in report.evidence) < 1e-12


@pytest.mark.parametrize("fault", FAULTS)
def test_a_faulty_twin_gets_its_name_the_place_and_the_positions_that_would_give_the_same(fault):
    name, where, words = FAULTS[fault]
    decoder = Decoder(fault=fault, layers=1 + (fault == "upper-layers-ahead"))
    hook = {"merged": "merge", "evicti": "evict"}.get(name[:6])
    hooks = {hook: getattr(decoder, hook)} if hook else {}
    report = check_decoder(decoder.step, decoder.prefill, window_sizes=(2,) * ("window" in where), **hooks)
    found = {one.name: one for one in report.findings if one.severity == "error"}
    assert not report.ok and where in found[name].where and words in found[name].seen


def test_a_gap_is_told_from_the_token_where_it_begins():
    report = checked(Decoder(fault="frozen"), window_sizes=())
    assert "outputs part at token 7, every token from there" in report.findings[0].seen  # 6 is where it should be
    bad = next(one for one in report.evidence if not one.ok)
    assert bad.detail["token"] == 7 and bad.detail["ids"][6:9] == [6, 6, 6] and bad.detail["gap"] > 0.1


@pytest.mark.parametrize("fault", ["row-0-mask", "counts-padding-in-prompt"])
def test_padding_that_is_right_with_position_ids_is_a_warning_without(fault):
    report = checked(Decoder(fault=fault), window_sizes=())
    assert report.ok and [one.severity for one in report.findings] == ["warning"]
    assert "no position_ids given" in report.findings[0].where


@pytest.mark.parametrize(
    ("fault", "name"), [("row-0-mask", "padding-shifts-positions"), ("longest-row", "rows-share-positions")]
)
def test_padding_is_an_error_where_positions_cannot_be_given(fault, name):
    decoder = Decoder(fault=fault)

    def prefill(tokens, attention_mask=None):
        return decoder.prefill(tokens, attention_mask)

    def step(tokens, cache, attention_mask=None):
        return decoder.step(tokens, cache, attention_mask)

    report = check_decoder(step, prefill, window_sizes=(), evict=decoder.evict)
    assert [one.name for one in report.findings if one.severity == "error"] == [name]
    assert ("which positions explain a gap", "prefill does not take position_ids") in report.left
    assert "shift" not in report.findings[0].seen


def test_what_cannot_be_asked_stands_in_left():
    decoder = Decoder()

    def step(tokens, cache):
        if tokens.shape[1] > 1:
            raise ValueError("one at a time")
        return decoder.step(tokens, cache)

    report = check_decoder(step, lambda tokens: decoder.prefill(tokens))
    assert report.findings == () and report.evidence
    assert {name for name, _ in report.left} == {
        "which positions explain a gap",
        "windows of 2 tokens by step",
        "left padding",
        "merged caches",
        "eviction",
    }


def test_prefill_may_give_the_last_token_alone():
    def last(fault):
        decoder = Decoder(fault=fault)

        def prefill(tokens, attention_mask=None, position_ids=None):
            out, cache = decoder.prefill(tokens, attention_mask, position_ids)
            return out[:, -1], cache

        return check_decoder(decoder.step, prefill, window_sizes=(3,), length=14, longest=14)

    assert last("").findings == ()
    ahead = last("one-ahead").findings
    assert [one.name for one in ahead] == ["stepwise-differs"] and "one ahead" in ahead[0].seen


def test_positions_that_must_be_given_are_given():
    decoder = Decoder()

    def prefill(tokens, position_ids):
        return decoder.prefill(tokens, None, position_ids)

    def step(tokens, cache, positions):
        return decoder.step(tokens, cache, None, positions)

    report = check_decoder(step, prefill, window_sizes=(2,))
    assert report.findings == () and all("no position_ids" not in one.detail["question"] for one in report.evidence)


def test_keys_that_are_moved_after_eviction_keep_their_distances():
    def moved(by):
        decoder = Decoder(layers=1)

        def evict(cache, keep):
            gone = int(keep[0])
            cache = decoder.evict(cache, keep)
            rows = np.arange(len(keep))
            cache.keys = [rerotate(one, ROPE, old=rows + gone, new=rows + gone - by(gone)) for one in cache.keys]
            cache.next = cache.next - gone
            return cache, len(keep) if gone else int(cache.next[0])

        return check_decoder(decoder.step, decoder.prefill, evict=evict, window_sizes=())

    def sinkless(report):
        return [one for one in report.findings if "kept at the start" not in one.where]

    assert sinkless(moved(lambda gone: gone)) == []
    wrong = moved(lambda gone: max(gone - 1, 0))
    assert [one.name for one in sinkless(wrong)] == ["eviction-breaks-distances"]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_rounding_is_no_fault_and_a_fault_is_seen_through_rounding(dtype):
    torch = pytest.importorskip("torch")

    def rounded(fault):
        decoder = Decoder(fault=fault, layers=1)
        for name in ("embedding", "head"):
            setattr(decoder, name, _noisy(torch, getattr(decoder, name), dtype))

        def prefill(tokens, attention_mask=None, position_ids=None):
            given = [None if one is None else one.numpy() for one in (attention_mask, position_ids)]
            out, cache = decoder.prefill(tokens.numpy(), *given)
            return _noise(torch, out, dtype, len(tokens)), cache

        def step(tokens, cache, attention_mask=None, position_ids=None):
            given = [None if one is None else one.numpy() for one in (attention_mask, position_ids)]
            out, cache = decoder.step(tokens.numpy(), cache, *given)
            return _noise(torch, out, dtype, 7), cache

        return check_decoder(step, prefill, window_sizes=(), backend="torch")

    right = rounded("")
    assert right.dtype == dtype and right.findings == ()
    assert max(one.detail["gap"] for one in right.evidence) > 1e-8  # there is something to forgive
    assert [one.name for one in rounded("one-behind").findings] == ["stepwise-differs"]


def _noisy(torch, array, dtype):
    return torch.from_numpy(array).to(getattr(torch, dtype)).double().numpy()


def _noise(torch, out, dtype, salt):
    """The outputs of a decoder whose roads round otherwise: off by some units in the last place, then rounded."""
    unit = {"float32": 2**-24, "float16": 2**-11, "bfloat16": 2**-8}[dtype]
    draw = np.random.default_rng(out.size + salt)
    return torch.from_numpy(out * (1 + 4 * unit * draw.standard_normal(out.shape))).to(getattr(torch, dtype))


def test_logits_widened_at_the_end_still_tell_the_working_dtype():
    torch = pytest.importorskip("torch")
    decoder = Decoder()

    def widened(out, cache):
        return torch.from_numpy(out).bfloat16().float(), cache

    report = check_decoder(
        lambda tokens, cache: widened(*decoder.step(tokens.numpy(), cache)),
        lambda tokens: widened(*decoder.prefill(tokens.numpy())),
        window_sizes=(),
        backend="torch",
    )
    assert report.dtype == "bfloat16" and report.room == 0.1 and report.ok


def test_a_table_that_changes_with_the_length_is_a_warning_and_one_that_stays_an_error():
    rope = Rope.from_dict({**ROPE.to_dict(), "scaling": {"rope_type": "ntk", "factor": 4.0}})

    def asked(sticky):
        plain, stretched, seen = Decoder(layers=1), Decoder(layers=1, rope=rope), [0]

        def chosen(length):
            seen[0] = max(seen[0], length) if sticky and length >= 16 else length
            return stretched if seen[0] > 24 else plain

        def prefill(tokens, position_ids=None):
            return chosen(tokens.shape[1]).prefill(tokens, None, position_ids)

        def step(tokens, cache, position_ids=None):
            return chosen(cache.mask.shape[1] + tokens.shape[1]).step(tokens, cache, None, position_ids)

        return check_decoder(step, prefill, window_sizes=(), switch=24)

    report = asked(sticky=False)
    assert report.ok and [one.name for one in report.findings] == ["cached-keys-keep-table"]
    assert "outputs part at token 24" in report.findings[0].seen
    assert [one.name for one in asked(sticky=True).findings] == ["state-leaks", "cached-keys-keep-table"]


def test_what_raises_hangs_or_is_not_finite_is_a_finding():
    decoder = Decoder()

    def raising(tokens, cache):
        raise KeyError("layer 3")

    report = check_decoder(raising, decoder.prefill)
    assert [one.name for one in report.findings] == ["raised"] and "layer 3" in report.findings[0].seen
    report = check_decoder(decoder.step, lambda tokens: (decoder.prefill(tokens)[0] * np.nan, None))
    assert [one.name for one in report.findings] == ["not-finite"]

    def waits(tokens):
        import time

        time.sleep(5)

    assert [one.name for one in check_decoder(decoder.step, waits, timeout=0.2).findings] == ["hang"]
    report = checked(decoder, timeout=0.03)
    assert report.ok and report.left[-1][0] == "what comes after the questions above"
    draw = np.random.default_rng(0)
    report = check_decoder(decoder.step, lambda tokens: (draw.standard_normal((*tokens.shape, 4)), None))
    assert [one.name for one in report.findings] == ["random"]


@pytest.mark.parametrize(
    ("step", "prefill", "words"),
    [
        (lambda tokens: 1, lambda tokens: 1, "step must take the cache that prefill returned, it takes tokens"),
        (lambda tokens, cache, rng: 1, lambda tokens: 1, "step requires rng, which nothing here is"),
        (lambda tokens, cache: 1, lambda: 1, "prefill takes no arguments, but must take tokens"),
        (lambda tokens, cache: 1, 5, "prefill must be a function, got 5"),
        (lambda tokens, cache: 1, lambda tokens: tokens * 1.0, r"prefill must return \(outputs, cache\), got ndarray"),
    ],
)
def test_an_interface_that_does_not_fit_is_an_error_that_says_what_is_missing(step, prefill, words):
    with pytest.raises(RopewalkError, match=words):
        check_decoder(step, prefill)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"length": 4}, "length"),
        ({"dtype": "int8"}, "dtype"),
        ({"switch": 8}, "switch must be at least length=16, got 8"),
        ({"merge": 3}, "merge must be a function"),
        ({"backend": "mlx"}, "backend"),
    ],
)
def test_options_that_do_not_exist_are_errors(options, words):
    with pytest.raises(RopewalkError, match=words):
        check_decoder(lambda tokens, cache: 1, lambda tokens: 1, **options)


def test_the_report_is_plain_data_and_a_page():
    report = checked(Decoder(fault="merged-cursor"), window_sizes=(2,))
    document = json.loads(json.dumps(report.to_dict(), allow_nan=False))
    assert document["schema"] == "ropewalk.decoder/1" and document["ok"] is False
    assert document["findings"][0]["code"] == "RW296" and len(document["evidence"]) == len(report.evidence)
    assert "RW296" in report._repr_html_() and "1 error" in report.summary()


def test_assert_decoder_says_in_words_what_differs():
    decoder = Decoder()
    assert assert_decoder(decoder.step, decoder.prefill, window_sizes=()).ok
    wrong = Decoder(fault="one-ahead")
    with pytest.raises(AssertionError, match="RW293 stepwise-differs, prefill 6, then one token a step"):
        assert_decoder(wrong.step, wrong.prefill, window_sizes=())
    warned = Decoder(fault="row-0-mask")
    assert_decoder(warned.step, warned.prefill, window_sizes=())
    with pytest.raises(AssertionError, match="padding-shifts-positions"):
        assert_decoder(warned.step, warned.prefill, window_sizes=(), strict=True)


def test_check_decoder_is_reached_from_probe_and_testing():
    from ropewalk import probe, testing

    assert probe.check_decoder is check_decoder is testing.check_decoder


def test_every_candidate_leaves_the_prompt_as_it_is_and_moves_a_later_token():
    for words, ids in of_steps(12, 5, pad=3, window=4, earlier=9):
        assert (ids[:5] == np.arange(5)).all() and (ids[5:] != np.arange(5, 12)).any(), words
