"""Interpreters of feature programs: in NumPy, compiled for the host, and compiled for the device."""
