"""Boosted trees. They see integer codes, split them as categories, and take missing values as they are.

Codes go in as they come: 0 null, 1 unseen, 2 rare, then the levels. Null as a category of its own scored as well as
null as NaN (scikit-learn: equal; XGBoost: ROC-AUC 0.9293 against 0.9289 on the Adult table), saves a copy of the
matrix, and a code never met in training scored better as an unknown category than as NaN.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from gpupipe.models.base import (
    MODELS,
    ClassWeight,
    Constraints,
    CountOrShare,
    Fraction,
    ModelSettings,
    NonNegative,
    NonNegativeInt,
    Positive,
    PositiveInt,
    Share,
    choose_for_task,
    column_index,
    constraint_list,
)
from gpupipe.models.progress import ProgressReport
from gpupipe.tasks import CLASSIFICATION, SUPERVISED, Task
from gpupipe.typing import Matrix

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpupipe.models.context import FitContext
    from gpupipe.typing import Array

_NUMBER_LOSSES = ("squared_error", "absolute_error", "gamma", "poisson", "quantile")
LOSSES: dict[Task, tuple[str, ...]] = {
    "binary": ("log_loss",),
    "multiclass": ("log_loss",),
    "regression": _NUMBER_LOSSES,
}
OBJECTIVES: dict[Task, tuple[str, ...]] = {
    "binary": ("binary:logistic",),
    "multiclass": ("multi:softprob",),
    "regression": (
        "reg:squarederror",
        "reg:squaredlogerror",
        "reg:absoluteerror",
        "reg:pseudohubererror",
        "reg:gamma",
        "reg:tweedie",
        "count:poisson",
    ),
}


@MODELS.register("hist_gradient_boosting")
class HistGradientBoosting(ModelSettings):
    """Histogram gradient boosting of scikit-learn, classifier or regressor by the task.

    Categorical columns of up to ``max_bins`` codes are split as categories, longer ones as numbers. One default differs
    from scikit-learn's: ``early_stopping`` false, because "auto" takes a tenth of the training rows away as soon as
    there are more than 10,000. ``loss`` is "auto" for the task's first: log_loss or squared_error.
    """

    tasks = SUPERVISED
    view = "codes"
    accepts_missing = True

    loss: Literal["auto", "log_loss", "squared_error", "absolute_error", "gamma", "poisson", "quantile"] = "auto"
    quantile: Annotated[float, Field(ge=0, le=1)] | None = None
    learning_rate: Positive = 0.1
    max_iter: PositiveInt = 100
    max_leaf_nodes: Annotated[int, Field(ge=2)] | None = 31
    max_depth: PositiveInt | None = None
    min_samples_leaf: PositiveInt = 20
    l2_regularization: NonNegative = 0.0
    max_features: Fraction = 1.0
    max_bins: Annotated[int, Field(ge=2, le=255)] = 255
    monotonic_cst: Constraints = None
    interaction_cst: Literal["pairwise", "no_interactions"] | list[list[str]] | None = None
    early_stopping: Literal["auto"] | bool = False
    scoring: str | None = "loss"
    validation_fraction: CountOrShare | None = 0.1
    n_iter_no_change: PositiveInt = 10
    tol: NonNegative = 1e-7
    class_weight: ClassWeight = None

    def estimator_name(self, task: Task) -> str:
        return "HistGradientBoostingClassifier" if task in CLASSIFICATION else "HistGradientBoostingRegressor"

    def estimator_params(self, task: Task) -> dict[str, Any]:
        params = super().estimator_params(task)
        params["loss"] = choose_for_task("hist_gradient_boosting", "loss", self.loss, LOSSES, task)
        if task in CLASSIFICATION:
            params.pop("quantile")
        return params

    def data_params(self, X: Matrix, context: FitContext) -> dict[str, Any]:
        names = context.feature_names
        params: dict[str, Any] = {
            "categorical_features": [j for j, n_codes in context.categorical.items() if n_codes <= self.max_bins]
            or None,
            "monotonic_cst": constraint_list(self.monotonic_cst, names, "hist_gradient_boosting.monotonic_cst"),
        }
        if isinstance(self.interaction_cst, list):
            where = "hist_gradient_boosting.interaction_cst"
            params["interaction_cst"] = [
                {column_index(name, names, where) for name in group} for group in self.interaction_cst
            ]
        return params

    def matrix(self, X: Array, params: Mapping[str, Any]) -> Array:
        """Return `X`, with 0 in the columns that too few rows have a value of for any tree to split them.

        scikit-learn 1.9 fails on a column in which it finds no value at all.
        """
        import numpy as np

        columns = range(X.shape[1])
        bare = [j for j in columns if np.count_nonzero(X[:, j] == X[:, j]) < self.min_samples_leaf]
        if bare:
            X = X.copy(order="F")
            X[:, bare] = 0.0
        return X

    def train(self, estimator: Any, X: Array, y: Array | None, sample_weight: Array | None, context: FitContext) -> Any:
        with context.resources.show_progress(partial(_boosting_iterations, estimator, self.max_iter)):
            return super().train(estimator, X, y, sample_weight, context)


def _boosting_iterations(estimator: Any, max_iter: int) -> ProgressReport | None:
    """Return the progress of scikit-learn's histogram gradient boosting, which has no callback as of 1.9.

    Its fitted attributes are lists that grow with each iteration.
    """
    predictors = getattr(estimator, "_predictors", None)
    if predictors is None:
        return None
    done = sum(len(trees) == estimator.n_trees_per_iteration_ for trees in predictors[-1:]) + len(predictors[:-1])
    stops_early = bool(getattr(estimator, "do_early_stopping_", False))
    scores: Any = getattr(estimator, "validation_score_", ())
    if not stops_early or not len(scores):
        return ProgressReport(done, max_iter, "round", stops_early)
    if estimator.scoring == "loss":  # kept as a score: higher is better
        return ProgressReport(done, max_iter, "round", stops_early, "validation loss", -float(scores[-1]))
    name = f"validation {estimator.scoring or 'score'}"
    return ProgressReport(done, max_iter, "round", stops_early, name, float(scores[-1]))


@MODELS.register("xgboost")
class XGBoost(ModelSettings):
    """XGBoost, classifier or regressor by the task (``pip install 'gpupipe[cpu]'``).

    Where XGBoost's own signature says None, the value that it then takes is written out. ``tree_method`` is hist, the
    one that knows categories. With ``early_stopping_rounds``, ``validation_fraction`` of the training rows (drawn with
    the seed) decides when to stop.
    """

    tasks = SUPERVISED
    view = "codes"
    accepts_missing = True
    takes_threads = True

    n_estimators: PositiveInt = 100
    max_depth: NonNegativeInt = 6
    max_leaves: NonNegativeInt = 0
    max_bin: Annotated[int, Field(ge=2)] = 256
    grow_policy: Literal["depthwise", "lossguide"] = "depthwise"
    learning_rate: Positive = 0.3
    objective: Literal[
        "auto",
        "binary:logistic",
        "multi:softprob",
        "reg:squarederror",
        "reg:squaredlogerror",
        "reg:absoluteerror",
        "reg:pseudohubererror",
        "reg:gamma",
        "reg:tweedie",
        "count:poisson",
    ] = "auto"
    booster: Literal["gbtree", "dart"] = "gbtree"
    tree_method: Literal["hist", "approx"] = "hist"
    gamma: NonNegative = 0.0
    min_child_weight: NonNegative = 1.0
    max_delta_step: NonNegative = 0.0
    subsample: Fraction = 1.0
    colsample_bytree: Fraction = 1.0
    colsample_bylevel: Fraction = 1.0
    colsample_bynode: Fraction = 1.0
    reg_alpha: NonNegative = 0.0
    reg_lambda: NonNegative = 1.0
    scale_pos_weight: Positive | None = None
    base_score: float | None = None
    num_parallel_tree: PositiveInt = 1
    monotone_constraints: Constraints = None
    interaction_constraints: list[list[str]] | None = None
    max_cat_to_onehot: PositiveInt = 4
    max_cat_threshold: PositiveInt = 64
    eval_metric: str | list[str] | None = None
    early_stopping_rounds: PositiveInt | None = None
    validation_fraction: Share = 0.1
    class_weight: ClassWeight = None

    def estimator_name(self, task: Task) -> str:
        return "XGBClassifier" if task in CLASSIFICATION else "XGBRegressor"

    def estimator_params(self, task: Task) -> dict[str, Any]:
        params = super().estimator_params(task)
        params["objective"] = choose_for_task("xgboost", "objective", self.objective, OBJECTIVES, task)
        if task in CLASSIFICATION:  # XGBClassifier counts the classes that are there and sets it by itself
            params.pop("objective")
        params.pop("validation_fraction")
        return params

    def data_params(self, X: Matrix, context: FitContext) -> dict[str, Any]:
        names = context.feature_names
        params: dict[str, Any] = {"enable_categorical": bool(context.categorical)}
        if context.categorical:
            params["feature_types"] = ["c" if j in context.categorical else "q" for j in range(X.shape[1])]
        signs = constraint_list(self.monotone_constraints, names, "xgboost.monotone_constraints")
        params["monotone_constraints"] = None if signs is None else str(tuple(signs))
        if self.interaction_constraints is not None:
            where = "xgboost.interaction_constraints"
            groups = [[column_index(name, names, where) for name in group] for group in self.interaction_constraints]
            params["interaction_constraints"] = str(groups)
        return params

    def train(self, estimator: Any, X: Array, y: Array | None, sample_weight: Array | None, context: FitContext) -> Any:
        from gpupipe.models.xgboost_rounds import BoostingRounds

        resources = context.resources
        rounds = BoostingRounds(self.n_estimators, self.early_stopping_rounds is not None, resources.safe_point)
        estimator.callbacks = [rounds]
        try:
            with resources.show_progress(rounds.read):
                return self._fit(estimator, X, y, sample_weight, context)
        finally:
            estimator.callbacks = None  # it holds on to the run

    def draw_validation_rows(self, n_rows: int, seed: int) -> Array | None:
        """Return which rows decide when the training stops early, None if it does not."""
        if self.early_stopping_rounds is None:
            return None
        import numpy as np

        drawn: Array = np.random.default_rng(seed).random(n_rows) < self.validation_fraction
        return drawn

    def _fit(self, estimator: Any, X: Array, y: Array | None, sample_weight: Array | None, context: FitContext) -> Any:
        drawn = self.draw_validation_rows(len(X), context.seed)
        if drawn is None:
            return estimator.fit(X, y, sample_weight=sample_weight)
        assert y is not None
        held_out = context.backend.to_device(drawn)
        weights = (None, None) if sample_weight is None else (sample_weight[~held_out], [sample_weight[held_out]])
        validation = [(X[held_out], y[held_out])]
        return estimator.fit(
            X[~held_out],
            y[~held_out],
            sample_weight=weights[0],
            eval_set=validation,
            sample_weight_eval_set=weights[1],
            verbose=False,
        )
