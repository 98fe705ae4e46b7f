"""LightGBM: settings, files, fitted models."""
