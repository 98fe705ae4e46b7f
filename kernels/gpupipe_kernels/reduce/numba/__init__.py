"""Reductions in compiled loops on the host."""
