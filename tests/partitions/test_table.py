"""Tables and matrices in partitions: the same rows for any partitions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpupipe.backends import Backend
from gpupipe.errors import SchemaError
from gpupipe.partitions.matrix import PartitionedMatrix
from gpupipe.partitions.table import PartitionedTable
from gpupipe.partitions.workers import Workers
from gpupipe.pipeline.records.run_report import column_quality
from gpupipe.table.arrange import arrange
from gpupipe.table.blocks import Table
from gpupipe.table.encode import encode
from gpupipe.table.schema import Schema, declare
from tests.examples import examples
from tests.inline_workers import InlineWorkers

N = 100
CUTS = [[], [50], [1, 2], [0, 30, 30, 31, 90, 100]]  # the last has empty partitions


@pytest.fixture(scope="module")
def table(backend: Backend) -> Table:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "x": np.where(rng.random(N) < 0.1, np.nan, rng.normal(size=N)),
            "small": rng.integers(0, 9, N).astype(np.float32),
            "plan": rng.choice(np.array(["a", "b", None], object), N),
            "since": pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 999, N), unit="h"),
            "words": [f"row {i}" if i % 7 else None for i in range(N)],
        }
    )
    return encode(pa.Table.from_pandas(frame), backend, {"words": declare("text")})


def texts_of(table: PartitionedTable, name: str) -> list[str | None]:
    parts = table.workers.gather(table.partitions)
    return [text for part in parts for text in part.texts[name].to_pylist()]


def assert_same(one: PartitionedTable, other: Table) -> None:
    assert (one.schema, one.n_rows, one.n_columns) == (other.schema, other.n_rows, other.n_columns)
    for column in other.schema:
        if column.storage:
            np.testing.assert_array_equal(one.column(column.name), other.column(column.name))
        else:
            assert texts_of(one, column.name) == other.texts[column.name].to_pylist()


@pytest.mark.parametrize("cuts", CUTS, ids=str)
def test_the_report_summarises_their_columns_as_those_of_the_table(
    table: Table, backend: Backend, workers: Workers, divide: Any, cuts: list[int]
) -> None:
    assert column_quality(divide(table, cuts, workers), ["x"], backend) == column_quality(table, ["x"], backend)


@pytest.mark.parametrize("cuts", CUTS, ids=str)
def test_partitions_have_the_rows_of_the_table(
    table: Table, backend: Backend, workers: Workers, divide: Any, cuts: list[int]
) -> None:
    parted = divide(table, cuts, workers)
    assert parted.bounds == [0, *cuts, N]
    assert_same(parted, table)
    few = Schema(tuple(table.schema[name] for name in ("since", "plan", "words")))
    assert_same(parted.select(few), table.select(few))
    assert_same(parted.select(few).arrange(few), table.select(few))
    mask = np.random.default_rng(1).random(N) < 0.3
    assert_same(parted.select(few).take(mask, backend), table.select(few).take(mask, backend))
    assert_same(parted.take(np.zeros(N, bool), backend), table.take(np.zeros(N, bool), backend))


def test_a_new_schema_applies_to_every_partition(table: Table, backend: Backend, workers: Workers, divide: Any) -> None:
    other = table.schema.select(["plan", "x"])
    assert_same(divide(table, [7, 70], workers).arrange(other), arrange(table, other, backend))
    parted = divide(table, [7], workers)
    assert parted.arrange(table.schema) is parted


def test_single_rows_come_in_the_requested_order(table: Table, workers: Workers, divide: Any) -> None:
    positions = np.array([99, 0, 30, 30, 31, 5, 98])
    found = divide(table, [0, 30, 30, 31, 90, 100], workers).rows(positions, ["x", "since"])
    for name, values in found.items():
        np.testing.assert_array_equal(values, table.column(name)[positions])
    assert divide(table, [30], workers).rows(np.empty(0, int), ["x"])["x"].shape == (0,)


@examples(40)
@given(cuts=st.lists(st.integers(0, N), max_size=7).map(sorted), rows_a_part=st.integers(1, 2 * N), n=st.integers(0, N))
def test_aligned_partitions_begin_at_whole_parts_and_none_is_empty(
    table: Table, backend: Backend, workers: Workers, divide: Any, small_parts: Any, cuts: list[int],
    rows_a_part: int, n: int,
) -> None:  # fmt: skip
    mask = np.arange(N) < n
    with small_parts(rows_a_part):
        aligned = divide(table, cuts, workers).take(mask, backend).align()
        assert all(bound % rows_a_part == 0 for bound in aligned.bounds[:-1])
        assert all(aligned.heights) or (n == 0 and len(aligned.partitions) == 1)
        assert_same(aligned, table.take(mask, backend))
        assert aligned.align() is aligned


def test_a_boundary_moves_to_the_nearest_whole_part(
    table: Table, workers: Workers, divide: Any, small_parts: Any
) -> None:
    with small_parts(10):
        assert divide(table, [14, 16, 58, 97], workers).align().bounds == [0, 10, 20, 60, 100]
        assert divide(table, [3, 4], workers).align().bounds == [0, 100]


def test_a_column_that_is_absent_is_named(table: Table, backend: Backend, divide: Any) -> None:
    parted = divide(table, [50], InlineWorkers(backend))
    with pytest.raises(SchemaError, match="no column 'y'"):
        parted.column("y")
    with pytest.raises(SchemaError, match="'words' is text"):
        parted.column("words")


def _tripled(backend: Backend, array: Any, factor: int, own: int) -> Any:
    return array * factor + own


def test_a_matrix_is_gathered_in_the_order_of_its_rows(workers: Workers) -> None:
    whole = np.arange(21, dtype=np.float32).reshape(7, 3)
    parts = tuple(workers.put(np.asfortranarray(part)) for part in (whole[:2], whole[2:2], whole[2:]))
    matrix = PartitionedMatrix(parts, workers, (2, 0, 5), 3)
    assert matrix.shape == (7, 3)
    assert matrix.gather().flags.f_contiguous
    np.testing.assert_array_equal(matrix.gather(), whole)
    mapped = matrix.compute(_tripled, 3, each=[[1, 2, 3]])
    np.testing.assert_array_equal(mapped[2], whole[2:] * 3 + 3)
