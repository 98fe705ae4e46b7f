"""Notes about trainings that did not converge, instead of scikit-learn's warnings."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from gpupipe.errors import ConfigError
from gpupipe.models.base import MODELS, ModelSettings
from gpupipe.names import count_noun
from gpupipe.user_warnings import WarningNote


@contextmanager
def convergence_noted(model: ModelSettings, params: Mapping[str, Any]) -> Iterator[list[str]]:
    """Collect a note if the training in the ``with`` block does not converge; other warnings are issued after it."""
    from sklearn.exceptions import ConvergenceWarning

    notes: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ConvergenceWarning)
        yield notes
    for warning in caught:
        if not issubclass(warning.category, ConvergenceWarning):
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
