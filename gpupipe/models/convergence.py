"""Notes about trainings that did not converge, instead of warnings."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from gpupipe.errors import ConfigError
from gpupipe.models.base import MODELS, ModelSettings
from gpupipe.names import count_noun
from gpupipe.user_warnings import WarningNote


class NotConverged(UserWarning):
    """Warning of gpupipe's own solvers that a training did not converge; the user gets a note instead."""


@contextmanager
def convergence_noted(model: ModelSettings, params: Mapping[str, Any]) -> Iterator[list[str]]:
    """Collect a note if the training in the ``with`` block does not converge; other warnings are issued after it.

    scikit-learn's warnings are recognized if it is loaded: build its estimator first.
    """
    categories: tuple[type[Warning], ...] = (NotConverged,)
    if (loaded := sys.modules.get("sklearn.exceptions")) is not None:
        categories += (loaded.ConvergenceWarning,)
    notes: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        for category in categories:
            warnings.simplefilter("always", category)
        yield notes
    for warning in caught:
        if not issubclass(warning.category, categories):
            warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)
        elif not notes:
            steps = f" in {count_noun(params['max_iter'], 'iteration')}" if params.get("max_iter") else ""
            what = f"{_name(model)} did not converge{steps}: raise max_iter, or scale or drop features"
            notes.append(WarningNote(what))


def _name(model: ModelSettings) -> str:
    """Return the name of a model in a configuration, or that of the class of a custom estimator."""
    try:
        return MODELS.name_of(type(model))
    except ConfigError:
        return type(model).__name__
