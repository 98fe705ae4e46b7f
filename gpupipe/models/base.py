"""Base class of model settings: typed parameters under scikit-learn's names, and the estimator that they describe."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import Field

from gpupipe.errors import ConfigError, did_you_mean
from gpupipe.registry import Registry
from gpupipe.settings import Settings
from gpupipe.tasks import Task, View
from gpupipe.typing import Matrix

if TYPE_CHECKING:
    from gpupipe.backends.base import Backend
    from gpupipe.models.context import FitContext
    from gpupipe.typing import Array

# Field types that several families share.
PositiveInt = Annotated[int, Field(gt=0)]
NonNegativeInt = Annotated[int, Field(ge=0)]
Positive = Annotated[float, Field(gt=0)]
NonNegative = Annotated[float, Field(ge=0)]
Share = Annotated[float, Field(gt=0, lt=1)]  # a part of a whole
Fraction = Annotated[float, Field(gt=0, le=1)]
CountOrShare = PositiveInt | Share
ClassWeight = Literal["balanced"] | dict[bool | int | float | str, NonNegative] | None
Constraints = dict[str, Literal[-1, 0, 1]] | None  # output column to decreasing, free, increasing

MODELS: Registry[type[ModelSettings]] = Registry("model")


class ModelSettings(Settings):
    """One entry of ``models:``; its fields are the estimator's parameters, named and defaulted as in scikit-learn.

    Fields never hold ``random_state`` (the configuration's seed), ``n_jobs`` (the backend's threads), ``copy`` (the
    matrix is shared by all models of a run and never overwritten), ``verbose`` and ``warm_start`` (nothing to resume).

    Class attributes
    ----------------
    tasks : frozenset of Task
        What it can learn.
    view : {"codes", "dense", "embedding"}
        The columns that suit it. codes: integer ids with native categorical support (trees). dense: one-hot or target
        encoded, scaled, imputed (linear models, neighbours). embedding: numbers as in dense, then ids as in codes
        (neural networks).
    accepts_missing : bool
        Whether the estimator takes NaN; where it does not, the feature program imputes and says so.
    takes_seed, takes_threads, takes_sample_weight : bool
        Whether the estimator has ``random_state``, an ``n_jobs`` that counts threads, and sample weights.
    """

    tasks: ClassVar[frozenset[Task]]
    view: ClassVar[View] = "dense"
    accepts_missing: ClassVar[bool] = False
    takes_seed: ClassVar[bool] = True
    takes_threads: ClassVar[bool] = False
    takes_sample_weight: ClassVar[bool] = True

    if TYPE_CHECKING:

        def __init__(self, **params: Any) -> None:
            """Take the fields by name, whichever model of the registry it is; each model has its own."""

    def estimator_name(self, task: Task) -> str:
        """Return the scikit-learn class name for this task, such as ``"RandomForestClassifier"``."""
        raise NotImplementedError

    def estimator_params(self, task: Task) -> dict[str, Any]:
        """Return the keyword arguments for that class that depend on the fields alone.

        ``class_weight`` is never among them: `gpupipe.models.fit` turns it into sample weights, for all models alike.
        """
        return self.model_dump(exclude={"class_weight"})

    def data_params(self, X: Matrix, context: FitContext) -> dict[str, Any]:
        """Return the keyword arguments that depend on the matrix; they overrule `estimator_params`.

        `X` may be on a device: its shape is all that is looked at.
        """
        return {}

    def matrix(self, X: Array, params: Mapping[str, Any]) -> Array:
        """Return `X` in the layout that the host's estimator computes in: `X` itself, or a copy made once."""
        return X

    def blas_threads(self, n_features: int, n_threads: int) -> int:
        """Return how many threads linear algebra gets while this model is trained."""
        return n_threads

    def require_ready(self, task: Task) -> None:
        """Raise ConfigError if the model could not be trained or exported, as far as that is known before any data."""

    def modules(self, task: Task, backend: Backend) -> tuple[str, ...]:
        """Return the modules that training and predicting import."""
        module = backend.estimator_module(self.estimator_name(task))
        return () if module is None else (module,)

    def build(self, context: FitContext, params: Mapping[str, Any]) -> Any:
        """Return the unfitted estimator."""
        return context.backend.estimator(self.estimator_name(context.task), params)

    def train(self, estimator: Any, X: Array, y: Array | None, sample_weight: Array | None, context: FitContext) -> Any:
        """Fit `estimator` and return it; all arrays are where the backend computes."""
        weight = {} if sample_weight is None else {"sample_weight": sample_weight}
        return estimator.fit(X, **weight) if y is None else estimator.fit(X, y, **weight)


def choose_for_task(model: str, field: str, value: str, choices: Mapping[Task, Sequence[str]], task: Task) -> str:
    """Return `value`, or the first of the task's choices where it is ``"auto"``.

    Raises
    ------
    ConfigError
        If the value belongs to another task.
    """
    allowed = choices[task]
    if value != "auto" and value not in allowed:
        raise ConfigError(
            f"{field} {value!r} does not fit a {task} task",
            where=f"models: {model}.{field}",
            fix=f"auto, or one of {', '.join(allowed)}",
        )
    return allowed[0] if value == "auto" else value


def column_index(name: str, feature_names: Sequence[str], field: str) -> int:
    """Return where the output column `name` stands in the matrix.

    Raises
    ------
    ConfigError
        If there is no such column.
    """
    if name not in feature_names:
        hint = did_you_mean(name, feature_names) or f"the columns are {', '.join(feature_names[:20])}"
        raise ConfigError(f"the features have no column {name!r}", where=f"models: {field}", fix=hint, names=[name])
    return list(feature_names).index(name)


def constraint_list(constraints: Constraints, feature_names: Sequence[str], field: str) -> list[int] | None:
    """Return one of -1, 0, 1 for each column of the matrix, or None without constraints."""
    if not constraints:
        return None
    signs = [0] * len(feature_names)
    for name, sign in constraints.items():
        signs[column_index(name, feature_names, field)] = sign
    return signs
