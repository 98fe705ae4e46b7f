"""Folds of an ensemble: whole groups, and no later row in the training of models that are compared on later rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from gpupipe.splits import Split
from gpupipe.training.ensemble.folds import make_folds, make_later_fold, predicted_rows
from tests.examples import examples

GAP = 5.0


@st.composite
def rows(draw: st.DrawFn) -> tuple[Any, Any, Any, int]:
    """Times, some of them equal, groups, and classes of rows."""
    n, seed = draw(st.integers(60, 300)), draw(st.integers(0, 2**16))
    rng = np.random.default_rng(seed)
    times = rng.integers(0, draw(st.integers(2, 400)), n).astype(float)
    groups = rng.integers(0, draw(st.integers(2, 40)), n)
    return times, groups, rng.integers(0, draw(st.integers(1, 3)), n), seed


@given(rows(), st.booleans(), st.booleans())
@examples(60)
def test_models_of_earlier_rows_predict_later_ones_of_other_groups(table: Any, has_groups: bool, has_gap: bool) -> None:
    times, every_group, classes, seed = table
    groups = every_group if has_groups else None
    split = Split(time="t", group="g" if has_groups else None, gap=str(GAP) if has_gap else None)
    fold = make_later_fold(split, classes, groups, times, seed)
    if fold is None:
        return
    seen, later = fold.train | fold.test, predicted_rows(fold)
    assert not (fold.train & fold.test).any()
    assert times[seen].max() <= times[later].min() - (GAP if has_gap else 0)
    assert times[seen].max() < times[later].min()
    assert 0 < later.sum() <= len(times) / 2
    assert len(np.unique(classes[fold.train])) > 1
    if has_groups:
        for one, other in ((seen, later), (fold.train, fold.test)):
            assert not set(every_group[one]) & set(every_group[other])


@given(rows(), st.integers(2, 5))
@examples(30)
def test_no_group_is_on_both_sides_of_a_fold(table: Any, n_folds: int) -> None:
    _, groups, classes, seed = table
    n_folds = min(n_folds, len(set(groups.tolist())))
    folds = make_folds(n_folds, len(groups), classes, groups, seed).folds
    for fold in folds:
        assert not set(groups[fold.train]) & set(groups[fold.test])
    assert np.sum([fold.test for fold in folds], axis=0).tolist() == [1] * len(groups)


def test_a_table_with_most_rows_at_its_last_time_has_no_later_fold() -> None:
    assert make_later_fold(Split(time="t"), None, None, np.repeat([0.0, 1.0], [90, 110]), 0) is None
    fold = make_later_fold(Split(time="t"), None, None, np.repeat([0.0, 1.0], [110, 90]), 0)
    assert fold is not None and fold.later.sum() == 90
