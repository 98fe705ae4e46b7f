from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.model_selection import GroupKFold, KFold, RepeatedKFold, RepeatedStratifiedKFold, StratifiedKFold

from gpupipe.errors import DataError
from gpupipe.random_streams import derive_seed
from gpupipe.splits import Split, make_splits

RNG = np.random.default_rng(0)
N = 203
Y, GROUPS = RNG.integers(0, 3, N), RNG.integers(0, 30, N)


def _rows(folds: Any) -> list[tuple[list[int], list[int]]]:
    return [(np.flatnonzero(f.train).tolist(), np.flatnonzero(f.test).tolist()) for f in folds]


def _reference(pairs: Any) -> list[tuple[list[int], list[int]]]:
    return [(sorted(train.tolist()), sorted(test.tolist())) for train, test in pairs]


def test_shuffled_stratified_folds_match_scikit_learn() -> None:
    expected = StratifiedKFold(5, shuffle=True, random_state=derive_seed(7, "folds")).split(Y, Y)
    assert _rows(make_splits(Split(cv=5), N, Y, seed=7)) == _reference(expected)


def test_folds_without_classes_match_kfold() -> None:
    expected = _reference(KFold(4, shuffle=True, random_state=derive_seed(0, "folds")).split(Y))
    assert _rows(make_splits(Split(cv=4), N)) == expected
    assert _rows(make_splits(Split(cv=4, stratify=False), N, Y)) == expected


def test_unshuffled_folds_are_blocks_of_rows() -> None:
    assert _rows(make_splits(Split(cv=4, shuffle=False), N)) == _reference(KFold(4).split(Y))
    assert _rows(make_splits(Split(cv=4, shuffle=False), N, Y)) == _reference(StratifiedKFold(4).split(Y, Y))


def test_grouped_folds_match_group_kfold() -> None:
    expected = _reference(GroupKFold(3).split(Y, groups=GROUPS))
    assert _rows(make_splits(Split(cv=3, group="g"), N, Y, GROUPS)) == expected


def test_repeats_match_those_of_scikit_learn() -> None:
    expected = RepeatedStratifiedKFold(n_splits=3, n_repeats=4, random_state=derive_seed(5, "folds")).split(Y, Y)
    assert _rows(make_splits(Split(cv=3, repeats=4), N, Y, seed=5)) == _reference(expected)
    expected = RepeatedKFold(n_splits=3, n_repeats=2, random_state=derive_seed(5, "folds")).split(Y)
    assert _rows(make_splits(Split(cv=3, repeats=2), N, seed=5)) == _reference(expected)


def test_repeats_keep_groups_together_and_differ() -> None:
    folds = make_splits(Split(cv=3, repeats=2, group="g"), N, Y, GROUPS, seed=1)
    for fold in folds:
        assert not set(GROUPS[fold.train]) & set(GROUPS[fold.test])
    for repeat in (folds[:3], folds[3:]):
        assert (np.sum([fold.test for fold in repeat], axis=0) == 1).all()
    assert _rows(folds[:3]) != _rows(folds[3:])


@pytest.mark.parametrize(
    ("settings", "data", "message"),
    [
        ({"cv": 5}, {"n_rows": 3}, "3 rows are too few for 5 folds"),
        (
            {"cv": 5},
            {"n_rows": 9, "y": np.array([0] * 6 + [1] * 3)},
            "class code 1 has 3 rows; 5 folds need at least 5",
        ),
        ({"cv": 5, "group": "g"}, {"n_rows": 9, "groups": np.arange(9) % 3}, "3 groups are too few for 5 folds"),
        ({"cv": 5, "time": "t"}, {"n_rows": 5, "times": np.arange(5)}, "5 distinct times are too few"),
    ],
)
def test_too_few_of_something_is_refused_with_a_remedy(
    settings: dict[str, Any], data: dict[str, Any], message: str
) -> None:
    with pytest.raises(DataError, match=rf"{message}[\s\S]*use fewer folds"):
        make_splits(Split(**settings), **data)
