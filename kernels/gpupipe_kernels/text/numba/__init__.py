"""Texts in compiled loops on the threads of the host."""
