"""LightGBM on the codes view: codes are split as categories, missing values stay missing."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from gpupipe.models.base import (
    MODELS,
    BestRound,
    ClassWeight,
    Constraints,
    EarlyStoppingRounds,
    Fraction,
    InteractionConstraints,
    Invariance,
    NonNegative,
    NonNegativeInt,
    Positive,
    PositiveInt,
    ScalePosWeight,
    ValidationFraction,
    constraint_list,
    feature_groups,
)
from gpupipe.models.boosting import BoosterProgress, BoostingSettings
from gpupipe.models.contradictions import Contradiction
from gpupipe.models.group_order import CUTOFF, order_by_group
from gpupipe.tasks import CLASSIFICATION, SUPERVISED, Task
from gpupipe.typing import Matrix

if TYPE_CHECKING:
    from gpupipe.models.context import FitContext
    from gpupipe.typing import Array

MOST_ROWS = 10_000  # of a group that LightGBM ranks

OBJECTIVES: dict[Task, tuple[str, ...]] = {
    "binary": ("binary",),
    "multiclass": ("multiclass",),
    "regression": (
        "regression", "regression_l1", "huber", "fair", "poisson", "quantile", "mape", "gamma", "tweedie",
    ),
    "quantile": ("quantile",),
    "ranking": ("lambdarank", "rank_xendcg"),
}  # fmt: skip

# Losses and metrics of differences from the target.
DIFFERENCES = frozenset({"auto", "regression", "regression_l1", "huber", "fair", "quantile"})
METRICS_OF_DIFFERENCES = frozenset({None, "l1", "l2", "mae", "mse", "rmse", "quantile"})

# LGBM_TD_CLASS and LGBM_TD_REG of pytabkit 1.7.3, default_params.py, with a fifth of the rows held out.
_STOP = {"n_estimators": 1000, "early_stopping_rounds": 300, "validation_fraction": 0.2}
_CLASS = _STOP | {
    "learning_rate": 0.04,
    "subsample": 0.75,
    "subsample_freq": 1,
    "num_leaves": 50,
    "min_child_samples": 40,
    "min_child_weight": 1e-7,
}
_NUMBER = _STOP | {
    "learning_rate": 0.05,
    "subsample": 0.7,
    "subsample_freq": 1,
    "num_leaves": 100,
    "min_child_samples": 3,
    "min_child_weight": 1e-7,
}


@MODELS.register("lightgbm")
class LightGBM(BoostingSettings):
    """LightGBM: a classifier, a regressor or a ranker, by the task.

    Trains with ``lightgbm.LGBMClassifier``, ``LGBMRegressor`` or ``LGBMRanker`` on the CPU (``pip install
    'gpupipe[lightgbm]'``). It reads the codes view; category codes are split as categories. Predictions need no
    LightGBM: gpupipe walks the trees itself, with LightGBM's digits.

    With ``early_stopping_rounds``, the model is trained again on all rows for the number of rounds that did best on the
    held-out rows. Tuned values of parameters that are not stated are those of Holzmüller, Grinsztajn and Steinwart,
    Better by Default (NeurIPS 2024, https://arxiv.org/abs/2407.04491, LGBM-TD), which were tuned on 118 other tables.
    Those for quantiles and rankings have the library's trees with a low learning rate: leaves of few rows overfit.
    With ``defaults: library`` they are LightGBM's. ``deterministic`` and ``force_col_wise`` are always true, so that
    the model does not depend on timing.
    """

    tasks = SUPERVISED | {"ranking"}
    name = "lightgbm"
    losses = OBJECTIVES
    quantile_field = "alpha"
    takes_threads = True
    cells_per_thread = 200_000
    extra = "lightgbm"
    tuned: ClassVar[Mapping[Task, Mapping[str, Any]]] = {
        "binary": _CLASS,
        "multiclass": _CLASS,
        "regression": _NUMBER,
        "quantile": _STOP | {"learning_rate": 0.05},
        "ranking": _STOP | {"learning_rate": 0.05},
    }
    contradictions = (
        Contradiction("data_sample_strategy", ("goss",), "subsample_freq", (0,), "bagging"),
        Contradiction("data_sample_strategy", ("goss",), "subsample", (1.0,), "bagging"),
        Contradiction("objective", ("quantile",), "alpha", lambda alpha: alpha < 1),
        Contradiction("objective", ("regression_l1", "quantile", "mape"), "monotone_constraints", (None, {})),
    )
    smallest_targets: ClassVar[Mapping[str, tuple[str, float]]] = {
        "poisson": (">=", 0.0), "gamma": (">", 0.0), "tweedie": (">=", 0.0),
    }  # fmt: skip

    n_estimators: PositiveInt = Field(100, description="Maximum number of rounds; each adds one tree (one per class).")
    learning_rate: Positive = Field(0.1, description="Factor on the contribution of each tree.")
    num_leaves: Annotated[int, Field(ge=2, le=131_072)] = Field(31, description="Maximum number of leaves of a tree.")
    max_depth: Annotated[int, Field(ge=-1)] = Field(
        -1, description="Maximum depth of a tree, in levels. 0 or -1: no limit."
    )
    boosting_type: Literal["gbdt", "dart"] = Field(
        "gbdt", description="gbdt: plain boosting. dart: with dropout of trees."
    )
    objective: Literal[
        "auto",
        "binary",
        "multiclass",
        "regression",
        "regression_l1",
        "huber",
        "fair",
        "poisson",
        "quantile",
        "mape",
        "gamma",
        "tweedie",
        "lambdarank",
        "rank_xendcg",
    ] = Field(
        "auto",
        description="Loss that is minimized. auto: binary, multiclass, regression, quantile or lambdarank, by the "
        "task.",
    )
    alpha: Positive = Field(0.9, description="Quantile that is predicted, or the threshold of huber.")
    tweedie_variance_power: Annotated[float, Field(ge=1, lt=2)] = Field(
        1.5, description="Variance power of tweedie: towards 2 is closer to gamma, towards 1 to poisson."
    )
    min_split_gain: NonNegative = Field(0.0, description="Minimum decrease of the loss by which a node is split.")
    min_child_weight: NonNegative = Field(
        1e-3, description="Minimum sum of the second derivatives of the loss in a leaf."
    )
    min_child_samples: NonNegativeInt = Field(20, description="Minimum number of rows in a leaf.")
    data_sample_strategy: Literal["bagging", "goss"] = Field(
        "bagging",
        description="Rows of each tree. bagging: drawn with subsample. goss: those with large gradients, and some of "
        "the others; trained on one thread, because the rows that it draws depend on the number of threads.",
    )
    subsample: Fraction = Field(
        1.0, description="Fraction of the rows drawn for each tree; needs subsample_freq above 0."
    )
    subsample_freq: NonNegativeInt = Field(
        0, description="Number of rounds after which rows are drawn again. 0: never."
    )
    top_rate: Fraction = Field(0.2, description="Fraction of the rows with the largest gradients that goss keeps.")
    other_rate: Fraction = Field(0.1, description="Fraction of the other rows that goss draws.")
    colsample_bytree: Fraction = Field(1.0, description="Fraction of the features drawn for each tree.")
    feature_fraction_bynode: Fraction = Field(1.0, description="Fraction of the tree's features drawn for each node.")
    extra_trees: bool = Field(False, description="Try one random threshold per feature at each split.")
    reg_alpha: NonNegative = Field(0.0, description="Strength of the L1 penalty on the values of leaves.")
    reg_lambda: NonNegative = Field(0.0, description="Strength of the L2 penalty on the values of leaves.")
    max_delta_step: NonNegative = Field(0.0, description="Maximum absolute value of a leaf. 0: no limit.")
    path_smooth: NonNegative = Field(
        0.0, description="Strength with which the value of a node is pulled towards that of its parent."
    )
    drop_rate: Annotated[float, Field(ge=0, le=1)] = Field(0.1, description="Fraction of the trees that dart drops.")
    skip_drop: Annotated[float, Field(ge=0, le=1)] = Field(
        0.5, description="Probability that dart drops no tree in a round."
    )
    max_drop: Annotated[int, Field(ge=-1)] = Field(
        50, description="Maximum number of trees that dart drops in a round. 0 or -1: no limit."
    )
    max_bin: Annotated[int, Field(ge=2)] = Field(255, description="Maximum number of bins of a feature.")
    min_data_in_bin: PositiveInt = Field(3, description="Minimum number of rows in a bin.")
    subsample_for_bin: PositiveInt = Field(200_000, description="Number of rows from which the bins are computed.")
    max_cat_to_onehot: PositiveInt = Field(
        4, description="Columns with at most this many categories are split one category against the others."
    )
    max_cat_threshold: PositiveInt = Field(32, description="Maximum number of categories on one side of a split.")
    min_data_per_group: PositiveInt = Field(100, description="Minimum number of rows of a group of categories.")
    cat_smooth: NonNegative = Field(10.0, description="Smoothing of the statistics of categories with few rows.")
    cat_l2: NonNegative = Field(10.0, description="Strength of the L2 penalty in splits by categories.")
    scale_pos_weight: ScalePosWeight = None
    monotone_constraints: Constraints = None
    interaction_constraints: InteractionConstraints = None
    eval_metric: str | None = Field(
        None, description="LightGBM metric for early stopping. null: that of the objective."
    )
    early_stopping_rounds: EarlyStoppingRounds = None
    validation_fraction: ValidationFraction = 0.1
    class_weight: ClassWeight = None

    def training_threads(self, n_threads: int, n_cells: int) -> int:
        return 1 if self.data_sample_strategy == "goss" else super().training_threads(n_threads, n_cells)

    def thread_note(self, n_threads: int, estimator: Any) -> str:
        is_limited = self.data_sample_strategy == "goss" and n_threads > 1
        return "trained on one thread: the rows that goss draws depend on the number of threads" if is_limited else ""

    @model_validator(mode="after")
    def _draws_at_most_all_rows(self) -> Self:
        if self.data_sample_strategy == "goss" and self.top_rate + self.other_rate > 1:
            rates = f"{self.top_rate:g} and {self.other_rate:g}"
            raise ValueError(f"top_rate and other_rate are {rates}; goss needs a sum of at most 1")
        return self

    def estimator_name(self, task: Task) -> str:
        return "LGBMClassifier" if task in CLASSIFICATION else "LGBMRanker" if task == "ranking" else "LGBMRegressor"

    def estimator_params(self, task: Task) -> dict[str, Any]:
        params = super().estimator_params(task)
        for name in ("early_stopping_rounds", "eval_metric", "validation_fraction"):
            params.pop(name)
        params["objective"] = self.loss_for(task)
        if task in CLASSIFICATION:  # LGBMClassifier sets it by the number of classes
            params.pop("objective")
        if self.scale_pos_weight is None:
            params.pop("scale_pos_weight")
        return {**params, "deterministic": True, "force_col_wise": True, "verbosity": -1}

    def target_invariance(self, task: Task) -> Invariance:
        if self.objective not in DIFFERENCES or self.eval_metric not in METRICS_OF_DIFFERENCES:
            return "none"
        has_threshold = self.objective in ("huber", "fair") or self.reg_alpha or self.min_split_gain
        return "shift" if has_threshold or self.max_delta_step else "affine"

    def data_params(self, X: Matrix, context: FitContext) -> dict[str, Any]:
        names, groups = context.feature_names, self.interaction_constraints
        return {
            "monotone_constraints": constraint_list(self.monotone_constraints, names, "lightgbm.monotone_constraints"),
            "interaction_constraints": feature_groups(groups, names, "lightgbm.interaction_constraints"),
        }

    def stops_early(self, n_rows: int) -> bool:
        return super().stops_early(n_rows) and self.boosting_type != "dart"

    def best_round(self, estimator: Any) -> BestRound:
        scores: dict[str, list[float]] = next(iter(estimator.evals_result_.values()))  # the booster ends at the best
        return BestRound(estimator.best_iteration_, len(next(iter(scores.values()))))

    def train(self, estimator: Any, X: Array, y: Array | None, sample_weight: Array | None, context: FitContext) -> Any:
        import lightgbm

        validation, resources = context.validation, context.resources
        rounds = LightGBMRounds(BoosterProgress(self.n_estimators, validation is not None, resources.safe_point))
        rows: dict[str, Any] = {"callbacks": [rounds]}
        if validation is not None:
            assert self.early_stopping_rounds is not None
            stop = lightgbm.early_stopping(self.early_stopping_rounds, first_metric_only=True, verbose=False)
            rows = {
                "callbacks": [rounds, stop], "eval_X": (validation.X,), "eval_y": (validation.y,),
                "eval_sample_weight": None if validation.weights is None else [validation.weights],
                "eval_metric": self.eval_metric,
            }  # fmt: skip
        if context.task == "ranking":
            own = order_by_group(X, y, context.groups, context.backend)
            own.require_sizes(MOST_ROWS, "LightGBM")
            X = own.X
            y = own.y
            rows["group"] = own.sizes
            if validation is not None:
                held = order_by_group(validation.X, validation.y, validation.groups, context.backend)
                rows |= {"eval_X": (held.X,), "eval_y": (held.y,), "eval_group": [held.sizes], "eval_at": (CUTOFF,)}
        if context.start is not None:
            rows["init_model"] = lightgbm.Booster(model_str=context.start.estimator.data.decode())
        categories = sorted(context.categorical) or "auto"
        try:
            with resources.show_progress(rounds.progress.read):
                return estimator.fit(X, y, sample_weight=sample_weight, categorical_feature=categories, **rows)
        except lightgbm.basic.LightGBMError as error:
            raise ValueError(str(error)) from error


class LightGBMRounds:
    """LightGBM callback: progress and a safe point after each round, and the best round if the training ends there."""

    def __init__(self, progress: BoosterProgress) -> None:
        self.progress = progress
        self.order = 25  # after LightGBM's record of the scores (20), before its early stopping (30)
        self._best = 0, [("", "", math.nan, False)]

    def __call__(self, env: Any) -> None:
        """Report the round; end the training with the best one so far if its time is over."""
        import lightgbm

        results = env.evaluation_result_list or []
        if not results:
            self.progress.advance(env.iteration + 1)
            return
        _, metric, value, is_greater_better, *_ = results[0]
        best = self._best[1][0][2]
        if math.isnan(best) or (value > best if is_greater_better else value < best):
            self._best = env.iteration, results
        if self.progress.advance(env.iteration + 1, metric, value):
            raise lightgbm.callback.EarlyStopException(*self._best)
