"""How inference engines read one configuration: each engine's own rule, resolved to pairs."""

from .reading import EngineGroup, EngineReading, Engines, read_engines
from .rules import ENGINES, Engine

__all__ = ["ENGINES", "Engine", "EngineGroup", "EngineReading", "Engines", "read_engines"]
