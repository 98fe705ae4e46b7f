"""Base class of models in other packages: settings, and an estimator with the interface of scikit-learn."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from gpupipe.models.base import MODELS, ModelSettings
from gpupipe.models.fitted.plugin import PluginEstimator
from gpupipe.models.scikit_learn.settings.custom_estimator import CustomEstimator
from gpupipe.tasks import CLASSIFICATION, Task

if TYPE_CHECKING:
    from gpupipe.backends.base import Backend
    from gpupipe.entry_points import InstalledPlugin
    from gpupipe.models.context import FitContext
    from gpupipe.typing import Array, HostArray

NAME = "PluginEstimator"


class PluginModel(CustomEstimator):
    """A model of another package: its fields are the parameters, checked by pydantic.

    The estimator has the interface of scikit-learn: ``fit(X, y)``, also with ``sample_weight`` if
    ``takes_sample_weight`` is true, then ``predict_proba(X)`` for classes and ``predict(X)`` for numbers. It runs on
    the CPU. `X` is float32, shape (n, d), row-major; `y` has class codes from 0, or numbers.

    An estimator that consists of scikit-learn's own classes is exported as a skops file, and the model predicts without
    the package. Another class needs `to_arrays` and `from_arrays`; loading the model then needs the package.

    Class attributes
    ----------------
    tasks : frozenset of str
        ``"binary"``, ``"multiclass"`` and ``"regression"``, or some of them.
    view : {"dense", "codes"}
        Form of the features. dense: scaled and imputed numbers, one-hot or target-encoded categories. codes: unchanged
        numbers with NaN, and categories as integer codes, for trees.
    takes_sample_weight : bool
        Whether ``fit`` takes row weights.

    Examples
    --------
    >>> from gpupipe.plugins import PluginModel
    >>> class ShrunkenRidge(PluginModel):
    ...     '''Ridge regression with a strong penalty.'''
    ...
    ...     tasks = frozenset({"regression"})
    ...     alpha: float = 100.0
    ...
    ...     def make_estimator(self, task, seed, n_threads):
    ...         from sklearn.linear_model import Ridge
    ...
    ...         return Ridge(alpha=self.alpha)
    >>> ShrunkenRidge(alpha=10).make_estimator("regression", 0, 1)
    Ridge(alpha=10.0)
    """

    @abstractmethod
    def make_estimator(self, task: Task, seed: int, n_threads: int) -> Any:
        """Return the unfitted estimator.

        Parameters
        ----------
        task : {"binary", "multiclass", "regression"}
        seed : int
            Seed of the run.
        n_threads : int
            Number of CPU threads to use.
        """

    def to_arrays(self, estimator: Any) -> Mapping[str, HostArray] | None:
        """Return the fitted state as arrays of numbers or text; None for an estimator of scikit-learn's own classes.

        The file of the model contains these arrays. Nothing is pickled.
        """
        return None

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, HostArray], task: Task) -> Any:
        """Return the fitted estimator from the arrays of `to_arrays`.

        Raise ValueError unless their names, shapes and values are valid: the file can be corrupt or malicious.
        """
        raise NotImplementedError

    @classmethod
    def is_half_stored(cls) -> bool:
        """Return whether the class writes arrays that it cannot read."""
        writes = cls.to_arrays is not PluginModel.to_arrays
        return writes and cls.from_arrays.__func__ is PluginModel.from_arrays.__func__  # type: ignore[attr-defined]

    @property
    def _source(self) -> str:
        return self._plugin.title

    @property
    def _plugin(self) -> InstalledPlugin:
        plugin = MODELS.plugin(MODELS.name_of(type(self)))
        assert plugin is not None
        return plugin

    @property
    def _has_own_file(self) -> bool:
        return type(self).to_arrays is not PluginModel.to_arrays

    def estimator_name(self, task: Task) -> str:
        """Return the placeholder of a plug-in, or of an estimator of scikit-learn's own classes."""
        return NAME if self._has_own_file else super().estimator_name(task)

    def modules(self, task: Task, backend: Backend) -> tuple[str, ...]:
        """Return the modules that check the estimator; the package has already been imported."""
        return () if self._has_own_file else super().modules(task, backend)

    def train(self, estimator: Any, X: Array, y: Array | None, sample_weight: Array | None, context: FitContext) -> Any:
        """Fit the estimator; one with its own file is returned with the rows that check its loading."""
        super().train(estimator, X, y, sample_weight, context)
        if not self._has_own_file:
            return estimator
        with self._explained("to_arrays"):
            arrays = self.to_arrays(estimator)
        if arrays is None:
            raise self._refused("to_arrays returned None", "return the fitted state")
        with self._explained("predict"):
            fitted = PluginEstimator.of(estimator, arrays, X, context.task, self._plugin)
        n_classes = 0 if y is None or context.task not in CLASSIFICATION else int(y.max()) + 1
        if n_classes and fitted.output.shape[1] != n_classes:
            found = f"predict_proba returned {fitted.output.shape[1]} columns for {n_classes} classes"
            raise self._refused(found, "return one column for each class code")
        return fitted

    def _make(self, task: Task, seed: int, n_threads: int) -> Any:
        if not self._has_own_file:
            return super()._make(task, seed, n_threads)
        with self._explained("make_estimator"):
            estimator = self.make_estimator(task, seed, n_threads)
        wanted = ("fit", "predict_proba" if task in CLASSIFICATION else "predict")
        if missing := [name for name in wanted if not callable(getattr(estimator, name, None))]:
            what = f"the estimator for the task {task} has no {' and no '.join(missing)}; found {estimator!r:.80}"
            raise self._refused(what, "return an unfitted estimator with the interface of scikit-learn")
        return estimator

    def _check_export(self, estimator: Any) -> None:
        if not self._has_own_file:
            super()._check_export(estimator)


def adapt_model(plugin: InstalledPlugin, found: Any) -> type[ModelSettings]:
    """Return the model of a plug-in; raise TypeError if its object is not a complete `PluginModel`."""
    if not isinstance(found, type) or not issubclass(found, PluginModel):
        raise TypeError("a subclass of gpupipe.plugins.PluginModel")
    if found.is_half_stored():
        raise TypeError("from_arrays next to to_arrays, without which no model could be loaded")
    return found
