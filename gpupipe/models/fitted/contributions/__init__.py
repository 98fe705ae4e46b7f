"""Contributions of matrix columns to predictions: Shapley values, by family of models."""
