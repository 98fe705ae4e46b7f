"""Row weights of a run, from the column of ``source.weight``."""

from __future__ import annotations

from typing import TypeVar

import numpy as np

from gpupipe.backends.base import Backend
from gpupipe.config import Config
from gpupipe.errors import DataError
from gpupipe.io.input_files import InputFiles
from gpupipe.rules import ColumnRules
from gpupipe.rules.check import find_violations
from gpupipe.rules.enforcement import settle
from gpupipe.table.blocks import EncodedTable
from gpupipe.training.preparation.rules import name_rows
from gpupipe.typing import Array

TableT = TypeVar("TableT", bound=EncodedTable)

REQUIRED = ColumnRules(dtype="numeric", nulls=False, range=(0.0, None))


def weighted_rows(
    config: Config, table: TableT, row_ids: Array, n_read: int, backend: Backend, files: InputFiles | None = None
) -> tuple[TableT, Array, Array | None]:
    """Return the rows whose weight is not 0, their positions in the input, and their weights.

    The weights are float64, on the host; None without ``source.weight``. `row_ids`, int, shape (n_rows,), has the
    position of each row in the input, which has `n_read` rows; it is for messages, and so are `files`, the files of the
    table.

    Raise SchemaError if the column is not numeric or has missing or negative values, and DataError if all weights are
    0.
    """
    name = config.source.weight
    if name is None:
        return table, row_ids, None
    broken = find_violations(table, {name: [REQUIRED]}, backend)
    if broken:
        name_row, where = name_rows(config, n_read, broken, () if files is None else files.source)
        settle(
            broken,
            lambda row: name_row(int(row_ids[row])),
            where,
            "correct the weights: numbers from 0, none missing; 0 leaves a row out of training and evaluation",
            "`source.weight`",
            may_change=False,
        )
    weights: Array = backend.to_host(table.column(name)).astype(np.float64)
    is_used = weights > 0
    if not is_used.any():
        error = DataError(f"all weights in {name!r} are 0", where="source.weight", fix="choose another column")
        error.depends_on_rows = True
        raise error
    if is_used.all():
        return table, row_ids, weights
    return table.take(is_used, backend), row_ids[is_used], weights[is_used]
