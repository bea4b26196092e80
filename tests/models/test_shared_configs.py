"""ropewalk.read against hand-written descriptions of the shared config files.

expected_configs.json was written from the files' keys and the models' own code, without ropewalk, for the files of
every family; its numbers come from the papers' formulas. Its notation, beyond plain values:

* a part name "a|b": either name is right; "parts_optional": parts that may be there and are not looked at;
* "layers": "0-3,7" or "all"; a group without "kind" leaves the kind open; absent "query_scale" means None, absent
  "output_inverse" False, absent "axes", "rotary_start" and "direction" their plain values;
* {"any_of": [...]}: one of these; {"from_config": "a.b"}: what the config file holds at a.b;
* "sources": "default of *" stands for any class.
"""

import dataclasses
import functools
import json
import math
from collections.abc import Mapping
from pathlib import Path

import pytest

import ropewalk

HERE = Path(__file__).resolve()
CONFIGS = HERE.parents[3] / "shared" / "configs"
EXPECTED = json.loads(HERE.with_name("expected_configs.json").read_text(encoding="utf-8"))
PLAIN = {"rotary_start": 0, "direction": 1, "axes": {"kind": "single"}}
RTOL = 1e-12

needs_configs = pytest.mark.skipif(not CONFIGS.is_dir(), reason=f"the shared config files are not there: {CONFIGS}")


@functools.cache
def config_of(name):
    return json.loads((CONFIGS / name).read_text(encoding="utf-8"))


@functools.cache
def model_of(name):
    return ropewalk.read(CONFIGS / name)


def layers_of(spec, count):
    """The layer indices that a string such as "0-3,7" names."""
    if spec == "all":
        return list(range(count))
    spans = (item.split("-") for item in spec.split(","))
    return [index for span in spans for index in range(int(span[0]), int(span[-1]) + 1)]


def plain(value):
    """A value of the model as plain data."""
    if hasattr(value, "to_dict"):
        return value.to_dict()
    if dataclasses.is_dataclass(value):
        return dataclasses.asdict(value)
    return dict(value) if isinstance(value, Mapping) else value


def part_name(spec, model):
    """The first of the accepted names ("a|b") that the model has."""
    names = spec.split("|")
    return next((name for name in names if name in model.parts), names[0])


def differences(seen, right, where, name):
    """One line for each key of `right` that `seen` does not hold; dictionaries are compared by right's keys only."""
    if isinstance(right, dict) and "any_of" in right:
        tries = [list(differences(seen, one, where, name)) for one in right["any_of"]]
        return [] if [] in tries else [f"{where}: seen {seen!r}, right is one of {right['any_of']!r}"]
    if isinstance(right, dict) and "from_config" in right:
        right = functools.reduce(lambda found, key: found[key], right["from_config"].split("."), config_of(name))
    if isinstance(right, dict):
        if not isinstance(seen, dict):
            return [f"{where}: seen {seen!r}, right is {right!r}"]
        lines = [f"{where}.{key}: missing, right is {value!r}" for key, value in right.items() if key not in seen]
        pairs = ((key, value) for key, value in right.items() if key in seen)
        return lines + [line for key, value in pairs for line in differences(seen[key], value, f"{where}.{key}", name)]
    if isinstance(right, list):
        if not isinstance(seen, list | tuple) or len(seen) != len(right):
            return [f"{where}: seen {seen!r}, right is {right!r}"]
        items = enumerate(zip(seen, right, strict=True))
        return [line for i, (one, other) in items for line in differences(one, other, f"{where}[{i}]", name)]
    numbers = all(isinstance(value, int | float) and not isinstance(value, bool) for value in (seen, right))
    same = math.isclose(seen, right, rel_tol=RTOL) if numbers else type(seen) is type(right) and seen == right
    return [] if same else [f"{where}: seen {seen!r}, right is {right!r}"]


def group_differences(layer, group, where, name):
    """What one layer has differently from its group."""
    lines = []
    if "kind" in group:
        lines += differences(layer.kind, group["kind"], f"{where}.kind", name)
    lines += differences(plain(layer.query_scale), group.get("query_scale"), f"{where}.query_scale", name)
    lines += differences(
        bool(layer.output_inverse), group.get("output_inverse", False), f"{where}.output_inverse", name
    )
    if set(layer.ropes) != set(group["ropes"]):
        lines.append(f"{where}.ropes: seen {sorted(layer.ropes)}, right is {sorted(group['ropes'])}")
    for key in set(layer.ropes) & set(group["ropes"]):
        right = {**PLAIN, **group["ropes"][key]}
        lines += differences(plain(layer.ropes[key]), right, f"{where}.ropes[{key!r}]", name)
    return lines


def part_differences(layers, part, where, name):
    """What one part has differently: number of layers, then each layer."""
    lines = differences(len(layers), part["num_layers"], f"{where}.num_layers", name)
    if lines:
        return lines
    for group in part["groups"]:
        for index in layers_of(group["layers"], len(layers)):
            lines += group_differences(layers[index], group, f"{where}[{index}]", name)
    return lines


def check(lines, name):
    """Fail with all differences, the first thirty written out, and the reason for what is expected."""
    entry = EXPECTED[name]
    shown = "\n  ".join(lines[:30]) + (f"\n  … and {len(lines) - 30} more" if len(lines) > 30 else "")
    assert not lines, f"{name}:\n  {shown}\nwhy ({entry['confidence']}): {entry['why']}"


@pytest.mark.parametrize("name", EXPECTED)
def test_expectation_is_whole(name):
    """Each part's groups name every layer once, and a part without rope says what it uses."""
    for spec, part in EXPECTED[name]["parts"].items():
        count = part["num_layers"]
        if isinstance(count, int):
            named = sorted(index for group in part["groups"] for index in layers_of(group["layers"], count))
            assert named == list(range(count)), f"{name}: {spec}"
        assert ("positions" in part) is not any(group["ropes"] for group in part["groups"]), f"{name}: {spec}"


@needs_configs
def test_every_shared_config_has_an_expectation():
    """No JSON file under shared/configs is left out, and none is made up."""
    assert {path.relative_to(CONFIGS).as_posix() for path in CONFIGS.rglob("*.json")} == set(EXPECTED)


@needs_configs
@pytest.mark.parametrize("name", EXPECTED)
def test_parts_and_ropes(name):
    """Parts, layers, kinds, ropes, query scales and output inverses."""
    model, entry = model_of(name), EXPECTED[name]
    wanted = {part_name(spec, model): part for spec, part in entry["parts"].items()}
    extra = set(model.parts) - set(wanted) - set(entry.get("parts_optional", ()))
    lines = [f"{part}: part missing" for part in wanted if part not in model.parts]
    lines += [f"{part}: part not expected" for part in sorted(extra)]
    for part in set(wanted) & set(model.parts):
        lines += part_differences(model.parts[part], wanted[part], part, name)
    check(lines, name)


@needs_configs
@pytest.mark.parametrize("name", EXPECTED)
def test_positions_of_parts_without_rope(name):
    """A part without rope says which positions it uses, and names the right kind."""
    model = model_of(name)
    lines = []
    for spec, part in EXPECTED[name]["parts"].items():
        if "positions" in part:
            key = part_name(spec, model)
            seen = model.positions.get(key)
            word = part["positions"].split()[0].lower()
            if not seen or word not in seen.lower():
                lines.append(f"{key}.positions: seen {seen!r}, right is {part['positions']!r}")
    check(lines, name)


@needs_configs
@pytest.mark.parametrize("name", [name for name, entry in EXPECTED.items() if entry["numbers"]])
def test_numbers(name):
    """Frequencies and factors, float64, by the papers' formulas."""
    model = model_of(name)
    lines = []
    for number in EXPECTED[name]["numbers"]:
        where = f"{number['part']}[{number['layer']}].{number['rope']} at length {number['length']}"
        layers = model.parts.get(number["part"], ())
        if len(layers) <= number["layer"] or number["rope"] not in layers[number["layer"]].ropes:
            lines.append(f"{where}: no such rope")
            continue
        pairs = layers[number["layer"]].ropes[number["rope"]].pairs(number["length"])
        if len(pairs.inv_freq) != number["num_pairs"]:
            lines.append(f"{where}: {len(pairs.inv_freq)} pairs, right is {number['num_pairs']}")
            continue
        for index, right in number["inv_freq"].items():
            seen = float(pairs.inv_freq[-1 if index == "last" else int(index)])
            lines += differences(seen, right, f"{where}: inv_freq[{index}]", name)
        for factor in ("cos_sin_factor", "softmax_factor"):
            lines += differences(float(getattr(pairs, factor)), number[factor], f"{where}: {factor}", name)
    check(lines, name)


@needs_configs
@pytest.mark.parametrize("name", [name for name, entry in EXPECTED.items() if entry["sources"]])
def test_sources(name):
    """Where theta came from."""
    sources = model_of(name).sources
    lines = []
    for key, right in EXPECTED[name]["sources"].items():
        if right == "default of *":
            if not str(sources.get(key)).startswith("default of "):
                lines.append(f"sources[{key!r}]: seen {sources.get(key)!r}, right begins with 'default of '")
        else:
            lines += differences(sources.get(key), right, f"sources[{key!r}]", name)
    check(lines, name)


@needs_configs
@pytest.mark.parametrize("name", EXPECTED)
def test_findings(name):
    """Error findings only where something is wrong, and the findings that the design asks for."""
    findings, entry = model_of(name).findings, EXPECTED[name]
    errors = [finding.message for finding in findings if finding.severity == "error"]
    lines = []
    if bool(errors) is not entry["findings_errors"]:
        lines.append(f"error findings: seen {errors}, right is {'some' if entry['findings_errors'] else 'none'}")
    texts = [f"{finding.code} {finding.name} {finding.where} {finding.message}".lower() for finding in findings]
    lines += [
        f"findings: none speaks of {word!r} (expected: {entry['findings_expected']}); seen {texts}"
        for word in entry["findings_required"]
        if not any(word in text for text in texts)
    ]
    check(lines, name)
