"""Base class of models that are scikit-learn estimators made by code outside gpupipe."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from inspect import signature
from typing import TYPE_CHECKING, Any

from gpupipe.backends.out_of_memory import is_out_of_memory
from gpupipe.errors import ArtifactError, ConfigError, GpupipeError
from gpupipe.models.base import MODELS, ModelSettings
from gpupipe.models.scikit_learn.kinds import KINDS
from gpupipe.models.scikit_learn.skops import describe_estimator
from gpupipe.models.weights import takes_no_weights
from gpupipe.random_streams import derive_seed
from gpupipe.tasks import CLASSIFICATION, REGRESSION, Task

if TYPE_CHECKING:
    from gpupipe.backends.base import Backend
    from gpupipe.models.context import FitContext
    from gpupipe.typing import Array

FIX = "use classes of scikit-learn itself; not support vector machines, GradientBoosting or splines"
NAME = "OwnEstimator"
"""Placeholder for the scikit-learn class name, which is known once the code has run."""


class CustomEstimator(ModelSettings):
    """A model that trains a scikit-learn estimator on the CPU, made by `make_estimator`, and exports a skops file.

    Every ``random_state`` that is not set becomes one integer, derived from the seed of the run. Estimators that hold
    types outside scikit-learn are refused before training.
    """

    tasks = CLASSIFICATION | REGRESSION
    takes_seed = False  # see `_with_seed`

    @property
    @abstractmethod
    def _source(self) -> str:
        """The code, for messages."""

    @abstractmethod
    def make_estimator(self, task: Task, seed: int, n_threads: int) -> Any:
        """Return the unfitted estimator; errors are those of the code."""

    def estimator_name(self, task: Task) -> str:
        return NAME

    def estimator_params(self, task: Task) -> dict[str, Any]:
        return {}

    def modules(self, task: Task, backend: Backend) -> tuple[str, ...]:
        return ("sklearn.base",)

    def matrix(self, X: Array, params: Mapping[str, Any]) -> Array:
        return X.astype("float32", order="C")  # a copy: estimators may write to their input

    def load_estimator(self, task: Task, backend: Backend) -> None:
        self.require_ready(task)

    def require_ready(self, task: Task) -> None:
        self._make(task, seed=0, n_threads=1)

    def build(self, context: FitContext, params: Mapping[str, Any]) -> Any:
        return self._make(context.task, derive_seed(context.seed, "model"), context.backend.n_threads)

    def train(self, estimator: Any, X: Array, y: Array | None, sample_weight: Array | None, context: FitContext) -> Any:
        if sample_weight is not None and "sample_weight" not in signature(estimator.fit).parameters:
            raise takes_no_weights(type(estimator).__name__)
        with self._explained("fit"):
            super().train(estimator, X, y, sample_weight, context)
        if context.task in CLASSIFICATION:
            self._require_probabilities(estimator)
        self._check_export(estimator)
        return estimator

    def _make(self, task: Task, seed: int, n_threads: int) -> Any:
        """Run the code and return the unfitted estimator.

        Raise ConfigError if the code fails, or returns anything but an estimator that suits the task and can be
        exported.
        """
        estimator = self.make_estimator(task, seed, n_threads)
        self._check_kind(estimator, task)
        made = _with_seed(estimator, seed)
        self._check_export(made)
        name = type(made).__name__
        if task not in KINDS.get(name, ()):
            raise self._refused(f"{name} cannot be exported: gpupipe does not load one for {task}", FIX)
        return made

    def _check_kind(self, estimator: Any, task: Task) -> None:
        from sklearn.base import BaseEstimator, is_classifier, is_regressor

        name = type(estimator).__name__
        if not isinstance(estimator, BaseEstimator) or not hasattr(estimator, "fit"):
            raise self._refused(
                f"expected an unfitted scikit-learn estimator; the function returned {name}", "return an estimator"
            )
        wanted = "classifier" if task in CLASSIFICATION else "regressor"
        if not (is_classifier if task in CLASSIFICATION else is_regressor)(estimator):
            raise self._refused(
                f"expected a {wanted} for the task {task}; the function returned {name}", f"return a {wanted}"
            )
        if task in CLASSIFICATION and not _has_default_end(estimator):
            self._require_probabilities(estimator)

    def _require_probabilities(self, estimator: Any) -> None:
        if not hasattr(estimator, "predict_proba"):
            raise self._refused(
                f"{type(estimator).__name__} has no predict_proba",
                "wrap it in sklearn.calibration.CalibratedClassifierCV",
            )

    def _check_export(self, estimator: Any) -> None:
        """Raise ConfigError if the estimator has a type or state that cannot be stored or loaded."""
        try:
            describe_estimator(estimator, "")
        except ArtifactError as error:
            raise self._refused(f"{type(estimator).__name__} cannot be exported: {error.what}", FIX) from None

    @contextmanager
    def _explained(self, doing: str) -> Iterator[None]:
        """Raise errors of code outside gpupipe as ConfigError with its location."""
        try:
            yield
        except GpupipeError:
            raise
        except Exception as error:
            if is_out_of_memory(error):
                raise
            raise self._refused(
                f"{doing} failed: {type(error).__name__}: {error}", "fix the error", self._line(error)
            ) from error

    def _line(self, error: Exception) -> str:
        """Return the line of the code that raised an error; empty if it is not known."""
        return ""

    def _refused(self, what: str, fix: str, where: str = "") -> ConfigError:
        return ConfigError(f"{self._source}: {what}", where=where or f"models: {MODELS.name_of(type(self))}", fix=fix)


def _has_default_end(estimator: Any) -> bool:
    """Return whether a stack inside leaves its final estimator, and so its methods, to be chosen in fitting."""
    params = estimator.get_params().items()
    return any(value is None and name.rpartition("__")[2] == "final_estimator" for name, value in params)


def _with_seed(estimator: Any, seed: int) -> Any:
    """Set every unset ``random_state`` of the estimator and of its parts to the seed; return the estimator."""
    unset = {
        name: seed
        for name, value in estimator.get_params().items()
        if value is None and name.rpartition("__")[2] == "random_state"
    }
    return estimator.set_params(**unset) if unset else estimator
