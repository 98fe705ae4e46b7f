"""Predictions of tables: sources, rows, batches and their results."""
