"""Cross-validation: exactly scikit-learn's folds, so that results can be compared with published ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from gpupipe.errors import DataError
from gpupipe.splits.holdout import RareClassError, known_times
from gpupipe.splits.settings import Split
from gpupipe.typing import Array


def fold_rows(
    split: Split, n_rows: int, y: Array | None, groups: Array | None, times: Array | None, seed: int
) -> Iterator[tuple[Array, Array]]:
    """Yield the row numbers of each fold's training and test part."""
    import numpy as np
    from sklearn import model_selection

    require_folds(split, n_rows, y, groups, times)
    cv, nothing = split.cv or 0, np.zeros((n_rows, 0))
    if groups is not None:
        yield from model_selection.GroupKFold(cv).split(nothing, groups=groups)
    elif times is not None:
        order = np.argsort(known_times(times), kind="stable")
        for train, test in _refusing(model_selection.TimeSeriesSplit(cv).split, nothing):
            yield order[train], order[test]
    else:
        shuffling = {"shuffle": split.shuffle, "random_state": seed if split.shuffle else None}
        if y is None:
            yield from model_selection.KFold(cv, **shuffling).split(nothing)
        else:
            yield from model_selection.StratifiedKFold(cv, **shuffling).split(nothing, y)


def require_folds(split: Split, n_rows: int, y: Array | None, groups: Array | None, times: Array | None) -> None:
    """Raise DataError if there are fewer rows, groups, or rows of a class, than folds; imports no scikit-learn."""
    import numpy as np

    cv = split.cv or 0
    if n_rows < cv:
        raise DataError(f"{n_rows:,} rows make no {cv} folds", where="split.cv", fix="use fewer folds")
    if groups is not None:
        n_groups = len(np.unique(groups))
        if n_groups < cv:
            raise DataError(f"{n_groups} groups make no {cv} folds", where="split.cv", fix="use fewer folds")
    elif times is None and y is not None:
        _require_members(y, cv)


def _refusing(divide: Callable[..., Iterator[tuple[Array, Array]]], rows: Array) -> list[tuple[Array, Array]]:
    try:
        return list(divide(rows))
    except ValueError as error:
        raise DataError(f"too few rows: {error}", where="split.cv", fix="use fewer folds") from error


def _require_members(y: Array, cv: int) -> None:
    import numpy as np

    counts = np.bincount(y)
    rarest = int(np.where(counts == 0, counts.max(initial=0) + 1, counts).argmin())
    if counts[rarest] < cv:
        what = f"has {counts[rarest]} rows, fewer than the {cv} folds"
        raise RareClassError(rarest, what, "split.cv", "use fewer folds, ")
