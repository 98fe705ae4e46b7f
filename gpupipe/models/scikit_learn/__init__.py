"""scikit-learn's estimators: files that are checked, and fitted models."""
