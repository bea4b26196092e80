"""What differs between two descriptions: tables of pairs first, then models layer by layer."""

from .groups import Group
from .measured import Measured, Measurement
from .models import Comparison, compare
from .tables import AngleDifference, Factors, PairDifference, PairsComparison, Turn, compare_pairs

__all__ = [
    "AngleDifference",
    "Comparison",
    "Factors",
    "Group",
    "Measured",
    "Measurement",
    "PairDifference",
    "PairsComparison",
    "Turn",
    "compare",
    "compare_pairs",
]
