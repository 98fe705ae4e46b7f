"""Fitted model of a plug-in, stored as arrays, which only the package of the plug-in can read."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpupipe.artifact.untrusted.archives import read_arrays
from gpupipe.artifact.untrusted.shapes import check_shape
from gpupipe.backends.threads import limit_threads
from gpupipe.entry_points import InstalledPlugin
from gpupipe.errors import ArtifactError, ConfigError
from gpupipe.models.base import MODELS
from gpupipe.models.files.description import Description
from gpupipe.models.fitted.base import FittedModel
from gpupipe.models.fitted.prediction import Prediction
from gpupipe.tasks import CLASSIFICATION, REGRESSION, Task

if TYPE_CHECKING:
    from gpupipe.typing import Array, HostArray

BLOCK_ROWS = 131_072
FEW_ROWS = 8  # fewer are repeated, so that a single row is predicted like many: see `FittedSklearn`
CHECK_ROWS = 64
CHECK_X, CHECK_OUTPUT = "check X", "check output"  # names that no identifier can have
RTOL, ATOL = 1e-4, 1e-6
_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,98}[A-Za-z0-9])?")
_VERSION = re.compile(r"[A-Za-z0-9][A-Za-z0-9.+!_-]{0,98}")


@dataclass(frozen=True)
class PluginEstimator:
    """A fitted estimator of a plug-in, with rows and their outputs that prove that it was loaded correctly."""

    estimator: Any
    arrays: Mapping[str, HostArray]  # its state
    X: HostArray  # float32, shape (at most 64, d): training rows
    output: HostArray  # float64, shape (n,) or (n, k): their values, or their probabilities of each class
    plugin: Mapping[str, str]  # name, distribution and version of the plug-in that trained it

    @classmethod
    def of(
        cls, estimator: Any, arrays: Mapping[str, HostArray], X: Array, task: Task, plugin: InstalledPlugin
    ) -> PluginEstimator:
        """Return a trained estimator; `X` is the matrix that it was trained on.

        Raise ConfigError if its state is not a mapping of names to arrays without Python objects.
        """
        import numpy as np

        kept = {str(name): np.asarray(array) for name, array in arrays.items()}
        for name, array in kept.items():
            if not name.isidentifier() or array.dtype.hasobject:
                raise plugin.error(
                    f"has invalid state: expected names and arrays of numbers or text; found {name!r:.40} "
                    f"of dtype {array.dtype}"
                )
        rows = X[:: max(1, len(X) // CHECK_ROWS)][:CHECK_ROWS].copy()
        origin = {key: value for key, value in plugin.to_json().items() if key != "kind"}
        made = cls(estimator, kept, rows, np.empty(0), origin)
        return replace(made, output=made.predict(rows, task))

    def predict(self, X: Array, task: Task) -> HostArray:
        """Return the values of rows, float64, shape (n,), or the probabilities of each class, shape (n, k)."""
        import numpy as np

        predict = self.estimator.predict_proba if task in CLASSIFICATION else self.estimator.predict
        found = np.asarray(predict(np.array(X, np.float32, order="C")), np.float64)  # a copy that it may write to
        if task in REGRESSION and found.ndim == 2 and found.shape[1] == 1:
            found = found[:, 0]
        if found.ndim != (2 if task in CLASSIFICATION else 1) or len(found) != len(X):
            raise ValueError(f"the estimator of {self.plugin['name']!r} returned shape {found.shape} for {len(X)} rows")
        return found


@dataclass(frozen=True, repr=False)
class FittedPlugin(FittedModel):
    """An estimator of a plug-in: a `PluginEstimator`, stored as npz."""

    library = "plugin"
    file = "estimator.npz"

    def predict(self, X: Array) -> Prediction:
        """Predict the rows of `X`, in blocks."""
        import numpy as np

        if 0 < len(X) < FEW_ROWS:
            repeated = X[np.arange(FEW_ROWS) % len(X)]
            return self.predict(repeated).mapped(lambda array: array[: len(X)])
        starts = range(0, max(1, len(X)), BLOCK_ROWS)
        with limit_threads(blas=1):
            blocks = [self.estimator.predict(X[start : start + BLOCK_ROWS], self.task) for start in starts]
        found = blocks[0] if len(blocks) == 1 else np.concatenate(blocks)
        if self.task in CLASSIFICATION:
            if found.shape[1] != len(self.classes):
                raise ValueError(f"expected probabilities of {len(self.classes)} classes; found {found.shape[1]}")
            return self._classification(found)
        return Prediction(self.task, value=found)

    def importances(self) -> dict[str, float] | None:
        """Return ``feature_importances_`` of the estimator; None if it has none."""
        import numpy as np

        values = np.asarray(getattr(self.estimator.estimator, "feature_importances_", ()), np.float64)
        if values.ndim != 1 or len(values) != self.estimator.X.shape[1] or not np.isfinite(values).all():
            return None
        return {name: float(value) for name, value in zip(self._names(len(values)), values, strict=True)}

    def save(self, folder: str | Path, *, quick: bool = False) -> dict[str, Any]:
        """Write the arrays; the description names the plug-in."""
        return {**super().save(folder, quick=quick), "plugin": dict(self.estimator.plugin)}

    def _write(self, path: Path) -> None:
        import numpy as np

        own = {CHECK_X: self.estimator.X, CHECK_OUTPUT: self.estimator.output}
        np.savez(path, **{**self.estimator.arrays, **own})

    def _write_quickly(self, path: Path) -> None:
        self._write(path)


def read_plugin(data: bytes, described: Any, expected: Description, where: str) -> PluginEstimator:
    """Return the estimator in the content of a file.

    The installed package may have another version than the one that trained the model, if it reproduces the recorded
    outputs. `described` is the entry ``plugin`` of the description of the model. Raise ValueError if the description or
    the file is malformed; ConfigError if the plug-in is not installed, or cannot be loaded; ArtifactError if the
    plug-in does not reproduce the recorded outputs.
    """
    import numpy as np

    plugin = _check_described(described)
    if expected.task not in CLASSIFICATION | REGRESSION:
        raise ValueError(f"a plug-in cannot predict the task {expected.task}")
    installed = _require(plugin, where)
    arrays = read_arrays(data)
    X, output = arrays.pop(CHECK_X, None), arrays.pop(CHECK_OUTPUT, None)
    if X is None or output is None or X.dtype != "float32" or X.ndim != 2 or output.dtype != "float64":
        raise ValueError("expected recorded rows and outputs")
    expected.check_columns(X.shape[1])
    kind: Any = MODELS.get(plugin["name"])
    found = PluginEstimator(kind.from_arrays(arrays, expected.task), arrays, X, output, plugin)
    with limit_threads(blas=1):
        again = found.predict(X, expected.task)
    if again.shape != output.shape or not np.allclose(again, output, rtol=RTOL, atol=ATOL, equal_nan=True):
        raise ArtifactError(
            f"{installed.title} does not reproduce the outputs recorded by version {plugin['version']}",
            where=where,
            fix=_install(plugin),
        )
    return found


def _check_described(plugin: Any) -> dict[str, str]:
    keys = {"name": _NAME, "distribution": _NAME, "version": _VERSION}
    check_shape(plugin, dict.fromkeys(keys, str), "plugin")
    for key, pattern in keys.items():
        if pattern.fullmatch(plugin[key]) is None:
            raise ValueError(f"invalid {key} of a plug-in: {plugin[key]!r:.40}")
    return dict(plugin)


def _require(plugin: Mapping[str, str], where: str) -> InstalledPlugin:
    """Return the installed plug-in that a model needs; raise ConfigError if it is not there."""
    name = plugin["name"]
    distribution = plugin["distribution"]
    version = plugin["version"]
    if name in MODELS:
        MODELS.get(name)
    installed = MODELS.plugin(name)
    if installed is None:
        raise ConfigError(
            f"the model needs the plug-in {name!r} of {distribution} {version}, which is not installed",
            where=where,
            fix=_install(plugin),
        )
    if _normal(installed.distribution) != _normal(distribution):
        raise ConfigError(
            f"the model needs the plug-in {name!r} of {distribution} {version}; found {installed.title}",
            where=where,
            fix=f"pip uninstall {installed.distribution} && {_install(plugin)}",
        )
    return installed


def _install(plugin: Mapping[str, str]) -> str:
    return f"pip install '{plugin['distribution']}=={plugin['version']}'"


def _normal(distribution: str) -> str:
    return re.sub(r"[-_.]+", "-", distribution).lower()
