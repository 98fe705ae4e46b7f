"""Cross-fitted target encoding."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from gpupipe.errors import ConfigError
from gpupipe.features.ops.base import OPS, Op, State
from gpupipe.features.program.builder import ProgramBuilder
from gpupipe.features.program.expressions import CategoryExpr
from gpupipe.typing import Array

if TYPE_CHECKING:
    from gpupipe.features.statistics.training import Statistics, TargetCounts


Smoothing = Annotated[float, Field(ge=0.0)] | Literal["auto"]


@OPS.register("target_encode")
class TargetEncode(Op[CategoryExpr]):
    """Replace each level by its smoothed mean target: ``(sum + smoothing * prior) / (count + smoothing)``.

    A training row is encoded from the other folds alone, so a statistic never includes the row that it encodes; new
    rows are encoded from the statistics of all training rows. With ``smoothing: auto``, the weight of the prior is the
    variance of the target in the level, divided by that of all rows (empirical Bayes, as in scikit-learn's
    TargetEncoder). The prior is the mean target: of the other folds, or of all rows if those are empty. Nulls have
    their own mean; a level that is not in these rows becomes the prior. Folds are of equal size up to one row, for each
    class as well; with ``split.group``, the rows of a group are in one fold.
    Row weights (``source.weight``) count: sums, counts and the prior are weighted.

    ``of: clicks`` learns the means of another column, which new rows need not have, in the same way. Its nulls do not
    count.

    Output: ``plan_target``, float32, never null; with more than two classes, a column for each class:
    ``plan_target_0``, ``plan_target_1``, ... With several targets, a column for each, or for each class of it:
    ``plan_target_price``; with ``of: clicks``, ``plan_target_clicks``.

    After Micci-Barreca, "A preprocessing scheme for high-cardinality categorical attributes in classification and
    prediction problems", SIGKDD Explorations 3 (2001).

    Examples:
        >>> import pandas as pd
        >>> from gpupipe import FeatureProgram
        >>> frame = pd.DataFrame({"plan": ["basic", "plus"] * 4})
        >>> y = [0, 1, 0, 1, 0, 1, 1, 0]
        >>> ops = [{"target_encode": {"columns": "plan", "folds": 2, "smoothing": 4}}]
        >>> program = FeatureProgram(ops).set_output(transform="pandas")
        >>> program.fit_transform(frame, y)
           plan_target
        0     0.428571
        1     0.600000
        2     0.400000
        3     0.600000
        4     0.400000
        5     0.571429
        6     0.400000
        7     0.600000
        >>> program.transform(pd.DataFrame({"plan": ["basic", "plus", "pro"]}))
           plan_target
        0        0.375
        1        0.625
        2        0.500
    """

    folds: int = Field(5, ge=2, le=100, description="Number of folds of the training rows.")
    smoothing: Smoothing = Field(
        20.0, description="Weight of the prior (the mean target), in rows; or auto: estimated from the variances."
    )

    of: str | None = Field(
        None, description="Numeric or boolean column whose means are learned instead of those of the target."
    )

    def named_inputs(self) -> tuple[str, ...]:
        """Return the items of the selection, and the column `of`."""
        return (*super().named_inputs(), *filter(None, [self.of]))

    def apply(self, builder: ProgramBuilder) -> None:
        """Select columns, fit, and emit expressions."""
        if self.of is None:
            super().apply(builder)
            return
        number, *more = builder.select_numbers([self.of], "target_encode")
        if more:
            names = ", ".join(each.name for each in (number, *more))
            raise ConfigError(f"of: expected one column; {self.of!r} matches {names}", fix="name one of them")
        builder.use_folds(self.folds)
        columns = builder.select_categories(self.columns, "target_encode")
        found = builder.statistics.number_counts(columns, number, self.folds)
        for column, counts in zip(columns, found, strict=True):
            state = {"means": smoothed_means(counts, self.smoothing), "outputs": [number.name]}
            builder.record_state(type(self).__name__, column.name, self.summary(state))
            self.emit(column, state, builder)

    def select(self, builder: ProgramBuilder) -> list[CategoryExpr]:
        columns = builder.select_categories(self.columns, "target_encode")
        if builder.statistics.target is None:
            raise ConfigError(
                "target_encode requires a target",
                fix="set source.target in the configuration, or pass y to FeatureProgram.fit(X, y)",
            )
        names = builder.statistics.target.output_names
        if repeated := sorted({name for name in names if names.count(name) > 1}):
            raise ConfigError(
                f"two targets have the output {', '.join(map(repr, repeated))}",
                fix="rename a target",
                names=repeated,
            )
        builder.use_folds(self.folds)
        return list(columns)

    def fit(self, columns: list[CategoryExpr], statistics: Statistics) -> list[State]:
        found, target = statistics.target_counts(columns, self.folds), statistics.target
        if self.smoothing == "auto":
            found = statistics.with_squares(columns, self.folds, found)
        outputs = target.output_names if target is not None else []
        named = {"outputs": outputs} if outputs else {}
        return [{"means": smoothed_means(counts, self.smoothing), **named} for counts in found]

    def summary(self, state: State) -> State:
        """Return the mean of each code over all training rows, without those of the folds."""
        return {**state, "means": [table[0].tolist() for table in state["means"]]}

    def emit(self, column: CategoryExpr, state: State, builder: ProgramBuilder) -> None:
        tables = state["means"]  # (outputs, folds + 1, codes)
        for k, table in enumerate(tables):
            output = state["outputs"][k] if "outputs" in state else k
            name = f"{column.name}_target" if len(tables) == 1 and not self.of else f"{column.name}_target_{output}"
            builder.put(builder.look_up(column, table, name), "target_encode")


def smoothed_means(counts: TargetCounts, smoothing: float | Literal["auto"]) -> Any:
    """Return the encodings, shape (n_outputs, folds + 1, n_codes): row 0 from all rows, row f from all but fold f.

    With ``"auto"``, `counts` have squares unless the target has classes.
    """
    import numpy as np

    others = counts.of_other_folds()
    n, s = others.count, others.total  # (folds + 1, codes), (folds + 1, codes, outputs)
    total = n.sum(axis=1)
    prior = s.sum(axis=1) / np.where(total > 0, total, 1.0)[:, None]  # (folds + 1, outputs)
    prior[total == 0] = prior[0]  # no row in the other folds: the mean of all rows
    rows = _prior_rows(others, prior) if smoothing == "auto" else smoothing
    weight = n[:, :, None] + rows
    encoded = (s + rows * prior[:, None, :]) / np.where(weight > 0, weight, 1.0)
    encoded = np.where((n > 0)[:, :, None], encoded, prior[:, None, :])
    return encoded.transpose(2, 0, 1)


def _prior_rows(sums: TargetCounts, prior: Array) -> Array:
    """Return the weight of the prior: the variance of a level divided by that of all rows; shape of ``sums.total``.

    Equations 5 and 6 of Micci-Barreca (2001). `sums` are those of other folds; `prior`: shape (folds + 1, n_outputs).
    """
    import numpy as np

    n = np.where(sums.count > 0, sums.count, 1.0)[:, :, None]
    mean = sums.total / n
    if sums.squares is None or sums.pivot is None:  # indicators of classes
        within, between = mean * (1 - mean), prior * (1 - prior)
    else:
        shift = mean - sums.pivot
        within = sums.squares / n - shift**2
        within[within <= 1e-13 * shift**2] = 0.0  # a rounding error
        rows = np.maximum(sums.count.sum(axis=1), 1.0)[:, None]
        between = sums.squares.sum(axis=1) / rows - (prior - sums.pivot) ** 2
    return np.maximum(within, 0.0) / np.where(between > 0, between, 1.0)[:, None, :]
