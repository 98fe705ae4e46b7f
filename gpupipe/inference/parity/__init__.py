"""Parity between training and serving: rows recorded in the model, and replayed wherever it is loaded."""
