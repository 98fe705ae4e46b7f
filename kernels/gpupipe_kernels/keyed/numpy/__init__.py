"""Keyed engine in NumPy: the readable reference, without compilation."""
