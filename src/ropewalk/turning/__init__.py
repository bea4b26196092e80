"""Turning vectors: the float64 truth, and faster paths that are tested against it."""
