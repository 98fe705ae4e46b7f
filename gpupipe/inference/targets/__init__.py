"""What all targets of an export share: the walk of the estimators, refusals, exact splits, comparison with the model."""
