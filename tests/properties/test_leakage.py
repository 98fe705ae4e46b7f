"""Leakage: the learned state is bit-identical, whatever the rows outside the training split hold.

Column kinds are exempt: they are inferred from all rows, including whether integers fit into float32.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.examples import examples
from tests.properties.fitting import fitted, same
from tests.properties.ops import ROW_WISE, TEXTS, cases
from tests.properties.tables import Drawn, other_rows, tables

Array = Any
Case = tuple[Drawn, list[dict[str, Any]], str]

ALONE = ROW_WISE | TEXTS  # the history of a key is in other rows by design: see tests/kernels/keyed/test_leakage.py


@examples(35)
@given(case=cases(tables(min_rows=5), ALONE), seed=st.integers(0, 99))
def test_rows_that_are_not_learned_from_change_nothing_that_is_learned(case: Case, seed: int) -> None:
    table = case[0]
    train = np.random.default_rng(seed).random(table.n_rows) < 0.6
    train[0] = True
    one = fitted(case, train=train)
    other = fitted(case, other_rows(table, ~train, seed), train=train, y=_other_target(table, ~train))
    assert other.learned == one.learned
    assert same(other.training, one.training)
    assert same({n: v[train] for n, v in other.served.items()}, {n: v[train] for n, v in one.served.items()})


@examples(10)
@given(seed=st.integers(0, 99))
def test_an_integer_outside_float32_in_other_rows_changes_only_the_last_digits(seed: int) -> None:
    ops: list[dict[str, Any]] = [{"standardize": "count"}, {"impute": {"columns": "int8"}}]
    case = Drawn(seed, 70, ("count", "int8", "skewed")), ops, "dense"
    train = np.arange(70) < 60
    one = fitted(case, train=train)
    long = pa.array([None if i < 60 else 2**24 + 1 + i for i in range(70)], pa.int64())
    count = pc.if_else(pa.array(train), case[0].arrow["count"], long)
    other = fitted(case, case[0].arrow.set_column(0, "count", count), train=train)
    for name, values in one.training.items():
        np.testing.assert_allclose(other.training[name], values, rtol=3e-7, atol=3e-7)


@examples(6)
@given(seed=st.integers(0, 99), target=st.sampled_from(["two classes", "numbers"]))
def test_generated_features_are_selected_from_the_training_rows_alone(seed: int, target: str) -> None:
    table = Drawn(seed, 700, ("normal", "skewed", "zeros", "plan"), target)
    train = np.random.default_rng(seed).random(700) < 0.6
    x = np.random.default_rng(seed + 1).normal(size=(700, 2))
    arrow = table.arrow.append_column("left", pa.array(x[:, 0])).append_column("right", pa.array(x[:, 1]))
    y = (x[:, 0] > x[:, 1]).astype(np.int64) if table.n_classes else 5.0 * (x[:, 0] > x[:, 1])
    case: Case = table, [{"generate": {}}], "codes"
    one = fitted(case, arrow, y, train=train)
    assume("left - right" in one.features.names)  # of 420 rows, the difference is not significant in each draw
    changed = np.where(train, y, y[::-1] if table.n_classes else 1e9)
    rows = other_rows(table, ~train, seed)
    other_x = np.where(train[:, None], x, -3.0 * x)
    rows = rows.append_column("left", pa.array(other_x[:, 0])).append_column("right", pa.array(other_x[:, 1]))
    other = fitted(case, rows, changed, train=train)
    assert other.learned == one.learned
    assert same(other.training, one.training)


def _other_target(table: Drawn, rows: Array) -> Array:
    """Return the target with another value in `rows`."""
    if table.y is None:
        return None
    return np.where(rows, table.y[::-1] if table.n_classes else 1e9, table.y)
