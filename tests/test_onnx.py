"""ONNX: exported turns run in onnxruntime with the numbers of float64, by the operator where it can say them."""

import numpy as np
import pytest

from ._onnx import NOT_SAID, PLAIN, SAID, SIZES, Exported, feed, kinds


@pytest.fixture(scope="module")
def said() -> Exported:
    return Exported(SAID)


@pytest.fixture(scope="module")
def not_said() -> Exported:
    return Exported(NOT_SAID)


@pytest.fixture(scope="module")
def plain() -> Exported:
    return Exported({name: SAID[name] for name in PLAIN}, plain=True)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", SAID)
def test_what_the_operator_can_say_is_turned_as_in_float64(said, name, size):
    said.check(name, size)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", NOT_SAID)
def test_what_the_operator_cannot_say_is_turned_as_in_float64(not_said, name, size):
    not_said.check(name, size)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", PLAIN)
def test_plain_operators_turn_everything_as_in_float64(plain, name, size):
    plain.check(name, size)


def test_the_operator_stands_in_the_graph_once_a_turn_where_it_can_say_it(said, not_said, plain):
    assert kinds(said.program)["RotaryEmbedding"] == len(SAID)
    assert kinds(not_said.program)["RotaryEmbedding"] == 0
    assert kinds(plain.program)["RotaryEmbedding"] == 0


def test_channels_outside_the_pairs_come_out_bit_for_bit(said, not_said):
    for exported, name, channels in ((said, "bfloat16, part", slice(4, 8)), (not_said, "tail, bfloat16", slice(0, 6))):
        out, expected = exported.run(*SIZES[1])[name]
        np.testing.assert_array_equal(out[..., channels], expected[..., channels])


def test_nan_and_infinity_stay_in_their_own_pair(said):
    xs, *rest = said.inputs(*SIZES[0])
    at = list(SAID).index("half")
    xs[at][:, :, 0, 3], xs[at][:, :, 1, 40] = np.nan, np.inf
    out = feed(said.session, *xs, *rest)[at]
    spoilt = ~np.isfinite(out)
    assert spoilt[:, :, 0, [3, 35]].all()
    assert spoilt[:, :, 1].any(axis=-1).all()
    spoilt[:, :, 0, [3, 35]] = spoilt[:, :, 1, [8, 40]] = False
    assert not spoilt.any()


def test_no_token_gives_no_output(said, not_said):
    for exported in (said, not_said):
        xs, *rest = exported.inputs(2, 0)
        outs = feed(exported.session, *xs, *rest)
        assert [out.shape for out in outs] == [x.shape for x in xs]


@pytest.mark.parametrize("position", [2**30, -(2**30), 2**62])
def test_a_whole_position_beyond_the_tables_is_an_error_when_the_model_runs(said, position):
    xs, ids, *rest = said.inputs(*SIZES[0])
    ids[1, 2] = position
    with pytest.raises(Exception, match="out of data bounds"):
        feed(said.session, *xs, ids, *rest)


BAKED = (
    *("half", "part, interleaved", "yarn undone", "direction -1", "heads first", "packed", "counted", "float16"),
    *("one row for all", "three axes, text"),
)
NOT_BAKED = ("three axes", "float positions")


@pytest.fixture(scope="module")
def baked() -> Exported:
    return Exported(
        {name: SAID[name] for name in (*BAKED, "three axes", "float positions")}, list(range(0, 96, 7)), max_position=96
    )


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", [*BAKED, *NOT_BAKED])
def test_with_max_position_the_turn_is_that_of_float64(baked, name, size):
    baked.check(name, size)


def test_with_max_position_the_operator_takes_position_ids_where_it_can(baked):
    graph = baked.program.model_proto.graph
    sizes = {one.name: tuple(one.dims) for one in graph.initializer}
    nodes = [node for node in graph.node if node.op_type == "RotaryEmbedding"]
    by_ids = [node for node in nodes if len(node.input) == 4]
    assert (len(nodes), len(by_ids)) == (len(BAKED + NOT_BAKED), len(BAKED))
    assert {sizes[node.input[1]][0] for node in by_ids} == {96}
    assert sizes[by_ids[0].input[1]] == (96, 32)


@pytest.mark.parametrize("position", [96, -1])
def test_with_max_position_a_position_outside_is_an_error_when_the_model_runs(baked, position):
    xs, ids, *rest = baked.inputs(*SIZES[0])
    ids[1, 2] = position
    with pytest.raises(Exception, match="out of range"):
        feed(baked.session, *xs, ids, *rest)
