"""Gradient-boosted trees on the codes view: codes are split as categories, missing values stay missing.

The codes are used unchanged: 0 null, 1 unseen, 2 rare, then the levels. As a separate category, null scored as well as
NaN does (scikit-learn: equal; XGBoost: ROC-AUC 0.9293 against 0.9289 on the Adult table) and saves a copy of the
matrix; a level unseen in training scored better as an unknown category than as NaN.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

from pydantic import Field

from gpupipe.models.base import (
    MODELS,
    BestRound,
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
from gpupipe.models.boosting_rounds import BoosterProgress
from gpupipe.models.progress import ProgressReport
from gpupipe.tasks import CLASSIFICATION, SUPERVISED, Task
from gpupipe.typing import Matrix

if TYPE_CHECKING:
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

AUTO_STOP_ROWS = 10_000  # scikit-learn's limit for early_stopping "auto"
# 1,000 rounds at most, 300 without improvement, a fifth of the rows held out: the protocol of Better by Default (see
# below). AutoGluon 1.6 has the same patience for up to 10,000 rows.
_XGB_STOP = {"n_estimators": 1000, "early_stopping_rounds": 300, "validation_fraction": 0.2}
_XGB_CLASS = _XGB_STOP | {
    "max_depth": 6, "learning_rate": 0.08, "subsample": 0.65, "colsample_bylevel": 0.9, "min_child_weight": 5e-6,
    "reg_lambda": 0.0,
}  # fmt: skip
_XGB_NUMBER = _XGB_STOP | {
    "max_depth": 9, "learning_rate": 0.05, "subsample": 0.7, "min_child_weight": 2.0, "reg_lambda": 0.0,
}  # fmt: skip
_HGB = {
    "learning_rate": 0.05, "max_iter": 1000, "early_stopping": True, "n_iter_no_change": 300,
    "validation_fraction": 0.2,
}  # fmt: skip


@MODELS.register("hist_gradient_boosting")
class HistGradientBoosting(ModelSettings):
    """Histogram gradient boosting: a classifier or a regressor, by the task.

    Runs scikit-learn's ``HistGradientBoostingClassifier`` or ``HistGradientBoostingRegressor`` on the CPU only: cuML
    has no counterpart, so use ``xgboost`` on a GPU. It reads the codes view. Categorical columns of up to ``max_bins``
    codes are split as categories, longer ones as numbers.

    With ``early_stopping``, the model is trained again on all rows for the number of rounds that did best on the
    held-out rows. Tuned values of parameters that are not stated are those of AutoGluon 1.6 for LightGBM, whose trees
    have the same limits: a low learning rate, and rounds chosen by held-out rows. The larger trees of other published
    values for LightGBM go with a sample of the rows for each tree, which scikit-learn does not have. With ``defaults:
    library`` they are scikit-learn's, with one exception: ``early_stopping`` is false.
    """

    tasks = SUPERVISED
    view = "codes"
    accepts_missing = True
    tuned: ClassVar[Mapping[Task, Mapping[str, Any]]] = {task: _HGB for task in SUPERVISED}

    loss: Literal["auto", "log_loss", "squared_error", "absolute_error", "gamma", "poisson", "quantile"] = Field(
        "auto", description="Loss that is minimized. auto: log_loss for classification, squared_error for regression."
    )
    quantile: Annotated[float, Field(ge=0, le=1)] | None = Field(
        None, description="Quantile that is predicted, in [0, 1]; for the loss quantile."
    )
    learning_rate: Positive = Field(0.1, description="Factor on the contribution of each tree.")
    max_iter: PositiveInt = Field(100, description="Maximum number of rounds; each adds one tree (one per class).")
    max_leaf_nodes: Annotated[int, Field(ge=2)] | None = Field(
        31, description="Maximum number of leaves of a tree. null: no limit."
    )
    max_depth: PositiveInt | None = Field(None, description="Maximum depth of a tree, in levels. null: no limit.")
    min_samples_leaf: PositiveInt = Field(20, description="Minimum number of rows in a leaf.")
    l2_regularization: NonNegative = Field(0.0, description="Strength of the L2 penalty on the values of leaves.")
    max_features: Fraction = Field(1.0, description="Fraction of the features drawn for each split.")
    max_bins: Annotated[int, Field(ge=2, le=255)] = Field(
        255, description="Maximum number of bins of a feature; one more bin holds missing values."
    )
    monotonic_cst: Constraints = None
    interaction_cst: Literal["pairwise", "no_interactions"] | list[list[str]] | None = Field(
        None,
        description="Features that may occur together on a path of a tree, as lists of names. pairwise: any two. "
        "no_interactions: one. null: all.",
    )
    early_stopping: Literal["auto"] | bool = Field(
        False,
        description="Hold out validation_fraction of the rows, stop when their score no longer improves, and train "
        "again on all rows for the best number of rounds. auto: with more than 10,000 rows.",
    )
    scoring: str | None = Field(
        "loss", description="Score for early stopping: loss, or the name of a scikit-learn scorer."
    )
    validation_fraction: CountOrShare | None = Field(
        0.1,
        description="Rows held out for early stopping: an integer is a count, a float a fraction. null: the training "
        "rows decide.",
    )
    n_iter_no_change: PositiveInt = Field(
        10, description="Number of rounds without improvement after which training stops."
    )
    tol: NonNegative = Field(1e-7, description="Difference of scores that counts as an improvement.")
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

    def stops_early(self, n_rows: int) -> bool:
        return n_rows > AUTO_STOP_ROWS if self.early_stopping == "auto" else self.early_stopping

    def best_round(self, estimator: Any) -> BestRound:
        # Scores start with that of the prediction before the first tree.
        return BestRound(len(estimator._predictors), len(estimator.validation_score_) - 1)

    def with_rounds(self, n_rounds: int | None) -> Self:
        return self.model_copy(update={"max_iter": n_rounds or self.max_iter, "early_stopping": False})

    def train(self, estimator: Any, X: Array, y: Array | None, sample_weight: Array | None, context: FitContext) -> Any:
        X, validation = self._with_values(X), context.validation
        with context.resources.show_progress(partial(_boosting_iterations, estimator, self.max_iter)):
            if validation is None:
                return super().train(estimator, X, y, sample_weight, context)
            estimator.set_params(early_stopping=True)
            with _safe_points(estimator, BoosterProgress(self.max_iter, True, context.resources.safe_point)):
                estimator.fit(
                    X, y, sample_weight, X_val=validation.X, y_val=validation.y, sample_weight_val=validation.weights
                )
        # scikit-learn 1.9 keeps the rounds after the best one.
        del estimator._predictors[max(1, int(estimator.validation_score_[1:].argmax()) + 1) :]
        return estimator

    def _with_values(self, X: Array) -> Array:
        """Return `X`, with 0 in columns that have fewer values than `min_samples_leaf`, which no tree can split.

        scikit-learn 1.9 fails on a column without any value.
        """
        import numpy as np

        columns = range(X.shape[1])
        bare = [j for j in columns if np.count_nonzero(X[:, j] == X[:, j]) < self.min_samples_leaf]
        if bare:
            X = X.copy(order="F")
            X[:, bare] = 0.0
        return X


@contextmanager
def _safe_points(estimator: Any, progress: BoosterProgress) -> Iterator[None]:
    """Advance `progress` after each round of histogram gradient boosting with early stopping.

    scikit-learn 1.9 has no callback: its check of the scores, once per round, is wrapped.
    """
    should_stop = estimator._should_stop

    def check(scores: Any) -> bool:
        stops: bool = should_stop(scores)
        return progress.advance(len(scores) - 1) or stops

    estimator._should_stop = check
    try:
        yield
    finally:
        del estimator._should_stop


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
    if estimator.scoring == "loss":  # stored as a score: higher is better
        return ProgressReport(done, max_iter, "round", stops_early, "validation loss", -float(scores[-1]))
    name = f"validation {estimator.scoring or 'score'}"
    return ProgressReport(done, max_iter, "round", stops_early, name, float(scores[-1]))


@MODELS.register("xgboost")
class XGBoost(ModelSettings):
    """XGBoost: a classifier or a regressor, by the task.

    Runs ``xgboost.XGBClassifier`` or ``XGBRegressor``, on the CPU or the GPU (``pip install 'gpupipe[cpu]'`` installs
    it for the CPU). It reads the codes view; category codes are split as categories.

    With ``early_stopping_rounds``, the model is trained again on all rows for the number of rounds that did best on the
    held-out rows. Tuned values of parameters that are not stated are those of Holzmüller, Grinsztajn and Steinwart,
    Better by Default (NeurIPS 2024, https://arxiv.org/abs/2407.04491, XGB-TD), which were tuned on 118 other tables.
    With ``defaults: library`` they are XGBoost's, written out where its signature has None. ``tree_method`` is always
    hist or approx, the methods that support categories.
    """

    tasks = SUPERVISED
    view = "codes"
    accepts_missing = True
    takes_threads = True
    tuned: ClassVar[Mapping[Task, Mapping[str, Any]]] = {
        "binary": _XGB_CLASS,
        "multiclass": _XGB_CLASS,
        "regression": _XGB_NUMBER,
    }

    n_estimators: PositiveInt = Field(100, description="Maximum number of rounds; each adds one tree (one per class).")
    max_depth: NonNegativeInt = Field(6, description="Maximum depth of a tree, in levels. 0: no limit.")
    max_leaves: NonNegativeInt = Field(0, description="Maximum number of leaves of a tree. 0: no limit.")
    max_bin: Annotated[int, Field(ge=2)] = Field(256, description="Maximum number of bins of a feature.")
    grow_policy: Literal["depthwise", "lossguide"] = Field(
        "depthwise",
        description="Next node to split. depthwise: the one closest to the root. lossguide: the one with the largest "
        "gain.",
    )
    learning_rate: Positive = Field(0.3, description="Factor on the contribution of each tree.")
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
    ] = Field(
        "auto",
        description="Loss that is minimized. auto: binary:logistic, multi:softprob or reg:squarederror, by the task.",
    )
    booster: Literal["gbtree", "dart"] = Field(
        "gbtree", description="gbtree: plain boosting. dart: with dropout of trees."
    )
    tree_method: Literal["hist", "approx"] = Field(
        "hist", description="hist: bins computed once. approx: bins computed again for every tree."
    )
    gamma: NonNegative = Field(0.0, description="Minimum decrease of the loss by which a node is split.")
    min_child_weight: NonNegative = Field(
        1.0, description="Minimum sum of the second derivatives of the loss in a node (for squared error, its rows)."
    )
    max_delta_step: NonNegative = Field(0.0, description="Maximum absolute value of a leaf. 0: no limit.")
    subsample: Fraction = Field(1.0, description="Fraction of the rows drawn for each tree.")
    colsample_bytree: Fraction = Field(1.0, description="Fraction of the features drawn for each tree.")
    colsample_bylevel: Fraction = Field(1.0, description="Fraction of the tree's features drawn for each level.")
    colsample_bynode: Fraction = Field(1.0, description="Fraction of the level's features drawn for each split.")
    reg_alpha: NonNegative = Field(0.0, description="Strength of the L1 penalty on the values of leaves.")
    reg_lambda: NonNegative = Field(1.0, description="Strength of the L2 penalty on the values of leaves.")
    scale_pos_weight: Positive | None = Field(
        None, description="Factor on the weight of positive rows, for two classes. null: 1."
    )
    base_score: float | None = Field(
        None, description="Prediction before the first tree. null: estimated from the training rows."
    )
    num_parallel_tree: PositiveInt = Field(
        1, description="Number of trees grown in each round; above 1, a boosted random forest."
    )
    monotone_constraints: Constraints = None
    interaction_constraints: list[list[str]] | None = Field(
        None, description="Features that may occur together on a path of a tree, as lists of names. null: all."
    )
    max_cat_to_onehot: PositiveInt = Field(
        4, description="Columns with fewer categories are split one category against the others."
    )
    max_cat_threshold: PositiveInt = Field(64, description="Maximum number of categories considered for one split.")
    eval_metric: str | list[str] | None = Field(
        None,
        description="XGBoost metric for early stopping; of several, the last decides. null: that of the objective.",
    )
    early_stopping_rounds: PositiveInt | None = Field(
        None,
        description="Stop after this many rounds without improvement on held-out rows, then train again on all rows "
        "for the best number of rounds. null: never stop early.",
    )
    validation_fraction: Share = Field(
        0.1,
        description="Fraction of the training rows held out for early stopping: other groups, the latest rows, or "
        "drawn at random, as split says. Not a parameter of XGBoost.",
    )
    class_weight: ClassWeight = None

    def estimator_name(self, task: Task) -> str:
        return "XGBClassifier" if task in CLASSIFICATION else "XGBRegressor"

    def estimator_params(self, task: Task) -> dict[str, Any]:
        params = super().estimator_params(task)
        params["objective"] = choose_for_task("xgboost", "objective", self.objective, OBJECTIVES, task)
        if task in CLASSIFICATION:  # XGBClassifier sets it by the number of classes
            params.pop("objective")
        params.pop("validation_fraction")
        return params

    def stops_early(self, n_rows: int) -> bool:
        return self.early_stopping_rounds is not None

    def best_round(self, estimator: Any) -> BestRound:
        return BestRound(estimator.best_iteration + 1, estimator.get_booster().num_boosted_rounds())

    def with_rounds(self, n_rounds: int | None) -> Self:
        return self.model_copy(update={"n_estimators": n_rounds or self.n_estimators, "early_stopping_rounds": None})

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
            estimator.callbacks = None  # it references the run

    def _fit(self, estimator: Any, X: Array, y: Array | None, sample_weight: Array | None, context: FitContext) -> Any:
        validation = context.validation
        if validation is None:
            return estimator.fit(X, y, sample_weight=sample_weight)
        return estimator.fit(
            X,
            y,
            sample_weight=sample_weight,
            eval_set=[(validation.X, validation.y)],
            sample_weight_eval_set=None if validation.weights is None else [validation.weights],
            verbose=False,
        )
