"""Measurements of tiny tensors: who takes part, and that a wrong contender gets no number. No duration is asserted."""

import json
import sys

import pytest

torch = pytest.importorskip("torch")

from ropewalk import RopewalkError  # noqa: E402
from ropewalk.bench import contenders  # noqa: E402
from ropewalk.bench.contenders import CLONE, COPY, OURS, Unavailable, make_inputs  # noqa: E402
from ropewalk.bench.measuring import measure  # noqa: E402
from ropewalk.bench.parity import Precision  # noqa: E402
from ropewalk.bench.plan import CASES, DTYPES, PAIRINGS, PEERS, Plan, Shape  # noqa: E402

TINY = Shape.parse("2,9,6,2,10")
RATIOS = ("seconds", "to_clone", "to_copy", "to_ours")


@pytest.fixture(autouse=True)
def short_samples(monkeypatch):
    monkeypatch.setattr("ropewalk.bench.timing.MOST_CALLS", 3)
    monkeypatch.setattr(
        "gc.collect", lambda *generation: 0
    )  # with transformers loaded it takes longer than all the rest


def run(**options):
    settings = {"shape": TINY, "cases": ("out-of-place",), "dtypes": ("float32",), "peers": (), "rounds": 2, **options}
    return list(measure(Plan(**settings)))


def named(measured):
    return [row.name for row in measured.rows]


@pytest.mark.parametrize("pairing", PAIRINGS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("case", CASES)
def test_ours_passes_the_gate_in_every_case_and_type(case, dtype, pairing):
    (measured,) = run(cases=(case,), dtypes=(dtype,), pairings=(pairing,))
    assert named(measured) == [CLONE, COPY, OURS]
    assert measured.ok
    row = measured.row(OURS)
    assert row.parity.ok and 0 <= row.parity.share <= 1
    assert row.seconds.median > 0 and row.to_clone.median > 0 and row.to_copy.median > 0
    assert row.to_ours is None
    assert measured.q == tuple(CASES[case].shape(TINY).q)


def test_the_yardsticks_are_1_to_themselves():
    (measured,) = run()
    assert measured.row(CLONE).to_clone.median == measured.row(COPY).to_copy.median == 1
    assert measured.row(CLONE).parity is None


def test_cases_types_and_pairings_are_measured_in_order():
    found = run(cases=("in-place", "decode"), dtypes=("float16", "float32"), pairings=PAIRINGS, rounds=1)
    assert [(one.case, one.dtype, one.pairing) for one in found] == [
        (case, dtype, pairing)
        for case in ("in-place", "decode")
        for dtype in ("float16", "float32")
        for pairing in PAIRINGS
    ]


def test_the_complex_product_takes_part_where_torch_has_such_numbers():
    plain, over = (run(cases=(case,), pairings=("interleaved",), peers=("complex",))[0] for case in list(CASES)[:2])
    assert [named(one) for one in (plain, over)] == [[CLONE, COPY, OURS, "complex"]] * 2
    assert plain.row("complex").to_ours.median > 0
    (half,) = run(peers=("complex",))
    assert half.skipped == {"complex": "turns interleaved pairs only"}
    (narrow,) = run(cases=("in-place",), dtypes=("bfloat16",), pairings=("interleaved",), peers=("complex",))
    assert "complex numbers" in narrow.skipped["complex"]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("case", [name for name in CASES if name != "in-place"])
@pytest.mark.parametrize(
    ("peer", "module", "pairing"),
    [
        ("transformers", "transformers", "half"),
        ("rotary-embedding-torch", "rotary_embedding_torch", "interleaved"),
        ("complex", "torch", "interleaved"),
    ],
)
def test_a_peer_passes_the_gate_at_the_precision_it_states(peer, module, pairing, case, dtype):
    pytest.importorskip(module)
    # width 20: its exponents are no powers of 2, so that float32 frequencies are off
    shape = Shape.parse("1,600,3,1,20")
    (measured,) = run(shape=shape, cases=(case,), dtypes=(dtype,), pairings=(pairing,), peers=(peer,), rounds=1)
    assert measured.skipped == {}
    assert measured.row(peer).parity.why == ""
    assert measured.row(peer).to_ours.median > 0


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # the compiler's own
@pytest.mark.parametrize("case", ["out-of-place", "backward"])
def test_the_compiled_function_of_transformers_takes_part(case):
    pytest.importorskip("transformers")
    found = run(cases=(case,), dtypes=("float32", "bfloat16"), peers=("torch-compile", "transformers"), rounds=1)
    for measured in found:
        if "torch-compile" in measured.skipped:
            pytest.skip(measured.skipped["torch-compile"])  # no compiler here
        assert measured.ok
        assert measured.row("torch-compile").to_ours.median > 0


@pytest.mark.parametrize("peer", ["transformers", "torch-compile", "rotary-embedding-torch"])
def test_peers_without_a_form_are_skipped_with_the_reason(peer):
    pairing = "interleaved" if peer == "rotary-embedding-torch" else "half"
    (measured,) = run(cases=("in-place",), pairings=(pairing,), peers=(peer,))
    assert measured.skipped == {peer: "has no form that turns in place"}
    assert named(measured) == [CLONE, COPY, OURS]


@pytest.mark.parametrize(
    ("peer", "module", "pairing"),
    [("transformers", "transformers", "half"), ("rotary-embedding-torch", "rotary_embedding_torch", "interleaved")],
)
def test_a_peer_that_is_not_installed_is_skipped_with_the_command_that_brings_it(monkeypatch, peer, module, pairing):
    for name in [name for name in sys.modules if name.partition(".")[0] == module]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, module, None)
    (measured,) = run(pairings=(pairing,), peers=(peer,))
    assert measured.skipped == {peer: f"not installed: pip install {peer}"}
    assert measured.ok


def test_a_peer_that_breaks_is_skipped_with_its_error_in_one_line(monkeypatch):
    def building(inputs, case):
        raise TypeError("made for another version\nand more")

    def calling(inputs, case):
        def turn(q, k):
            raise RuntimeError("the backend raised:\n  no compiler.\nand more")

        return turn, Precision.exact(inputs.dtype)

    monkeypatch.setitem(contenders._BUILDERS, "complex", building)
    assert run(peers=("complex",))[0].skipped == {"complex": "TypeError: made for another version"}
    monkeypatch.setitem(contenders._BUILDERS, "complex", calling)
    (measured,) = run(peers=("complex",))
    assert measured.skipped == {"complex": "RuntimeError: the backend raised: no compiler"}
    assert named(measured) == [CLONE, COPY, OURS]


def sabotaged(wrong):
    """A builder whose turn goes wrong in one way, on top of the right complex product."""
    honest = contenders._BUILDERS["complex"]

    def build(inputs, case):
        turn, precision = honest(inputs, case)
        return (lambda q, k: wrong(turn, q, k)), precision

    return build


def at_first_right(calls):
    def wrong(turn, q, k):
        calls.append(1)
        return turn(q, k) if len(calls) == 1 else (q * 1, k * 1)

    return wrong


def tamper(turn, q, k):
    turned = turn(q, k)
    q[0, 3].zero_()
    return turned


LATER = [True] * 1000 + [False]

WRONG = {
    "does nothing": lambda turn, q, k: (q.clone(), k.clone()),
    "turns back": lambda turn, q, k: tuple(turn(x.flip(-1), x.flip(-1))[0].flip(-1) for x in (q, k)),
    "leaves k alone": lambda turn, q, k: (turn(q, k)[0], k.clone()),
    "swaps q and k": lambda turn, q, k: turn(q, k)[::-1],
    "is a thousandth off": lambda turn, q, k: tuple(1.001 * x for x in turn(q, k)),
    "writes over its input": tamper,
    "writes over its input later": lambda turn, q, k: tamper(turn, q, k) if LATER.pop() else turn(q, k),
    "gives one tensor": lambda turn, q, k: turn(q, k)[0],
    "is right the first time only": at_first_right([]),
}


@pytest.mark.parametrize("fault", WRONG)
def test_a_wrong_peer_is_red_and_gets_no_number(monkeypatch, fault):
    monkeypatch.setitem(contenders._BUILDERS, "complex", sabotaged(WRONG[fault]))
    (measured,) = run(pairings=("interleaved",), peers=("complex",))
    assert not measured.ok
    row = measured.row("complex")
    assert not row.parity.ok and row.parity.why
    assert [getattr(row, name) for name in RATIOS] == [None] * 4
    assert measured.row(OURS).to_clone.median > 0  # who is right keeps its numbers


def test_a_peer_in_place_that_leaves_the_tensors_alone_is_red(monkeypatch):
    fault = sabotaged(lambda turn, q, k: turn(q.clone(), k.clone()))
    monkeypatch.setitem(contenders._BUILDERS, "complex", fault)
    (measured,) = run(cases=("in-place",), pairings=("interleaved",), peers=("complex",))
    assert not measured.row("complex").parity.ok


def test_a_peer_whose_gradients_are_wrong_is_red(monkeypatch):
    class Onward(torch.autograd.Function):
        @staticmethod
        def forward(ctx, q, k, turn):
            ctx.turn = turn
            return turn(q, k)

        @staticmethod
        def backward(ctx, grad_q, grad_k):
            return (*ctx.turn(grad_q, grad_k), None)  # turned onward, where it should be turned back

    fault = sabotaged(lambda turn, q, k: Onward.apply(q, k, turn))
    monkeypatch.setitem(contenders._BUILDERS, "complex", fault)
    options = {"pairings": ("interleaved",), "peers": ("complex",)}
    assert run(**options)[0].ok
    (measured,) = run(cases=("backward",), **options)
    assert not measured.row("complex").parity.ok
    assert measured.row(OURS).parity.ok


def test_where_ours_is_wrong_nobody_is_compared_with_it(monkeypatch):
    class Slow(contenders.Rotary):
        def __init__(self, rope):
            super().__init__(rope.replace(rope_theta=1e4))

    monkeypatch.setattr(contenders, "Rotary", Slow)
    (measured,) = run(pairings=("interleaved",), peers=("complex",))
    assert not measured.ok
    assert [getattr(measured.row(OURS), name) for name in RATIOS] == [None] * 4
    peer = measured.row("complex")
    assert peer.parity.ok and peer.to_clone.median > 0
    assert peer.to_ours is None


def test_a_measurement_is_plain_json_even_where_a_deviation_is_infinite(monkeypatch):
    monkeypatch.setitem(contenders._BUILDERS, "complex", sabotaged(lambda turn, q, k: (q * 1e38, k * 1e38)))
    (measured,) = run(pairings=("interleaved",), peers=("complex",))
    data = measured.to_dict()
    assert json.loads(json.dumps(data, allow_nan=False)) == data
    assert (data["q"], data["k"]) == ([2, 9, 6, 10], [2, 9, 2, 10])
    assert [row["name"] for row in data["rows"]] == [CLONE, COPY, OURS, "complex"]
    assert set(data["rows"][2]["seconds"]) == {"median", "low", "high"}


def test_inputs_are_the_same_on_every_run_and_ragged_rows_stand_apart():
    ragged = CASES["decode-ragged"]
    one, other = (make_inputs(ragged, TINY, "float32", "half") for _ in range(2))
    assert torch.equal(one.q, other.q) and torch.equal(one.position_ids, other.position_ids)
    positions = one.position_ids.flatten().tolist()
    assert len(set(positions)) == 32 and min(positions) > 0
    assert make_inputs(CASES["decode"], TINY, "float32", "half").position_ids.tolist() == [[9]]


def test_no_row_stands_at_position_0_alone():
    for case in CASES.values():
        ids = make_inputs(case, Shape.parse("2,1,2,1,4"), "float32", "half").position_ids
        assert (ids.amax(dim=1) > 0).all()


def test_tensors_too_large_for_memory_are_told_in_one_line(monkeypatch):
    monkeypatch.setattr(contenders, "physical_memory", lambda: 1_000_000)
    with pytest.raises(RopewalkError, match=r"need about 0\.00262 GB .* has 0\.001 GB") as caught:
        run(shape=Shape.parse("1,1024,8,2,16"))  # 4 times 10240·16 numbers of 4 bytes
    assert "\n" not in str(caught.value)
    monkeypatch.setattr(contenders, "physical_memory", lambda: None)

    def full(*size, **options):
        raise RuntimeError("DefaultCPUAllocator: can't allocate memory\nand a trace")

    monkeypatch.setattr(torch, "randn", full)
    with pytest.raises(RopewalkError, match="cannot be made: DefaultCPUAllocator: can't allocate memory"):
        run()


def test_the_machine_says_how_much_memory_it_has_or_nothing(monkeypatch):
    found = contenders.physical_memory()
    assert found is None or found > 2**26
    monkeypatch.delattr("os.sysconf", raising=False)
    assert contenders.physical_memory() is None


def test_every_peer_has_a_builder():
    assert tuple(contenders._BUILDERS) == PEERS
    assert issubclass(Unavailable, Exception)
