"""Folds of cross-fitting: balance, strata and groups, against scikit-learn's splitters."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.model_selection import GroupKFold, StratifiedKFold

from gpupipe.backends import choose
from gpupipe.features.program.target import Target
from gpupipe.features.statistics.training import assign_folds
from tests.examples import examples


def assign(n_rows: int, n_folds: int, seed: int = 0, target: Target | None = None, n_threads: int = 2) -> Any:
    backend = choose("cpu")
    backend.n_threads = n_threads
    fold = assign_folds(n_rows, n_folds, seed, target, backend)
    assert fold.dtype == np.int8 and fold.shape == (n_rows,)
    return fold


def sizes(fold: np.ndarray, n_folds: int) -> np.ndarray:
    return np.bincount(fold, minlength=n_folds + 1)[1:]


@examples(60)
@given(
    n=st.integers(0, 300),
    n_folds=st.integers(2, 12),
    seed=st.integers(0, 2**40),
    n_classes=st.sampled_from([0, 1, 2, 7]),
)
def test_folds_and_their_classes_differ_by_at_most_one_row(n: int, n_folds: int, seed: int, n_classes: int) -> None:
    y = np.random.default_rng(seed).beta(1, 3, n) * max(1, n_classes)
    target = Target(np.floor(y) if n_classes else y, n_classes)
    fold = assign(n, n_folds, seed, target)
    assert np.ptp(sizes(fold, n_folds)) <= 1 and set(fold) <= set(range(1, n_folds + 1))
    for k in range(n_classes):
        assert np.ptp(sizes(fold[target.values == k], n_folds)) <= 1


def test_class_counts_are_those_of_scikit_learn() -> None:
    y = np.random.default_rng(0).choice(4, 1003, p=[0.7, 0.2, 0.07, 0.03])
    counts = pd.crosstab(assign(1003, 5, 0, Target(y.astype(float), 4)), y).to_numpy()
    found = StratifiedKFold(5, shuffle=True, random_state=0).split(y, y)
    expected = np.array([np.bincount(y[test], minlength=4) for _, test in found])
    np.testing.assert_array_equal(np.sort(counts, axis=0), np.sort(expected, axis=0))


def test_folds_of_two_targets_are_stratified_by_both() -> None:
    rng = np.random.default_rng(0)
    one, two = rng.integers(0, 2, 400), rng.integers(0, 3, 400)
    target = Target(one + 0.0, 2, others=(Target(two + 0.0, 3), Target(rng.normal(size=400), 0)))
    fold = assign(400, 5, 0, target)
    assert pd.crosstab(fold, [one, two]).agg(np.ptp).max() <= 1 and np.ptp(sizes(fold, 5)) == 0


@pytest.mark.parametrize("n_classes", [0, 2])
def test_folds_depend_on_the_seed_and_neither_on_threads_nor_on_the_order_of_the_target(n_classes: int) -> None:
    n = 300_000
    y = np.random.default_rng(0).integers(0, max(1, n_classes), n).astype(float)
    target = Target(np.sort(y), n_classes)
    one, same, other = (assign(n, 5, seed, target, threads) for seed, threads in ((1, 1), (1, 4), (2, 4)))
    np.testing.assert_array_equal(one, same)
    assert (one != other).mean() == pytest.approx(0.8, abs=0.01)
    # Neighbouring rows are in folds that are independent of each other.
    pairs = np.bincount(5 * (one[:-1] - 1) + one[1:] - 1) / (n - 1)
    np.testing.assert_allclose(pairs, 1 / 25, atol=0.002)


@pytest.mark.parametrize("names", [lambda g: g, lambda g: g.astype(str)])
def test_the_rows_of_a_group_are_in_one_fold_and_the_folds_are_balanced_as_by_scikit_learn(names: Any) -> None:
    rng = np.random.default_rng(0)
    groups = names(rng.zipf(1.5, 2000).clip(max=60))
    fold = assign(2000, 4, 3, Target(rng.normal(size=2000), 0, groups=groups))
    assert pd.Series(fold).groupby(groups).nunique().max() == 1
    expected = [len(test) for _, test in GroupKFold(4).split(fold, groups=groups)]
    assert sorted(sizes(fold, 4)) == sorted(expected)
    one = assign(10, 3, 0, Target(np.zeros(10), 0, groups=np.ones(10)))
    assert len(set(one)) == 1
