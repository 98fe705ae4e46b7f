"""Settings of scikit-learn's estimators, one module per family."""
