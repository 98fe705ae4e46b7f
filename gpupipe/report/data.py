"""What a report shows, as plain values: the pipeline fills these in, `gpupipe.report.render` draws them.

Sequences may be lists, tuples or NumPy arrays. None and NaN are shown as a dash.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Numbers = Sequence[float]


@dataclass(frozen=True, kw_only=True)
class LeaderboardRow:
    """One model of the leaderboard.

    Attributes
    ----------
    model : str
    metrics : mapping of str to float
        On the test split, or the mean over the folds, beside ``METRIC_std``.
    validation : mapping of str to float
        The same on the validation split, where there is one.
    best : bool
        Whether this is the exported model.
    seconds : float, optional
        Wall seconds to train it.
    """

    model: str
    metrics: Mapping[str, float | None]
    validation: Mapping[str, float | None] = field(default_factory=dict)
    best: bool = False
    seconds: float | None = None


@dataclass(frozen=True, kw_only=True)
class Curve:
    """Points to be joined; `label` is for the legend where there are several (the class, one against the rest)."""

    x: Numbers
    y: Numbers
    label: str = ""


@dataclass(frozen=True, kw_only=True)
class Confusion:
    """Counts of test rows: ``counts[i][j]`` rows of class ``labels[i]`` were predicted to be ``labels[j]``."""

    labels: Sequence[str]
    counts: Sequence[Sequence[int]]


@dataclass(frozen=True, kw_only=True)
class Classification:
    """How the best model classifies the test rows.

    Attributes
    ----------
    roc : sequence of Curve
        x: false positive rate, y: true positive rate.
    precision_recall : sequence of Curve
        x: recall, y: precision.
    calibration : sequence of Curve
        x: mean predicted probability of a bin, y: fraction of positives in it.
    prevalence : float, optional
        Fraction of positives in the test rows (binary only): the precision of guessing.
    positive : str, optional
        The level that counts as positive.
    threshold : float, optional
        Probability from which a row is predicted to be positive.
    threshold_rule : str
        How it was chosen: ``"best_f1"``.
    fold_thresholds : sequence of float
        Under cross-validation, where each fold's rows are judged by a threshold that the other folds choose.
    confusion : Confusion, optional
        At that threshold, or at those of the folds.
    """

    roc: Sequence[Curve] = ()
    precision_recall: Sequence[Curve] = ()
    calibration: Sequence[Curve] = ()
    prevalence: float | None = None
    positive: str | None = None
    threshold: float | None = None
    threshold_rule: str = ""
    fold_thresholds: Sequence[float] = ()
    confusion: Confusion | None = None


@dataclass(frozen=True, kw_only=True)
class Regression:
    """How the best model predicts the test rows; a sample of them is enough (800 are drawn).

    Attributes
    ----------
    y_true, y_pred : sequence of float, same length
    residual_edges : sequence of float, length bins + 1
        Edges of the histogram of ``y_true - y_pred`` over all test rows.
    residual_counts : sequence of int, length bins
    """

    y_true: Numbers
    y_pred: Numbers
    residual_edges: Numbers
    residual_counts: Sequence[int]


@dataclass(frozen=True, kw_only=True)
class ImportanceRow:
    """How much one input column matters to the best model: mean and spread over the repetitions, most first."""

    name: str
    mean: float
    std: float | None = None


@dataclass(frozen=True, kw_only=True)
class ColumnQuality:
    """One column of the source as it was read.

    Attributes
    ----------
    name, kind, dtype : str
        As in the schema; `kind` may also be ``"target"`` or ``"dropped"``.
    null_fraction : float
        0 to 1.
    distinct : int, optional
    minimum, mean, maximum : float or str, optional
        Numbers; times as text.
    top : str, optional
        The most frequent level.
    top_fraction : float, optional
        Its share of the rows that are not null, 0 to 1.
    notes : sequence of str
        What the reader should know: ``"constant"``, ``"11 nulls imputed"``.
    """

    name: str
    kind: str
    dtype: str
    null_fraction: float
    distinct: int | None = None
    minimum: float | str | None = None
    mean: float | str | None = None
    maximum: float | str | None = None
    top: str | None = None
    top_fraction: float | None = None
    notes: Sequence[str] = ()


@dataclass(frozen=True, kw_only=True)
class Lineage:
    """Where one column of the feature matrix comes from."""

    output: str
    inputs: Sequence[str]
    op: str


@dataclass(frozen=True, kw_only=True)
class ReportData:
    """Everything on the page.

    Attributes
    ----------
    name : str
        Of the run.
    created : str
        When the run began, as it should be read: ``"2026-03-14 09:26 UTC"``.
    seconds : float
        Wall seconds of the whole run.
    device, device_reason : str
        Where it ran, and why there.
    task : str
        ``"binary"``, ``"multiclass"``, ``"regression"``…
    target : str, optional
    metric : str
        The headline metric: a key of each row's `metrics`.
    higher_is_better : bool
        Of that metric.
    evaluated_on : str
        What the metrics were measured on: ``"test split"``, ``"mean over 5 folds"``.
    rows_train, rows_test : int
        Under cross-validation, all rows and 0.
    n_features : int
        Columns of the feature matrix that the best model saw.
    leaderboard : sequence of LeaderboardRow
        In the order to be shown; exactly one is the best.
    classification, regression : optional
        At most one of them.
    selection : mapping of str to float
        Under cross-validation with several models: metrics of each fold's rows by the model that the other folds rank
        first. The best model's own mean is too good by chance, since the same rows have chosen it.
    losses : sequence of Curve
        Of the best model's training, by epoch; empty where it has no epochs.
    importances : sequence of ImportanceRow
    importance_note : str
        How they were measured: ``"drop in roc_auc when the column is shuffled, 5 times"``.
    columns : sequence of ColumnQuality
    lineage : sequence of Lineage
    stages : sequence of mapping
        ``timeline.to_json()["stages"]``.
    limits : sequence of mapping
        ``timeline.to_json()["limits"]``.
    notes, warnings : sequence of str
    config : str
        The resolved configuration, YAML.
    versions : mapping of str to str
        Library name to version.
    """

    name: str
    created: str
    seconds: float
    device: str
    device_reason: str
    task: str
    metric: str
    leaderboard: Sequence[LeaderboardRow]
    rows_train: int
    rows_test: int
    n_features: int
    target: str | None = None
    higher_is_better: bool = True
    evaluated_on: str = "test split"
    classification: Classification | None = None
    regression: Regression | None = None
    selection: Mapping[str, float] = field(default_factory=dict)
    losses: Sequence[Curve] = ()
    importances: Sequence[ImportanceRow] = ()
    importance_note: str = ""
    columns: Sequence[ColumnQuality] = ()
    lineage: Sequence[Lineage] = ()
    stages: Sequence[Mapping[str, Any]] = ()
    limits: Sequence[Mapping[str, Any]] = ()
    notes: Sequence[str] = ()
    warnings: Sequence[str] = ()
    config: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)

    @property
    def best(self) -> LeaderboardRow:
        """The row of the exported model."""
        return next((row for row in self.leaderboard if row.best), self.leaderboard[0])
