"""Batch scoring: a table in, predictions out."""
