"""Arguments and results of a scorer: one row, or a sequence of rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gpupipe.errors import DataError
from gpupipe.table.row_encoder import Row


def of_first(found: Any, is_single: bool) -> Any:
    """Return the results of the first row only, if a single one was given; of several targets, those of each."""
    if not is_single:
        return found
    return [each[0] for each in found] if isinstance(found, list) else found[0]


def as_rows(rows: Row | Sequence[Row]) -> Sequence[Row]:
    """Return the given row or rows as a sequence. Raise DataError if they are neither a dict nor a sequence."""
    if isinstance(rows, Mapping):
        return (rows,)
    if not isinstance(rows, Sequence):
        raise DataError(
            f"expected a dict, or a list of dicts; got {type(rows).__name__}",
            fix="use gpupipe.Model.predict for frames",
        )
    return rows
