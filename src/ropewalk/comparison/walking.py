"""The layers of two models, side by side."""

from collections.abc import Iterator

from ..models.model import Layer

Layers = tuple[Layer, ...]


def meeting(a: Layers, b: Layers) -> Iterator[tuple[int, Layer, Layer]]:
    """Give the layers that stand side by side.

    A side whose layers are all alike has as many as the other; where layers differ in kind on both sides, those that
    the other side lacks are left out. A side without layers has as many as the other, without RoPE.
    """
    alike = (uniform(a), uniform(b))
    count = min(len(a), len(b)) or max(len(a), len(b))
    if alike[0] != alike[1] and a and b:
        count = len(b) if alike[0] else len(a)
    for number in range(count):
        yield number, _at(a, number, alike[0]), _at(b, number, alike[1])


def uniform(layers: Layers) -> bool:
    """Say whether there are layers, and all are alike."""
    return len({(tuple(layer.ropes.items()), layer.query_scale, layer.output_inverse) for layer in layers}) == 1


def _at(layers: Layers, number: int, alike: bool) -> Layer:
    if alike:
        return layers[0]
    return layers[number] if number < len(layers) else Layer()
