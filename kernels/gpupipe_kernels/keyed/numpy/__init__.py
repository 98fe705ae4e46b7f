"""The keyed engine in NumPy: the readable reference, with nothing to compile."""
