"""Fitted models that consist of other models, and their files."""
