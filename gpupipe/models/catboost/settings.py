"""CatBoost on the codes view: categories become statistics of the target, missing values stay missing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, PrivateAttr

from gpupipe.models.base import (
    MODELS,
    BestRound,
    ClassWeight,
    Constraints,
    EarlyStoppingRounds,
    Fraction,
    Invariance,
    NonNegative,
    Positive,
    PositiveInt,
    Share,
    ValidationFraction,
    constraint_list,
)
from gpupipe.models.boosting import BoosterProgress, BoostingSettings
from gpupipe.models.contradictions import Contradiction
from gpupipe.tasks import CLASSIFICATION, SUPERVISED, Task
from gpupipe.typing import Matrix

if TYPE_CHECKING:
    from gpupipe.models.context import FitContext
    from gpupipe.typing import Array

LOSSES: dict[Task, tuple[str, ...]] = {
    "binary": ("Logloss",),
    "multiclass": ("MultiClass",),
    "regression": ("RMSE", "MAE", "MAPE", "Quantile", "Poisson"),
    "quantile": ("Quantile",),
}
DIFFERENCES = frozenset({"auto", "RMSE", "MAE", "Quantile"})  # losses of differences from the target
METRICS_OF_DIFFERENCES = frozenset({None, "RMSE", "MAE", "R2"})
EXACT_LOSSES = ("MAE", "Quantile")  # their exact leaves, the default, ignore row weights in CatBoost 1.2
# CB_TD_CLASS and CB_TD_REG of pytabkit 1.7.3, default_params.py, with a fifth of the rows held out.
_STOP = {
    "iterations": 1000, "early_stopping_rounds": 300, "validation_fraction": 0.2, "l2_leaf_reg": 1e-5,
    "boosting_type": "Plain", "bootstrap_type": "Bernoulli", "subsample": 0.9, "border_count": 254,
}  # fmt: skip
_CLASS = _STOP | {
    "learning_rate": 0.08,
    "depth": 7,
    "random_strength": 0.8,
    "one_hot_max_size": 15,
    "leaf_estimation_iterations": 1,
}
_NUMBER = _STOP | {
    "learning_rate": 0.09,
    "depth": 9,
    "random_strength": 0.0,
    "one_hot_max_size": 20,
    "leaf_estimation_iterations": 20,
}


@MODELS.register("catboost")
class CatBoost(BoostingSettings):
    """CatBoost: a classifier or a regressor, by the task.

    Trains with ``catboost.CatBoostClassifier`` or ``CatBoostRegressor`` on the CPU (``pip install
    'gpupipe[catboost]'``). It reads the codes view; categories, and combinations of them, become ordered statistics of
    the target. Predictions need no CatBoost: gpupipe adds the leaves itself, with CatBoost's digits before the logistic
    function or softmax.

    With ``early_stopping_rounds``, the model is trained again on all rows for the number of rounds that did best on the
    held-out rows. Tuned values of parameters that are not stated are those of Holzmüller, Grinsztajn and Steinwart,
    Better by Default (NeurIPS 2024, https://arxiv.org/abs/2407.04491, CatBoost-TD), which were tuned on 118 other
    tables; for quantiles they are CatBoost's, with early stopping. With ``defaults: library`` they are CatBoost's; null
    leaves the choice to CatBoost. The trees are always symmetric. CatBoost's training on a GPU gives other trees and is
    not used.
    """

    tasks = SUPERVISED
    name = "catboost"
    losses = LOSSES
    loss_field = "loss_function"
    takes_threads = True
    extra = "catboost"
    can_state_rounds = False
    tuned: ClassVar[Mapping[Task, Mapping[str, Any]]] = {
        "binary": _CLASS,
        "multiclass": _CLASS,
        "regression": _NUMBER,
        "quantile": {"iterations": 1000, "early_stopping_rounds": 300, "validation_fraction": 0.2},
    }
    contradictions = (
        Contradiction("bootstrap_type", (None, "Bayesian", "No"), "subsample", (None,), "MVS"),
        Contradiction("bootstrap_type", (None, "Bernoulli", "MVS", "No"), "bagging_temperature", (None,), "Bayesian"),
    )
    # Rounds after which a second training stops: `iterations` also determines the learning rate and how fast the
    # randomness of splits decreases.
    _n_rounds: int | None = PrivateAttr(None)

    iterations: PositiveInt = Field(1000, description="Maximum number of rounds; each adds one tree.")
    learning_rate: Positive | None = Field(
        None,
        description="Factor on the contribution of each tree. null: by the number of rows and rounds; 0.03 if "
        "l2_leaf_reg or leaf_estimation_iterations is given.",
    )
    depth: Annotated[int, Field(ge=1, le=16)] = Field(6, description="Depth of the trees, in levels.")
    loss_function: Literal["auto", "Logloss", "MultiClass", "RMSE", "MAE", "MAPE", "Quantile", "Poisson"] = Field(
        "auto", description="Loss that is minimized. auto: Logloss, MultiClass, RMSE or Quantile, by the task."
    )
    quantile: Share = Field(0.5, description="Quantile that is predicted, for the loss Quantile; CatBoost's alpha.")
    l2_leaf_reg: NonNegative | None = Field(
        None,
        description="Strength of the L2 penalty on the values of leaves. null: 3.",
    )
    random_strength: NonNegative = Field(1.0, description="Amount of randomness in the scores of splits.")
    bootstrap_type: Literal["Bayesian", "Bernoulli", "MVS", "No"] | None = Field(
        None,
        description="Sampling of rows. Bayesian: random weights. Bernoulli: a random fraction. MVS: by gradients. No: "
        "all rows. null: by the task and the number of rows.",
    )
    subsample: Fraction | None = Field(
        None, description="Fraction of the rows drawn for each tree, for Bernoulli and MVS. null: by their number."
    )
    bagging_temperature: NonNegative | None = Field(
        None, description="Spread of the weights of Bayesian; 0: all weigh 1. null: 1."
    )
    rsm: Fraction = Field(1.0, description="Fraction of the features drawn for each split.")
    border_count: Annotated[int, Field(ge=1, le=65_535)] = Field(
        254, description="Maximum number of borders between the bins of a number."
    )
    nan_mode: Literal["Min", "Max"] = Field(
        "Min", description="Missing numbers. Min: below all others. Max: above all others."
    )
    one_hot_max_size: Annotated[int, Field(ge=0, le=255)] | None = Field(
        None,
        description="Columns with at most this many categories are split one category against the others; longer ones "
        "become statistics of the target. null: by the task and the number of rows.",
    )
    max_ctr_complexity: Annotated[int, Field(ge=1, le=15)] = Field(
        4, description="Maximum number of columns whose categories are combined."
    )
    model_size_reg: NonNegative = Field(0.5, description="Strength of the penalty on combinations with many values.")
    boosting_type: Literal["Ordered", "Plain"] | None = Field(
        None,
        description="Ordered: leaves of a row are computed from rows before it. Plain: from all rows. null: by the "
        "number of rows.",
    )
    leaf_estimation_iterations: PositiveInt | None = Field(
        None, description="Number of steps by which the values of leaves are computed. null: by the loss."
    )
    monotone_constraints: Constraints = None
    eval_metric: str | None = Field(None, description="CatBoost metric for early stopping. null: the loss.")
    early_stopping_rounds: EarlyStoppingRounds = None
    validation_fraction: ValidationFraction = 0.1
    class_weight: ClassWeight = None

    def thread_note(self, n_threads: int, estimator: Any) -> str:
        # CatBoost 1.2 compares sums of the loss after each of these steps, which it adds up by thread.
        n_steps = estimator.get_all_params().get("leaf_estimation_iterations", 1)
        if n_steps == 1:
            return ""
        steps = f"leaf_estimation_iterations: {n_steps}"
        return f"with {steps}, the model of a large table depends on the number of threads, here {n_threads}"

    def estimator_name(self, task: Task) -> str:
        return "CatBoostClassifier" if task in CLASSIFICATION else "CatBoostRegressor"

    def estimator_params(self, task: Task) -> dict[str, Any]:
        params = {name: value for name, value in super().estimator_params(task).items() if value is not None}
        for name in ("early_stopping_rounds", "quantile", "validation_fraction"):
            params.pop(name, None)
        loss = self.loss_for(task)
        params["loss_function"] = f"Quantile:alpha={self.quantile}" if loss == "Quantile" else loss
        if task in CLASSIFICATION:  # CatBoostClassifier sets it by the number of classes
            params.pop("loss_function")
        return {**params, "allow_writing_files": False, "logging_level": "Silent"}

    def target_invariance(self, task: Task) -> Invariance:
        known = self.loss_function in DIFFERENCES and self.eval_metric in METRICS_OF_DIFFERENCES
        return "affine" if known else "none"

    def data_params(self, X: Matrix, context: FitContext) -> dict[str, Any]:
        signs = constraint_list(self.monotone_constraints, context.feature_names, "catboost.monotone_constraints")
        return {} if signs is None else {"monotone_constraints": signs}

    def build(self, context: FitContext, params: Mapping[str, Any]) -> Any:
        named = {"n_jobs": "thread_count"}
        return super().build(context, {named.get(name, name): value for name, value in params.items()})

    def best_round(self, estimator: Any) -> BestRound:
        scores = estimator.get_evals_result()["validation"]
        return BestRound(estimator.tree_count_, len(next(iter(scores.values()))))

    def with_rounds(self, n_rounds: int | None) -> Self:
        found = self.model_copy(update={"early_stopping_rounds": None})
        found._n_rounds = n_rounds
        return found

    def train(self, estimator: Any, X: Array, y: Array | None, sample_weight: Array | None, context: FitContext) -> Any:
        import catboost

        validation, resources = context.validation, context.resources
        if sample_weight is not None and str(estimator.get_param("loss_function")).startswith(EXACT_LOSSES):
            estimator.set_params(leaf_estimation_method="Gradient")
        n_rounds = self._n_rounds or self.iterations
        rounds = CatBoostRounds(BoosterProgress(n_rounds, validation is not None, resources.safe_point))
        more: dict[str, Any] = {}
        if validation is not None:
            held_out = _pool(validation.X, validation.y, validation.weights, context)
            more = {"eval_set": held_out, "early_stopping_rounds": self.early_stopping_rounds, "use_best_model": True}
        try:
            with resources.show_progress(rounds.progress.read):
                estimator.fit(_pool(X, y, sample_weight, context), callbacks=[rounds], **more)
        except catboost.CatBoostError as error:
            raise ValueError(str(error)) from error
        if rounds.error is not None:
            raise rounds.error
        return estimator


class CatBoostRounds:
    """CatBoost callback: progress and a safe point after each round, and a number of rounds after which to stop."""

    def __init__(self, progress: BoosterProgress) -> None:
        self.progress = progress
        self.error: BaseException | None = None

    def after_iteration(self, info: Any) -> bool:
        """Return whether to train another round. CatBoost would wrap errors, so they are kept in ``error``."""
        metrics = (info.metrics or {}).get("validation", {})
        name, values = next(iter(reversed(metrics.items())), ("", [None]))
        try:
            is_over = self.progress.advance(info.iteration, name, values[-1])
        except BaseException as error:
            self.error = error
            return False
        return not is_over and info.iteration < self.progress.n_rounds


def _pool(X: Array, y: Array | None, weights: Array | None, context: FitContext) -> Any:
    """Return CatBoost's form of the rows: categories must be integers, so a matrix that has some becomes a frame."""
    import catboost
    import numpy as np
    import pandas as pd

    if not context.categorical:
        return catboost.Pool(X, y, weight=weights)  # reads the columns where they are
    columns = {j: X[:, j].astype(np.int32) if j in context.categorical else X[:, j] for j in range(X.shape[1])}
    return catboost.Pool(pd.DataFrame(columns, copy=False), y, weight=weights, cat_features=sorted(context.categorical))
