"""Prediction of single rows: a model compiled once, from raw Python values to the answer."""
