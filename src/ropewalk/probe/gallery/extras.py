"""Faults beyond the list."""

EXHIBITS = ()
