"""One row, or a few: the feature program and tree ensembles in the form that answers a single row fastest."""
