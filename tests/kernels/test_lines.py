"""1-D views of blocks and matrices."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.lib.stride_tricks import as_strided

from gpupipe_kernels.interpreters.cuda.lines import block_line, blocks_read, matrix_line
from gpupipe_kernels.program.opcodes import Opcode
from tests.kernels.programs import I8, I64, Writer

BLOCK = np.arange(60, dtype=np.int16).reshape(3, 20)
MATRIX = np.arange(60, dtype=np.float32).reshape(20, 3)


@pytest.mark.parametrize("block", [BLOCK, BLOCK[1:], BLOCK[:, 5:9], BLOCK[2:, 3:], BLOCK[::2, :1], BLOCK[:1, :1]])
def test_every_cell_of_a_block_is_where_its_line_says(block: np.ndarray) -> None:
    line = block_line(block)
    assert line is not None
    cells = as_strided(block, line[:1], (2,))
    for column, row in np.ndindex(block.shape):
        assert cells[column * line[1] + row] == block[column, row]
    assert cells[-1] == block[-1, -1]


@pytest.mark.parametrize(
    "block", [BLOCK[:, ::2], BLOCK.T, BLOCK[::-1], np.asfortranarray(BLOCK), np.broadcast_to(BLOCK[:1], (4, 20))]
)
def test_a_block_with_strided_rows_has_no_line(block: np.ndarray) -> None:
    assert block_line(block) is None


def test_an_empty_block_is_an_empty_line() -> None:
    assert block_line(BLOCK[:0]) == block_line(BLOCK[:, :0]) == (0, 0)


F, C = np.asfortranarray(MATRIX), MATRIX


@pytest.mark.parametrize(
    "out", [F, C, F[2:7], C[2:7], F[:, 1:], C[:, 1:], F[:1], C[:1], F[:, :1], C[:, :1], F[3:4, 1:], C[3:4, 2:]]
)
def test_every_cell_of_a_matrix_is_where_its_line_says(out: np.ndarray) -> None:
    length, row_step, column_step = matrix_line(out, out.shape[1])
    cells = as_strided(out, (length,), (4,))
    for row, column in np.ndindex(out.shape):
        assert cells[row * row_step + column * column_step] == out[row, column]
    assert cells[-1] == out[-1, -1]
    assert 1 in (row_step, column_step)


@pytest.mark.parametrize("out", [F, F[:5], F[:, 1:]])
def test_column_major_means_that_rows_are_adjacent(out: np.ndarray) -> None:
    assert matrix_line(out, out.shape[1])[1] == 1


def test_an_empty_matrix_is_an_empty_line() -> None:
    assert matrix_line(F[:0], 3)[0] == matrix_line(F[:, :0], 0)[0] == 0


@pytest.mark.parametrize("out", [F[::2], C[:, ::2], F[::-1], MATRIX.astype(np.float64), MATRIX[:, :2], MATRIX.ravel()])
def test_another_layout_dtype_or_width_is_rejected(out: np.ndarray) -> None:
    with pytest.raises(ValueError, match=r"expected a .* matrix"):
        matrix_line(out, out.shape[-1] if out.dtype == np.float32 and out.shape != (20, 2) else 3)


def test_only_the_blocks_that_a_program_reads_are_taken() -> None:
    writer = Writer()
    writer.put(Opcode.EQUAL, 0, (I8, 1), arg=1)
    writer.put(Opcode.BETWEEN, 1, (I64, 0), arg=2, params=(1.0,))
    program = writer.program()
    blocks: dict[str, np.ndarray] = {"int8": np.zeros((2, 5), np.int8), "int64": np.zeros((3, 5), np.int64)}
    assert blocks_read(program, blocks | {"float32": np.zeros((1, 99))}, 5).keys() == {"int8", "int64"}
    for wrong in (
        {"int8": blocks["int8"]},
        blocks | {"int8": blocks["int8"][:1]},
        blocks | {"int64": blocks["int64"][:2]},
        blocks | {"int8": blocks["int8"][:, :4]},
        blocks | {"int8": blocks["int8"].astype(np.int16)},
    ):
        with pytest.raises(ValueError, match=r"expected a block of int\d+ with at least \d columns and 5 rows, got "):
            blocks_read(program, wrong, 5)
