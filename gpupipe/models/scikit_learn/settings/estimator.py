"""Custom scikit-learn estimators: a class, or built by a function in a Python file; exported as a skops file."""

from __future__ import annotations

import ast
import hashlib
import re
import traceback
from importlib import import_module
from itertools import chain
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field, field_validator

from gpupipe.errors import ConfigError, did_you_mean
from gpupipe.models.base import MODELS
from gpupipe.models.scikit_learn.kinds import KINDS
from gpupipe.models.scikit_learn.settings.custom_estimator import FIX, CustomEstimator
from gpupipe.references import split_reference
from gpupipe.tasks import Task

if TYPE_CHECKING:
    from gpupipe.tasks import View


SKLEARN = "sklearn."


@MODELS.register("estimator")
class Estimator(CustomEstimator):
    """Custom scikit-learn estimator, such as ``estimator: {use: "my_models.py:make", params: {depth: 3}}``.

    Runs scikit-learn on the CPU only. ``make(**params)`` returns an unfitted classifier or regressor, by the task; a
    ``Pipeline`` counts as one. ``use: sklearn.ensemble.AdaBoostClassifier`` names a class of scikit-learn instead, and
    ``params`` are its parameters. Every ``random_state`` that is not set becomes one integer, derived from the seed of
    the run.

    The file is executed in training only, never to serve predictions: the export contains scikit-learn's own objects.
    Estimators that hold other types are refused before training, and so are those whose fitted state cannot be checked
    (support vector machines, GradientBoosting, splines).
    """

    use: str = Field(
        description="Python file and function, file.py:function, or a class of scikit-learn, such as "
        "sklearn.ensemble.AdaBoostClassifier. Relative paths start at the configuration."
    )
    params: dict[str, Any] = Field({}, description="Keyword arguments of the function or the class.")
    encoding: Literal["dense", "codes"] = Field(
        "dense",
        alias="view",
        description="Form of the features. dense: scaled and imputed numbers, one-hot or target-encoded categories. "
        "codes: unchanged numbers with NaN, and categories as integer codes, for trees.",
    )

    @field_validator("use")
    @classmethod
    def _names_a_function(cls, use: str) -> str:
        if use.startswith(SKLEARN):
            _require_class(use)
        else:
            _require_function(*split_reference(use))
        return use

    @property
    def view(self) -> View:  # type: ignore[override]  # a setting here
        """Form of the features, from the setting ``view``."""
        return self.encoding

    @property
    def path(self) -> Path | None:
        """Path of the Python file; None for a class."""
        return None if self.use.startswith(SKLEARN) else split_reference(self.use)[0]

    @property
    def sha256(self) -> str:
        """Hexadecimal SHA-256 of the file; --resume ignores models trained with another version of it."""
        return "" if self.path is None else hashlib.sha256(self.path.read_bytes()).hexdigest()

    @property
    def _source(self) -> str:
        return f"estimator {self.use}"

    def make_estimator(self, task: Task, seed: int, n_threads: int) -> Any:
        if self.path is None:
            module, _, name = self.use.rpartition(".")
            function = getattr(import_module(module), name)
        else:
            function = _load(*split_reference(self.use))
        with self._explained(function.__name__):
            return function(**self.params)

    def _line(self, error: Exception) -> str:
        return "" if self.path is None else _line(error, self.path)


def _require_class(use: str) -> None:
    """Raise ValueError unless a name is that of a class that can be exported; scikit-learn is not imported."""
    module, _, name = use.rpartition(".")
    if name not in KINDS or not re.fullmatch(r"sklearn(\.[a-z]\w*)+", module):
        hint = did_you_mean(name, KINDS) or FIX
        raise ValueError(f"{use!r} is not a class of scikit-learn whose models can be exported; {hint}")


def _require_function(path: Path, name: str) -> None:
    """Raise ValueError if a Python file defines no such name at module level; the file is parsed, not executed."""
    try:
        tree = ast.parse(path.read_bytes())
    except OSError as error:
        raise ValueError(f"cannot read {path}: {error.strerror}") from None
    except (SyntaxError, ValueError) as error:
        raise ValueError(f"{path} is not Python: {error}") from None
    functions = [node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)]
    imports = chain.from_iterable(node.names for node in tree.body if isinstance(node, ast.ImportFrom | ast.Import))
    others = {alias.asname or alias.name for alias in imports}
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
