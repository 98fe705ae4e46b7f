"""Reductions in NumPy: the readable reference, without compilation."""
