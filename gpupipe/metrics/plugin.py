"""Metrics of other packages: functions with scikit-learn's signature."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from inspect import getdoc, signature
from typing import TYPE_CHECKING, Any, Literal

from gpupipe.backends.out_of_memory import is_out_of_memory
from gpupipe.metrics.registry import Metric
from gpupipe.tasks import CLASSIFICATION, REGRESSION, Task

if TYPE_CHECKING:
    from gpupipe.entry_points import InstalledPlugin
    from gpupipe.metrics.predictions import ClassPredictions, ValuePredictions


@dataclass(frozen=True)
class PluginMetric:
    """A metric of another package, computed from the true and predicted values of rows.

    Attributes
    ----------
    function : callable
        ``(y_true, y_pred) -> float`` with NumPy arrays, and with the keyword ``sample_weight`` if rows have weights, as
        in `sklearn.metrics`. The first line of its docstring is the definition in reports. NaN: undefined.
    tasks : collection of str
        ``"binary"`` and ``"multiclass"``, or ``"regression"``. `y_true` has class codes from 0, or numbers.
    greater_is_better : bool
    response_method : {"predict", "predict_proba"}
        What `y_pred` is: predicted classes or values, or probabilities (of class 1 for two classes, otherwise of each
        class, shape (n, k)).

    Examples
    --------
    >>> from sklearn.metrics import matthews_corrcoef
    >>> from gpupipe.plugins import PluginMetric
    >>> PluginMetric(matthews_corrcoef, tasks=("binary", "multiclass")).greater_is_better
    True
    """

    function: Callable[..., float]
    tasks: Collection[Task]
    greater_is_better: bool = True
    response_method: Literal["predict", "predict_proba"] = "predict"


def adapt_metric(plugin: InstalledPlugin, found: Any) -> Metric:
    """Return the metric of a plug-in; raise TypeError if its object is not a valid `PluginMetric`."""
    if not isinstance(found, PluginMetric) or not callable(found.function):
        raise TypeError("a gpupipe.plugins.PluginMetric")
    tasks = frozenset(found.tasks)
    if not tasks or not (tasks <= CLASSIFICATION or tasks <= REGRESSION):
        raise TypeError("the tasks binary and multiclass, or regression")
    if found.response_method not in ("predict", "predict_proba") or (
        found.response_method == "predict_proba" and tasks <= REGRESSION
    ):
        raise TypeError("the response_method predict, or predict_proba of classes")
    takes_weight = "sample_weight" in signature(found.function).parameters

    def compute(rows: ClassPredictions | ValuePredictions) -> float:
        to_host = rows.backend.to_host
        weight = {} if rows.sample_weight is None else {"sample_weight": to_host(rows.sample_weight)}
        if weight and not takes_weight:
            raise plugin.error("takes no sample_weight, and source.weight is set", "remove the metric, or the weights")
        try:
            return float(found.function(to_host(rows.y_true), to_host(_response(rows, found)), **weight))
        except Exception as error:  # code of another package
            if is_out_of_memory(error):
                raise
            raise plugin.error(f"failed: {type(error).__name__}: {error}") from error

    compute.__doc__ = (getdoc(found.function) or "").partition("\n")[0]
    return Metric(compute, found.greater_is_better, tasks, default=False)


def _response(rows: ClassPredictions | ValuePredictions, metric: PluginMetric) -> Any:
    if hasattr(rows, "value"):
        return rows.value
    return rows.probability if metric.response_method == "predict_proba" else rows.label
