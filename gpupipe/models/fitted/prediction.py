"""Predictions of rows, and their joining."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any

from gpupipe.tasks import TargetSpec, Task
from gpupipe.typing import ArrayNamespace

if TYPE_CHECKING:
    from gpupipe.typing import Array


@dataclass(frozen=True)
class Prediction:
    """Predictions for n rows. Only the fields of the task are set; all arrays are on the host, or all on a device."""

    task: Task
    # binary: probability of class 1, float64, shape (n,). multiclass: that of each of the k classes, shape (n, k).
    probability: Array | None = None
    value: Array | None = None  # regression: predicted value, float64, shape (n,)
    # quantile: the predicted quantile of each of the k levels, ascending in each row; float64, shape (n, k).
    quantiles: Array | None = None
    # multioutput: for each target its predicted value, the probability of class 1 of two, or that of each class;
    # float64, shape (n, k).
    outputs: Array | None = None
    label: Array | None = None  # clustering: cluster of the row, int32, shape (n,)
    distance: Array | None = None  # clustering: distance to the center of that cluster, float64, shape (n,)
    embedding: Array | None = None  # embedding: coordinates of the row, float32, shape (n, k)
    targets: tuple[TargetSpec, ...] = ()  # multioutput: the targets, in the order of their columns in `outputs`

    @staticmethod
    def of_targets(parts: Sequence[Prediction], xp: ArrayNamespace | None = None) -> Prediction:
        """Return the prediction of several targets from that of each; `xp` is their namespace, None: ``numpy``."""
        import numpy as np

        columns = [part.output if part.output.ndim > 1 else part.output[:, None] for part in parts]
        specs = [
            TargetSpec(part.task, column.shape[1] if part.task == "multiclass" else 2 if part.task == "binary" else 0)
            for part, column in zip(parts, columns, strict=True)
        ]
        return Prediction("multioutput", outputs=(xp or np).concatenate(columns, axis=1), targets=tuple(specs))

    @property
    def parts(self) -> tuple[Prediction, ...]:
        """The prediction of each target."""
        assert self.outputs is not None
        found = []
        for target, (start, stop) in zip(self.targets, pairwise(column_bounds(self.targets)), strict=True):
            columns = self.outputs[:, start:stop]
            if target.task == "regression":
                found.append(Prediction(target.task, value=columns[:, 0]))
            else:
                own = columns if target.task == "multiclass" else columns[:, 0]
                found.append(Prediction(target.task, probability=own))
        return tuple(found)

    @property
    def arrays(self) -> dict[str, Array]:
        """The arrays that are set, by field name."""
        fields = ("probability", "value", "quantiles", "outputs", "label", "distance", "embedding")
        return {name: getattr(self, name) for name in fields if getattr(self, name) is not None}

    @property
    def output(self) -> Array:
        """The array that metrics measure: probabilities, values, quantiles, outputs, cluster labels or an embedding."""
        return next(iter(self.arrays.values()))

    def check(self, n_rows: int, n_classes: int, n_outputs: int = 0) -> None:
        """Verify the arrays, since an estimator from an untrusted file may return anything.

        `n_classes` is 0 without classes. `n_outputs` is the number of predicted quantiles, or of columns of several
        targets; 0 for other tasks. Raise ValueError if an array is missing, or has the wrong shape or dtype.
        """
        tasks: dict[Task, dict[str, tuple[tuple[int, ...], str]]] = {
            "binary": {"probability": ((n_rows,), "f")},
            "multiclass": {"probability": ((n_rows, n_classes), "f")},
            "regression": {"value": ((n_rows,), "f")},
            "ranking": {"value": ((n_rows,), "f")},
            "quantile": {"quantiles": ((n_rows, n_outputs), "f")},
            "multioutput": {"outputs": ((n_rows, n_outputs), "f")},
            "clustering": {"label": ((n_rows,), "i"), "distance": ((n_rows,), "f")},
            "embedding": {"embedding": ((n_rows, *getattr(self.embedding, "shape", ())[1:2]), "f")},
        }
        expected = tasks[self.task]
        found = {name: (tuple(array.shape), array.dtype.kind) for name, array in self.arrays.items()}
        if found != expected:
            raise ValueError(f"expected {expected} for the task {self.task}; the estimator returned {found}")

    def mapped(self, function: Callable[[Array], Array]) -> Prediction:
        """Return the prediction with ``function`` applied to each array."""
        return self.with_arrays({name: function(array) for name, array in self.arrays.items()})

    def with_arrays(self, arrays: Mapping[str, Any]) -> Prediction:
        """Return a prediction of the same task and targets with other arrays, by field name."""
        return replace(self, **arrays)


def column_bounds(targets: Sequence[TargetSpec]) -> list[int]:
    """Return the first column of each target in the outputs of all, then the number of columns."""
    return [0, *accumulate(target.width for target in targets)]


def join_predictions(parts: Sequence[Prediction], xp: ArrayNamespace | None = None) -> Prediction:
    """Return the concatenated predictions of blocks of rows; `xp` is their array namespace, None: ``numpy``."""
    if len(parts) == 1:
        return parts[0]
    import numpy as np

    arrays = [part.arrays for part in parts]
    return parts[0].with_arrays({name: (xp or np).concatenate([part[name] for part in arrays]) for name in arrays[0]})
