"""Base class of model settings: typed parameters under scikit-learn's names, and the estimator built from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, NamedTuple, Self

from pydantic import Field, model_validator

from gpupipe.entry_points import MODELS as PLUGINS
from gpupipe.errors import ConfigError, DataError, did_you_mean
from gpupipe.models.contradictions import Contradiction, settle
from gpupipe.models.weights import code_of_label
from gpupipe.registry import Registry
from gpupipe.settings import Settings
from gpupipe.tasks import TargetSpec, Task, View
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
Share = Annotated[float, Field(gt=0, lt=1)]
Fraction = Annotated[float, Field(gt=0, le=1)]
CountOrShare = PositiveInt | Share
ClassWeight = Annotated[
    Literal["balanced"] | dict[bool | int | float | str, NonNegative] | None,
    Field(
        description="Weight of the rows of each class. balanced: n_rows / (n_classes × rows of the class). A mapping: "
        "label to weight, 1 for labels that are not named. null: all rows weigh 1. Multiplied with the sample weights."
    ),
]
Constraints = Annotated[
    dict[str, Literal[-1, 0, 1]] | None,
    Field(
        description="Feature name to the direction of its effect on the prediction: 1 increasing, -1 decreasing, 0 "
        "free. Features that are not named are free."
    ),
]
EarlyStoppingRounds = Annotated[
    PositiveInt | None,
    Field(
        description="Stop after this many rounds without improvement on held-out rows, then train again on all rows "
        "for the best number of rounds. null: never stop early. dart of LightGBM never does."
    ),
]
ValidationFraction = Annotated[
    Share,
    Field(
        description="Fraction of the training rows held out for early stopping: other groups, the latest rows, or "
        "drawn at random, as split says. Not a parameter of the library."
    ),
]
InteractionConstraints = Annotated[
    list[list[str]] | None,
    Field(description="Features that may occur together on a path of a tree, as lists of names. null: all."),
]
ScalePosWeight = Annotated[
    Positive | None, Field(description="Factor on the weight of positive rows, for two classes. null: 1.")
]

Invariance = Literal["none", "shift", "affine"]
"""Changes of a target that leave a model the same: see `ModelSettings.target_invariance`."""

# Families, in the order of listings.
FAMILIES = (
    "linear.settings", "scikit_learn.settings.forest", "scikit_learn.settings.hist_boosting", "xgboost.settings",
    "catboost.settings", "lightgbm.settings", "scikit_learn.settings.neighbors", "scikit_learn.settings.bayes",
    "scikit_learn.settings.svm", "neural.settings", "best", "scikit_learn.settings.cluster",
    "scikit_learn.settings.decomposition", "scikit_learn.settings.estimator",
)  # fmt: skip

MODELS: Registry[type[ModelSettings]] = Registry(
    "model", [f"gpupipe.models.{name}" for name in FAMILIES], PLUGINS, "gpupipe.models.plugin:adapt_model"
)


class BestRound(NamedTuple):
    """Number of rounds up to the one with the best score on held-out rows, and number of rounds trained."""

    best: int
    trained: int


class ModelSettings(Settings):
    """An entry of ``models:``. Its fields are the estimator's parameters, with scikit-learn's names and defaults.

    A run fills the parameters that are not stated with the tuned values of the model, if it has any (`for_task`).

    No field holds ``random_state`` (the configuration's seed), ``n_jobs`` (the backend's threads), ``copy`` (the matrix
    is shared by all models of a run and never overwritten), ``verbose`` or ``warm_start`` (each model is fitted once).

    Class attributes
    ----------------
    tasks : frozenset of Task
        Tasks that it can learn.
    view : {"codes", "dense", "embedding"}
        Form of its features. codes: categories as integer ids, for trees with native categorical support. dense:
        one-hot or target-encoded categories, scaled and imputed numbers, for linear models and neighbors. embedding:
        numbers as in dense, then ids as in codes, for neural networks.
    accepts_missing : bool
        Whether the estimator takes NaN; otherwise the feature program imputes, with a note.
    takes_seed, takes_threads, takes_sample_weight : bool
        Whether the estimator has ``random_state``, an ``n_jobs`` that counts threads, and sample weights.
    uses_blas_threads : bool
        Whether its training has BLAS operations that are large enough for several threads.
    least_class_rows : int
        Training rows that each class with rows must have.
    can_state_rounds : bool
        Whether the parameters of `with_rounds` determine the number of rounds, so that a configuration can state it.
    tuned : mapping of Task to mapping of str to value
        Published values of parameters that do better on most tables than the defaults of the library.
    extra : str
        Name of the optional library that trains it, and of the extra that installs it.
    contradictions : tuple of Contradiction
        Values that exclude each other. A default gives way to a stated value; two stated values are an error.
    smallest_targets : mapping of str to (str, float)
        A loss to the comparison, ``">"`` or ``">="``, and the number that its targets must satisfy.
    """

    tasks: ClassVar[frozenset[Task]]
    view: ClassVar[View] = "dense"
    accepts_missing: ClassVar[bool] = False
    takes_seed: ClassVar[bool] = True
    takes_threads: ClassVar[bool] = False
    uses_blas_threads: ClassVar[bool] = True
    takes_sample_weight: ClassVar[bool] = True
    least_class_rows: ClassVar[int] = 1
    can_state_rounds: ClassVar[bool] = True
    tuned: ClassVar[Mapping[Task, Mapping[str, Any]]] = {}
    extra: ClassVar[str] = ""
    contradictions: ClassVar[tuple[Contradiction, ...]] = ()
    smallest_targets: ClassVar[Mapping[str, tuple[str, float]]] = {}

    defaults: Literal["tuned", "library"] = Field(
        "tuned",
        description="Values of parameters that are not stated, in a run. tuned: published values that do better on "
        "most tables, where the model has them. library: those of the library.",
    )

    if TYPE_CHECKING:

        def __init__(self, **params: Any) -> None:
            """Accept the fields of any model by name."""

    @model_validator(mode="after")
    def _has_no_contradictions(self) -> Self:
        self._settled({})
        return self

    def for_task(self, task: Task) -> Self:
        """Return the settings with the tuned values of parameters that were not stated.

        With ``defaults: library``, or for a task without tuned values, the settings themselves. A default that
        contradicts a stated value gives way in both cases.

        Examples
        --------
        >>> from gpupipe.models.xgboost.settings import XGBoost
        >>> filled = XGBoost(max_depth=4).for_task("binary")
        >>> filled.max_depth, filled.n_estimators, XGBoost(defaults="library").for_task("binary").n_estimators
        (4, 1000, 100)
        """
        values, _ = self._settled(self._tuned(task))
        stated = self.model_fields_set
        changed = {name: value for name, value in values.items() if name not in stated or value != getattr(self, name)}
        return self.model_copy(update=changed) if changed else self

    def default_notes(self, task: Task) -> list[str]:
        """Return a note for each default that gives way to a stated value."""
        return self._settled(self._tuned(task))[1]

    def _tuned(self, task: Task) -> Mapping[str, Any]:
        return {} if self.defaults == "library" else self.tuned.get(task, {})

    def _settled(self, tuned: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
        """Return the values of stated and tuned parameters, and of defaults that gave way, with a note for each."""
        given = {name: getattr(self, name) for name in self.model_fields_set}
        filled = {**tuned, **given}
        if not self.contradictions:
            return filled, []
        library = {name: field.default for name, field in type(self).model_fields.items()}
        # null leaves the choice to the library, like a parameter that is not stated.
        stated = [name for name, value in given.items() if value is not None]
        found, notes = settle({**library, **filled}, stated, library, self.contradictions)
        return {name: found[name] for name in found if name in filled or found[name] != library[name]}, notes

    def require_task(self, task: Task) -> None:
        """Raise ConfigError if the model cannot learn the task."""
        if task not in self.tasks:
            raise ConfigError(
                f"{type(self).__name__} cannot learn the task {task}",
                fix=f"choose another model; it learns {', '.join(sorted(self.tasks))}",
            )

    @property
    def learns_jointly(self) -> bool:
        """True if one model learns several targets together; otherwise each target has a separate model."""
        return False

    def require_targets(self, targets: Sequence[TargetSpec], has_categories: bool = False) -> None:
        """Raise ConfigError if one model cannot learn the targets together, from categorical columns if it has them.

        A row weight is the same for all targets, so that there are no class weights.
        """
        for target in targets:
            self.require_task(target.task)
        if getattr(self, "class_weight", None) is not None:
            raise ConfigError(
                f"{type(self).__name__}: class_weight is for one target; the model learns {len(targets)} "
                "together, and the classes of each would weigh the rows differently",
                fix="remove class_weight",
            )

    def require_targets_of_loss(self, y: Array | None) -> None:
        """Raise DataError if the loss is not defined for a target."""
        for field in ("loss", "objective", "criterion"):
            loss = str(getattr(self, field, ""))
            if y is None or loss not in self.smallest_targets:
                continue
            comparison, limit = self.smallest_targets[loss]
            if (outside := y <= limit if comparison == ">" else y < limit).any():
                raise DataError(
                    f"{field}: {loss} needs targets {comparison} {limit:g}; {int(outside.sum()):,} of {len(y):,} "
                    f"training rows have others, down to {y.min():g}",
                    where=f"models: {MODELS.name_of(type(self))}.{field}",
                    fix="choose another loss, or drop these rows with source.where",
                )

    def for_target(self, target: TargetSpec) -> Self:
        """Return the settings of a separate model of one of several targets: of class weights, those of its labels."""
        given = getattr(self, "class_weight", None)
        if not isinstance(given, dict):
            return self
        own = {label: weight for label, weight in given.items() if code_of_label(label, target.labels) is not None}
        return self.model_copy(update={"class_weight": own or None})

    def for_quantile(self, level: float) -> Self:
        """Return the settings of the regression of one quantile, a number in (0, 1), for the task quantile.

        Raise ConfigError if the settings state another loss.
        """
        raise NotImplementedError

    def target_invariance(self, task: Task) -> Invariance:
        """Return which changes of the target leave the model of a regression or of quantiles the same.

        shift: a model of ``y - c`` predicts what the model of ``y`` predicts, minus c. affine: likewise for a positive
        factor. none: neither, as for losses of relative errors, and for estimators that are not known.
        """
        return "none"

    def estimator_name(self, task: Task) -> str:
        """Return the scikit-learn class name for this task, such as ``"RandomForestClassifier"``."""
        raise NotImplementedError

    def estimator_params(self, task: Task) -> dict[str, Any]:
        """Return the keyword arguments of that class that depend on the fields only.

        ``class_weight`` is never among them: `gpupipe.models.fit` turns it into sample weights for every model.
        """
        return self.model_dump(exclude={"class_weight", "defaults"})

    def data_params(self, X: Matrix, context: FitContext) -> dict[str, Any]:
        """Return the keyword arguments that depend on the matrix; they override `estimator_params`.

        `X` may be on a device; only its shape is read.
        """
        return {}

    def stops_early(self, n_rows: int) -> bool:
        """Return whether training on `n_rows` rows stops when the score of held-out rows no longer improves.

        Such a model has the field ``validation_fraction`` and implements `best_round` and `with_rounds`. Its `train`
        always gets ``context.validation``, and returns an estimator that predicts with the rounds up to the best one.
        """
        return False

    def best_round(self, estimator: Any) -> BestRound:
        """Return the best round of an estimator that `train` has fitted with early stopping."""
        raise NotImplementedError

    def with_rounds(self, n_rounds: int | None) -> Self:
        """Return the settings of a training of `n_rounds` rounds, None: all, without early stopping."""
        raise NotImplementedError

    def reads_selected_rows(self, task: Task) -> bool:
        """Return whether its CPU training takes `SelectedRows`, the rows that are left after some are held out."""
        return False

    def matrix(self, X: Array, params: Mapping[str, Any]) -> Array:
        """Return `X` in the dtype and layout of the CPU estimator: `X` itself, or a copy."""
        return X

    def training_threads(self, n_threads: int, n_cells: int) -> int:
        """Return the number of threads to train on, at most `n_threads`, for the number of cells of the matrix."""
        return n_threads

    def thread_note(self, n_threads: int, estimator: Any) -> str:
        """Return a note if an estimator depends on the number of threads, or is trained on one for that reason."""
        return ""

    def require_ready(self, task: Task) -> None:
        """Raise ConfigError if the model cannot be trained or exported, as far as that is known without data."""
        if self.extra and find_spec(self.extra) is None:
            raise ConfigError(
                f"{type(self).__name__} needs the library {self.extra}, which is not installed",
                where="models",
                fix=f"pip install 'gpupipe[{self.extra}]'",
            )
        self.estimator_params(task)

    def modules(self, task: Task, backend: Backend) -> tuple[str, ...]:
        """Return the modules that training and predicting import."""
        module = backend.estimator_module(self.estimator_name(task))
        return () if module is None else (module,)

    def load_estimator(self, task: Task, backend: Backend) -> None:
        """Import the library that trains it; raise DeviceError if the device of the backend has no such model."""
        backend.estimator(self.estimator_name(task), {})

    def build(self, context: FitContext, params: Mapping[str, Any]) -> Any:
        """Return the unfitted estimator."""
        return context.backend.estimator(self.estimator_name(context.task), params)

    def train(self, estimator: Any, X: Array, y: Array | None, sample_weight: Array | None, context: FitContext) -> Any:
        """Fit `estimator` and return it; all arrays are on the device of the backend."""
        weight = {} if sample_weight is None else {"sample_weight": sample_weight}
        return estimator.fit(X, **weight) if y is None else estimator.fit(X, y, **weight)


def choose_for_task(model: str, field: str, value: str, choices: Mapping[Task, Sequence[str]], task: Task) -> str:
    """Return `value`, or the first choice of the task for ``"auto"``.

    Raise ConfigError if the value belongs to another task.
    """
    allowed = choices[task]
    if value != "auto" and value not in allowed:
        raise ConfigError(
            f"{field} {value!r} is not available for the task {task}",
            where=f"models: {model}.{field}",
            fix=f"use auto, or one of {', '.join(allowed)}",
        )
    return allowed[0] if value == "auto" else value


def column_index(name: str, feature_names: Sequence[str], field: str) -> int:
    """Return the position of the feature `name` in the matrix; raise ConfigError if it is absent."""
    if name not in feature_names:
        hint = did_you_mean(name, feature_names) or f"the features are {', '.join(feature_names[:20])}"
        raise ConfigError(f"there is no feature {name!r}", where=f"models: {field}", fix=hint, names=[name])
    return list(feature_names).index(name)


def feature_groups(groups: InteractionConstraints, feature_names: Sequence[str], field: str) -> list[list[int]] | None:
    """Return the positions of the features of each group, or None without groups."""
    if groups is None:
        return None
    return [[column_index(name, feature_names, field) for name in group] for group in groups]


def constraint_list(constraints: Constraints, feature_names: Sequence[str], field: str) -> list[int] | None:
    """Return -1, 0 or 1 for each column of the matrix, or None without constraints."""
    if not constraints:
        return None
    signs = [0] * len(feature_names)
    for name, sign in constraints.items():
        signs[column_index(name, feature_names, field)] = sign
    return signs
