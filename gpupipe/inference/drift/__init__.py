"""Drift of tables and scores relative to the training rows of a model."""
