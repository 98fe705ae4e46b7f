"""Ensembles of small models."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from gpupipe.models import MODELS, FitContext, fit
from gpupipe.models.composites.ensemble import EnsembleMember, FittedEnsemble


def fit_member(
    label: str,
    name: str,
    weight: float,
    columns: Sequence[int],
    data: tuple[Any, Any],
    context: FitContext,
    n_models: int = 2,
    **params: Any,
) -> EnsembleMember:
    """Return a member that is trained on some columns of X and y, each model without one of the folds."""
    X, y = np.asfortranarray(data[0][:, list(columns)]), data[1]
    names, sizes = [context.feature_names[column] for column in columns], context.categorical
    categorical = {i: sizes[column] for i, column in enumerate(columns) if column in sizes}
    own = replace(context, feature_names=names, categorical=categorical)
    settings = MODELS.get(name)(**params)
    masks = [np.arange(len(X)) % n_models != fold for fold in range(n_models)] if n_models > 1 else [slice(None)]
    models = tuple(fit(settings, np.asfortranarray(X[mask]), y[mask], own) for mask in masks)
    return EnsembleMember(label, name, weight, tuple(columns), models)


def ensemble_of(members: Sequence[EnsembleMember], context: FitContext) -> FittedEnsemble:
    """Return the ensemble of members that were trained in a context."""
    classes = tuple(range(context.n_classes))
    return FittedEnsemble(tuple(members), context.task, tuple(context.feature_names), context.n_classes, classes)
