"""Warm-up of a scorer: compiled code and tables in the caches, ahead of the first row."""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING, Any

from gpupipe.artifact.untrusted.failures import refuse_failures
from gpupipe.errors import RowError
from gpupipe.table.schema import Column

if TYPE_CHECKING:
    from gpupipe.inference.scorer.scorer import Scorer

N_WARM_UP = 3  # calls; the first after them takes less than twice the time of later ones


def warm_up(scorer: Scorer) -> None:
    """Load or compile all code, and bring it and the tables into the caches of the processor."""
    where = str(scorer.manifest.get("model", {}).get("name", "model"))
    with refuse_failures("the estimator failed on valid rows", where, "export the model again"):
        # Arrays of one row are contiguous, those of several are not: two types to compile.
        for n_rows in (1, 2):
            cells = scorer.encoder.encode([dict.fromkeys(scorer.inputs)] * n_rows)
            scorer.predict_cells(cells).check(n_rows, scorer.goal.n_classes, scorer.goal.n_outputs)
    example = {column.source: _example_value(column) for column in scorer.columns}
    with suppress(RowError):  # a rule may forbid the example
        for _ in range(N_WARM_UP):
            scorer.predict(example)
            if scorer.goal.has_classes:
                scorer.predict_proba(example)


def _example_value(column: Column) -> Any:
    """Return a value that `column` may have."""
    if column.kind == "datetime":
        return datetime(2000, 1, 1)
    if column.kind in ("numeric", "boolean"):
        return 1.0 if column.kind == "numeric" else True
    return next(iter(column.levels or ()), "a")
