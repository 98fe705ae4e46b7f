"""Input columns over the rows that a model has learned from: what new rows change, and the reference of both."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from gpupipe.inference.drift.cell_counter import CellCounter
from gpupipe.inference.drift.detection import input_columns
from gpupipe.inference.drift.verdict import compare_columns, overall_verdict, worst_first
from gpupipe.inference.drift.weights import importance_weights

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa

    from gpupipe.inference.drift.reference import DriftReference
    from gpupipe.inference.model import Model
    from gpupipe.typing import Array

MOST_NAMED = 3


def drifted_columns(model: Model, reference: DriftReference, rows: pa.Table) -> tuple[str, ...]:
    """Return the input columns whose drift in new rows is high or makes that of all columns at least moderate.

    They are the worst of all, at most three. The verdict is that of `gpupipe.Model.drift`, without scores.
    """
    weights = importance_weights(model.manifest)
    known = {column.name: 1.0 for column in reference.columns} if weights is None else weights
    columns = compare_columns(reference.columns, _counts(model, reference, rows), {**known, reference.time: 0.0})
    if overall_verdict(columns, ()).severity == "none":
        return ()
    return tuple(each.name for each in worst_first(columns) if each.weight > 0 and each.severity != "none")[:MOST_NAMED]


def with_rows(model: Model, reference: DriftReference, rows: pa.Table, own: DriftReference) -> DriftReference:
    """Return the reference `own` of a continued model with the input columns of the rows before and the new ones."""
    counts = _counts(model, reference, rows)
    columns = (replace(each, counts=each.counts + counts[each.name]) for each in reference.columns)
    return replace(own, columns=tuple(columns))


def _counts(model: Model, reference: DriftReference, rows: pa.Table) -> Mapping[str, Array]:
    counter = CellCounter(input_columns(reference, model), model.backend, rows.num_rows)
    return counter.by_column(counter.count(rows))
