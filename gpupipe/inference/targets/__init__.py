"""Parts of an export that all targets share: walk of the estimators, refusals, exact splits, comparison."""
