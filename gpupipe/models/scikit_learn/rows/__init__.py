"""Predictions of scikit-learn's estimators in a fixed order, for batches and for single rows."""
