"""Forests on the codes view: integer codes are ordered like numbers, missing values stay missing."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import Field

from gpupipe.errors import ConfigError
from gpupipe.models.base import (
    MODELS,
    ClassWeight,
    Constraints,
    CountOrShare,
    Fraction,
    Invariance,
    ModelSettings,
    NonNegative,
    PositiveInt,
    choose_for_task,
    constraint_list,
)
from gpupipe.models.contradictions import Contradiction
from gpupipe.models.progress import ProgressReport, ShowProgress
from gpupipe.tasks import CLASSIFICATION, REGRESSION, Task
from gpupipe.typing import Matrix

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpupipe.models.context import FitContext
    from gpupipe.typing import Array

_CLASSIFIER = ("gini", "entropy", "log_loss")
_REGRESSOR = ("squared_error", "absolute_error", "poisson")
CRITERIA: dict[Task, tuple[str, ...]] = {"binary": _CLASSIFIER, "multiclass": _CLASSIFIER, "regression": _REGRESSOR}


@MODELS.register("random_forest")
class RandomForest(ModelSettings):
    """Random forest: a classifier or a regressor, by the task.

    Runs scikit-learn's ``RandomForestClassifier`` or ``RandomForestRegressor`` on the CPU and cuML's on the GPU, which
    splits a column at up to 128 quantiles and takes no missing values. It reads the codes view: category codes are
    split like numbers, and trees choose a side for missing values.

    Tuned values of parameters that are not stated are those of AutoGluon 1.6: 300 trees of at most 15,000 leaves. With
    ``defaults: library`` they are scikit-learn's. Where these differ by task, the default here is "auto": for
    ``criterion`` and ``max_features``.
    """

    name: ClassVar[str] = "random_forest"
    library_class: ClassVar[str] = "RandomForest"
    tasks = CLASSIFICATION | REGRESSION
    view = "codes"
    accepts_missing = True
    takes_threads = True
    # The limit keeps the trees of a large table small, and has no effect on tables of up to 15,000 rows.
    tuned: ClassVar[Mapping[Task, Mapping[str, Any]]] = {
        task: {"n_estimators": 300, "max_leaf_nodes": 15_000} for task in CLASSIFICATION | REGRESSION
    }
    contradictions = (Contradiction("bootstrap", (False,), "max_samples", (None,), True),)
    smallest_targets: ClassVar[Mapping[str, tuple[str, float]]] = {"poisson": (">=", 0.0)}

    n_estimators: PositiveInt = Field(100, description="Number of trees.")
    criterion: Literal["auto", "gini", "entropy", "log_loss", "squared_error", "absolute_error", "poisson"] = Field(
        "auto",
        description="Measure of the quality of a split. auto: gini for classification, squared_error for regression. "
        "absolute_error: CPU only.",
    )
    max_depth: PositiveInt | None = Field(None, description="Maximum depth of a tree, in levels. null: no limit.")
    min_samples_split: Annotated[int, Field(ge=2)] | Fraction = Field(
        2, description="Minimum rows of a node that is split: an integer is a count, a float a fraction of the rows."
    )
    min_samples_leaf: CountOrShare = Field(
        1, description="Minimum rows of a leaf: an integer is a count, a float a fraction of the rows."
    )
    min_weight_fraction_leaf: Annotated[float, Field(ge=0, le=0.5)] = Field(
        0.0, description="Minimum fraction of the total weight in a leaf. Other values than 0: CPU only."
    )
    max_features: PositiveInt | Fraction | Literal["auto", "sqrt", "log2"] | None = Field(
        "auto",
        description="Features drawn for each split: a count, a fraction, or sqrt or log2 of their number. null: all. "
        "auto: sqrt for classification, all for regression.",
    )
    max_leaf_nodes: Annotated[int, Field(ge=2)] | None = Field(
        None, description="Maximum number of leaves of a tree. null: no limit. On the GPU, a soft limit."
    )
    min_impurity_decrease: NonNegative = Field(
        0.0,
        description="Minimum weighted decrease of the criterion by which a node is split. Other values than 0: CPU "
        "only.",
    )
    bootstrap: bool = Field(True, description="Draw the rows of each tree with replacement. false: all rows.")
    class_weight: Annotated[
        Literal["balanced_subsample"] | ClassWeight,
        Field(
            description="Weight of the rows of each class, for classification. balanced: n_rows / (n_classes × rows of "
            "the class). balanced_subsample: the same, by the rows drawn for each tree; CPU only. A mapping: label to "
            "weight, 1 for labels that are not named. null: all rows weigh 1."
        ),
    ] = None
    ccp_alpha: NonNegative = Field(
        0.0, description="Complexity parameter of the pruning of trees; 0 does not prune. Other values: CPU only."
    )
    max_samples: PositiveInt | Fraction | None = Field(
        None,
        description="Rows drawn for each tree, with bootstrap: an integer is a count (CPU only), a float a fraction. "
        "null: as many as there are rows.",
    )
    monotonic_cst: Constraints = None

    def target_invariance(self, task: Task) -> Invariance:
        if self.criterion == "poisson":
            return "none"
        return "shift" if self.min_impurity_decrease or self.ccp_alpha else "affine"

    def estimator_name(self, task: Task) -> str:
        return f"{self.library_class}Classifier" if task in CLASSIFICATION else f"{self.library_class}Regressor"

    def estimator_params(self, task: Task) -> dict[str, Any]:
        params = super().estimator_params(task)
        params["criterion"] = choose_for_task(self.name, "criterion", self.criterion, CRITERIA, task)
        if self.max_features == "auto":
            params["max_features"] = "sqrt" if task in CLASSIFICATION else 1.0
        if self.class_weight == "balanced_subsample":
            if task not in CLASSIFICATION:
                raise ConfigError(
                    f"class_weight is for classification; the task is {task}",
                    where=f"models: {self.name}.class_weight",
                    fix="remove class_weight",
                )
            params["class_weight"] = "balanced_subsample"
        return params

    def data_params(self, X: Matrix, context: FitContext) -> dict[str, Any]:
        return {"monotonic_cst": constraint_list(self.monotonic_cst, context.feature_names, self.name)}

    def train(self, estimator: Any, X: Array, y: Array | None, sample_weight: Array | None, context: FitContext) -> Any:
        if context.backend.name != "cpu":  # cuML reports no progress
            return super().train(estimator, X, y, sample_weight, context)
        report = context.report_out_of_bag
        estimator.set_params(oob_score=report is not None)
        with _tree_count(context.resources.show_progress, self.n_estimators):
            fitted = super().train(estimator, X, y, sample_weight, context)
        if report is not None:
            found = vars(fitted)
            predicted = found.pop("oob_decision_function_", None)
            report(found.pop("oob_prediction_") if predicted is None else predicted)
            del found["oob_score_"]  # of the training rows, like the predictions: neither is part of a model
            fitted.set_params(oob_score=False)
        return fitted


@MODELS.register("extra_trees")
class ExtraTrees(RandomForest):
    """Extremely randomized trees: a forest whose splits are drawn at random, and the best of the drawn ones taken.

    Runs scikit-learn's ``ExtraTreesClassifier`` or ``ExtraTreesRegressor`` on the CPU; cuML has no such forest. It
    reads the codes view, as `random_forest` does, and grows each tree on all rows. Its trees differ more from those of
    boosting than a random forest's do, which helps an ensemble.

    Tuned values of parameters that are not stated are those of AutoGluon 1.6: 300 trees of at most 15,000 leaves. With
    ``defaults: library`` they are scikit-learn's. Where these differ by task, the default here is "auto": for
    ``criterion`` and ``max_features``. The method is that of Geurts, Ernst and Wehenkel (2006).
    """

    name: ClassVar[str] = "extra_trees"
    library_class: ClassVar[str] = "ExtraTrees"

    bootstrap: bool = Field(False, description="Draw the rows of each tree with replacement. false: all rows.")


@contextmanager
def _tree_count(show_progress: ShowProgress, n_trees: int) -> Iterator[None]:
    """Display the number of trees that scikit-learn has grown, counted as joblib's tasks complete.

    Nothing is displayed with one thread: joblib then runs the trees in a plain loop that cannot be observed.
    """
    from joblib import parallel_config
    from joblib.parallel import ThreadingBackend

    class CountingThreads(ThreadingBackend):  # type: ignore[misc]
        n_done = 0

        def submit(self, func: Any, callback: Any = None) -> Any:
            def counted(outcome: Any) -> None:
                self.n_done += 1
                callback(outcome)

            return super().submit(func, counted)

    threads = CountingThreads()

    def read() -> ProgressReport | None:
        return ProgressReport(threads.n_done, n_trees, "tree") if threads.n_done else None

    with parallel_config(backend=threads), show_progress(read):
        yield
