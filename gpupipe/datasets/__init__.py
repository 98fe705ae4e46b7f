"""Generators of synthetic datasets."""
