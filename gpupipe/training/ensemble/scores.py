"""Score of held-out predictions, and single-row cost of models, by which members are chosen."""

from __future__ import annotations

import time
from dataclasses import dataclass
from statistics import median

from gpupipe.backends.base import Backend
from gpupipe.backends.engines import scorer_engine
from gpupipe.metrics import METRICS, Costs, evaluate
from gpupipe.models import FittedModel
from gpupipe.tasks import Task
from gpupipe.typing import Array

ROW_CALLS = 25


@dataclass(frozen=True)
class HeldOutScore:
    """The metric that ranks candidates, computed on the host.

    `backend` is that of the host. `threshold` is for metrics of decisions (binary), and `costs` for the metric
    ``cost``.
    """

    metric: str
    task: Task
    n_classes: int
    backend: Backend
    threshold: float = 0.5
    costs: Costs | None = None

    @property
    def sign(self) -> float:
        """1 if greater values of the metric are better, else -1."""
        return 1.0 if METRICS.get(self.metric).greater_is_better else -1.0

    def value(self, y: Array, predicted: Array, sample_weight: Array | None = None) -> float:
        """Return the metric of predictions, float64, shape (n,) or (n, k); NaN if it is undefined."""
        found = evaluate(
            self.task,
            y,
            predicted,
            (self.metric,),
            self.threshold,
            self.n_classes,
            sample_weight=sample_weight,
            costs=self.costs,
            backend=self.backend,
        )
        return float(found[self.metric])


def row_seconds(model: FittedModel, row: Array) -> float:
    """Return the median wall seconds of the prediction of one row, float32, shape (1, d), by the exported model."""
    predict = model.row_estimator(scorer_engine(None))
    predict(row)  # compiles or loads what the first call needs
    seconds = []
    for _ in range(ROW_CALLS):
        start = time.perf_counter()
        predict(row)
        seconds.append(time.perf_counter() - start)
    return median(seconds)
