"""Contributions of columns to a prediction: exact for trees, by permutations for any model."""
