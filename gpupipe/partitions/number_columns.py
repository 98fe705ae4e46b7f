"""Columns of numbers by what they are: on the worker that has the rows they become arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from gpupipe.backends.base import Backend
from gpupipe.table.blocks import Table
from gpupipe.typing import Array
from gpupipe_kernels.program.program import Program


@dataclass(frozen=True, eq=False)
class Made:
    """A column that a program makes, its only one.

    Attributes
    ----------
    program : Program
    engine : str
        The interpreter that runs it: one for all partitions, so that the bytes do not depend on them.
    """

    program: Program
    engine: str


Asked = str | Made  # the first is the name of a column of the table


def arrays(backend: Backend, table: Table, columns: Sequence[Asked]) -> list[Array]:
    """Return each column of the rows of `table`, shape (n_rows,)."""
    return [table.column(column) if isinstance(column, str) else _run(backend, table, column) for column in columns]


def _run(backend: Backend, table: Table, column: Made) -> Array:
    out = backend.empty_matrix(table.n_rows, 1)
    backend.run_program(column.program, table.blocks, out, engine=column.engine)
    values: Array = out.T[0]
    return values


def picked(backend: Backend, table: Table, rows: Array | slice, columns: Sequence[Asked]) -> list[Array]:
    """Return each column of some rows, on the host; only those are made.

    Parameters
    ----------
    rows : slice, or array of int or bool
        Of where `backend` computes.
    """
    if isinstance(rows, slice):
        blocks = {name: block[:, rows] for name, block in table.blocks.items()}
    else:
        blocks = {name: backend.xp.ascontiguousarray(block[:, rows]) for name, block in table.blocks.items()}
    n_rows = next((block.shape[1] for block in blocks.values()), 0)
    few = replace(table, n_rows=n_rows, blocks=blocks)
    return [backend.to_host(x) for x in arrays(backend, few, columns)]
