"""The feature program in SQL against the NumPy interpreter, on random programs and extreme cells, in each engine."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlglot import exp

from gpupipe.inference.sql.dialect import SqlDialect, column
from gpupipe.inference.sql.engines import ROW_COLUMN, ROWS_TABLE, open_engine
from gpupipe.inference.sql.inputs import Cell
from gpupipe.inference.sql.instructions import WRITERS, write_program
from gpupipe.inference.sql.query import SqlQuery
from gpupipe.table.schema import LARGEST
from gpupipe_kernels.interpreters.numpy import interpreter
from gpupipe_kernels.program.opcodes import BLOCKS, NAT, Opcode
from gpupipe_kernels.program.program import Program
from gpupipe_kernels.rows.lowering import lower
from gpupipe_kernels.rows.records import SINGLE
from tests.examples import examples
from tests.inference.onnx.test_instructions import COLUMNS, POSITIONS
from tests.kernels.programs import assert_same, random_program, random_table


def features_of(dialect: str, program: Program, blocks: Any, rounds: bool) -> np.ndarray:
    """Return the features of encoded rows as the query computes them."""
    query = SqlQuery(SqlDialect(dialect))
    cells: list[list[Cell]] = [[], [], [], []]
    rows: dict[str, Any] = {}
    for kind, columns in COLUMNS.items():
        for block, row in columns:
            name = f"c{block}_{row}"
            values = blocks[BLOCKS[block]][row]
            if BLOCKS[block] == "int64":
                rows[name] = pa.chunked_array([pa.array(values, mask=values == NAT)])
            elif kind < 2:
                rows[name] = pa.chunked_array([pa.array(values.astype(np.float64), mask=np.isnan(values))])
            else:
                rows[name] = pa.chunked_array([pa.array(values.astype(np.int64))])
            cells[kind].append(Cell(query.define(query.raw(name)).name, kind != SINGLE))
    n = len(next(iter(blocks.values()))[0])
    rows[ROW_COLUMN] = pa.chunked_array([pa.array(range(n))])
    X, _ = write_program(query, lower(program, POSITIONS), cells, rounds)
    outputs = {f"x{i}": column(each.name) for i, each in enumerate(X)}
    with open_engine(dialect, rows, None, "test") as engine:
        found = engine.run(query.select(exp.to_table(ROWS_TABLE), [ROW_COLUMN], outputs).sql(dialect))
    return np.stack([found[name] for name in outputs], axis=1).astype(np.float32)


@pytest.mark.parametrize("dialect", ["duckdb", "sqlite"])
@examples(15)
@given(seed=st.integers(0, 2**32 - 1), n=st.integers(1, 40), n_columns=st.integers(1, 12), rounds=st.booleans())
def test_random_programs_have_the_features_of_the_interpreter(
    dialect: str, seed: int, n: int, n_columns: int, rounds: bool
) -> None:
    """Without `rounds`, a column that only trees read is float64: rounded to float32, it is the same."""
    rng = np.random.default_rng(seed)
    (blocks, _), (program, exact) = random_table(rng, n), random_program(rng, n_columns)
    for name in ("float32", "float64"):  # the encoder makes these null
        blocks[name][np.isinf(blocks[name]) | (np.abs(blocks[name]) > LARGEST)] = np.nan
    expected = np.full((n, program.n_columns), 99, np.float32, order="F")
    interpreter.run(program, blocks, expected)
    # SQLite stores -0.0 as 0, which decides alike.
    assert_same(features_of(dialect, program, blocks, rounds) + np.float32(0), expected + np.float32(0), exact)


def test_each_instruction_but_a_call_has_an_expression() -> None:
    absent = set(Opcode) - set(WRITERS) - {Opcode.STORE, Opcode.INDEX_FOLD}  # which the register form does not have
    assert absent == {Opcode.CALL}
