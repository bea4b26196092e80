"""Layer and Model: their ropes, their JSON, their caps and their errors."""

import json
import math
import pickle
import time
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ropewalk import Finding, Layer, Model, QueryScale, Rope, RopewalkError, Sections
from ropewalk.scaling import Linear, Yarn

GLOBAL = Rope(head_dim=96, rope_theta=8e5, pairing="half", scaling=Linear(factor=6))
LOCAL = Rope(head_dim=96, rope_theta=2e4, pairing="half")
INDEXER = Rope(head_dim=128, rotary_dim=64, rope_theta=1e4, pairing="half", direction=-1)
VISION = Rope(
    head_dim=40, rope_theta=1e4, pairing="interleaved", axes=Sections(sections=(10, 6, 4)),
    scaling=Yarn(factor=4, original_max_position_embeddings=4096),
)  # fmt: skip
FINDING = Finding.of("theta-missing", where="text: rope_theta", seen="absent", right="a base", message="No θ. Add it.")
SCALE = QueryScale(attn_scale=0.1, floor_scale=8192, offset=1)


def layer(rope=None, **rest):
    return Layer(ropes={} if rope is None else {"attention": rope}, **rest)


def model(**changes):
    local, whole = layer(LOCAL, kind="sliding_attention"), layer(GLOBAL, kind="full_attention", query_scale=SCALE)
    parts = {
        "vision": (layer(VISION),) * 2,
        "text": (local, local, whole, layer(kind="full_attention"), local),
        "talker": (Layer(ropes={"attention": LOCAL, "indexer": INDEXER}, output_inverse=True),),
    }
    given = {
        "parts": parts,
        "model_type": "gemma3",
        "target": "config.json in models/x",
        "positions": {"audio": "learned absolute"},
        "findings": (FINDING,),
        "sources": {"text.rope_theta": "rope_parameters.rope_theta"},
    }
    return Model(**{**given, **changes})


def test_layers_are_those_of_the_text_part_else_the_decoder_else_the_first():
    one, two, three = ((layer(rope),) for rope in (LOCAL, GLOBAL, VISION))
    assert model().layers == model().parts["text"]
    assert Model(parts={"vision": one, "decoder": two, "text": three}).layers == three
    assert Model(parts={"encoder": one, "decoder": two}).layers == two
    assert Model(parts={"vision": one, "talker": two}).layers == one
    assert Model(parts={}).layers == ()


def test_ropes_are_distinct_and_in_order_of_appearance():
    assert model().ropes == (VISION, LOCAL, GLOBAL, INDEXER)
    assert list(model().uses())[:3] == [
        ("vision", 0, "attention", VISION),
        ("text", 0, "attention", LOCAL),
        ("text", 2, "attention", GLOBAL),
    ]


def test_f105_a_layer_may_have_two_ropes_and_one_is_its_attentions():
    talker = model().parts["talker"][0]
    assert (talker.rope, talker.ropes["indexer"]) == (LOCAL, INDEXER)
    assert Layer().rope is None
    assert Layer(ropes={"indexer": INDEXER}).rope is None


def test_the_only_rope_or_an_error_that_lists_them():
    assert Model(parts={"text": (layer(), layer(LOCAL), layer(LOCAL.replace()))}).rope == LOCAL
    with pytest.raises(RopewalkError) as caught:
        _ = model().rope
    for words in ("4 ropes", "vision layer 0 attention: θ=10000, width 40", "text layer 2 attention: θ=800000",
                  "talker layer 0 indexer: θ=10000, width 64", "model.ropes"):  # fmt: skip
        assert words in str(caught.value)


def test_many_ropes_make_a_short_error():
    ropes = [LOCAL.replace(rope_theta=float(theta)) for theta in range(1, 1000)]
    with pytest.raises(RopewalkError, match=r"999 ropes .*layer 7 .*; …\)") as caught:
        _ = Model(parts={"text": tuple(map(layer, ropes))}).rope
    assert len(str(caught.value)) < 700


def test_a_model_without_ropes_says_what_positions_it_uses_or_what_went_wrong():
    with pytest.raises(RopewalkError, match=r"no RoPE \(text: ALiBi\)"):
        _ = Model(parts={"text": (layer(),)}, positions={"text": "ALiBi"}).rope
    with pytest.raises(RopewalkError, match=r"no RoPE \(no layers\)"):
        _ = Model(parts={}).rope
    with pytest.raises(RopewalkError, match=r"could not be read: No θ\. Add it\."):
        _ = Model(parts={"text": (layer(),)}, findings=(FINDING,)).rope


@pytest.mark.parametrize(
    ("scale", "position", "expected"),
    [
        (SCALE, 20000, 1.109861229),  # F228, Llama 4
        (SCALE, 8190, 1.0),
        (SCALE, 8191, 1 + 0.1 * math.log(2)),
        (QueryScale(attn_scale=0.1, floor_scale=8192), 8191, 1.0),  # F228, Ministral 3
        (QueryScale(attn_scale=0.1, floor_scale=8192), 8192, 1 + 0.1 * math.log(2)),
        (SCALE, -1, 1.0),
    ],
)
def test_f228_query_scale_grows_in_steps(scale, position, expected):
    assert scale.at(position) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"attn_scale": float("nan")}, "attn_scale must be a finite number, got nan"),
        ({"attn_scale": "0.1"}, "attn_scale must be"),
        ({"floor_scale": 0}, "floor_scale must be a finite number above 0, got 0"),
        ({"offset": -1}, "offset must be a whole number from 0"),
        ({"offset": True}, "got True"),
    ],
)
def test_a_query_scale_that_is_none_is_refused(change, message):
    with pytest.raises(RopewalkError, match=message):
        QueryScale(**{"attn_scale": 0.1, "floor_scale": 8192, **change})


def test_a_position_before_the_first_step_is_refused():
    with pytest.raises(RopewalkError, match="position must be a finite number of at least -1, got -2"):
        SCALE.at(-2)


# -- JSON


def through_json(value):
    return json.loads(json.dumps(value, allow_nan=False))


def test_json_round_trips_lose_nothing():
    again = Model.from_dict(through_json(model().to_dict()))
    assert again == model()
    assert again.ropes == model().ropes
    for one in (*model().layers, *model().parts["talker"]):
        assert Layer.from_dict(through_json(one.to_dict())) == one
    assert Model.from_dict(through_json(Model(parts={}).to_dict())) == Model(parts={})


@given(
    thetas=st.lists(st.floats(1, 1e9), min_size=1, max_size=4),
    plan=st.lists(st.tuples(st.integers(-1, 3), st.sampled_from([None, "full", "local"]), st.booleans()), max_size=9),
    names=st.lists(st.text(max_size=5), unique=True, max_size=3),
    words=st.dictionaries(st.text(max_size=5), st.text(max_size=5), max_size=3),
)
@settings(max_examples=50)
def test_json_round_trip_of_any_model(thetas, plan, names, words):
    ropes = [LOCAL.replace(rope_theta=theta) for theta in thetas]
    layers = tuple(
        layer([None, *ropes][(n + 1) % (len(ropes) + 1)], kind=kind, output_inverse=flag) for n, kind, flag in plan
    )
    one = Model(parts=dict.fromkeys(names, layers), positions=words, sources=words, findings=(FINDING,) * len(names))
    assert Model.from_dict(through_json(one.to_dict())) == one


def test_descriptions_survive_pickling():
    for value in (model(), VISION, VISION.pairs()):
        assert pickle.loads(pickle.dumps(value)) == value


def test_json_keeps_each_distinct_layer_once():
    parts = model().to_dict()["parts"]
    assert parts["text"]["plan"] == [0, 0, 1, 2, 0]
    assert len(parts["text"]["layers"]) == 3
    nearly = tuple(
        layer(LOCAL, **rest) for rest in ({}, {"query_scale": SCALE}, {"output_inverse": True}, {"kind": ""})
    )
    assert Model(parts={"text": nearly}).to_dict()["parts"]["text"]["plan"] == [0, 1, 2, 3]
    equal = Model(parts={"text": tuple(layer(LOCAL.replace()) for _ in range(50))}).to_dict()["parts"]["text"]
    assert (len(equal["layers"]), equal["plan"]) == (1, [0] * 50)


def test_ten_thousand_distinct_layers_are_packed_in_time():
    layers = tuple(layer(LOCAL, kind=str(n)) for n in range(10_000))
    start = time.perf_counter()
    packed = Model(parts={"text": layers}).to_dict()
    assert time.perf_counter() - start < 3
    assert packed["parts"]["text"]["plan"] == list(range(10_000))


# -- caps and errors


def test_layers_are_capped():
    many = (layer(LOCAL),) * 10_001
    assert len(Model(parts={"text": many[1:]}).layers) == 10_000
    with pytest.raises(RopewalkError, match="part text: layers may hold at most 10000 entries, got 10001"):
        Model(parts={"text": many})
    data = model().to_dict()
    for key, value in (("plan", [0] * 10_001), ("layers", data["parts"]["text"]["layers"] * 4000)):
        changed = {**data, "parts": {"text": {**data["parts"]["text"], key: value}}}
        with pytest.raises(RopewalkError, match=rf"{key} may hold at most 10000 entries, got 1[02]00"):
            Model.from_dict(changed)


def test_the_cap_is_tested_before_anything_is_built():
    data = {**model().to_dict(), "parts": {"text": {"layers": [], "plan": range(10**12)}}}
    tracemalloc.start()
    with pytest.raises(RopewalkError, match="at most 10000 entries, got 1000000000000"):
        Model.from_dict(data)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 200_000


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"ropes": {"attention": "rope"}}, "attention rope must be a Rope, got 'rope'"),
        ({"ropes": [LOCAL]}, "a layer's ropes must be an object with words as keys"),
        ({"ropes": {1: LOCAL}}, "words as keys"),
        ({"ropes": None}, "got None"),
        ({"kind": 3}, "kind must be a word or null, got 3"),
        ({"query_scale": 0.1}, "query_scale must be a QueryScale or None, got 0.1"),
        ({"output_inverse": 1}, "output_inverse must be true or false, got 1"),
    ],
)
def test_what_is_no_layer_is_refused(change, message):
    with pytest.raises(RopewalkError, match=message):
        Layer(**change)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"parts": None}, "parts must be an object"),
        ({"parts": {"text": None}}, "part text: layers must be a list, got None"),
        ({"parts": {"text": (LOCAL,)}}, r"part text must hold Layers, got Rope\("),
        ({"model_type": 3}, "model_type a word or null, got .* and 3"),
        ({"target": None}, "target must be a word"),
        ({"positions": {"text": 1}}, "positions must hold words only"),
        ({"findings": ["RW104"]}, "findings must hold Findings, got 'RW104'"),
        ({"findings": FINDING}, "findings must be a list"),
        ({"sources": []}, "sources must be an object"),
    ],
)
def test_what_is_no_model_is_refused(change, message):
    with pytest.raises(RopewalkError, match=message):
        model(**change)


def test_a_models_own_collections_are_not_the_callers():
    parts = {"text": [layer(LOCAL)]}
    one = Model(parts=parts)
    parts["text"].append("junk")
    parts["vision"] = "junk"
    assert one.parts == {"text": (layer(LOCAL),)}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"schema": None}, "schema 'ropewalk.model/1', got None"),
        ({"schema": "ropewalk.rope/1"}, "got 'ropewalk.rope/1'"),
        ({"layers": []}, "unknown keys 'layers'; known are parts, model_type"),
        ({"parts": []}, r"parts must be an object with words as keys, got \[\]"),
        ({"parts": {"text": []}}, "part text must be an object"),
        ({"parts": {"text": {"plan": []}}}, r"part text must hold layers and plan, got \['plan'\]"),
        ({"parts": {"text": {"layers": [], "plan": [0]}}}, r"plan of 1 layers and no layer to take"),
        ({"parts": {"text": {"layers": [Layer().to_dict()], "plan": [1]}}}, "plan must be a whole number from 0 to 0"),
        ({"parts": {"text": {"layers": [Layer().to_dict()], "plan": [-1]}}}, "got -1"),
        ({"parts": {"text": {"layers": [Layer().to_dict()], "plan": [True]}}}, "got True"),
        (
            {"parts": {"text": {"layers": [{}], "plan": []}}},
            "a layer must have the schema 'ropewalk.layer/1', got None",
        ),
        ({"parts": {"text": {"layers": "ab", "plan": []}}}, "layers must be a list, got 'ab'"),
        ({"findings": [{"code": "RW104"}]}, "a finding lacks name, severity"),
        ({"findings": [{**FINDING.to_dict(), "severity": "fatal"}]}, "severity of error, warning, note"),
        ({"sources": {"a": None}}, "sources must hold words only"),
        ({"target": 3}, "target must be a word"),
    ],
)
def test_what_is_no_description_of_a_model_is_refused(change, message):
    with pytest.raises(RopewalkError, match=message):
        Model.from_dict({**model().to_dict(), **change})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"schema": "ropewalk.layer/2"}, "got 'ropewalk.layer/2'"),
        ({"rope": None}, "unknown keys 'rope'"),
        ({"ropes": {"attention": None}}, "a rope must be an object, got None"),
        ({"ropes": {"attention": {**LOCAL.to_dict(), "head_dim": 65537}}}, "from 2 to 65536, got 65537"),
        ({"ropes": "attention"}, "words as keys, got 'attention'"),
        ({"kind": []}, r"kind must be a word or null, got \[\]"),
        ({"query_scale": {"attn_scale": 0.1}}, "a query_scale lacks floor_scale"),
        ({"query_scale": 5}, "a query_scale must be an object, got 5"),
        ({"output_inverse": "false"}, "output_inverse must be true or false, got 'false'"),
    ],
)
def test_what_is_no_description_of_a_layer_is_refused(change, message):
    with pytest.raises(RopewalkError, match=message):
        Layer.from_dict({**layer(LOCAL).to_dict(), **change})


@pytest.mark.parametrize("data", [None, [], "model", 3, {}, {"schema": "ropewalk.model/1"}])
def test_what_is_no_object_or_lacks_keys_is_refused(data):
    with pytest.raises(RopewalkError):
        Model.from_dict(data)
    with pytest.raises(RopewalkError):
        Layer.from_dict(data)


JSON = st.recursive(
    st.none() | st.booleans() | st.text(max_size=4) | st.integers(-(2**70), 2**70) | st.floats() | st.just(10**400),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=5,
)


@given(data=st.data())
@settings(max_examples=150)
def test_a_mutated_description_is_a_model_or_a_ropewalk_error(data):
    description = through_json(model().to_dict())
    place = description
    while data.draw(st.integers(0, 3)):
        inner = list(place.values()) if isinstance(place, dict) else place
        inner = [value for value in inner if isinstance(value, dict | list) and value]
        if not inner:
            break
        place = data.draw(st.sampled_from(inner))
    key = data.draw(st.sampled_from(list(place) if isinstance(place, dict) else range(len(place))))
    place[key] = data.draw(JSON)
    try:
        again = Model.from_dict(description)
    except RopewalkError as error:
        assert len(str(error)) < 700
        return
    assert Model.from_dict(again.to_dict()) == again
