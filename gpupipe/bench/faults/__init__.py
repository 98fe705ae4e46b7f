"""Runs to which something happens: ``python -m gpupipe.bench.faults``."""
