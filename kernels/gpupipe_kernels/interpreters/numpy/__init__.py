"""Interpreter in blocked, threaded NumPy: the readable reference, without compilation."""
