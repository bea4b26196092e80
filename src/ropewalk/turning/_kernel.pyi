"""The compiled kernel; its source is csrc/module.cpp."""

from typing import Any

class Plan:
    def __init__(self, head_dim: int, axes: int, first: Any, second: Any, column_axis: Any, speeds: Any, /) -> None: ...
    def set_tables(self, fine_cos: Any, fine_sin: Any, coarse_cos: Any, coarse_sin: Any, /) -> None: ...
    @property
    def run_count(self) -> int: ...

openmp: bool

def turn(
    plan: Plan,
    tensors: tuple[Any, ...],
    positions: tuple[Any, ...] | None,
    dtype: int,
    heads_first: bool,
    one_for_all: bool,
    scale: float,
    transpose: bool,
    memory: int,
) -> int: ...
def variants() -> list[str]: ...
def use_variant(name: str, /) -> None: ...
def active_variant() -> str: ...
