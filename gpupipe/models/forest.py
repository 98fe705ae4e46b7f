"""Forests of trees. They see integer codes as numbers, and split missing values off by themselves."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from gpupipe.errors import ConfigError
from gpupipe.models.base import (
    MODELS,
    ClassWeight,
    Constraints,
    CountOrShare,
    Fraction,
    ModelSettings,
    NonNegative,
    PositiveInt,
    choose_for_task,
    constraint_list,
)
from gpupipe.models.progress import ProgressReport, ShowProgress
from gpupipe.tasks import CLASSIFICATION, SUPERVISED, Task
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
    """A random forest, classifier or regressor by the task.

    ``criterion`` and ``max_features`` are "auto" where scikit-learn's defaults differ by task: gini and the square root
    of the columns for classes, squared_error and all columns for numbers.
    """

    tasks = SUPERVISED
    view = "codes"
    accepts_missing = True
    takes_threads = True

    n_estimators: PositiveInt = 100
    criterion: Literal["auto", "gini", "entropy", "log_loss", "squared_error", "absolute_error", "poisson"] = "auto"
    max_depth: PositiveInt | None = None
    min_samples_split: Annotated[int, Field(ge=2)] | Fraction = 2
    min_samples_leaf: CountOrShare = 1
    min_weight_fraction_leaf: Annotated[float, Field(ge=0, le=0.5)] = 0.0
    max_features: PositiveInt | Fraction | Literal["auto", "sqrt", "log2"] | None = "auto"
    max_leaf_nodes: Annotated[int, Field(ge=2)] | None = None
    min_impurity_decrease: NonNegative = 0.0
    bootstrap: bool = True
    class_weight: Literal["balanced_subsample"] | ClassWeight = None
    ccp_alpha: NonNegative = 0.0
    max_samples: PositiveInt | Fraction | None = None
    monotonic_cst: Constraints = None

    def estimator_name(self, task: Task) -> str:
        return "RandomForestClassifier" if task in CLASSIFICATION else "RandomForestRegressor"

    def estimator_params(self, task: Task) -> dict[str, Any]:
        params = super().estimator_params(task)
        params["criterion"] = choose_for_task("random_forest", "criterion", self.criterion, CRITERIA, task)
        if self.max_features == "auto":
            params["max_features"] = "sqrt" if task in CLASSIFICATION else 1.0
        if self.class_weight == "balanced_subsample":
            if task not in CLASSIFICATION:
                raise ConfigError("class_weight is for classification", where="models: random_forest.class_weight")
            params["class_weight"] = "balanced_subsample"
        return params

    def data_params(self, X: Matrix, context: FitContext) -> dict[str, Any]:
        return {"monotonic_cst": constraint_list(self.monotonic_cst, context.feature_names, "random_forest")}

    def train(self, estimator: Any, X: Array, y: Array | None, sample_weight: Array | None, context: FitContext) -> Any:
        if context.backend.name != "cpu":  # cuML builds the forest in one call
            return super().train(estimator, X, y, sample_weight, context)
        with _tree_count(context.resources.show_progress, self.n_estimators):
            return super().train(estimator, X, y, sample_weight, context)


@contextmanager
def _tree_count(show_progress: ShowProgress, n_trees: int) -> Iterator[None]:
    """Display the trees that scikit-learn has grown, which joblib's threads count as they complete.

    With one thread joblib runs the trees in a plain loop that cannot be observed, and nothing is displayed.
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
