"""Independence of features from the order of rows and columns, chunks, and the number of threads and workers."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from gpupipe.features import OPS
from gpupipe.io.settings import TableSource
from gpupipe.io.source_reader import read_arrow
from tests.examples import examples
from tests.partitions.conftest import small
from tests.properties.fitting import fitted, in_bits, same
from tests.properties.ops import ADDS_UP, EVERY, KEYED, cases
from tests.properties.tables import Drawn, tables

Array = Any
Case = tuple[Drawn, list[dict[str, Any]], str]

EXACT = {name: make for name, make in EVERY.items() if name not in ADDS_UP}
TABLES = tables()


def test_every_op_is_drawn() -> None:
    searched = ["generate"]  # it needs hundreds of rows to keep anything: see test_leakage and its own tests
    assert sorted([*EVERY, *searched]) == sorted(OPS.names())


@examples(25)
@given(case=cases(TABLES), seed=st.integers(0, 99), n_chunks=st.integers(2, 6))
def test_the_chunks_of_a_table_do_not_matter(case: Case, seed: int, n_chunks: int) -> None:
    """Each chunk of texts has its own dictionary, in a different order."""
    one = fitted(case)
    rng = np.random.default_rng(seed)
    cuts = [0, *np.sort(rng.integers(0, case[0].n_rows + 1, n_chunks - 1)).tolist(), case[0].n_rows]
    table = case[0].arrow
    parts = [_coded(table.slice(start, stop - start)) for start, stop in pairwise(cuts)]
    chunked = fitted(case, pa.concat_tables(parts))
    assert chunked.learned == one.learned
    assert same(chunked.training, one.training) and same(chunked.served, one.served)


def _coded(table: pa.Table) -> pa.Table:
    columns = [c.dictionary_encode() if pa.types.is_string(c.type) else c for c in table.columns]
    return pa.table(columns, names=table.column_names)


@examples(15)
@given(case=cases(TABLES), height=st.sampled_from([1, 7, 64]))
def test_the_row_groups_of_a_file_do_not_matter(
    tmp_path_factory: pytest.TempPathFactory, case: Case, height: int
) -> None:
    folder = tmp_path_factory.mktemp("groups")
    found, lists = [], [name for name, kind in case[0].kinds.items() if kind == "list"]
    for rows in (height, 300):
        pq.write_table(case[0].arrow, folder / "table.parquet", row_group_size=rows)
        source = TableSource(path=str(folder / "table.parquet")).read_as(lists=lists)
        found.append(fitted(case, read_arrow(source).table))
    one, other = found
    assert other.learned == one.learned
    assert same(other.training, one.training) and same(other.served, one.served)


@examples(25)
@given(case=cases(TABLES), order=st.randoms(use_true_random=False))
def test_the_order_of_the_columns_does_not_matter(case: Case, order: Any) -> None:
    names = list(case[0].columns)
    order.shuffle(names)
    table, ops, view = case
    one, other = fitted(case), fitted((table.with_columns(*names), ops, view))
    assert sorted(other.training) == sorted(one.training)
    assert same(other.training, one.training) and same(other.served, one.served)


@examples(25)
@given(case=cases(TABLES), n_threads=st.sampled_from([1, 3, 7]), rows_a_part=st.sampled_from([7, 64]))
def test_the_number_of_threads_does_not_matter(case: Case, n_threads: int, rows_a_part: int) -> None:
    with small(rows_a_part):
        one, other = fitted(case), fitted(case, n_threads=n_threads)
    assert other.learned == one.learned
    assert same(other.training, one.training) and same(other.served, one.served)


@examples(25)
@given(case=cases(TABLES), shares=st.lists(st.floats(0, 1), max_size=4), rows_a_part=st.sampled_from([7, 64]))
def test_the_partitions_of_a_cluster_do_not_matter(case: Case, shares: list[float], rows_a_part: int) -> None:
    cuts = sorted(round(share * case[0].n_rows) for share in shares)
    with small(rows_a_part):
        one, other = fitted(case), fitted(case, cuts=cuts)
    assert other.learned == one.learned
    assert same(other.training, one.training)


@examples(35)
@given(case=cases(tables(min_rows=2), EXACT), seed=st.integers(0, 99))
def test_the_order_of_the_rows_does_not_matter_to_a_bit(case: Case, seed: int) -> None:
    """Ops that count, rank or compare; rows of a history with equal times keep their order."""
    table, ops, _ = case
    table = replace(table, target="two classes")  # numbers are added up
    order = _order(table, ops, seed)
    one = fitted((table, ops, "codes"))
    other = fitted((table, ops, "codes"), table.arrow.take(order), y=table.y[order])
    # Folds of target_encode depend on positions; a model has no folds.
    mine, theirs = (in_bits(replace(found.features, training_program=None)) for found in (one, other))
    assert theirs == mine
    assert same(other.served, {name: values[order] for name, values in one.served.items()})


@examples(35)
@given(case=cases(tables(min_rows=2)), seed=st.integers(0, 99))
def test_the_order_of_the_rows_matters_only_for_rounding(case: Case, seed: int) -> None:
    """Ops that sum floats do so in another order; target encoding assigns training rows to folds by position."""
    table, ops, _ = case
    order = _order(table, ops, seed)
    one, other = fitted(case), fitted(case, table.arrow.take(order), y=_in_order(table.y, order))
    assert list(other.served) == list(one.served)
    for name, values in one.served.items():
        size = np.nanmax(np.abs(values), initial=0.0)
        np.testing.assert_allclose(other.served[name], values[order], rtol=2e-5, atol=2e-6 * size, err_msg=name)


def _order(table: Drawn, ops: list[dict[str, Any]], seed: int) -> Array:
    """Return an order of the rows in which those of one time stay in theirs, for every time that orders a history."""
    order = np.random.default_rng(seed).permutation(table.n_rows)
    times = [s["time"] for op in ops for name, s in op.items() if name in KEYED]
    for name in times:
        ties = table.arrow.column(name).combine_chunks().cast(pa.int64()).fill_null(-(2**63)).to_numpy()
        for value in np.unique(ties):
            places = np.flatnonzero(ties[order] == value)
            order[places] = np.sort(order[places])
    assume(not times or len(set(times)) == 1)
    return order


def _in_order(y: Array, order: Array) -> Array:
    return None if y is None else y[order]
