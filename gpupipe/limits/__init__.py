"""Limits of a run: memory, time, energy, cost, and early stopping."""
