"""assert_rope: passes what is right, and says in words what is not."""

import re
from pathlib import Path

import numpy as np
import pytest

from ropewalk import Rope, RopewalkError, rotate
from ropewalk.testing import assert_rope

ROPE = Rope(head_dim=16, rope_theta=500000.0, pairing="half")
CONFIG = {"model_type": "llama", "hidden_size": 96, "num_attention_heads": 6, "num_hidden_layers": 2}


def turning(rope):
    def turn(x, position_ids):
        return rotate(x, position_ids, rope)

    return turn


def test_a_right_function_passes_and_gives_its_report():
    report = assert_rope(turning(ROPE), ROPE)
    assert report.ok and report.explanation == ROPE


def test_a_wrong_one_fails_with_code_name_and_both_numbers():
    with pytest.raises(AssertionError) as caught:
        assert_rope(turning(ROPE.replace(rope_theta=10000.0)), ROPE)
    words = str(caught.value)
    assert "turn is not the rope that is expected (half, θ=500000): 1 finding" in words
    assert "wrong-theta" in words and "error RW2" in words and "10000" in words and "right:" in words


def test_expect_may_be_a_configuration():
    rope = ROPE.replace(rope_theta=7000.0)
    assert_rope(turning(rope), {**CONFIG, "rope_theta": 7000.0})
    with pytest.raises(AssertionError, match="wrong-theta"):
        assert_rope(turning(rope), {**CONFIG, "rope_theta": 8000.0})


def test_options_are_those_of_check():
    def turn(x, position_ids):
        assert x.dtype == np.float64 and x.shape[1] == 5  # heads stand before the sequence
        return rotate(x, position_ids, ROPE, layout="bhsd")

    assert_rope(turn, ROPE, layout="bhsd", heads=5, dtype="float64", backend="numpy")
    with pytest.raises(RopewalkError, match="layout"):
        assert_rope(turn, ROPE, layout="hsbd")


def test_a_function_that_raises_fails_and_does_not_leak_its_error():
    def turn(x, position_ids):
        raise KeyError("table")

    with pytest.raises(AssertionError, match="raised"):
        assert_rope(turn, ROPE)


def test_strict_fails_for_warnings():
    torch = pytest.importorskip("torch")

    def wider(x, position_ids):
        turned = rotate(x, position_ids, ROPE)
        return turned.double() if x.dtype == torch.float32 else turned

    report = assert_rope(wider, ROPE, backend="torch")
    assert [finding.name for finding in report.findings if finding.severity == "warning"] == ["dtype"]
    with pytest.raises(AssertionError, match="warning RW270 dtype"):
        assert_rope(wider, ROPE, backend="torch", strict=True)


def test_a_model_with_several_ropes_is_refused_with_the_list():
    with pytest.raises(RopewalkError, match="the model has 2 ropes"):
        assert_rope(turning(ROPE), {"model_type": "gemma3_text", "head_dim": 16, "num_hidden_layers": 6})


def test_the_guides_test_runs_and_every_option_of_the_command_is_in_it():
    import click

    from ropewalk.cli.check import command

    guide = (Path(__file__).parents[1] / "docs" / "testing.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", guide, re.DOTALL)
    space = {}
    exec(code, space)
    space["test_my_rotary"]()
    options = [one for one in command.params if isinstance(one, click.Option)]
    assert [one.opts[0] for one in options if f"`{one.opts[0]}" not in guide] == []
    adapters = re.findall(r"`adapt\.(\w+)\(", guide)
    assert set(adapters) == {
        "calling",
        "module",
        "tables",
        "complex_form",
        "transformers",
        "numpy",
        "torch",
        "jax",
        "onnx",
    }
