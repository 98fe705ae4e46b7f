"""Contributions of several models: one after the other, or as a weighted sum."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from gpupipe.backends import machine
from gpupipe.models.contributions.base import Contributions, Explainer, Method
from gpupipe.models.fitted.base import class_probability, logistic
from gpupipe.tasks import CLASSIFICATION

if TYPE_CHECKING:
    from gpupipe.models.composites.ensemble import EnsembleMember, FittedEnsemble
    from gpupipe.models.fitted.base import FittedModel
    from gpupipe.typing import HostArray

N_POINTS = 64  # of the quadrature between the base and the margins of several classes


class PartsExplainer(Explainer):
    """Margins of several models over the same matrix, such as one per quantile, one after the other."""

    def __init__(self, parts: Sequence[Explainer]) -> None:
        self._parts = parts

    @property
    def method(self) -> Method:
        """The method of the models, or "weighted sum" if it differs."""
        methods = {part.method for part in self._parts}
        return methods.pop() if len(methods) == 1 else "weighted sum"

    @property
    def row_seconds(self) -> float:
        return sum(part.row_seconds for part in self._parts)

    def contributions(self, X: HostArray) -> Contributions:
        found = [part.contributions(X) for part in self._parts]
        values = np.concatenate([each.values for each in found], axis=1)
        return replace(found[0], values=values, base=np.concatenate([each.base for each in found]))

    def interactions(self, X: HostArray) -> HostArray:
        return np.concatenate([part.interactions(X) for part in self._parts], axis=1)


class ScaledExplainer(Explainer):
    """Margins of a model in other units: ``offset + unit * margin``, with float64 arrays of shape (n_margins,)."""

    def __init__(self, model: Explainer, offset: HostArray, unit: HostArray) -> None:
        self._model = model
        self._offset = offset
        self._unit = unit

    @property
    def method(self) -> Method:
        """The method of the model."""
        return self._model.method

    @property
    def row_seconds(self) -> float:
        return self._model.row_seconds

    def contributions(self, X: HostArray) -> Contributions:
        found = self._model.contributions(X)
        return replace(found, values=found.values * self._unit[:, None], base=found.base * self._unit + self._offset)

    def interactions(self, X: HostArray) -> HostArray:
        return np.asarray(self._model.interactions(X) * self._unit[:, None, None])


class EnsembleExplainer(Explainer):
    """Weighted sum of the contributions of the members of an ensemble.

    An ensemble averages probabilities, or values. Contributions to log-odds or to the log of a value are therefore
    first converted by `to_outputs`, and the margins are the outputs of the ensemble. The ensemble is on the host;
    `background` is as in `FittedModel.explainer`.
    """

    method: Method = "weighted sum"

    def __init__(self, ensemble: FittedEnsemble, background: Callable[[], HostArray]) -> None:
        self._ensemble = ensemble

        def explain(member: EnsembleMember, model: FittedModel) -> Explainer:
            return model.explainer(lambda: np.asarray(member.select(background())))

        members, models = zip(*ensemble.terms, strict=True)
        with ThreadPoolExecutor(machine.n_threads()) as pool:  # the trees of a forest take long to arrange
            self._members = list(zip(members, models, pool.map(explain, members, models), strict=True))

    @property
    def row_seconds(self) -> float:
        return sum(explainer.row_seconds for _, _, explainer in self._members)

    def contributions(self, X: HostArray) -> Contributions:
        ensemble = self._ensemble
        is_classifier = ensemble.task in CLASSIFICATION
        n_margins = ensemble.n_classes if ensemble.task == "multiclass" else 1
        values, base = np.zeros((len(X), n_margins, X.shape[1])), np.zeros(n_margins)
        for member, model, explainer in self._members:
            own = to_outputs(explainer.contributions(np.asarray(member.select(X))))
            margins = list(model.classes) if ensemble.task == "multiclass" else [0]
            columns = np.asarray(member.columns)
            values[:, np.asarray(margins)[:, None], columns] += member.weight_of_model * own.values
            base[margins] += member.weight_of_model * own.base
        return Contributions(values, base, "probability" if is_classifier else "score")


def to_outputs(found: Contributions) -> Contributions:
    """Return contributions to probabilities from those to log-odds, or to values from those to their logarithm.

    The change of the output from the base to a row is divided in proportion to the contributions to its margin. With
    several classes, each margin counts by the mean derivative of the probability on the straight line from the base to
    the row (the Aumann-Shapley value of the transform; for one margin, the rescale rule of Shrikumar, Greenside and
    Kundaje, "Learning important features through propagating activation differences", ICML 2017, and of Chen, Lundberg
    and Lee, "Explaining a series of models by propagating Shapley values", Nature Communications 13 (2022) 4512).
    """
    values = found.values
    base = found.base
    margins = found.margins
    if found.scale in ("probability", "score"):
        return found
    if found.scale == "log of the value":
        return Contributions(values * _slope(np.exp, base, margins)[:, :, None], np.exp(base), "score")
    if values.shape[1] == 1:
        slope = _slope(_probability, base, margins)
        return Contributions(values * slope[:, :, None], _probability(base), "probability")
    derivatives = _mean_derivatives(base, margins)
    outputs = np.einsum("nck,nkd->ncd", derivatives, values, optimize=True)
    return Contributions(outputs, np.asarray(class_probability(base[None]))[0], "probability")


def _probability(score: HostArray) -> HostArray:
    return np.asarray(logistic(score))


def _slope(output: Callable[[HostArray], HostArray], base: HostArray, margins: HostArray) -> HostArray:
    """Return the change of an output per change of its margin, float64, shape (n, n_margins)."""
    change = margins - base
    near = np.abs(change) < 1e-9  # where rounding would decide
    middle = base + change / 2.0
    derivative = (output(middle + 1e-4) - output(middle - 1e-4)) / 2e-4
    slope: HostArray = np.where(near, derivative, (output(margins) - output(base)) / np.where(near, 1.0, change))
    return slope


def _mean_derivatives(base: HostArray, margins: HostArray) -> HostArray:
    """Return the mean derivative of each probability by each margin, shape (n, n_classes, n_classes)."""
    points, weights = np.polynomial.legendre.leggauss(N_POINTS)
    n_classes = len(base)
    total = np.zeros((len(margins), n_classes, n_classes))
    diagonal = np.arange(n_classes)
    for point, weight in zip((points + 1.0) / 2.0, weights / 2.0, strict=True):
        share = class_probability(base + point * (margins - base))
        total -= weight * share[:, :, None] * share[:, None, :]
        total[:, diagonal, diagonal] += weight * share
    return total
