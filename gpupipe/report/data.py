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
from gpupipe.report.search_record import SearchRecord, TriedCounts
from gpupipe.report.slices import MetricSlice

if TYPE_CHECKING:
    from gpupipe.metrics import ColumnImportance, CutoffNdcg, QuantileLoss, Residuals, TopRows

Numbers = Sequence[float]


@dataclass(frozen=True, kw_only=True)
class LeaderboardRow:
    """One model of the leaderboard."""

    model: str
    # On the test split, or the mean over the folds and its standard deviation, ``METRIC_std``
    metrics: Mapping[str, float | None]
    # The same on the validation split, where there is one
    validation: Mapping[str, float | None] = field(default_factory=dict)
    best: bool = False  # whether this is the exported model
    seconds: float | None = None  # wall seconds to train it
    # `p50_seconds`, `p99_seconds`, `limit_seconds`: latency of one row, and its limit; set if it was measured
    p50_seconds: float | None = None
    p99_seconds: float | None = None
    limit_seconds: float | None = None
    search: SearchRecord | None = None  # the models that an ensemble or tuning tried
    folds: Sequence[Mapping[str, float]] = ()  # under cross-validation, the metrics of each fold
    tuned_yaml: str = ""  # for tuning: a ``models:`` section with the best parameters, as YAML

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
    """Classification of the test rows by the best model."""

    roc: Sequence[Curve] = ()  # x: false positive rate, y: true positive rate
    precision_recall: Sequence[Curve] = ()  # x: recall, y: precision
    calibration: Sequence[Curve] = ()  # x: mean predicted probability of a bin, y: fraction of positives in it
    # x: fraction of the rows, highest probability first, y: fraction of the class among them
    gains: Sequence[Curve] = ()
    headline: TopRows | None = None  # binary only: a round number of rows, for the sentence at the top of the page
    top: Sequence[TopRows] = ()  # binary only: the rows of the table of gains
    prevalence: float | None = None  # fraction of positives in the test rows (binary only): the precision of guessing
    positive: str | None = None  # the level that counts as positive
    threshold: float | None = None  # probability from which a row is predicted to be positive
    threshold_rule: str = ""  # rule that chose it, such as ``"best_f1"``; "" for a fixed threshold
    # Under cross-validation, where the rows of each fold use a threshold chosen on the other folds
    fold_thresholds: Sequence[float] = ()
    confusion: Confusion | None = None  # at that threshold, or at those of the folds


@dataclass(frozen=True, kw_only=True)
class ColumnQuality:
    """One column of the source as it was read."""

    # `name`, `kind`, `dtype`: as in the schema; `kind` may also be ``"target"`` or ``"dropped"``
    name: str
    kind: str
    dtype: str
    null_fraction: float  # 0 to 1
    distinct: int | None = None
    # `minimum`, `mean`, `maximum`: numbers; times as text
    minimum: float | str | None = None
    mean: float | str | None = None
    maximum: float | str | None = None
    top: str | None = None  # the most frequent level
    top_fraction: float | None = None  # its fraction of the rows that are not null, 0 to 1
    notes: Sequence[str] = ()  # for the reader: ``"constant"``, ``"11 nulls imputed"``
    bars: Sequence[float] = ()  # relative heights: of a histogram of the values, or of the most frequent levels


@dataclass(frozen=True, kw_only=True)
class Lineage:
    """The input columns of one column of the feature matrix."""

    output: str
    inputs: Sequence[str]
    op: str


@dataclass(frozen=True, kw_only=True)
class TargetReport:
    """The predictions of one target by the best model."""

    target: str | None
    task: str
    # `classification`, `regression`: at most one of them
    classification: Classification | None = None
    regression: Residuals | None = None
    quantiles: Sequence[QuantileLoss] = ()
    ndcg: Sequence[CutoffNdcg] = ()
    intervals: IntervalCoverage | None = None


@dataclass(frozen=True, kw_only=True)
class ReportData:
    """All contents of the page."""

    name: str  # of the run
    created: str  # start of the run, as text: ``"2026-03-14 09:26 UTC"``
    seconds: float  # wall seconds of the whole run
    # `device`, `device_reason`: ``"cpu"`` or ``"gpu"``, and the reason for that choice
    device: str
    device_reason: str
    task: str  # ``"binary"``, ``"multiclass"``, ``"regression"``…
    metric: str  # the headline metric: a key of each row's `metrics`
    leaderboard: Sequence[LeaderboardRow]  # in the order to be shown; exactly one is the best
    # `rows_train`, `rows_test`: under cross-validation, all rows and 0
    rows_train: int
    rows_test: int
    n_features: int  # columns of the feature matrix of the best model
    n_inputs: int | None = None  # input columns that these are made of, those of further tables included
    target: str | None = None  # the target column; of several targets, all of them as text
    higher_is_better: bool = True  # whether higher values of that metric are better
    # The rows that the metrics were measured on: ``"test split"``, ``"mean over 5 folds"``
    evaluated_on: str = "test split"
    weight: str | None = None  # column with the weights of the rows
    # `classification`, `regression`: at most one of them; none with several targets
    classification: Classification | None = None
    regression: Residuals | None = None
    quantiles: Sequence[QuantileLoss] = ()  # quantile regression only: each predicted quantile, lowest first
    ndcg: Sequence[CutoffNdcg] = ()  # ranking only: the first rows of the groups, fewest first
    targets: Sequence[TargetReport] = ()  # several targets only: the predictions of each
    # Under cross-validation with several models: metrics of each fold's rows by the model that the other folds rank
    # first. The mean of the best model itself is optimistic, since the same rows have selected it.
    selection: Mapping[str, float] = field(default_factory=dict)
    intervals: IntervalCoverage | None = None  # measured coverage of prediction intervals or sets
    tried: TriedCounts = field(default_factory=TriedCounts)  # number of alternatives that were compared
    generated: GeneratedFeatures | None = None  # the features of the op ``generate`` for the best model
    n_validation_rows: int = 0  # training rows that were held out to compare the candidates; 0 if there were none
    latency_note: str = ""  # how the latency of one row was measured; "" if it was not
    cluster_sizes: Sequence[int] = ()  # clustering only: test rows in each cluster
    losses: Sequence[Curve] = ()  # of the best model's training, by epoch; empty where it has no epochs
    importances: Sequence[ColumnImportance] = ()  # most important first
    importance_note: str = ""  # the measure, in one sentence
    # Contributions of input columns to the predictions of each target
    contributions: Sequence[TargetContributions] = ()
    columns: Sequence[ColumnQuality] = ()
    # Training and test rows of each class, by target
    classes: Mapping[str, Mapping[str, tuple[int, int]]] = field(default_factory=dict)
    slices: Sequence[MetricSlice] = ()  # all evaluated rows, then those of each slice; empty without slices
    lineage: Sequence[Lineage] = ()
    stages: Sequence[Mapping[str, Any]] = ()  # ``timeline.to_json()["stages"]``
    limits: Sequence[Mapping[str, Any]] = ()  # ``timeline.to_json()["limits"]``
    imports: Mapping[str, Any] = field(default_factory=dict)  # ``timeline.to_json()["imports"]``
    samples: Mapping[str, Any] | None = None  # ``timeline.to_json()["samples"]``
    notes: Sequence[str] = ()
    warnings: Sequence[str] = ()
    config: str = ""  # the resolved configuration, YAML
    versions: Mapping[str, str] = field(default_factory=dict)  # library name to version

    @property
    def results(self) -> Sequence[TargetReport]:
        """The predictions of each target, also of a single one."""
        whole = TargetReport(
            target=self.target,
            task=self.task,
            classification=self.classification,
            regression=self.regression,
            quantiles=self.quantiles,
            ndcg=self.ndcg,
            intervals=self.intervals,
        )
        return self.targets or (whole,)

    @property
    def best(self) -> LeaderboardRow:
        """The row of the exported model."""
        return next((row for row in self.leaderboard if row.best), self.leaderboard[0])
