"""Folds of a configuration."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gpupipe.errors import DataError
from gpupipe.splits.cross_validation import fold_rows, require_folds
from gpupipe.splits.holdout import count_of, from_cutoff, held_out, known_times
from gpupipe.splits.settings import Level, Split
from gpupipe.splits.split_column import split_by_column
from gpupipe.typing import Array


@dataclass(frozen=True)
class Fold:
    """One split; a row may be in neither part.

    Attributes
    ----------
    train, test : array of bool, shape (n_rows,)
    """

    train: Array
    test: Array


def make_splits(
    split: Split,
    n_rows: int,
    y: Array | None = None,
    groups: Array | None = None,
    times: Array | None = None,
    seed: int = 0,
    parts: tuple[Array, Sequence[Level | None]] | None = None,
) -> list[Fold]:
    """Return the folds: one without ``cv``.

    Parameters
    ----------
    split : Split
    n_rows : int
    y : array of int, shape (n_rows,), optional
        Class codes; None where there are no classes to stratify by.
    groups : array, shape (n_rows,), optional
        The values of ``split.group``.
    times : array of int64 or float, shape (n_rows,), optional
        The values of ``split.time``; int64 are microseconds since 1970 UTC.
    seed : int
        Used where ``split.seed`` is None.
    parts : (array of int, shape (n_rows,), sequence), optional
        The codes of ``split.column``, and the level of each code.

    Raises
    ------
    DataError
        If a part would be empty, a class or the groups are too few, or times are missing.
    ConfigError
        If ``cutoff`` does not suit the column, or ``column`` names an unknown level.
    """
    seed = seed if split.seed is None else split.seed
    strata = _strata(split, y)
    if split.cv is not None:
        return _cross_validation(split, n_rows, strata, groups, times, seed)
    if split.column is not None:
        if parts is None:
            raise ValueError("split.column is set, so parts must be given")
        return [_checked(Fold(*split_by_column(split.column, *parts)), "split.column")]
    if split.cutoff is not None:
        if times is None:
            raise ValueError("split.cutoff is set, so times must be given")
        test = known_times(times) >= from_cutoff(split.cutoff, times)
    elif split.shuffle or groups is not None or times is not None:
        test = held_out(n_rows, split.test_size, strata, groups, times, seed)
    else:
        import numpy as np

        test = np.arange(n_rows) >= n_rows - count_of(n_rows, split.test_size)
    return [_checked(Fold(~test, test), "split")]


def check_splits(
    split: Split,
    n_rows: int,
    y: Array | None = None,
    groups: Array | None = None,
    times: Array | None = None,
    seed: int = 0,
    parts: tuple[Array, Sequence[Level | None]] | None = None,
) -> None:
    """Raise as `make_splits` does, without the time that folds take."""
    if split.cv is not None:
        require_folds(split, n_rows, _strata(split, y), groups, times)
    else:
        make_splits(split, n_rows, y, groups, times, seed, parts)


def _strata(split: Split, y: Array | None) -> Array | None:
    """Return the classes, where the split keeps their shares."""
    stratify = split.stratify is not False and split.group is None and split.time is None and split.column is None
    return y if stratify and (split.shuffle or split.cv) else None


def hold_out(
    train: Array, share: float, y: Array | None, groups: Array | None, times: Array | None, seed: int
) -> tuple[Array, Array]:
    """Divide training rows once more, by the same rules: groups stay together, the latest rows are held out.

    Parameters
    ----------
    train : array of bool, shape (n_rows,)
    share : float
        Of the training rows, to be held out.
    y, groups, times : array, shape (n_rows,), optional
        As `make_splits` takes them; y is used without groups and times only.
    seed : int

    Returns
    -------
    (array of bool, array of bool), each of shape (n_rows,)
        What to fit on, and what to validate on.
    """
    import numpy as np

    rows = np.flatnonzero(train)
    strata, groups, times = (None if values is None else values[rows] for values in (y, groups, times))
    if groups is not None or times is not None:
        strata = None
    # Another stream than the split's own: the same keys would hold out a biased part of what it left.
    chosen = held_out(len(rows), share, strata, groups, times, (seed, 1))
    validation = np.zeros(len(train), bool)
    validation[rows[chosen]] = True
    fold = _checked(Fold(train & ~validation, validation), "evaluate.validation")
    return fold.train, fold.test


def _cross_validation(
    split: Split, n_rows: int, y: Array | None, groups: Array | None, times: Array | None, seed: int
) -> list[Fold]:
    import numpy as np

    folds = []
    for train, test in fold_rows(split, n_rows, y, groups, times, seed):
        fold = Fold(np.zeros(n_rows, bool), np.zeros(n_rows, bool))
        fold.train[train] = True
        fold.test[test] = True
        folds.append(fold)
    return folds


def _checked(fold: Fold, where: str) -> Fold:
    """Return `fold`, unless a part is empty."""
    for name, mask in (("train", fold.train), ("test", fold.test)):
        if not mask.any():
            raise DataError(
                f"no row is left to {name} on, of {len(mask):,}",
                where=where,
                fix="change the share, the cutoff or the column, or bring more rows",
            )
    return fold
