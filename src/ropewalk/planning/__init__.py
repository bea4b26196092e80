"""A longer context, planned: what each way of stretching does to a rope, and which base supports which length."""

from .bases import BaseRule, Bases, base_rules
from .extending import extend, read_bases
from .plan import METHODS, EngineSupport, Leaving, Magnitude, Method, Plan, Recommendation, Refusal, ShortPrompts

__all__ = [
    "METHODS",
    "BaseRule",
    "Bases",
    "EngineSupport",
    "Leaving",
    "Magnitude",
    "Method",
    "Plan",
    "Recommendation",
    "Refusal",
    "ShortPrompts",
    "base_rules",
    "extend",
    "read_bases",
]
