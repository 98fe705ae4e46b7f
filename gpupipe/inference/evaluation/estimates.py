"""Metrics of rows with labels, and estimates for rows without, each tested on earlier rows whose labels have come.

The estimate is the mean of a metric over simulated labels, as in confidence-based performance estimation (NannyML,
"CBPE"; Guillory et al., "Predicting with confidence on unseen distributions", ICCV 2021, compare such estimators).
Labels follow the calibrated outputs of the model, so the estimate moves with the inputs, and assumes that the targets
of rows with equal outputs have not changed. That cannot be seen without labels, only be learned from earlier errors:

- Each earlier period with labels is estimated as it would have been then, from labels that are as many periods older.
  The mean square of the errors, less the variance that sampling explains, is added to the variance of new estimates:
  the larger of that over all periods and over the last two. This is the moment estimate of the variance between
  studies (DerSimonian and Laird, "Meta-analysis in clinical trials", Controlled Clinical Trials 7, 1986).
- If the latest of these errors is larger than chance (at 1 %) and the errors before explain, it has no estimate.
- Without such a period, the variance between the folds of the run is added if it has folds, and the estimate is marked
  as untested.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from gpupipe.inference.drift.label_metrics import (
    LabelledRows,
    MetricError,
    Metrics,
    MetricSettings,
    is_known,
    select_labelled,
)
from gpupipe.inference.evaluation.held_out import HeldOutRows, join_rows
from gpupipe.inference.evaluation.label_models import fit_labels
from gpupipe.metrics.bootstrap import FEWEST_ROWS
from gpupipe.model_parts.goal import Goal
from gpupipe.models import Prediction
from gpupipe.random_streams import make_generator
from gpupipe.typing import Array

COMPLETE = 0.9  # share of labels from which a period is measured: labels that come first may differ from later ones
FEWEST_CALIBRATING, FEWEST_OF_CLASS = 200, 20
ENOUGH_CALIBRATING, ENOUGH_OF_CLASS = 10_000, 1_000  # older rows calibrate only if newer ones are fewer
N_PARAMETERS, N_LABELS = 16, 4  # draws of the parameters, and of labels for each
MOST_SIMULATED = 10_000  # rows; of more, evenly spaced ones, so that the error is not below that of these
MOST_TESTS = 12
Z_99 = 2.575829
N_LAST = 3


@dataclass(frozen=True)
class PeriodRows:
    """Predicted rows of a period.

    `y`, float64, shape (n, n_targets), is NaN where unknown.
    """

    name: str
    predicted: Prediction
    y: Array

    @property
    def known(self) -> Array:
        """Mask of the rows whose targets are all known, bool, shape (n,)."""
        return is_known(self.y)

    @property
    def is_complete(self) -> bool:
        """True if nearly all labels are known, and enough for a metric."""
        return bool(self.known.mean() >= COMPLETE and self.known.sum() >= FEWEST_ROWS) if len(self.y) else False

    def labelled(self, goal: Goal) -> LabelledRows:
        """Return the rows whose targets are known."""
        return select_labelled(self.y, 0, self.predicted, goal)


def estimate_metrics(settings: MetricSettings, predicted: Prediction, calibrating: HeldOutRows) -> Metrics:
    """Return the expected metrics of rows without labels; the errors have sampling and calibration in them."""
    n, goal = len(predicted.output), settings.goal
    rows = np.unique(np.linspace(0, n - 1, min(n, MOST_SIMULATED)).astype(np.int64))
    shown = predicted.mapped(lambda array: array[rows])
    known = predicted.with_arrays({name: calibrating.output for name in predicted.arrays})
    parts = zip(_parts(shown, goal), _parts(known, goal), goal.each, strict=True)
    y = calibrating.y.reshape(len(calibrating.y), -1).T
    models = [
        (fit_labels(HeldOutRows(given.output, own), each), part.output)
        for own, (part, given, each) in zip(y, parts, strict=True)
    ]
    generator = make_generator(0, "labels of rows")
    draws: dict[str, list[float]] = {}
    for _ in range(N_PARAMETERS):
        drawn = [model.draw(output, generator) for model, output in models]
        for _ in range(N_LABELS):
            labels = np.stack([draw(generator) for draw in drawn], axis=1)
            simulated = LabelledRows(labels if goal.targets else labels[:, 0], shown, is_known(labels), 0)
            score = settings.scorer(simulated)
            for name, value in score(np.arange(len(rows))).items():
                draws.setdefault(name, []).append(value)
    spreads = {name: np.reshape(each, (N_PARAMETERS, N_LABELS)) for name, each in draws.items()}
    return {name: _expect(each) for name, each in spreads.items() if np.isfinite(each).all()}


def _parts(predicted: Prediction, goal: Goal) -> Sequence[Prediction]:
    return predicted.parts if goal.targets else (predicted,)


def _expect(draws: Array) -> MetricError:
    """Return the mean of draws and its error: the variance of the labels, and that of the parameters between rows."""
    within = float(draws.var(axis=1, ddof=1).mean())
    between = max(0.0, float(draws.mean(axis=1).var(ddof=1)) - within / draws.shape[1])
    return MetricError(float(draws.mean()), math.sqrt(within + between))


@dataclass(frozen=True)
class PeriodEstimate:
    """Estimated metrics of a period, and why others, or all, are not estimated.

    `n_tests` is the number of earlier periods on which the estimates were tested.
    """

    metrics: Metrics = field(default_factory=dict)
    reasons: Mapping[str, str] = field(default_factory=dict)
    n_tests: int = 0
    reason: str = ""


class LabelEstimator:
    """Estimator of the metrics of periods without labels, in the order of time.

    `recorded` are the held-out rows of the run, older than every period; `folds` has the standard deviation of each
    metric between the folds of the run.
    """

    def __init__(
        self,
        settings: MetricSettings,
        periods: Sequence[PeriodRows],
        measured: Mapping[int, Metrics],
        recorded: HeldOutRows | None,
        folds: Mapping[str, float],
    ) -> None:
        self.settings, self.periods = settings, periods
        self.measured, self.recorded = measured, recorded
        self.folds = folds
        self._estimates: dict[tuple[int, int], Metrics | None] = {}

    def estimate(self, at: int) -> PeriodEstimate:
        """Return the estimate of the period at a position."""
        newest = max((i for i in self.measured if i < at), default=-1)
        found = self._estimate(at, newest)
        if found is None:
            classes = f", or {FEWEST_OF_CLASS} of each class," if self.settings.goal.task == "binary" else ""
            what = f"fewer than {FEWEST_CALIBRATING} rows{classes} with labels"
            return PeriodEstimate(reason=f"the model and the periods before have {what}")
        # As many periods older, rounded up to a power of 2, so that few distances are tested.
        distance = 2 ** math.ceil(math.log2(at - newest)) if newest >= 0 else 0
        tests: list[int] = []
        if distance:
            each = [i for i in self.measured if i < at and self._estimate(i, i - distance) is not None]
            tests = each[-MOST_TESTS:]
        metrics: dict[str, MetricError] = {}
        reasons: dict[str, str] = {}
        for name, own in found.items():
            pairs = [(i, (self._estimate(i, i - distance) or {}).get(name)) for i in tests]
            known = [(i, then) for i, then in pairs if then is not None and name in self.measured[i]]
            if known:
                errors = np.array([then.value - self.measured[i][name].value for i, then in known])
                variances = np.array([then.error**2 for _, then in known])
                if is_surprising(errors, variances):
                    last, then = known[-1]
                    real = self.measured[last][name].value
                    reasons[name] = f"was {real:.4g} in {self.periods[last].name}, estimated as {then.value:.4g}"
                    continue
                metrics[name] = replace(own, error=math.sqrt(own.error**2 + excess_variance(errors, variances)))
            else:
                metrics[name] = replace(own, error=math.hypot(own.error, self.folds.get(name, 0.0)))
        return PeriodEstimate(metrics, reasons, len(tests))

    def _estimate(self, at: int, newest: int) -> Metrics | None:
        """Return the metrics of a period, estimated by labels up to the period `newest`; None if these are too few."""
        if (at, newest) not in self._estimates:
            rows = self._calibrating(newest)
            found = None if rows is None else estimate_metrics(self.settings, self.periods[at].predicted, rows)
            self._estimates[at, newest] = found
        return self._estimates[at, newest]

    def _calibrating(self, newest: int) -> HeldOutRows | None:
        """Return the latest labelled rows up to a period; None if there are too few."""
        parts: list[HeldOutRows] = []
        for i in sorted((i for i in self.measured if i <= newest), reverse=True):
            rows = self.periods[i].labelled(self.settings.goal)
            parts.append(HeldOutRows(rows.predicted.output, np.asarray(rows.y)).sample(ENOUGH_CALIBRATING))
            if self._has(parts, ENOUGH_CALIBRATING, ENOUGH_OF_CLASS):
                return join_rows(parts)
        if self.recorded is not None:
            parts.append(self.recorded)
        return join_rows(parts) if self._has(parts, FEWEST_CALIBRATING, FEWEST_OF_CLASS) else None

    def _has(self, parts: Sequence[HeldOutRows], n_rows: int, n_of_class: int) -> bool:
        """Return whether there are enough rows, and for two classes enough of each."""
        n = sum(len(part.y) for part in parts)
        if n < n_rows or self.settings.goal.task != "binary":
            return n >= n_rows
        positive = sum(int(part.y.sum()) for part in parts)
        return min(positive, n - positive) >= n_of_class


def excess_variance(errors: Array, variances: Array) -> float:
    """Return an upper bound of the variance of errors that `variances` do not explain, over all or the last two errors.

    The bound is one standard error above the moment estimate, which is zero at least.

    >>> round(excess_variance(np.array([0.0, 0.0, 3.0, 3.0]), np.array([1.0, 1.0, 1.0, 1.0])), 3)
    9.0
    """
    excess, found = errors**2 - variances, 0.0
    for n in (len(errors), min(2, len(errors))):
        found = max(found, float(excess[-n:].mean() + math.sqrt(2 / n) * variances[-n:].mean()))
    return found


def is_surprising(errors: Array, variances: Array) -> bool:
    """Return whether the last error, or the sum of the last two or three, is more than chance and the errors before.

    >>> is_surprising(np.array([0.1, -0.1, 5.0]), np.ones(3)), is_surprising(np.array([5.0, -5.0, 5.0]), np.ones(3))
    (True, False)
    """
    for n in range(1, max(1, min(N_LAST, len(errors) - 1)) + 1):
        earlier = errors[:-n] ** 2 - variances[:-n]
        before = max(0.0, float(earlier.mean())) if len(earlier) else 0.0
        if abs(errors[-n:].sum()) > Z_99 * math.sqrt(variances[-n:].sum() + n * before):
            return True
    return False


def expected_calibration_error(probability: Array, is_right: Array, n_bins: int = 15) -> float:
    """Return the mean distance of mean probability and observed rate over bins of equal size.

    Naeini, Cooper and Hauskrecht, "Obtaining well calibrated probabilities using Bayesian binning", AAAI 2015; bins of
    equal size: Nguyen and O'Connor, "Posterior calibration and exploratory analysis for NLP models", EMNLP 2015.

    - `probability` (array of float64, shape (n,)): of class 1, or of the predicted class
    - `is_right` (array of bool, shape (n,)): whether the row belongs to that class

    >>> round(expected_calibration_error(np.array([0.2, 0.4, 0.8]), np.array([False, False, True]), n_bins=1), 3)
    0.133
    """
    order = np.argsort(probability, kind="stable")
    gaps = probability[order] - is_right[order]
    return float(sum(abs(each.sum()) for each in np.array_split(gaps, min(n_bins, len(gaps)))) / len(gaps))
