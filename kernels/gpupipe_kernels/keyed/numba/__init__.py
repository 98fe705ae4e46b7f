"""Keyed engine in compiled, multithreaded loops on the host."""
