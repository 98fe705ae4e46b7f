"""Numeric columns of a partition, stored or computed, as arrays on the worker that holds its rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from gpupipe.backends.base import Backend
from gpupipe.table.blocks import Table
from gpupipe.typing import Array
from gpupipe_kernels.program.program import Program

NumberColumn = str | Program  # the name of a column of the table, or a program with a single output


def read_columns(backend: Backend, table: Table, columns: Sequence[NumberColumn]) -> list[Array]:
    """Return each column of the rows of `table`, shape (n_rows,)."""
    return [table.column(column) if isinstance(column, str) else _run(backend, table, column) for column in columns]


def _run(backend: Backend, table: Table, column: Program) -> Array:
    out = backend.empty_matrix(table.n_rows, 1)
    backend.run_program(column, table.blocks, out)
    values: Array = out.T[0]
    return values


def column_values_at(
    backend: Backend, table: Table, rows: Array | slice, columns: Sequence[NumberColumn]
) -> list[Array]:
    """Return each column for the given rows, on the host; other rows are not computed.

    `rows` are a slice, or an array of int or bool on the device of `backend`.
    """
    if isinstance(rows, slice):
        blocks = {name: block[:, rows] for name, block in table.blocks.items()}
    else:
        blocks = {name: backend.xp.ascontiguousarray(block[:, rows]) for name, block in table.blocks.items()}
    n_rows = next((block.shape[1] for block in blocks.values()), 0)
    few = replace(table, n_rows=n_rows, blocks=blocks)
    return [backend.to_host(x) for x in read_columns(backend, few, columns)]
