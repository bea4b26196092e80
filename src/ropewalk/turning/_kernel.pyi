"""The compiled kernel; its source is csrc/module.cpp."""

from typing import Any

class Plan:
    def __init__(self, head_dim: int, axes: int, first: Any, second: Any, column_axis: Any, speeds: Any, /) -> None: ...
    def set_tables(self, fine_cos: Any, fine_sin: Any, coarse_cos: Any, coarse_sin: Any, /) -> None: ...
    @property
    def run_count(self) -> int: ...

class Quick:
    def __init__(
        self,
        tensor: type,
        empty_like: Any,
        recording: Any,
        dtypes: tuple[Any, ...],
        position_dtypes: tuple[Any, ...],
        quiet: tuple[Any, ...],
        /,
    ) -> None: ...
    def __call__(
        self,
        plan: Plan,
        q: Any,
        k: Any,
        position_ids: Any,
        heads_first: bool,
        one_for_all: bool,
        dims: int,
        scale: float,
        in_place: bool,
    ) -> tuple[Any, Any] | None: ...

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
