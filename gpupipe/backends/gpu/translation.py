"""Translation of scikit-learn estimators to those of a device: the rows of `estimators.ESTIMATORS`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple


class EstimatorRefusal(NamedTuple):
    """The reason a device cannot train an estimator, and the change that would allow it."""

    what: str
    fix: str


@dataclass(frozen=True)
class ParameterRule:
    """The rule that translates one parameter."""

    name: str = ""  # the parameter of the device's estimator; "" if there is none and the parameter is dropped
    values: tuple[tuple[Any, Any], ...] = ()  # value and its translation; other values are passed unchanged
    allowed: tuple[Any, ...] | None = None  # the values that the device supports; None: all
    refused_types: tuple[type, ...] = ()  # values of exactly these types are unsupported
    scale: float = 1.0  # the factor of a number
    why: str = ""  # the reason that the parameter is dropped or other values are refused
    nearest: str = ""  # the nearest supported value, in the syntax of the configuration; "": remove the parameter
    note: str = ""  # a line of the run's report if the parameter is given and not None

    def accepts(self, value: Any) -> bool:
        """Return whether the device supports `value`."""
        if type(value) in self.refused_types:
            return False
        return self.allowed is None or any(_same(value, other) for other in self.allowed)

    def translate(self, value: Any) -> Any:
        """Return `value` as the device's estimator expects it."""
        if self.scale != 1.0:
            return self.scale * value
        return next((there for here, there in self.values if _same(value, here)), value)


@dataclass(frozen=True)
class GpuEstimator:
    """The device estimator that replaces one of scikit-learn or XGBoost."""

    path: str  # ``"module:class"``
    params: Mapping[str, ParameterRule]  # by scikit-learn's parameter name
    fixed: Mapping[str, Any] = field(default_factory=dict)  # parameters that are always passed
    # {"float32", "float64"}: the dtype of the matrix in training. float64: a copy, for the same reason as on the host
    dtype: str = "float32"
    # Whether the estimator casts rows to `dtype` itself, block by block, so that the matrix is not copied
    by_blocks: bool = False
    # Values of ``solver`` for which the host, and therefore the device, computes in float64
    float64_solvers: tuple[str, ...] = ()
    takes_missing: bool = False  # whether NaN is allowed in training and prediction
    notes: tuple[str, ...] = ()  # differences from the results of the host, for the report
    # The library that it computes with, if it is not that of `path`; for `gpupipe.backends.base.Backend.lacks`
    needs: str = ""

    @property
    def library(self) -> str:
        """The import name of the library."""
        return self.path.partition(":")[0].partition(".")[0]

    @property
    def passed(self) -> frozenset[str]:
        """The names of all parameters that may be passed to the class."""
        return frozenset(param.name for param in self.params.values() if param.name) | frozenset(self.fixed)

    def dtype_for(self, params: Mapping[str, Any]) -> str:
        """Return the dtype of the training matrix for these parameters."""
        return "float64" if params.get("solver") in self.float64_solvers else self.dtype

    def translate(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """Return the keyword arguments for the class; `params` must be supported."""
        found = {name: (self.params[name], value) for name, value in params.items()}
        given = {param.name: param.translate(value) for param, value in found.values() if param.name}
        return given | dict(self.fixed)

    def refusals(self, params: Mapping[str, Any]) -> list[EstimatorRefusal]:
        """Return one refusal for each unsupported parameter."""
        return [refusal for name, value in params.items() if (refusal := self._refusal(name, value)) is not None]

    def notes_on(self, params: Mapping[str, Any]) -> tuple[str, ...]:
        """Return the differences from the results of the host for these parameters."""
        given = (self.params[name].note for name, value in params.items() if value is not None)
        return (*self.notes, *(note for note in given if note))

    def _refusal(self, name: str, value: Any) -> EstimatorRefusal | None:
        owner = {"cuml": "cuML", "xgboost": "XGBoost"}.get(self.library, "the GPU")
        title = f"{owner}'s {self.path.partition(':')[2]}"
        param = self.params.get(name)
        if param is None:
            return EstimatorRefusal(f"{title} has no {name}", f"remove {name}")
        if param.accepts(value):
            return None
        fix = f"{name}: {param.nearest}" if param.nearest else f"remove {name}"
        return EstimatorRefusal(f"{title} does not support {name}: {value!r} ({param.why})", fix)


def _same(one: Any, other: Any) -> bool:
    """Return whether two values are equal; True and 1 are different."""
    return isinstance(one, bool) == isinstance(other, bool) and bool(one == other)
