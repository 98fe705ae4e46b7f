"""Data classes of a report: the pipeline fills them in, `gpupipe.report.render` draws them.

Sequences may be lists, tuples or NumPy arrays. None and NaN are shown as a dash.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from gpupipe.report.contributions import TargetContributions
from gpupipe.report.generated_features import GeneratedFeatures
from gpupipe.report.intervals import IntervalCoverage
from gpupipe.report.search_record import SearchRecord
from gpupipe.report.slices import MetricSlice
from gpupipe.report.tried_counts import TriedCounts

if TYPE_CHECKING:
    from gpupipe.metrics import ColumnImportance, CutoffNdcg, QuantileLoss, Residuals, TopRows

Numbers = Sequence[float]


@dataclass(frozen=True, kw_only=True)
class LeaderboardRow:
    """One model of the leaderboard.

    Attributes
    ----------
    metrics : mapping of str to float
        On the test split, or the mean over the folds and its standard deviation, ``METRIC_std``.
    validation : mapping of str to float
        The same on the validation split, where there is one.
    best : bool
        Whether this is the exported model.
    seconds : float, optional
        Wall seconds to train it.
    p50_seconds, p99_seconds, limit_seconds : float, optional
        Latency of one row, and its limit; set if it was measured.
    search : SearchRecord, optional
        The models that an ensemble or tuning tried.
    folds : sequence of mapping of str to float
        Under cross-validation, the metrics of each fold.
    tuned_yaml : str
        For tuning: a ``models:`` section with the best parameters, as YAML.
    """

    model: str
    metrics: Mapping[str, float | None]
    validation: Mapping[str, float | None] = field(default_factory=dict)
    best: bool = False
    seconds: float | None = None
    p50_seconds: float | None = None
    p99_seconds: float | None = None
    limit_seconds: float | None = None
    search: SearchRecord | None = None
    folds: Sequence[Mapping[str, float]] = ()
    tuned_yaml: str = ""

    @property
    def is_over_limit(self) -> bool:
        """True if the p99 latency exceeds its limit."""
        p99, limit = self.p99_seconds, self.limit_seconds
        return p99 is not None and limit is not None and p99 > limit


@dataclass(frozen=True, kw_only=True)
class Curve:
    """Points of a line. Where a plot has several, `label` names the class in its legend."""

    x: Numbers
    y: Numbers
    label: str = ""


@dataclass(frozen=True, kw_only=True)
class Confusion:
    """Numbers of test rows, or their weights: ``counts[i][j]`` of class ``labels[i]`` were predicted ``labels[j]``."""

    labels: Sequence[str]
    counts: Sequence[Sequence[float]]


@dataclass(frozen=True, kw_only=True)
class Classification:
    """Classification of the test rows by the best model.

    Attributes
    ----------
    roc : sequence of Curve
        x: false positive rate, y: true positive rate.
    precision_recall : sequence of Curve
        x: recall, y: precision.
    calibration : sequence of Curve
        x: mean predicted probability of a bin, y: fraction of positives in it.
    gains : sequence of Curve
        x: fraction of the rows, highest probability first, y: fraction of the class among them.
    headline : TopRows, optional
        Binary only: a round number of rows, for the sentence at the top of the page.
    top : sequence of TopRows
        Binary only: the rows of the table of gains.
    prevalence : float, optional
        Fraction of positives in the test rows (binary only): the precision of guessing.
    positive : str, optional
        The level that counts as positive.
    threshold : float, optional
        Probability from which a row is predicted to be positive.
    threshold_rule : str
        Rule that chose it, such as ``"best_f1"``; "" for a fixed threshold.
    fold_thresholds : sequence of float
        Under cross-validation, where the rows of each fold use a threshold chosen on the other folds.
    confusion : Confusion, optional
        At that threshold, or at those of the folds.
    """

    roc: Sequence[Curve] = ()
    precision_recall: Sequence[Curve] = ()
    calibration: Sequence[Curve] = ()
    gains: Sequence[Curve] = ()
    headline: TopRows | None = None
    top: Sequence[TopRows] = ()
    prevalence: float | None = None
    positive: str | None = None
    threshold: float | None = None
    threshold_rule: str = ""
    fold_thresholds: Sequence[float] = ()
    confusion: Confusion | None = None


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
        Its fraction of the rows that are not null, 0 to 1.
    notes : sequence of str
        For the reader: ``"constant"``, ``"11 nulls imputed"``.
    bars : sequence of float
        Relative heights: of a histogram of the values, or of the most frequent levels.
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
    bars: Sequence[float] = ()


@dataclass(frozen=True, kw_only=True)
class Lineage:
    """The input columns of one column of the feature matrix."""

    output: str
    inputs: Sequence[str]
    op: str


@dataclass(frozen=True, kw_only=True)
class TargetReport:
    """The predictions of one target by the best model.

    Attributes
    ----------
    target : str, optional
    classification, regression : optional
        At most one of them.
    intervals : IntervalCoverage, optional
    """

    target: str | None
    task: str
    classification: Classification | None = None
    regression: Residuals | None = None
    quantiles: Sequence[QuantileLoss] = ()
    ndcg: Sequence[CutoffNdcg] = ()
    intervals: IntervalCoverage | None = None


@dataclass(frozen=True, kw_only=True)
class ReportData:
    """All contents of the page.

    Attributes
    ----------
    name : str
        Of the run.
    created : str
        Start of the run, as text: ``"2026-03-14 09:26 UTC"``.
    seconds : float
        Wall seconds of the whole run.
    device, device_reason : str
        ``"cpu"`` or ``"gpu"``, and the reason for that choice.
    task : str
        ``"binary"``, ``"multiclass"``, ``"regression"``…
    target : str, optional
        The target column; of several targets, all of them as text.
    metric : str
        The headline metric: a key of each row's `metrics`.
    higher_is_better : bool
        Whether higher values of that metric are better.
    evaluated_on : str
        The rows that the metrics were measured on: ``"test split"``, ``"mean over 5 folds"``.
    weight : str, optional
        Column with the weights of the rows.
    rows_train, rows_test : int
        Under cross-validation, all rows and 0.
    n_features : int
        Columns of the feature matrix of the best model.
    n_inputs : int, optional
        Input columns that these are made of, those of further tables included.
    leaderboard : sequence of LeaderboardRow
        In the order to be shown; exactly one is the best.
    classification, regression : optional
        At most one of them; none with several targets.
    quantiles : sequence of QuantileLoss
        Quantile regression only: each predicted quantile, lowest first.
    ndcg : sequence of CutoffNdcg
        Ranking only: the first rows of the groups, fewest first.
    targets : sequence of TargetReport
        Several targets only: the predictions of each.
    selection : mapping of str to float
        Under cross-validation with several models: metrics of each fold's rows by the model that the other folds rank
        first. The mean of the best model itself is optimistic, since the same rows have selected it.
    intervals : IntervalCoverage, optional
        Measured coverage of prediction intervals or sets.
    tried : TriedCounts
        Number of alternatives that were compared.
    generated : GeneratedFeatures, optional
        The features of the op ``generate`` for the best model.
    n_validation_rows : int
        Training rows that were held out to compare the candidates; 0 if there were none.
    latency_note : str
        How the latency of one row was measured; "" if it was not.
    cluster_sizes : sequence of int
        Clustering only: test rows in each cluster.
    losses : sequence of Curve
        Of the best model's training, by epoch; empty where it has no epochs.
    importances : sequence of ColumnImportance
        Most important first.
    importance_note : str
        The measure, in one sentence.
    contributions : sequence of TargetContributions
        Contributions of input columns to the predictions of each target.
    classes : mapping of str to mapping of str to (int, int)
        Training and test rows of each class, by target.
    slices : sequence of MetricSlice
        All evaluated rows, then those of each slice; empty without slices.
    stages : sequence of mapping
        ``timeline.to_json()["stages"]``.
    limits : sequence of mapping
        ``timeline.to_json()["limits"]``.
    imports : mapping, optional
        ``timeline.to_json()["imports"]``.
    samples : mapping, optional
        ``timeline.to_json()["samples"]``.
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
    n_inputs: int | None = None
    target: str | None = None
    higher_is_better: bool = True
    evaluated_on: str = "test split"
    weight: str | None = None
    classification: Classification | None = None
    regression: Residuals | None = None
    quantiles: Sequence[QuantileLoss] = ()
    ndcg: Sequence[CutoffNdcg] = ()
    targets: Sequence[TargetReport] = ()
    selection: Mapping[str, float] = field(default_factory=dict)
    intervals: IntervalCoverage | None = None
    tried: TriedCounts = field(default_factory=TriedCounts)
    generated: GeneratedFeatures | None = None
    n_validation_rows: int = 0
    latency_note: str = ""
    cluster_sizes: Sequence[int] = ()
    losses: Sequence[Curve] = ()
    importances: Sequence[ColumnImportance] = ()
    importance_note: str = ""
    contributions: Sequence[TargetContributions] = ()
    columns: Sequence[ColumnQuality] = ()
    classes: Mapping[str, Mapping[str, tuple[int, int]]] = field(default_factory=dict)
    slices: Sequence[MetricSlice] = ()
    lineage: Sequence[Lineage] = ()
    stages: Sequence[Mapping[str, Any]] = ()
    limits: Sequence[Mapping[str, Any]] = ()
    imports: Mapping[str, Any] = field(default_factory=dict)
    samples: Mapping[str, Any] | None = None
    notes: Sequence[str] = ()
    warnings: Sequence[str] = ()
    config: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)

    @property
    def results(self) -> Sequence[TargetReport]:
        """The predictions of each target, also of a single one."""
        whole = TargetReport(
            target=self.target, task=self.task, classification=self.classification, regression=self.regression,
            quantiles=self.quantiles, ndcg=self.ndcg, intervals=self.intervals,
        )  # fmt: skip
        return self.targets or (whole,)

    @property
    def best(self) -> LeaderboardRow:
        """The row of the exported model."""
        return next((row for row in self.leaderboard if row.best), self.leaderboard[0])
