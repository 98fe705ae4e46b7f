"""Linear models: settings, and fitted models that predict without a library."""
