"""Fitted models, one module per library."""
