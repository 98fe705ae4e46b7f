"""1-D views ("lines") of table blocks and matrices, so that one index formula covers every layout.

Compiled code is specialised by number of dimensions and memory order; a line has a single type.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpupipe_kernels.program.opcodes import BLOCKS, Field, Opcode
from gpupipe_kernels.program.program import Program


def blocks_read(program: Program, blocks: Mapping[str, Any], n_rows: int) -> dict[str, Any]:
    """Return the blocks that a program reads, after checks that compiled code does not make.

    Raise ValueError if a block is absent, has too few columns, or has another dtype or number of rows.

    Parameters
    ----------
    program : Program
        One that `Program.check` accepts.
    blocks : mapping of str to array, shape (columns, rows)
    """
    table, read = program.instructions, {}
    for number, name in enumerate(BLOCKS):
        rows = table[table[:, Field.BLOCK] == number]
        if len(rows) == 0:
            continue
        columns = (
            max(
                rows[:, Field.ROW].max(),
                rows[rows[:, Field.OP] == Opcode.BETWEEN, Field.ARG].max(initial=0),
            )
            + 1
        )
        block = blocks.get(name)
        if block is None or block.dtype != name or block.shape[0] < columns or block.shape[1] != n_rows:
            got = "none" if block is None else f"{block.dtype} {tuple(block.shape)}"
            raise ValueError(f"expected a block of {name} with at least {columns} columns and {n_rows} rows, got {got}")
        read[name] = block
    return read


def block_line(block: Any) -> tuple[int, int] | None:
    """Return the number of cells of the line of a block, and the step from column to column.

    Parameters
    ----------
    block : array, shape (columns, rows)
        May be a slice of rows of a larger block.

    Returns
    -------
    (int, int), or None if the rows of a column are not contiguous.
    """
    columns, rows = block.shape
    if columns == 0 or rows == 0:
        return 0, 0
    step, rest = (rows, 0) if columns == 1 else divmod(block.strides[0], block.dtype.itemsize)
    if rest or step < rows or (rows > 1 and block.strides[1] != block.dtype.itemsize):
        return None
    return (columns - 1) * step + rows, step


def matrix_line(out: Any, n_columns: int) -> tuple[int, int, int]:
    """Return the number of cells of the line of a matrix, and the steps from row to row and from column to column.

    The first step is 1 in column-major order, the second in row-major order. Raise ValueError if the matrix is not
    float32, has another width, or is neither column-major nor row-major.
    """
    if out.dtype != "float32" or len(out.shape) != 2 or out.shape[1] != n_columns:
        raise ValueError(f"expected a float32 matrix with {n_columns} columns, got {out.dtype} {out.shape}")
    n_rows = out.shape[0]
    row, column = (stride // out.dtype.itemsize for stride in out.strides)
    if n_rows == 0 or n_columns == 0:
        return 0, 1, 0
    if (row == 1 or n_rows == 1) and (column >= n_rows or n_columns == 1):
        return (n_columns - 1) * column + n_rows, 1, column
    if column == 1 and row >= n_columns:
        return (n_rows - 1) * row + n_columns, row, 1
    raise ValueError(f"expected a column-major or row-major matrix, got strides {out.strides}")
