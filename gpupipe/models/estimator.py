"""Custom scikit-learn estimators: built by a function in a Python file, exported with skops."""

from __future__ import annotations

import ast
import hashlib
import tempfile
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from inspect import signature
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field, field_validator

from gpupipe.backends.out_of_memory import is_out_of_memory
from gpupipe.errors import ArtifactError, ConfigError, did_you_mean
from gpupipe.models.base import MODELS, ModelSettings
from gpupipe.models.files.scikit_learn import KINDS
from gpupipe.models.files.skops import write_skops
from gpupipe.models.weights import takes_no_weights
from gpupipe.references import split_reference
from gpupipe.tasks import CLASSIFICATION, REGRESSION, Task

if TYPE_CHECKING:
    from gpupipe.backends.base import Backend
    from gpupipe.models.context import FitContext
    from gpupipe.tasks import View
    from gpupipe.typing import Array

FIX = "use classes of scikit-learn itself; not support vector machines, GradientBoosting or splines"
NAME = "OwnEstimator"
"""Placeholder for the scikit-learn class name, which is known once the file has run."""


@MODELS.register("estimator")
class Estimator(ModelSettings):
    """Custom scikit-learn estimator, such as ``estimator: {use: "my_models.py:make", params: {depth: 3}}``.

    Runs scikit-learn on the CPU only. ``make(**params)`` returns an unfitted classifier or regressor, by the task; a
    ``Pipeline`` counts as one. Every ``random_state`` that is not set becomes the seed of the run.

    The file is executed in training only, never to serve predictions: the export contains scikit-learn's own objects.
    Estimators that hold other types are refused before training, and so are those whose fitted state cannot be checked
    (support vector machines, GradientBoosting, splines).
    """

    tasks = CLASSIFICATION | REGRESSION
    takes_seed = False  # see `_with_seed`

    use: str = Field(
        description="Python file and function, file.py:function; relative paths start at the configuration."
    )
    params: dict[str, Any] = Field({}, description="Keyword arguments of the function.")
    encoding: Literal["dense", "codes"] = Field(
        "dense",
        alias="view",
        description="Form of the features. dense: scaled and imputed numbers, one-hot or target-encoded categories. "
        "codes: unchanged numbers with NaN, and categories as integer codes, for trees.",
    )

    @field_validator("use")
    @classmethod
    def _names_a_function(cls, use: str) -> str:
        _require_function(*split_reference(use))
        return use

    @property
    def view(self) -> View:  # type: ignore[override]  # a setting here
        """Form of the features, from the setting ``view``."""
        return self.encoding

    @property
    def path(self) -> Path:
        """Path of the Python file."""
        return split_reference(self.use)[0]

    @property
    def sha256(self) -> str:
        """Hexadecimal SHA-256 of the file; --resume ignores models trained with another version of it."""
        return hashlib.sha256(self.path.read_bytes()).hexdigest()

    def estimator_name(self, task: Task) -> str:
        return NAME

    def estimator_params(self, task: Task) -> dict[str, Any]:
        return {}

    def modules(self, task: Task, backend: Backend) -> tuple[str, ...]:
        return "sklearn.base", "skops.io.exceptions"

    def matrix(self, X: Array, params: Mapping[str, Any]) -> Array:
        return X.astype("float32", order="C")  # a copy: estimators may write to their input

    def require_ready(self, task: Task) -> None:
        self._make(task, seed=0)

    def build(self, context: FitContext, params: Mapping[str, Any]) -> Any:
        return self._make(context.task, context.seed)

    def train(self, estimator: Any, X: Array, y: Array | None, sample_weight: Array | None, context: FitContext) -> Any:
        if sample_weight is not None and "sample_weight" not in signature(estimator.fit).parameters:
            raise takes_no_weights(type(estimator).__name__)
        with self._explained("fit"):
            super().train(estimator, X, y, sample_weight, context)
        if context.task in CLASSIFICATION:
            self._require_probabilities(estimator)
        self._check_export(estimator)
        return estimator

    def _make(self, task: Task, seed: int) -> Any:
        """Run the file and return the unfitted estimator.

        Raises
        ------
        ConfigError
            If the function fails, or returns anything but an estimator that suits the task and can be exported.
        """
        function = _load(*split_reference(self.use))
        with self._explained(function.__name__):
            estimator = function(**self.params)
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
        """Raise ConfigError if skops cannot write the estimator, or gpupipe would refuse to load it."""
        from skops.io.exceptions import UnsupportedTypeException

        with tempfile.TemporaryDirectory() as folder:
            try:
                write_skops(estimator, Path(folder, "estimator.skops"), compressed=False)
            except (ArtifactError, UnsupportedTypeException) as error:
                what = error.what if isinstance(error, ArtifactError) else str(error)
                raise self._refused(f"{type(estimator).__name__} cannot be exported: {what}", FIX) from None

    @contextmanager
    def _explained(self, doing: str) -> Iterator[None]:
        """Raise errors of the user's code as ConfigError with file and line."""
        try:
            yield
        except Exception as error:
            if is_out_of_memory(error):
                raise
            raise self._refused(
                f"{doing} failed: {type(error).__name__}: {error}", "fix the error", _line(error, self.path)
            ) from error

    def _refused(self, what: str, fix: str, where: str = "") -> ConfigError:
        return ConfigError(f"estimator {self.use}: {what}", where=where or "models: estimator", fix=fix)


def _require_function(path: Path, name: str) -> None:
    """Raise ValueError if a Python file defines no such name at module level; the file is parsed, not executed."""
    try:
        tree = ast.parse(path.read_bytes())
    except OSError as error:
        raise ValueError(f"cannot read {path}: {error.strerror}") from None
    except (SyntaxError, ValueError) as error:
        raise ValueError(f"{path} is not Python: {error}") from None
    functions = [node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)]
    others = {alias.asname or alias.name for node in tree.body if isinstance(node, ast.ImportFrom | ast.Import)
              for alias in node.names}  # fmt: skip
    others |= {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    if name not in functions and name not in others:
        hint = did_you_mean(name, functions) or f"it defines {', '.join(functions) or 'no function'}"
        raise ValueError(f"there is no function {name!r} in {path}; {hint}")


def _load(path: Path, name: str) -> Any:
    module = ModuleType(f"gpupipe_model_file_{path.stem}")
    module.__file__ = str(path.absolute())
    try:  # an import would rely on the file's modification time and write byte code next to it
        exec(compile(path.read_bytes(), path.absolute(), "exec"), vars(module))
    except Exception as error:  # a user's file can raise anything
        raise ConfigError(
            f"{path.name} failed: {type(error).__name__}: {error}", where=_line(error, path), fix="fix the error"
        ) from error
    function = getattr(module, name, None)
    if not callable(function):
        raise ConfigError(
            f"{name} is not a function", where=str(path), fix=f"define it: def {name}(**params): return ..."
        )
    return function


def _line(error: Exception, path: Path) -> str:
    """Return ``path:line`` of the innermost frame of an error in that file, or the path."""
    lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if Path(f.filename) == path.absolute()]
    return f"{path}:{lines[-1]}" if lines else str(path)


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
