from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.model_selection import train_test_split

from gpupipe.errors import ConfigError, DataError
from gpupipe.splits import Split, hold_out, make_splits
from tests.examples import examples

DAY = 86_400_000_000
FREELY = examples(50)
CLASSES = st.lists(st.integers(0, 4), min_size=10, max_size=300).map(np.array)
SHARES = st.floats(0.05, 0.6)


def _one(split: dict[str, Any], n_rows: int, *data: Any, **more: Any) -> Any:
    (fold,) = make_splits(Split(**split), n_rows, *data, **more)
    return fold


def test_a_class_of_one_training_row_does_not_stop_the_validation() -> None:
    y = np.array([0, 1] * 20 + [2])
    fold = hold_out(Split(), np.ones(41, bool), 0.25, y, None, None, 3)
    counts = np.bincount(y[fold.test], minlength=3)
    assert fold.test.sum() == 11
    assert abs(counts[0] + counts[2] - counts[1]) <= 1  # it counts as a row of the most frequent class


def _complete(fold: Any) -> bool:
    return bool((fold.train ^ fold.test).all())


@FREELY
@given(y=CLASSES, share=SHARES, seed=st.integers(0, 2**32 - 1))
def test_every_class_has_its_exact_share_of_the_test_rows(y: Any, share: float, seed: int) -> None:
    counts = np.bincount(y)
    if (counts == 1).any() or not 0 < np.ceil(len(y) * share) < len(y):
        return
    fold = _one({"test_size": share, "seed": seed}, len(y), y)
    assert _complete(fold)
    assert fold.test.sum() == np.ceil(len(y) * share)
    ideal = counts * fold.test.sum() / len(y)
    assert (np.abs(np.bincount(y[fold.test], minlength=len(counts)) - ideal) < 1).all()


@pytest.mark.parametrize("stratify", [True, False])
def test_the_sizes_match_train_test_split(stratify: bool) -> None:
    y = np.random.default_rng(0).choice(3, 1013, p=[0.7, 0.25, 0.05])
    _, reference = train_test_split(y, test_size=0.2, stratify=y if stratify else None, random_state=0)
    fold = _one({"stratify": stratify}, len(y), y)
    assert fold.test.sum() == len(reference)
    if stratify:
        assert np.bincount(y[fold.test]).tolist() == np.bincount(reference).tolist()


def test_the_seed_decides_and_the_splits_own_seed_comes_first() -> None:
    masks = [_one(s, 1000, seed=seed).test for s, seed in (({}, 1), ({}, 1), ({}, 2), ({"seed": 1}, 2))]
    assert (masks[0] == masks[1]).all()
    assert (masks[0] != masks[2]).any()
    assert (masks[0] == masks[3]).all()


def test_every_row_is_equally_likely_to_be_tested() -> None:
    y = np.repeat([0, 1], [60, 20])
    drawn = np.mean([_one({}, 80, y, seed=seed).test for seed in range(2000)], axis=0)
    assert np.abs(drawn - 0.2).max() < 5 * np.sqrt(0.2 * 0.8 / 2000)


def test_without_shuffling_the_last_rows_are_tested() -> None:
    assert _one({"shuffle": False}, 10, np.zeros(10, int)).test.tolist() == [False] * 8 + [True] * 2


@FREELY
@given(groups=st.lists(st.integers(0, 20), min_size=2, max_size=200).map(np.array), share=SHARES)
def test_a_group_is_never_divided(groups: Any, share: float) -> None:
    if len(set(groups.tolist())) < 2:
        return
    fold = _one({"group": "g", "test_size": share}, len(groups), None, groups)
    assert _complete(fold)
    assert not set(groups[fold.test].tolist()) & set(groups[fold.train].tolist())
    largest = np.bincount(groups).max()
    assert abs(fold.test.sum() - len(groups) * share) <= largest


def test_groups_may_be_text_or_numbers_with_missing_values() -> None:
    fold = _one({"group": "g"}, 6, None, np.array([1.0, 1.0, np.nan, 2.0, np.nan, 3.0]))
    assert fold.test[2] == fold.test[4]
    assert _complete(_one({"group": "g"}, 4, None, np.array(["a", "b", "a", "c"])))


@FREELY
@given(days=st.lists(st.integers(0, 30), min_size=5, max_size=200).map(np.array), share=SHARES)
def test_no_training_row_is_later_than_a_test_row(days: Any, share: float) -> None:
    if np.unique(days).size < 2:
        return
    try:
        fold = _one({"time": "t", "test_size": share}, len(days), None, None, days * DAY)
    except DataError:  # the earliest day alone has more rows than the training share
        assert np.mean(days == days.min()) > 1 - share - 1 / len(days)
        return
    assert _complete(fold)
    assert days[fold.train].max() < days[fold.test].min()
    assert fold.test.sum() >= np.ceil(len(days) * share)


@pytest.mark.parametrize(
    ("cutoff", "expected"),
    [("1970-01-03", 2), ("1970-01-03T00:00:00+02:00", 2), ("1970-01-02T23:00-01:00", 2), ("1970-01-03T00:00:01", 1)],
)
def test_rows_at_or_after_the_cutoff_are_tested(cutoff: str, expected: int) -> None:
    fold = _one({"time": "t", "cutoff": cutoff}, 4, None, None, np.arange(4) * DAY)
    assert fold.test.sum() == expected


def test_a_numeric_column_takes_a_numeric_cutoff() -> None:
    assert _one({"time": "year", "cutoff": "2012"}, 3, None, None, np.array([2011.0, 2012.0, 2013.0])).test.sum() == 2
    with pytest.raises(ConfigError, match="expected a number, as the column is numeric"):
        _one({"time": "year", "cutoff": "2012-01-01"}, 3, None, None, np.array([2011.0, 2012.0, 2013.0]))
    with pytest.raises(ConfigError, match="expected a date"):
        _one({"time": "t", "cutoff": "2012"}, 4, None, None, np.arange(4) * DAY)


@pytest.mark.parametrize("times", [np.array([1, -(2**63), 3]), np.array([1.0, np.nan, 3.0])])
def test_rows_without_a_time_are_refused_with_their_number(times: Any) -> None:
    with pytest.raises(DataError, match="1 row has no time"):
        _one({"time": "t"}, 3, None, None, times)


def test_a_column_assigns_rows_to_training_and_test() -> None:
    codes, levels = np.array([3, 4, 5, 0, 3]), (None, None, None, "train", "valid", "test")
    column = {"name": "part", "train": ["train"], "test": ["valid"]}
    fold = _one({"column": column}, 5, parts=(codes, levels))
    assert fold.train.tolist() == [True, False, False, False, True]
    assert fold.test.tolist() == [False, True, False, False, False]
    fold = _one({"column": {"name": "part", "test": ["test"]}}, 5, parts=(codes, levels))
    assert fold.train.tolist() == [True, True, False, True, True]
    years = (np.array([0, 1]), (2011.0, 2012.0))
    assert _one({"column": {"name": "year", "test": [2012]}}, 2, parts=years).test.tolist() == [False, True]
    with pytest.raises(ConfigError, match="has no level tset"):
        _one({"column": {"name": "part", "test": ["tset"]}}, 5, parts=(codes, levels))
    with pytest.raises(ConfigError, match="both train and test"):
        _one({"column": {"name": "part", "train": ["test"], "test": ["test"]}}, 5, parts=(codes, levels))


@pytest.mark.parametrize(
    ("split", "data", "message"),
    [
        ({}, {"n_rows": 1}, r"none of \d rows to train on"),
        ({}, {"n_rows": 5, "y": np.array([0, 0, 0, 0, 1])}, "class code 1 has a single row"),
        ({"group": "g"}, {"n_rows": 3, "groups": np.array([1, 1, 1])}, "all rows are in one group"),
        ({"time": "t"}, {"n_rows": 3, "times": np.array([7, 7, 7])}, r"none of \d rows to train on"),
        ({"time": "t", "cutoff": "2030-01-01"}, {"n_rows": 3, "times": np.arange(3)}, r"none of \d rows to test on"),
    ],
)
def test_an_impossible_split_is_an_error_with_a_fix(split: dict[str, Any], data: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=rf"{message}[\s\S]*to do:"):
        make_splits(Split(**split), **data)


@FREELY
@given(y=CLASSES, seed=st.integers(0, 1000))
def test_validation_rows_come_from_the_training_rows_only(y: Any, seed: int) -> None:
    if (np.bincount(y) == 1).any():
        return
    fold = _one({}, len(y), y, seed=seed)
    if (np.bincount(y[fold.train]) == 1).any():
        return
    inner = hold_out(Split(), fold.train, 0.25, y, None, None, seed)
    assert (inner.train | inner.test == fold.train).all()
    assert not (inner.train & inner.test).any()
    assert inner.test.sum() == np.ceil(fold.train.sum() * 0.25)


def test_validation_keeps_groups_together_and_takes_the_latest_rows() -> None:
    rng = np.random.default_rng(0)
    train, groups, times = rng.random(500) < 0.8, rng.integers(0, 40, 500), rng.integers(0, 10**6, 500)
    y = rng.integers(0, 2, 500)
    inner = hold_out(Split(group="g"), train, 0.2, y, groups, None, 0)
    assert not set(groups[inner.train].tolist()) & set(groups[inner.test].tolist())
    inner = hold_out(Split(time="t", gap="90 rows"), train, 0.2, y, None, times, 0)
    assert times[inner.train].max() < times[inner.test].min()
    assert (inner.train | inner.test).sum() == train.sum() - 90


def test_validation_rows_are_an_unbiased_sample_of_the_training_rows() -> None:
    fold = _one({}, 20_000, seed=5)
    validation = hold_out(Split(), fold.train, 0.2, None, None, None, 5).test
    assert np.flatnonzero(validation).mean() == pytest.approx(10_000, rel=0.03)


DRAWN = 12_000
COLUMNS_OF_THE_SEED = {
    "random": lambda seed: np.random.default_rng(seed).random(DRAWN),
    "float32": lambda seed: np.random.default_rng(seed).random(DRAWN, np.float32),
    "float32, tuple": lambda seed: np.random.default_rng((seed, 1)).random(DRAWN, np.float32),
    "normal": lambda seed: np.random.default_rng(seed).normal(size=DRAWN),
    "integers": lambda seed: np.random.default_rng(seed).integers(0, 1000, DRAWN),
    "permutation": lambda seed: np.random.default_rng(seed).permutation(DRAWN),
    "rand": lambda seed: np.random.RandomState(seed).rand(DRAWN),
    "legacy permutation": lambda seed: np.random.RandomState(seed).permutation(DRAWN),
    "Philox": lambda seed: np.random.Generator(np.random.Philox(seed)).random(DRAWN),
}


@pytest.mark.parametrize("way", ["rows", "strata", "groups", "folds", "folds of groups", "validation", "time"])
def test_no_column_that_was_made_with_the_seed_decides_which_rows_are_tested(way: str) -> None:
    seed, rows = 3, np.arange(DRAWN)
    y = rows % 3
    ways: dict[str, Callable[[], Any]] = {
        "rows": lambda: _one({"stratify": False}, DRAWN, y, seed=seed),
        "strata": lambda: _one({}, DRAWN, y, seed=seed),
        "groups": lambda: _one({"group": "g"}, DRAWN, y, rows, seed=seed),
        "folds": lambda: make_splits(Split(cv=5, stratify=False), DRAWN, y, seed=seed)[0],
        "folds of groups": lambda: make_splits(Split(cv=5, repeats=2, group="g"), DRAWN, y, rows, seed=seed)[0],
        "validation": lambda: hold_out(Split(), np.ones(DRAWN, bool), 0.2, None, None, None, seed),
        "time": lambda: make_splits(Split(cv=2, time="t", group="g"), DRAWN, y, rows, rows % 4, seed=seed)[0],
    }
    drawn: Any = ways[way]()
    tested, among = drawn.test, rows if way != "time" else np.flatnonzero(rows % 4 == 1)
    for name, make in COLUMNS_OF_THE_SEED.items():
        column: Any = make(seed)
        quarter = np.argsort(np.argsort(column[among])) * 4 // len(among)
        counts = np.bincount(quarter[tested[among]], minlength=4)
        expected = counts.sum() / 4
        assert abs(counts - expected).max() < 5 * np.sqrt(expected), (way, name, counts)  # 5 standard deviations
