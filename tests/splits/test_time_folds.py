"""Tests of splits by time: gaps, windows and whole groups, against scikit-learn and against a check of each row."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.model_selection import TimeSeriesSplit

from gpupipe.errors import ConfigError, DataError
from gpupipe.splits import Fold, Split, final_training_rows, make_splits
from gpupipe.typing import Array

N = 203
TIMES = np.random.default_rng(0).permutation(N) * 1_000_000
ORDER = np.argsort(TIMES)
DAY = 86_400_000_000


def folds_of(times: Array, groups: Array | None = None, seed: int = 0, **settings: Any) -> list[Fold]:
    split = Split(time="t", group=None if groups is None else "g", **settings)
    return make_splits(split, len(times), None, groups, times, seed)


def rows(folds: list[Fold]) -> list[tuple[list[int], list[int]]]:
    return [(np.flatnonzero(f.train).tolist(), np.flatnonzero(f.test).tolist()) for f in folds]


@pytest.mark.parametrize(
    ("settings", "reference"),
    [
        ({"cv": 4}, TimeSeriesSplit(4)),
        ({"cv": 4, "gap": "20 rows"}, TimeSeriesSplit(4, gap=20)),
        ({"cv": 3, "window": "30 rows"}, TimeSeriesSplit(3, max_train_size=30)),
        ({"cv": 3, "gap": "7 rows", "window": "30 rows"}, TimeSeriesSplit(3, max_train_size=30, gap=7)),
        ({"cv": 4, "window": "rolling"}, TimeSeriesSplit(4, max_train_size=N - 4 * (N // 5))),
    ],
)
def test_folds_of_distinct_times_are_those_of_scikit_learn(settings: dict[str, Any], reference: Any) -> None:
    expected = [(sorted(ORDER[train]), sorted(ORDER[test])) for train, test in reference.split(TIMES)]
    assert rows(folds_of(TIMES, **settings)) == expected


@st.composite
def event_tables(draw: st.DrawFn) -> tuple[Array, Array]:
    n = draw(st.integers(8, 60))
    days = draw(st.lists(st.integers(0, 30), min_size=n, max_size=n))
    groups = draw(st.lists(st.integers(0, draw(st.integers(1, 20))), min_size=n, max_size=n))
    return np.array(days, np.int64) * DAY, np.array(groups)


@given(
    table=event_tables(),
    cv=st.sampled_from([None, 2, 3]),
    gap=st.sampled_from([None, "1d", "3d"]),
    window=st.sampled_from(["expanding", "2d", "10d"]),
    purge=st.sampled_from([None, "train", "test"]),
    has_groups=st.booleans(),
)
def test_rows_are_where_gap_window_and_groups_put_them(
    table: tuple[Array, Array], cv: int | None, gap: str | None, window: str, purge: Any, has_groups: bool
) -> None:
    times, groups = table
    settings = {"cv": cv, "gap": gap, "window": window} | ({"purge": purge} if has_groups else {})
    try:
        folds = folds_of(times, groups if has_groups else None, **settings)
    except DataError:
        return
    days = (times // DAY).tolist()
    tests_in_time = folds_of(times, cv=cv)  # the same test rows, without gap, window and groups
    assert len(folds) == (cv or 1)
    for fold, plain in zip(folds, tests_in_time, strict=True):
        first = min(day for day, tested in zip(days, plain.test, strict=True) if tested)
        end = first - (0 if gap is None else int(gap[:-1]))
        for i, day in enumerate(days):
            in_window = window == "expanding" or day >= end - int(window[:-1])
            is_trainable = day < first and day <= end and in_window
            is_testable = bool(plain.test[i])
            if not has_groups:
                assert (fold.train[i], fold.test[i]) == (is_trainable, is_testable)
                continue
            assert not (fold.train[i] and not is_trainable) and not (fold.test[i] and not is_testable)
            if purge == "train":  # all later rows are tested, and every other group trains
                assert fold.test[i] == is_testable
                assert fold.train[i] == (is_trainable and groups[i] not in groups[plain.test])
            if purge is None and is_trainable:
                assert fold.train[i] == (groups[i] not in groups[fold.test])
        assert not set(groups[fold.train]) & set(groups[fold.test]) or not has_groups


def test_purging_test_rows_keeps_groups_that_are_new() -> None:
    times, groups = np.arange(10) * DAY, np.array(list("aabbccadbe"))
    (fold,) = folds_of(times, groups, test_size=0.4, purge="test")
    assert "".join(groups[fold.train]) == "aabbcc"
    assert "".join(groups[fold.test]) == "de"


def test_groups_are_drawn_as_a_share_of_the_later_rows() -> None:
    rng = np.random.default_rng(1)
    times, groups = rng.permutation(20_000) * DAY // 100, rng.integers(0, 500, 20_000)
    (fold,) = folds_of(times, groups, test_size=0.25)
    assert fold.test.sum() == pytest.approx(0.25 * 0.25 * 20_000, rel=0.02)
    assert fold.train.sum() == pytest.approx(0.75 * 0.75 * 20_000, rel=0.02)
    assert fold.test.sum() != folds_of(times, groups, seed=1, test_size=0.25)[0].test.sum()


def test_rows_of_one_time_stay_together() -> None:
    months = np.repeat(np.arange(7), [40, 5, 90, 1, 60, 30, 2]).astype(float)
    for fold in folds_of(months, cv=5):
        assert not set(months[fold.train]) & set(months[fold.test])
    tested = [month for fold in folds_of(months, cv=5) for month in sorted(set(months[fold.test]))]
    assert tested == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize("gap", [None, "2"])
def test_the_final_model_is_trained_on_the_latest_window(gap: str | None) -> None:
    times = np.arange(100.0)
    assert final_training_rows(Split(time="t", cv=4, gap=gap), times).all()
    last = final_training_rows(Split(time="t", cv=4, gap=gap, window="15"), times)
    assert np.flatnonzero(last).tolist() == list(range(84, 100))
    rolling = final_training_rows(Split(time="t", cv=4, gap=gap, window="rolling"), times)
    assert np.flatnonzero(rolling).tolist() == list(range(80 if gap is None else 81, 100))


def test_folds_are_in_order_of_time_and_rolling_ones_equal_in_size() -> None:
    folds = folds_of(TIMES, cv=4, gap="10s", window="rolling")
    assert all(TIMES[a.test].max() < TIMES[b.test].min() for a, b in pairwise(folds))
    assert len({int(fold.train.sum()) for fold in folds}) == 1


@pytest.mark.parametrize(
    ("times", "settings", "error", "message"),
    [
        (TIMES, {"gap": "4"}, ConfigError, "expected a duration, as the column is a datetime; got '4'"),
        (TIMES * 1.0, {"window": "4d"}, ConfigError, "expected a number, as the column is numeric; got '4d'"),
        (TIMES, {"gap": "7d"}, DataError, "leaves none of 203 rows to train on[\\s\\S]*change gap"),
        (TIMES, {"cv": 3, "gap": "1min"}, DataError, "fold 1 of 3 leaves none of 203 rows to train on"),
        (np.repeat([1.0, 2.0], 50), {"cv": 2}, DataError, "2 distinct times are too few for 2 folds"),
    ],
)
def test_what_cannot_be_split_is_refused(
    times: Array, settings: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        folds_of(times, **settings)


def test_groups_that_are_all_on_both_sides_leave_nothing_to_purge() -> None:
    times, groups = np.arange(40.0), np.arange(40) % 2
    with pytest.raises(DataError, match=r"none of 40 rows to train on[\s\S]*change purge"):
        folds_of(times, groups, purge="train")
    (fold,) = folds_of(times, groups)
    assert len(set(groups[fold.train])) == len(set(groups[fold.test])) == 1
