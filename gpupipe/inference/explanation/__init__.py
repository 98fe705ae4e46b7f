"""Explanations: why a model predicts what it predicts, by input column."""
