"""Signed models, their provenance and bill of materials, and the repetition of a run that compares every file."""
