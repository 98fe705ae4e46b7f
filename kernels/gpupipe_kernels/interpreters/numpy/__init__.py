"""The interpreter in blocked, threaded NumPy: the readable reference, with nothing to compile."""
