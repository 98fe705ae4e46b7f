"""Translation of estimators of scikit-learn to those of a device: the rows of `estimators.ESTIMATORS`."""

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
    """The rule that translates one parameter.

    Attributes
    ----------
    name : str
        The parameter of the device's estimator that takes the value; "" where none does: it is dropped.
    values : tuple of pairs
        Value here and value there; a value that is not named goes as it is.
    allowed : tuple, optional
        The values that can be had on the device; None: all.
    refused_types : tuple of types
        Values of just these types cannot be had.
    scale : float
        What a number is multiplied with.
    why : str
        Why it is dropped, or why other values are refused.
    nearest : str
        What comes nearest to a value that is refused, as it is written in the configuration; "" : leave it out.
    note : str
        What is said in the run's report when the parameter is given and not None.
    """

    name: str = ""
    values: tuple[tuple[Any, Any], ...] = ()
    allowed: tuple[Any, ...] | None = None
    refused_types: tuple[type, ...] = ()
    scale: float = 1.0
    why: str = ""
    nearest: str = ""
    note: str = ""

    def accepts(self, value: Any) -> bool:
        """Return whether the device can do what `value` asks for."""
        if type(value) in self.refused_types:
            return False
        return self.allowed is None or any(_same(value, other) for other in self.allowed)

    def translate(self, value: Any) -> Any:
        """Return `value` as the device's estimator takes it."""
        if self.scale != 1.0:
            return self.scale * value
        return next((there for here, there in self.values if _same(value, here)), value)


@dataclass(frozen=True)
class GpuEstimator:
    """The estimator of a device that stands for one of scikit-learn's or XGBoost's.

    Attributes
    ----------
    path : str
        ``"module:class"``.
    params : mapping of str to ParameterRule
        By scikit-learn's name.
    fixed : mapping of str to value
        Parameters that are always passed, whatever the configuration says.
    dtype : {"float32", "float64"}
        What the matrix is made before training. float64: of a copy, for the reason that holds on the host too.
    by_blocks : bool
        Whether the estimator casts rows to `dtype` itself, block by block: then the matrix is not copied.
    float64_solvers : tuple of str
        Values of ``solver`` with which the host computes in float64, and so the device.
    takes_missing : bool
        Whether NaN is understood, in training and in prediction.
    notes : tuple of str
        In what its result differs from the host's, for the report.
    """

    path: str
    params: Mapping[str, ParameterRule]
    fixed: Mapping[str, Any] = field(default_factory=dict)
    dtype: str = "float32"
    by_blocks: bool = False
    float64_solvers: tuple[str, ...] = ()
    takes_missing: bool = False
    notes: tuple[str, ...] = ()

    @property
    def library(self) -> str:
        """The library's name, as it is imported."""
        return self.path.partition(":")[0].partition(".")[0]

    @property
    def passed(self) -> frozenset[str]:
        """The names of all parameters that may be passed to the class."""
        return frozenset(param.name for param in self.params.values() if param.name) | frozenset(self.fixed)

    def dtype_for(self, params: Mapping[str, Any]) -> str:
        """Return the dtype of the matrix that these parameters are to be trained on."""
        return "float64" if params.get("solver") in self.float64_solvers else self.dtype

    def translate(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """Return the keyword arguments for the class; `params` must not be refused."""
        found = {name: (self.params[name], value) for name, value in params.items()}
        given = {param.name: param.translate(value) for param, value in found.values() if param.name}
        return given | dict(self.fixed)

    def refusals(self, params: Mapping[str, Any]) -> list[EstimatorRefusal]:
        """Return one refusal for each parameter that the device cannot honour."""
        return [refusal for name, value in params.items() if (refusal := self._refusal(name, value)) is not None]

    def notes_on(self, params: Mapping[str, Any]) -> tuple[str, ...]:
        """Return in what the result differs from the host's, given these parameters."""
        given = (self.params[name].note for name, value in params.items() if value is not None)
        return (*self.notes, *(note for note in given if note))

    def _refusal(self, name: str, value: Any) -> EstimatorRefusal | None:
        owner = {"cuml": "cuML", "xgboost": "XGBoost"}.get(self.library, "the GPU")
        title = f"{owner}'s {self.path.partition(':')[2]}"
        param = self.params.get(name)
        if param is None:
            return EstimatorRefusal(f"{title} has no {name}", f"leave out {name}")
        if param.accepts(value):
            return None
        fix = f"{name}: {param.nearest}" if param.nearest else f"leave out {name}"
        return EstimatorRefusal(f"{title} cannot honour {name}: {value!r} ({param.why})", fix)


def _same(one: Any, other: Any) -> bool:
    """Return whether two values are equal, True and 1 being two values."""
    return isinstance(one, bool) == isinstance(other, bool) and bool(one == other)
