"""Fitted models, one module per library: what predicts."""
