"""Count tables against pandas."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

from gpupipe.backends import Backend, choose
from gpupipe.features.program.expressions import CategoryExpr, IndexTerm
from gpupipe.features.program.target import Target
from gpupipe.features.statistics.categories import CategoryCounter, compute_index, regroup, sum_axis
from gpupipe.features.statistics.training import Statistics
from gpupipe.table.blocks import Table
from gpupipe.table.schema import Column, Schema
from gpupipe_kernels.program.opcodes import NAT, PART_SIZES, CalendarPart
from gpupipe_kernels.reduce.numba import engine as numba_engine
from gpupipe_kernels.reduce.numpy import engine as numpy_engine

N = 70_000
SIZES = {"a": ("int8", 6), "b": ("int8", 40), "c": ("int16", 500)}
N_FOLDS = 5


@pytest.fixture(params=[1, 3])
def backend(request: pytest.FixtureRequest) -> Backend:
    made = choose("cpu")
    made.n_threads = request.param
    return made


@pytest.fixture(params=[numpy_engine, numba_engine], ids=["numpy", "numba"])
def counter(request: pytest.FixtureRequest, backend: Backend, table: Table) -> CategoryCounter:
    return CategoryCounter(table, backend, request.param)


@pytest.fixture(scope="module")
def table() -> Table:
    rng = np.random.default_rng(0)
    columns, places = [], {}
    blocks: dict[str, list[np.ndarray]] = {}
    for name, (storage, size) in SIZES.items():
        levels = tuple(map(str, range(size - 3)))
        columns.append(Column(name, "categorical", "string", storage=storage, levels=levels))
        places[name] = storage, len(blocks.setdefault(storage, []))
        blocks[storage].append((rng.beta(1, 3, N) * size).astype(storage))
    columns.append(Column("x", "numeric", "double", storage="float32"))
    columns.append(Column("t", "datetime", "timestamp", storage="int64"))
    x = rng.normal(size=N).astype(np.float32)
    x[::11] = np.nan
    t = rng.integers(0, 10**15, N)
    t[::13] = NAT
    places |= {"x": ("float32", 0), "t": ("int64", 0)}
    stacked = {name: np.stack(rows) for name, rows in blocks.items()} | {"float32": x[None], "int64": t[None]}
    return Table(Schema(tuple(columns)), N, stacked, places)


def plain(name: str) -> CategoryExpr:
    return CategoryExpr(name, (name,), (IndexTerm("INDEX", name),), SIZES[name][1], ())


def crossed(*names: str) -> CategoryExpr:
    first, *others = names
    steps = (IndexTerm("INDEX", first), *(IndexTerm("INDEX_PAIR", name, stride=SIZES[name][1]) for name in others))
    return CategoryExpr("_".join(names), names, steps, int(np.prod([SIZES[name][1] for name in names])), ())


def crosstab(index: Any, size: int, *by: Any, shape: tuple[int, ...] = ()) -> np.ndarray:
    """Return rows per index and further numbers, by pandas."""
    found = pd.DataFrame({"index": index, **{str(i): values for i, values in enumerate(by)}}).value_counts()
    counts = np.zeros((size, *shape), np.int64)
    counts[tuple(np.array(found.index.to_frame()).T)] = found.to_numpy()
    return counts


def indices(table: Table, column: CategoryExpr) -> np.ndarray:
    index = np.zeros(N, np.int64)
    for step in column.index:
        index = index * step.stride + table.column(step.source)
    return index


def test_codes_of_source_columns_are_counted(counter: CategoryCounter, table: Table) -> None:
    for name, found in zip(SIZES, counter.codes(list(SIZES)), strict=True):
        expected = pd.Series(table.column(name)).value_counts().reindex(range(SIZES[name][1]), fill_value=0)
        assert found.tolist() == expected.tolist()


def test_indices_of_crosses_are_counted(counter: CategoryCounter, table: Table) -> None:
    columns = [plain("c"), crossed("a", "b"), crossed("c", "a"), crossed("c", "a", "b")]
    for column, found in zip(columns, counter.indices(columns), strict=True):
        np.testing.assert_array_equal(found, crosstab(indices(table, column), column.size))


def test_a_bin_and_a_calendar_part_are_indices_too(counter: CategoryCounter, table: Table) -> None:
    x, t = table.column("x"), pd.Series(table.column("t"))
    edges = (-1.0, 0.0, 0.5)
    bins = IndexTerm("INDEX_BIN", "x", stride=3, edges=edges)
    bucket = np.where(np.isnan(x), 0, 3 + (x[:, None] >= np.array(edges, np.float32)).sum(axis=1))
    hour = (
        pd.to_datetime(t.where(t != NAT), unit="us")
        .dt.hour.fillna(PART_SIZES[CalendarPart.HOUR])
        .astype(int)
        .to_numpy()
    )
    part = IndexTerm("INDEX_PART", "t", part=int(CalendarPart.HOUR))
    local = IndexTerm("INDEX_LOCAL_PART", "t", part=int(CalendarPart.HOUR), edges=(5e14, 3_600e6, -7_200e6))
    moved = np.where(t == NAT, 0, 1 + (t + np.where(t < 5e14, 3_600_000_000, -7_200_000_000)) // 3_600_000_000 % 24)
    with_b = IndexTerm("INDEX_PAIR", "b", stride=SIZES["b"][1])
    cases = [(bins, bucket, 7), (part, hour, PART_SIZES[CalendarPart.HOUR] + 1), (local, moved, 25)]
    for step, index, size in cases:
        alone = CategoryExpr("alone", ("x",), (step,), size, ())
        pair = CategoryExpr("pair", ("x", "b"), (step, with_b), size * SIZES["b"][1], ())
        one, two = counter.indices([alone, pair])
        np.testing.assert_array_equal(one, crosstab(index, size))
        np.testing.assert_array_equal(two, crosstab(index * SIZES["b"][1] + table.column("b"), pair.size))


def grouped(counter: CategoryCounter, target: Target) -> tuple[Any, Any]:
    fold = np.random.default_rng(7).integers(1, N_FOLDS + 1, N).astype(np.int8)
    return fold, counter.groups(fold, N_FOLDS, target)


@pytest.mark.parametrize("n_classes", [2, 3, 40])
def test_classes_are_counted_by_fold(counter: CategoryCounter, table: Table, n_classes: int) -> None:
    y = np.random.default_rng(1).integers(0, n_classes, N)
    target = Target(y.astype(float), n_classes)
    fold, group = grouped(counter, target)
    # A column, one that starts with it (the sums of which are those of the first), and one that does not.
    columns = [plain("c"), crossed("c", "a"), crossed("a", "b")]
    for column, (counts, totals) in zip(columns, counter.targets(columns, target, group, N_FOLDS), strict=True):
        expected = crosstab(indices(table, column), column.size, fold - 1, y, shape=(N_FOLDS, n_classes))
        np.testing.assert_array_equal(counts.reshape(expected.shape), expected)
        assert totals.size == 0


def test_numbers_are_added_up_by_fold(counter: CategoryCounter, table: Table) -> None:
    y = np.random.default_rng(1).normal(size=N)
    target = Target(y, 0)
    fold, group = grouped(counter, target)
    columns = [plain("a"), crossed("a", "c"), crossed("c", "b")]
    for column, (counts, totals) in zip(columns, counter.targets(columns, target, group, N_FOLDS), strict=True):
        index = indices(table, column)
        np.testing.assert_array_equal(counts, crosstab(index, column.size, fold - 1, shape=(N_FOLDS,)))
        found = pd.Series(y).groupby([index, fold - 1]).sum()
        expected = np.zeros(totals.shape)
        expected[tuple(np.array(found.index.to_frame()).T)] = found.to_numpy()
        np.testing.assert_allclose(totals, expected, rtol=1e-11, atol=1e-11)


def test_sums_do_not_depend_on_threads_or_engine(table: Table) -> None:
    target = Target(np.random.default_rng(1).normal(size=N), 0)
    found = []
    for n_threads in (1, 4):
        for engine in (numpy_engine, numba_engine):
            backend = choose("cpu")
            backend.n_threads = n_threads
            counter = CategoryCounter(table, backend, engine)
            _, group = grouped(counter, target)
            found.append([totals for _, totals in counter.targets([plain("a"), crossed("c", "b")], target, group, 5)])
    for other in found[1:]:
        for one, two in zip(found[0], other, strict=True):
            np.testing.assert_array_equal(one, two)


def test_raw_indices_are_regrouped_to_codes() -> None:
    raw = np.random.default_rng(0).integers(0, 99, (12, 3))
    remap = np.array([0, 1, 2, 3, 3, 4, 4, 4, 0, 1, 5, 5], np.int32)
    column = CategoryExpr("x", ("x",), (), 12, ("a", "b", "c"), remap)
    expected = pd.DataFrame(raw).groupby(remap).sum().to_numpy()
    for table, exact in ((raw, expected), (raw[:, 0], expected[:, 0]), (raw * 0.5, expected * 0.5)):
        found = regroup(table, column)
        np.testing.assert_array_equal(found, exact)
        assert found.dtype == table.dtype
    assert regroup(raw, CategoryExpr("x", ("x",), (), 12, ())) is raw


def test_sums_over_a_short_axis() -> None:
    table = np.random.default_rng(0).integers(0, 9, (4, 3, 5))
    for axis in range(3):
        np.testing.assert_array_equal(sum_axis(table, axis), table.sum(axis=axis))


def test_a_value_on_an_edge_belongs_to_the_bin_above() -> None:
    step = IndexTerm("INDEX_BIN", "x", stride=3, edges=(0.1, 2.0))
    values = np.array([0.0, 0.1, 1.9, 2.0, np.nan, np.inf, -np.inf])
    assert compute_index(step, values, choose("cpu")).tolist() == [3, 4, 4, 5, 0, 5, 3]


@pytest.mark.parametrize("make", [lambda n: np.zeros(n), lambda n: np.arange(n) % 3.0], ids=["one", "three"])
def test_a_table_without_rows_has_counts_of_0(make: Callable[[int], Any], backend: Backend) -> None:
    columns = (Column("a", "categorical", "string", storage="int8", levels=()),)
    empty = Table(Schema(columns), 0, {"int8": np.empty((1, 0), np.int8)}, {"a": ("int8", 0)})
    statistics = Statistics(empty, backend, Target(make(0), 3), 0)
    column = CategoryExpr("a", ("a",), (IndexTerm("INDEX", "a"),), 3, ())
    assert statistics.counts([column])[0].tolist() == [0, 0, 0]
    (found,) = statistics.target_counts([column], 2)
    assert found.count.shape == (2, 3) and found.total.shape == (2, 3, 3)
    assert found.count.sum() == 0
