"""CatBoost: settings, files, fitted models."""
