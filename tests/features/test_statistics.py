"""What a fit learns does not depend on how its rows come: their order, chunks, columns, threads; nor on other rows."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpupipe.backends import choose
from gpupipe.features import OPS as REGISTRY
from gpupipe.features.fitted import fit_features
from gpupipe.features.statistics import Statistics, Target
from gpupipe.table.arrange import take
from gpupipe.table.encode import encode

N = 120
OPS = [
    {"impute": {"columns": ["a", "b"], "indicator": True}},
    {"log1p": "b"},
    {"standardize": ["a", "b"]},
    {"bucketize": {"columns": "c", "bins": 5}},
    {"cross": {"columns": ["c", "plan"], "as": "pair"}},
    {"frequency_encode": "pair"},
    {"target_encode": {"columns": ["city", "pair"], "smoothing": 3}},
    {"one_hot": {"columns": "plan", "max_categories": 2}},
    {"hash_bucket": {"columns": "user", "buckets": 8}},
]


def make(seed: int) -> tuple[pd.DataFrame, np.ndarray]:
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "a": rng.normal(1e6, 3, N),
            "b": rng.lognormal(3, 2, N),
            "c": rng.integers(0, 1000, N) / 8,
            "plan": rng.choice(["x", "y", "z", None], N),
            "city": rng.choice([f"c{i}" for i in range(15)], N),
            "user": rng.choice([f"u{i}" for i in range(60)], N),
            "since": pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 10**6, N), unit="min"),
            "active": rng.random(N) < 0.5,
        }
    )
    frame.loc[rng.random(N) < 0.2, ["a", "b"]] = np.nan
    return frame, rng.integers(0, 2, N)


def validated(ops: list[dict]) -> list:
    return [REGISTRY.get(name).model_validate(settings) for op in ops for name, settings in op.items()]


def assert_alike(one: pd.DataFrame, other: pd.DataFrame) -> None:
    """Check equality up to the rounding of sums that were added up in another order."""
    np.testing.assert_allclose(one.to_numpy(), other[one.columns].to_numpy(), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("view", ["codes", "dense"])
@settings(deadline=None, max_examples=8)
@given(seed=st.integers(0, 10**6))
def test_the_order_of_rows_does_not_matter(fit, view: str, seed: int) -> None:
    frame, y = make(seed)
    order = np.random.default_rng(seed + 1).permutation(N)
    one = fit(frame, OPS, y=y, view=view)
    other = fit(frame.iloc[order], OPS, y=y[order], view=view)
    assert one.names == other.names
    assert_alike(one.serve(frame), other.serve(frame))
    # The matrix of the training rows as well, but for the folds, which go by position.
    crossfitted = [name for name in one.names if name.endswith("_target")]
    assert_alike(one.training.iloc[order].drop(columns=crossfitted), other.training.drop(columns=crossfitted))


@settings(deadline=None, max_examples=10)
@given(seed=st.integers(0, 10**6), cuts=st.lists(st.integers(0, N), max_size=6).map(sorted), coded=st.booleans())
def test_the_chunks_of_the_input_do_not_matter(fit, seed: int, cuts: list[int], coded: bool) -> None:
    frame, y = make(seed)
    whole = pa.Table.from_pandas(frame)
    edges = [0, *cuts, N]
    parts = [whole.slice(a, b - a) for a, b in pairwise(edges)]
    if coded:  # as readers deliver them: each chunk with a dictionary of its own
        for name in ("plan", "city", "user"):
            at = whole.column_names.index(name)
            parts = [p.set_column(at, name, p.column(at).combine_chunks().dictionary_encode()) for p in parts]
    pd.testing.assert_frame_equal(
        fit(pa.concat_tables(parts), OPS, y=y).training, fit(whole, OPS, y=y).training, check_exact=True
    )


@pytest.mark.parametrize("view", ["codes", "dense"])
def test_the_number_of_threads_does_not_change_a_bit(fit, view: str) -> None:
    frame, y = make(0)
    several_blocks = np.arange(150_000) % N
    frame, y = frame.iloc[several_blocks].reset_index(drop=True), y[several_blocks]
    one = fit(frame, OPS, y=y, view=view, n_threads=1)
    four = fit(frame, OPS, y=y, view=view, n_threads=4)
    np.testing.assert_array_equal(one.training, four.training)
    assert str(one.features.states) == str(four.features.states)


@settings(deadline=None, max_examples=5)
@given(seed=st.integers(0, 10**6))
def test_the_order_of_columns_changes_the_order_of_columns_alone(fit, seed: int) -> None:
    frame, y = make(seed)
    one, other = fit(frame, OPS, y=y), fit(frame[frame.columns[::-1]], OPS, y=y)
    assert sorted(one.names) == sorted(other.names)
    pd.testing.assert_frame_equal(one.training, other.training[one.names], check_exact=True)


@settings(deadline=None, max_examples=10)
@given(seed=st.integers(0, 10**6), view=st.sampled_from(["codes", "dense"]))
def test_nothing_is_learned_of_rows_outside_the_training(fit, seed: int, view: str) -> None:
    """The table holds all rows, as in a run: what is fitted is that of a table that never held the others."""
    frame, y = make(seed)
    mask = np.random.default_rng(seed).random(N) < 0.6
    frame.loc[~mask, "city"] = "only in the test"
    frame.loc[~mask, "plan"] = "unknown"
    frame.loc[~mask, "a"] = 1e12
    backend = choose("cpu")
    table = encode(pa.Table.from_pandas(frame), backend)
    alone = fit(frame[mask], OPS, y=y[mask], view=view)
    statistics = Statistics(take(table, mask, backend), backend, Target(y[mask].astype(float), 2), 0)
    features = fit_features(validated(OPS), statistics, view)
    assert features.names == alone.names
    assert not any("only in the test" in (column.levels or ()) for column in features.schema)
    np.testing.assert_array_equal(features.transform_training(statistics.table, backend), alone.training)
    np.testing.assert_array_equal(features.transform(table, backend), alone.serve(frame))


def test_both_views_can_be_fitted_to_the_same_statistics(fit) -> None:
    frame, y = make(0)
    dense = fit(frame, OPS, y=y)
    codes = fit_features(validated(OPS), dense.statistics, "codes")
    got = codes.transform_training(dense.statistics.table, dense.backend)
    np.testing.assert_array_equal(got, fit(frame, OPS, y=y, view="codes").training)
