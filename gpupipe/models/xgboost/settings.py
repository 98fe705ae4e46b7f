"""XGBoost on the codes view: codes are split as categories, missing values stay missing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from gpupipe.errors import ConfigError
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
    Share,
    ValidationFraction,
    constraint_list,
    feature_groups,
)
from gpupipe.models.boosting import BoostingSettings
from gpupipe.models.group_order import order_by_group
from gpupipe.models.xgboost.outputs import SCALED, OutputScale, rescale_outputs
from gpupipe.tasks import CLASSIFICATION, SUPERVISED, TargetSpec, Task
from gpupipe.typing import Matrix

if TYPE_CHECKING:
    from gpupipe.models.context import FitContext
    from gpupipe.typing import Array

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
        "reg:quantileerror",
    ),
    "quantile": ("reg:quantileerror",),
    "ranking": ("rank:ndcg", "rank:map", "rank:pairwise"),
}

# Losses and metrics of differences from the target, without a threshold in its units.
DIFFERENCES = frozenset({"auto", "reg:squarederror", "reg:absoluteerror", "reg:quantileerror"})
METRICS_OF_DIFFERENCES = frozenset({"rmse", "mae", "quantile"})

# 1,000 rounds at most, 300 without improvement, a fifth of the rows held out: the protocol of Better by Default (see
# below). AutoGluon 1.6 has the same patience for up to 10,000 rows.
_XGB_STOP = {"n_estimators": 1000, "early_stopping_rounds": 300, "validation_fraction": 0.2}
_XGB_CLASS = _XGB_STOP | {
    "max_depth": 6,
    "learning_rate": 0.08,
    "subsample": 0.65,
    "colsample_bylevel": 0.9,
    "min_child_weight": 5e-6,
    "reg_lambda": 0.0,
}
_XGB_NUMBER = _XGB_STOP | {
    "max_depth": 9,
    "learning_rate": 0.05,
    "subsample": 0.7,
    "min_child_weight": 2.0,
    "reg_lambda": 0.0,
}


@MODELS.register("xgboost")
class XGBoost(BoostingSettings):
    """XGBoost: a classifier, a regressor or a ranker, by the task.

    Runs ``xgboost.XGBClassifier``, ``XGBRegressor`` or ``XGBRanker``, on the CPU or the GPU (``pip install
    'gpupipe[cpu]'`` installs it for the CPU). It reads the codes view; category codes are split as categories.

    With ``early_stopping_rounds``, the model is trained again on all rows for the number of rounds that did best on the
    held-out rows. Tuned values of parameters that are not stated are those of Holzmüller, Grinsztajn and Steinwart,
    Better by Default (NeurIPS 2024, https://arxiv.org/abs/2407.04491, XGB-TD), which were tuned on 118 other tables.
    For quantiles they are XGBoost's trees with a low learning rate, early stopping and 20 rows in a leaf, as many as in
    scikit-learn and LightGBM, since smaller leaves overfit the tails; for rankings, XGBoost's trees with a low learning
    rate and early stopping. With ``defaults: library`` they are XGBoost's,
    written out where its signature has None. ``tree_method`` is always hist or approx, the methods that support
    categories.
    """

    tasks = SUPERVISED | {"ranking"}
    name = "xgboost"
    losses = OBJECTIVES
    quantile_field = "quantile_alpha"
    takes_threads = True
    cells_per_thread = 100_000
    tuned: ClassVar[Mapping[Task, Mapping[str, Any]]] = {
        "binary": _XGB_CLASS,
        "multiclass": _XGB_CLASS,
        "regression": _XGB_NUMBER,
        "quantile": _XGB_STOP | {"learning_rate": 0.05, "min_child_weight": 20.0},
        "ranking": _XGB_STOP | {"learning_rate": 0.05},
    }
    smallest_targets: ClassVar[Mapping[str, tuple[str, float]]] = {
        "reg:gamma": (">", 0.0), "reg:tweedie": (">=", 0.0), "count:poisson": (">=", 0.0),
        "reg:squaredlogerror": (">", -1.0),
    }  # fmt: skip

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
        "reg:quantileerror",
        "rank:ndcg",
        "rank:map",
        "rank:pairwise",
    ] = Field(
        "auto",
        description="Loss that is minimized. auto: binary:logistic, multi:softprob, reg:squarederror, "
        "reg:quantileerror or rank:ndcg, by the task.",
    )
    quantile_alpha: Share = Field(
        0.5, description="Quantile that is predicted, for the task regression with reg:quantileerror."
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
    scale_pos_weight: ScalePosWeight = None
    base_score: float | None = Field(
        None, description="Prediction before the first tree. null: estimated from the training rows."
    )
    num_parallel_tree: PositiveInt = Field(
        1, description="Number of trees grown in each round; above 1, a boosted random forest."
    )
    monotone_constraints: Constraints = None
    interaction_constraints: InteractionConstraints = None
    max_cat_to_onehot: PositiveInt = Field(
        4, description="Columns with fewer categories are split one category against the others."
    )
    max_cat_threshold: PositiveInt = Field(64, description="Maximum number of categories considered for one split.")
    eval_metric: str | list[str] | None = Field(
        None,
        description="XGBoost metric for early stopping; of several, the last decides. null: that of the objective.",
    )
    multi_strategy: Literal["one_output_per_tree", "multi_output_tree"] = Field(
        "one_output_per_tree",
        description="For several targets. one_output_per_tree: a model for each, with its own number of rounds. "
        "multi_output_tree: one model, whose trees have a number for each target in their leaves; for gbtree and hist.",
    )
    early_stopping_rounds: EarlyStoppingRounds = None
    validation_fraction: ValidationFraction = 0.1
    class_weight: ClassWeight = None

    def estimator_name(self, task: Task) -> str:
        return "XGBClassifier" if task in CLASSIFICATION else "XGBRanker" if task == "ranking" else "XGBRegressor"

    def estimator_params(self, task: Task) -> dict[str, Any]:
        params = super().estimator_params(task)
        params["objective"] = self.loss_for(task)
        if task in CLASSIFICATION:  # XGBClassifier sets it by the number of classes
            params.pop("objective")
        for name in ("validation_fraction", "multi_strategy"):
            params.pop(name)
        if self.objective != "reg:quantileerror":
            params.pop("quantile_alpha")
        return params

    def target_invariance(self, task: Task) -> Invariance:
        metrics = [self.eval_metric] if isinstance(self.eval_metric, str) else self.eval_metric or ()
        if self.base_score is not None or not METRICS_OF_DIFFERENCES.issuperset(metrics):
            return "none"
        if self.objective not in DIFFERENCES:
            return "shift" if self.objective == "reg:pseudohubererror" else "none"
        return "shift" if self.gamma or self.reg_alpha or self.max_delta_step else "affine"

    @model_validator(mode="after")
    def _has_trees_of_several_outputs(self) -> Self:
        if self.learns_jointly and (self.booster, self.tree_method) != ("gbtree", "hist"):
            raise ValueError("multi_strategy: multi_output_tree needs booster: gbtree and tree_method: hist")
        if self.learns_jointly and self.base_score is not None:
            raise ValueError("base_score: it is one number; multi_output_tree estimates one for each target")
        for name in ("monotone_constraints", "interaction_constraints"):
            if self.learns_jointly and getattr(self, name) is not None:
                raise ValueError(f"{name}: multi_output_tree has none; use one_output_per_tree")
        if self.learns_jointly and self.objective == "reg:quantileerror":
            raise ValueError("multi_strategy: multi_output_tree has no reg:quantileerror; use one_output_per_tree")
        return self

    @property
    def learns_jointly(self) -> bool:
        return self.multi_strategy == "multi_output_tree"

    def require_targets(self, targets: Sequence[TargetSpec], has_categories: bool = False) -> None:
        super().require_targets(targets, has_categories)
        tasks = {target.task for target in targets}
        if tasks not in ({"regression"}, {"binary"}):
            raise ConfigError(
                "multi_strategy: multi_output_tree needs targets that are all numbers, or all of two classes",
                where="models: xgboost.multi_strategy",
                fix="use one_output_per_tree",
            )
        needed = 3, 4 if has_categories else 2
        if _library_version() < needed:
            what = "categorical columns" if has_categories else "several targets"
            raise ConfigError(
                f"multi_strategy: multi_output_tree with {what} needs XGBoost {needed[0]}.{needed[1]} or later; found "
                f"{'.'.join(map(str, _library_version()))}",
                where="models: xgboost.multi_strategy",
                fix="use one_output_per_tree, update XGBoost (3.4 needs Python 3.12), or encode the columns as numbers",
            )

    def reads_selected_rows(self, task: Task) -> bool:
        return self.tree_method == "hist" and task != "ranking"

    def best_round(self, estimator: Any) -> BestRound:
        return BestRound(estimator.best_iteration + 1, estimator.get_booster().num_boosted_rounds())

    def data_params(self, X: Matrix, context: FitContext) -> dict[str, Any]:
        names = context.feature_names
        params: dict[str, Any] = {"enable_categorical": bool(context.categorical)}
        if context.categorical:
            params["feature_types"] = ["c" if j in context.categorical else "q" for j in range(X.shape[1])]
        signs = constraint_list(self.monotone_constraints, names, "xgboost.monotone_constraints")
        params["monotone_constraints"] = None if signs is None else str(tuple(signs))
        groups = feature_groups(self.interaction_constraints, names, "xgboost.interaction_constraints")
        if groups is not None:
            params["interaction_constraints"] = str(groups)
        if context.targets:
            params["multi_strategy"] = self.multi_strategy
        return params

    def train(self, estimator: Any, X: Array, y: Array | None, sample_weight: Array | None, context: FitContext) -> Any:
        from gpupipe.models.xgboost.rounds import BoostingRounds
        from gpupipe.models.xgboost.row_blocks import bin_selected_rows

        resources = context.resources
        rounds = BoostingRounds(self.n_estimators, self.early_stopping_rounds is not None, resources.safe_point)
        estimator.callbacks = [rounds]
        try:
            with bin_selected_rows(estimator), resources.show_progress(rounds.read):
                return self._fit(estimator, X, y, sample_weight, context)
        finally:
            estimator.callbacks = None  # it references the run

    def _fit(self, estimator: Any, X: Array, y: Array | None, sample_weight: Array | None, context: FitContext) -> Any:
        if y is None or not context.targets or estimator.objective not in SCALED:
            return self._fit_once(estimator, X, y, sample_weight, context)
        to_host, to_device = context.backend.to_host, context.backend.to_device
        scale = OutputScale.of(to_host(y), None if sample_weight is None else to_host(sample_weight))
        if (held := context.validation) is not None:
            context = replace(context, validation=replace(held, y=to_device(scale.apply(to_host(held.y)))))
        fitted = self._fit_once(estimator, X, to_device(scale.apply(to_host(y))), sample_weight, context)
        fitted.load_model(rescale_outputs(fitted.get_booster().save_raw("ubj"), scale))
        if fitted.device is not None:  # a loaded Booster predicts on the host
            fitted.get_booster().set_param({"device": fitted.device})
        return fitted

    def _fit_once(
        self, estimator: Any, X: Array, y: Array | None, sample_weight: Array | None, context: FitContext
    ) -> Any:
        validation = context.validation
        if context.task == "ranking":
            return self._fit_groups(estimator, X, y, context)
        if validation is None:
            start = None if context.start is None else context.start.estimator
            return estimator.fit(X, y, sample_weight=sample_weight, xgb_model=start)
        return estimator.fit(
            X,
            y,
            sample_weight=sample_weight,
            eval_set=[(validation.X, validation.y)],
            sample_weight_eval_set=None if validation.weights is None else [validation.weights],
            verbose=False,
        )

    def _fit_groups(self, estimator: Any, X: Array, y: Array | None, context: FitContext) -> Any:
        rows, held = order_by_group(X, y, context.groups, context.backend), context.validation
        if self.objective == "rank:map" and float(rows.y.max()) > 1:
            raise ValueError("rank:map is for relevances of 0 and 1; use rank:ndcg")
        to_device = context.backend.to_device
        if held is None:
            return estimator.fit(rows.X, rows.y, qid=to_device(rows.group))
        given = order_by_group(held.X, held.y, held.groups, context.backend)
        return estimator.fit(
            rows.X,
            rows.y,
            qid=to_device(rows.group),
            eval_set=[(given.X, given.y)],
            eval_qid=[to_device(given.group)],
            verbose=False,
        )


def native_parameters(estimator: Any, n_classes: int) -> dict[str, Any]:
    """Return the parameters of ``xgboost.train`` for an XGBClassifier or XGBRegressor that is not fitted."""
    params: dict[str, Any] = estimator.get_xgb_params()
    if estimator.eval_metric is not None:
        params["eval_metric"] = estimator.eval_metric
    if n_classes > 2:
        params |= {"objective": "multi:softprob", "num_class": n_classes}
    return params


def _library_version() -> tuple[int, ...]:
    """Return the major and minor version of the installed XGBoost."""
    import xgboost

    return tuple(int(part) for part in xgboost.__version__.split(".")[:2])
