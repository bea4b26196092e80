"""A longer context, measured: the loss of a model at each position, and whether it finds a hidden key."""

from .curves import SCHEMA, Curve, Measurement, curves, measure
from .loading import DTYPES, Loaded, load, own_ropes, trained_tokens
from .passkey import Passkey, Trial, passkeys
from .shipped import Shipped, shipped
from .texts import read_tokens

__all__ = [
    "DTYPES",
    "SCHEMA",
    "Curve",
    "Loaded",
    "Measurement",
    "Passkey",
    "Shipped",
    "Trial",
    "curves",
    "load",
    "measure",
    "own_ropes",
    "passkeys",
    "read_tokens",
    "shipped",
    "trained_tokens",
]
