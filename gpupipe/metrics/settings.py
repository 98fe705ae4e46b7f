"""Settings of the ``evaluate:`` section."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, model_validator
from pydantic_core import PydanticCustomError

from gpupipe.errors import ConfigError, did_you_mean
from gpupipe.metrics.registry import METRICS
from gpupipe.settings import Label, Names, Seconds, Settings

ThresholdRule = Literal["best_f1", "best_accuracy", "best_balanced_accuracy", "youden", "min_cost"]
CalibrationMethod = Literal["none", "sigmoid", "isotonic", "temperature"]


def _known(name: str) -> str:
    if name not in METRICS:
        known = METRICS.known_names()
        hint = did_you_mean(name, known) or f"expected one of {', '.join(known)}, or an installed plug-in"
        raise PydanticCustomError("unknown_part", "unknown {kind}; {hint}", {"kind": METRICS.kind, "hint": hint})
    try:
        METRICS.get(name)
    except ConfigError as error:  # a plug-in that cannot be loaded
        raise PydanticCustomError("unknown_part", "{what}; {fix}", {"what": error.what, "fix": error.fix}) from None
    return name


Finite = Annotated[float, Field(allow_inf_nan=False)]
MetricName = Annotated[str, AfterValidator(_known)]


class Importance(Settings):
    """Permutation importance of the input columns.

    Unless a field is stated, the work is limited to that of about 3 seconds of one processor core, predicted from the
    size of the model: fewer rows, fewer models of each member of an ensemble, fewer shuffles, fewer columns. The
    report says which were used.
    """

    repeats: Annotated[int, Field(gt=0)] = Field(3, description="Number of shuffles of each input column.")
    rows: Annotated[int, Field(gt=0)] = Field(5_000, description="Maximum number of test rows.")
    columns: Annotated[int, Field(gt=0)] = Field(
        100,
        description="Maximum number of input columns: those with the largest weight in the model (coefficients, gains "
        "of splits). For models without such weights, those with the highest correlation with the predictions.",
    )


class Costs(Settings):
    """Cost of each kind of decision, all in the same unit; a benefit is a negative cost."""

    false_positive: Finite = Field(
        description="Cost of a negative row predicted positive, such as a retention offer to a customer who would have "
        "stayed."
    )
    false_negative: Finite = Field(description="Cost of a positive row predicted negative.")
    true_positive: Finite = Field(0.0, description="Cost of a positive row predicted positive.")
    true_negative: Finite = Field(0.0, description="Cost of a negative row predicted negative.")

    @model_validator(mode="after")
    def _check_costs(self) -> Self:
        for wrong, right in (("false_positive", "true_negative"), ("false_negative", "true_positive")):
            if getattr(self, wrong) <= getattr(self, right):
                raise ValueError(
                    f"{wrong} ({getattr(self, wrong):g}) must cost more than {right} ({getattr(self, right):g}); "
                    "otherwise one decision for all rows is optimal"
                )
        return self


class SliceColumn(Settings):
    """Column whose values divide the evaluated rows into slices."""

    column: str = Field(description="A column of the main table, which may be dropped, or of a joined one.")
    bins: (
        Annotated[int, Field(ge=2, le=20)] | Annotated[tuple[Finite, ...], Field(min_length=1, max_length=19)] | None
    ) = Field(
        None,
        description="Numbers and times: how many bins of equally many rows, or the ascending edges between bins. "
        "null: each value is a slice if there are at most 10, all of them whole numbers; otherwise 4 bins.",
    )

    @model_validator(mode="after")
    def _check_edges(self) -> Self:
        if isinstance(self.bins, tuple) and list(self.bins) != sorted(set(self.bins)):
            raise ValueError(f"expected ascending edges; got {', '.join(f'{edge:g}' for edge in self.bins)}")
        return self


def _slice_columns(value: Any) -> Any:
    """Return the list of columns for a name, a column with its bins, or a list of both."""
    items = value if isinstance(value, list | tuple) else [value]
    return [{"column": str(item)} if isinstance(item, str | int) else item for item in items]


class ReasonCode(Settings):
    """Code and text of an input column as a reason of a decision."""

    code: Annotated[str, Field(min_length=1)] = Field(description="Code of the reason, such as R01; each occurs once.")
    text: Annotated[str, Field(min_length=1)] = Field(description="The reason in words, as a notice states it.")


class ReasonCodes(Settings):
    """Reasons of a decision: the input columns that move a row most toward the adverse outcome."""

    columns: Annotated[dict[str, ReasonCode], Field(min_length=1)] = Field(
        description="Code and text by input column. A further table has its name, and other rows of the main table are "
        "`history`."
    )
    exclude: Names = Field((), description="Input columns that are never stated as a reason, such as protected ones.")
    top: Annotated[int, Field(gt=0, le=100)] = Field(4, description="Maximum number of reasons of a row.")
    adverse: Label | None = Field(
        None,
        description="binary: label of the adverse class. null: the positive class. regression: `high` or `low`, the "
        "values that are adverse.",
    )

    @model_validator(mode="after")
    def _check_codes(self) -> Self:
        columns: dict[str, str] = {}
        for name, reason in self.columns.items():
            if (other := columns.setdefault(reason.code, name)) != name:
                raise ValueError(f"the columns {other!r} and {name!r} have the same code, {reason.code!r}")
        if both := [name for name in self.exclude if name in self.columns]:
            raise ValueError(f"column {both[0]!r} has a code and is in exclude; remove one of them")
        return self


class FailOn(Settings):
    """Limits of the metrics of the exported model; a run that misses one is complete and ends with exit code 6."""

    min: dict[MetricName, Finite] = Field({}, description="Lowest value of metrics that are better when higher.")
    max: dict[MetricName, Finite] = Field({}, description="Highest value of metrics that are better when lower.")
    min_slice: dict[MetricName, Finite] = Field({}, description="Like min, for each slice of evaluate.by.")
    max_slice: dict[MetricName, Finite] = Field({}, description="Like max, for each slice of evaluate.by.")
    min_rows: Annotated[int, Field(gt=0)] = Field(30, description="Fewest rows of a slice that has to keep its limits.")

    @property
    def rules(self) -> list[tuple[str, str, float]]:
        """Each limit: its rule, metric and value."""
        found: list[tuple[str, str, float]] = []
        for rule in ("min", "max", "min_slice", "max_slice"):
            found += [(rule, name, value) for name, value in getattr(self, rule).items()]
        return found

    @model_validator(mode="after")
    def _check_limits(self) -> Self:
        if not self.rules:
            raise ValueError("expected a limit, such as min: {roc_auc: 0.8}")
        for rule, name, _ in self.rules:
            side = "min" if METRICS.get(name).greater_is_better else "max"
            if not rule.startswith(side):
                better = "higher" if side == "min" else "lower"
                raise ValueError(f"{name} is better when {better}: use {side}{rule[3:]} instead of {rule}")
        return self


class Evaluate(Settings):
    """Evaluation of models."""

    metrics: Annotated[list[MetricName], Field(min_length=1)] | None = Field(
        None, description="Names of the metrics to compute. null: the default metrics of the task."
    )
    select_by: MetricName | None = Field(
        None,
        description="Metric that orders the leaderboard. null: the first of metrics; without those, roc_auc for "
        "binary, log_loss for multiclass, r2 for regression, pinball_loss for quantile, ndcg for ranking, "
        "silhouette for clustering, reconstruction_r2 for embedding.",
    )
    threshold: Annotated[float, Field(ge=0, le=1)] | ThresholdRule = Field(
        0.5,
        description="binary: the lowest probability predicted positive, or a rule that chooses it on held-out training "
        "rows. Under cross-validation, a fold uses the threshold chosen on the other folds (with split.time, on the "
        "earlier folds). Default: 0.5, or min_cost if cost is given.",
    )
    cost: Costs | None = Field(
        None, description="binary: cost of each kind of error. Adds the metric cost, the mean cost per row."
    )
    calibrate: CalibrationMethod = Field(
        "none",
        description="Calibration of the probabilities, fitted on the same rows as the threshold, and not used if it "
        "makes the log loss of held-out rows worse. temperature: one number, for two or more classes. isotonic: any "
        "monotone function for each class, for many rows. sigmoid: Platt scaling, for two classes.",
    )
    intervals: Annotated[float, Field(gt=0.5, lt=1)] | None = Field(
        None,
        description="Coverage of prediction intervals (of numbers) or of prediction sets (classification): 0.9 gives "
        "each row an interval, or a set of classes, that contains the truth for 9 of 10 new rows. Calibrated on the "
        "same rows as the threshold. The task quantile moves its quantiles at the ends, 0.05 and 0.95 for 0.9, which "
        "source.quantiles must have. null: none.",
    )
    validation: Annotated[float, Field(gt=0, lt=1)] = Field(
        0.2,
        description="Fraction of the training rows held out to select the champion, for threshold rules, for "
        "calibration and for intervals.",
    )
    importance: bool | Importance = Field(
        True,
        description="Permutation importance of the champion's input columns. true: of at most 100 columns, those with "
        "the largest weight in the model. false: none, and no contributions in the report.",
    )
    by: Annotated[
        tuple[SliceColumn, ...],
        BeforeValidator(_slice_columns, json_schema_input_type=str | SliceColumn | list[str | SliceColumn]),
    ] = Field(
        (),
        description="Columns whose values divide the evaluated rows into slices, each column by itself: metrics of the "
        "exported model are reported for each slice too. A column need not be an input of the model.",
    )
    reason_codes: ReasonCodes | None = Field(
        None,
        description="binary and regression: codes and texts of the input columns as reasons of a decision. They are "
        "part of the model, and added to its explanations. null: none.",
    )
    fail_on: FailOn | None = Field(
        None,
        description="Limits of metrics, for CI pipelines: a run that misses one writes all its files, and ends with "
        "exit code 6. null: none.",
    )

    max_latency: Seconds | None = Field(
        None,
        description="Longest p99 latency of one row that the exported model may have, such as 2ms: each candidate's is "
        "measured on the CPU of this machine, through Model.scorer(), and those that exceed it are not exported. null: "
        "nothing is measured.",
    )

    @model_validator(mode="before")
    @classmethod
    def _default_threshold(cls, values: Any) -> Any:
        if isinstance(values, dict) and values.get("cost") is not None and "threshold" not in values:
            return {**values, "threshold": "min_cost"}
        return values

    @model_validator(mode="after")
    def _require_related(self) -> Self:
        if self.threshold == "min_cost" and self.cost is None:
            raise ValueError("threshold: min_cost needs evaluate.cost, such as {false_positive: 1, false_negative: 5}")
        if self.fail_on is not None and not self.by and (self.fail_on.min_slice or self.fail_on.max_slice):
            raise ValueError("fail_on has a limit for slices, which needs evaluate.by, such as by: [region]")
        return self

    @property
    def importance_settings(self) -> Importance | None:
        """Settings of permutation importance; None if it is disabled."""
        if isinstance(self.importance, bool):
            return Importance() if self.importance else None
        return self.importance
