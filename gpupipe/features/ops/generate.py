"""Generated features: arithmetic, crosses and group statistics, kept if they help significantly."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field

from gpupipe.errors import ConfigError
from gpupipe.features.ops.base import OPS, SelectingOp, State
from gpupipe.features.program.builder import ProgramBuilder
from gpupipe.features.program.expressions import CategoryExpr, NumericExpr, TimeExpr

if TYPE_CHECKING:
    from gpupipe.features.generation.selection import GeneratedSelection, SelectedFeature

MOST_IN_A_NOTE = 5
WORKING_ROW = 600  # bytes: residuals with their permutations, and a tile of candidates
LEAST_ROWS = 300  # a third of them confirms the selection


@OPS.register("generate")
class Generate(SelectingOp):
    """Try many combinations of two columns, and keep those that explain what the existing features do not.

    Often nothing is kept: with XGBoost, features were kept on 5 of 54 tables, which raised the score by up to 0.008
    ROC-AUC, and by 0.0002 in the mean of all tables. Boosted trees find most of what two columns add together; try it
    for linear models, or if a ratio or combination is likely to matter.

    ==============  ============================================  ================================================
    family          candidates                                    names of the new columns
    ==============  ============================================  ================================================
    ``arithmetic``  sums, differences, products and ratios        ``spend / visits``
    ``crosses``     target and frequency encodings of             ``city x plan (target)``,
                    combinations of categories                    ``city x plan (frequency)``
    ``groups``      a number relative to the mean of its group,   ``spend - mean by city``,
                    as difference, ratio or z-score               ``spend / mean by city``,
                                                                  ``spend (z-score by city)``
    ==============  ============================================  ================================================

    The selection is part of the fit: it uses training rows only, at most `sample_rows` of them. Two thirds of these
    rows select, the others confirm: the latest rows under `split.time`, other groups under `split.group`.

    1. A short model (XGBoost if it is installed, else scikit-learn's HistGradientBoosting) is trained on the existing
       features, cross-fitted in five folds. Its residuals are what the existing features do not explain.
    2. Each candidate is scored by the share of the squared residual that its intervals or combinations of levels
       explain out of fold, minus the best score of its input columns. The same scores of 20 random permutations of the
       residuals are the yardstick: candidates that do not exceed the highest of them are dropped, and so are copies of
       existing columns and of better candidates (rank correlation above 0.99). With about 60,000 sampled rows or more,
       a quarter of the rows that select ranks the candidates first, and only the best quarter of the combinations of
       columns of each family (of at least 100 candidates) is scored on the others.
    3. The best candidates are added in stages of 4, 12, 48, ... After each stage the residuals are computed again, so
       that a candidate is added only if it explains more than those before it. A larger set replaces a smaller one if
       it reduces the loss of the short model on the rows that confirm significantly: at 5 %, corrected for the number
       of sets.

    If nothing helps, nothing is added, and a note reports it. The kept features are ordinary instructions: target
    encodings are cross-fitted like those of `target_encode`, and group statistics do not use the target. All models
    share one selection. Row weights (``source.weight``) count in the values of kept features, not in the selection.
    Null where an input is null, where a divisor is 0, and in groups that are not in the training rows.

    Output: one float32 column for each kept feature; unchanged for trees, and for other models limited to the central
    98 % of the sampled values, imputed and standardized. The inputs remain features.

    After TabPrep (arXiv 2606.02384) and Zhang et al., "OpenFE: Automated Feature Generation with Expert-level
    Performance", ICML 2023. The yardstick is the maximum statistic of Westfall and Young, "Resampling-Based Multiple
    Testing", 1993. Ranking before testing on other rows: Wasserman and Roeder, "High-dimensional variable selection",
    Annals of Statistics, 2009.

    Examples:
        >>> import numpy as np
        >>> import pandas as pd
        >>> from gpupipe import FeatureProgram
        >>> rng = np.random.default_rng(0)
        >>> amounts = rng.lognormal([3, 1], 1, (3000, 2)).round()
        >>> frame = pd.DataFrame(amounts, columns=["spend", "visits"])
        >>> y = (frame.spend > 7 * frame.visits).astype(int)
        >>> program = FeatureProgram(["generate"], view="codes").set_output(transform="pandas")
        >>> program.fit(frame, y).transform(frame.head(3))
           visits / spend  spend  visits
        0        0.086957   23.0     2.0
        1        0.078947   38.0     3.0
        2        0.333333   12.0     4.0
    """

    columns: str | list[str] = Field(
        "@all",
        description="Numeric, categorical and boolean columns to combine; names, globs or selectors as in other ops.",
    )
    arithmetic: int = Field(200, ge=0, le=1000, description="Maximum number of formulas of numbers that are kept.")
    crosses: int = Field(100, ge=0, le=500, description="Maximum number of encoded combinations that are kept.")
    groups: int = Field(50, ge=0, le=500, description="Maximum number of numbers relative to a group that are kept.")
    arithmetic_candidates: int = Field(2000, ge=1, le=50_000, description="Maximum number of formulas that are tried.")
    cross_candidates: int = Field(
        500, ge=1, le=10_000, description="Maximum number of encoded combinations that are tried."
    )
    group_candidates: int = Field(
        500, ge=1, le=10_000, description="Maximum number of numbers relative to a group that are tried."
    )
    sample_rows: int = Field(
        100_000, ge=1000, le=10_000_000, description="Maximum number of training rows that the selection uses."
    )
    folds: int = Field(5, ge=2, le=100, description="Number of folds of the target encodings that are kept.")

    @property
    def most_columns(self) -> int:
        """Maximum number of new columns, for a target of at most two classes."""
        return self.arithmetic + self.crosses + self.groups

    def working_bytes(self, n_rows: int, n_columns: int) -> int:
        """Return the memory that the selection needs, given the numbers of training rows and existing features."""
        n_sampled = min(n_rows, self.sample_rows)
        copies, own_copies = 3, 9  # own: also the table and its parts, and the rows that each of 5 models trains on
        return n_sampled * (WORKING_ROW + 4 * (copies * self.most_columns + own_copies * n_columns))

    def apply(self, builder: ProgramBuilder) -> None:
        """Select the features once per fit, and add them."""
        statistics = builder.statistics
        builder.select_any(self.columns, "generate")
        if statistics.target is not None and statistics.target.others:
            raise ConfigError(
                f"generate chooses features for one target; there are {len(statistics.target.each)}",
                fix="remove generate, or predict the targets in separate runs",
            )
        if statistics.target is None:
            raise ConfigError(
                "generate requires a target",
                fix="set source.target in the configuration, or pass y to FeatureProgram.fit(X, y); without a target, "
                "list features yourself, with arithmetic, expression or cross",
            )
        if builder.is_preview:
            builder.note(f"generate: up to {self.most_columns:,} columns will be selected from the training rows")
            return
        source = builder.before_current()
        selection = self._selection(source)
        for feature in selection.features:
            self._add(feature, selection, source, builder)
        builder.note(_summary(selection))
        # Also if nothing is kept: the report counts all that was tried.
        state: State = {
            "tried": selection.tried,
            "yardsticks": selection.yardsticks,
            "screened": selection.n_screened,
            "kept": len(selection.features),
            "base_loss": selection.base_loss,
            "loss": selection.loss,
            "z_score": selection.z_score,
            "sampled_rows": selection.n_rows,
            "library": selection.library,
        }
        builder.record_state("Generate", "(all)", state)

    def _selection(self, source: ProgramBuilder) -> GeneratedSelection:
        """Return the selection for the columns as earlier ops left them, computed once."""
        from gpupipe.features.generation.selection import FeatureSelector
        from gpupipe.table.blocks import Table

        statistics = source.statistics
        if not isinstance(statistics.table, Table):
            raise ConfigError(
                "generate needs the training rows in the memory of one process; they are partitioned",
                fix="run it on a sample of the rows that fits (source.limit), and list the features that it keeps as "
                "expression, cross and target_encode ops",
            )
        if statistics.n_rows < LEAST_ROWS:
            error = ConfigError(
                f"generate needs at least {LEAST_ROWS} training rows; got {statistics.n_rows:,}",
                fix="remove generate: features that so few rows suggest rarely help on others",
            )
            error.depends_on_rows = True
            raise error

        def select() -> GeneratedSelection:
            columns, inputs = list(source.columns.values()), source.select_any(self.columns, "generate")
            given = columns, frozenset(column.name for column in inputs), _other_features(source)
            return FeatureSelector(self, statistics, *given).select()

        key = tuple((place, op.title(), op.model_dump_json()) for op, place in source.applied)
        return statistics.remember(("generate", key, self.model_dump_json()), select)

    def _add(
        self, feature: SelectedFeature, selection: GeneratedSelection, source: ProgramBuilder, builder: ProgramBuilder
    ) -> None:
        """Add a kept feature as a column, and for trees as a feature."""
        candidate = feature.candidate
        if candidate.form == "target":
            builder.use_folds(builder.n_folds or self.folds)
        for made, limits in zip(_expressions(feature, source, builder.n_folds), feature.limits, strict=True):
            scaled = made if builder.view == "codes" else made.then("CLIP", *limits)
            builder.add(scaled)
            if builder.view == "codes":
                builder.put(scaled, "generate")
        state: State = {"family": candidate.family, "form": candidate.form, "inputs": list(candidate.columns)}
        builder.record_state("Generate", candidate.name, state | {"gain": feature.gain})


def _other_features(source: ProgramBuilder) -> list[NumericExpr]:
    """Return the existing features that are not columns that ops may select, such as calendar parts."""
    from gpupipe.features.ops.auto import Auto

    preview = source.before_current()  # a copy, to which calendar parts are added
    times = [name for name in preview.unrepresented() if isinstance(preview.columns[name], TimeExpr)]
    if times:
        Auto(columns=times).apply(preview)
    # Not encodings of categories: their codes are in the short model, and without its folds a target encoding would
    # contain the target of the row.
    made = [output.column for output in preview.outputs.values() if not output.n_codes]
    return [column for column in made if column.name not in source.columns and column.producer.codes is None]


def _summary(selection: GeneratedSelection) -> str:
    """Return the note about a selection."""
    tried = sum(selection.tried.values())
    if not tried:
        return "generate: no candidate: it combines two numbers, two categories, or a number and a category"
    if not selection.features:
        why = "none explains more than the best on permuted residuals"
        if selection.n_screened:
            why = f"{selection.n_screened} passed the screen but did not reduce the held-out loss significantly"
        return f"generate: none of {tried:,} candidates is kept: {why}"
    names = ", ".join(repr(feature.candidate.name) for feature in selection.features[:MOST_IN_A_NOTE])
    n_kept = len(selection.features)
    more = f" and {n_kept - MOST_IN_A_NOTE} more" if n_kept > MOST_IN_A_NOTE else ""
    return (
        f"generate: {n_kept} of {tried:,} candidates are kept ({names}{more}); loss of a short model on held-out "
        f"training rows {selection.loss:.4f} instead of {selection.base_loss:.4f} "
        f"({selection.z_score:.1f} standard errors)"
    )


def _expressions(feature: SelectedFeature, source: ProgramBuilder, folds: int) -> list[NumericExpr]:
    """Return the columns of a kept feature, with statistics of all training rows."""
    from gpupipe.features.generation.sample import SMOOTHING, express_arithmetic
    from gpupipe.features.ops.cross import cross_columns
    from gpupipe.features.ops.group_stats import learn_group, relate
    from gpupipe.features.ops.target_encode import smoothed_means
    from gpupipe.features.program.expressions import take

    candidate, statistics = feature.candidate, source.statistics
    columns = [source.columns[name] for name in candidate.columns]
    if candidate.family == "arithmetic":
        numbers = {column.name: column for column in columns if isinstance(column, NumericExpr)}
        return [express_arithmetic(candidate, numbers, statistics)]
    if candidate.family == "groups":
        number, group = columns
        assert isinstance(number, NumericExpr) and isinstance(group, CategoryExpr)
        moments = learn_group(number, group, statistics)
        return [relate(candidate.form, candidate.name, number, group, moments)]
    crossed = cross_columns([c for c in columns if isinstance(c, CategoryExpr)], candidate.name, None, statistics)
    if candidate.form == "frequency":
        return [take(crossed, statistics.shares([crossed])[0], candidate.name)]
    tables = smoothed_means(statistics.target_counts([crossed], folds)[0], SMOOTHING)
    names = [candidate.name] if len(tables) == 1 else [f"{candidate.name} {k}" for k in range(len(tables))]
    return [take(crossed, table, name) for table, name in zip(tables, names, strict=True)]
