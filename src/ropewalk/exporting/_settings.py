"""What an export gives."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Settings that run.

    Attributes:
        engine: whose they are.
        version: that they were verified against.
        text: the settings themselves, ending in a line break.
        notes: what else a user should know, the verification first; each a sentence without a full stop.
    """

    engine: str
    version: str
    text: str
    notes: tuple[str, ...]
