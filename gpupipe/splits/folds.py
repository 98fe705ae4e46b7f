"""Folds of a configuration."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gpupipe.errors import ConfigError, DataError
from gpupipe.splits.holdout import RareClassError, count_of, from_cutoff, held_out, known_times
from gpupipe.splits.settings import Level, Predefined, Split
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
        return [_checked(Fold(*_split_by_column(split.column, *parts)), "split.column")]
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
        _require_folds(split, n_rows, _strata(split, y), groups, times)
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
    for train, test in _fold_rows(split, n_rows, y, groups, times, seed):
        fold = Fold(np.zeros(n_rows, bool), np.zeros(n_rows, bool))
        fold.train[train] = True
        fold.test[test] = True
        folds.append(fold)
    return folds


def _fold_rows(
    split: Split, n_rows: int, y: Array | None, groups: Array | None, times: Array | None, seed: int
) -> Iterator[tuple[Array, Array]]:
    """Yield the row numbers of each fold's training and test part: exactly scikit-learn's, comparable with others."""
    import numpy as np
    from sklearn import model_selection

    _require_folds(split, n_rows, y, groups, times)
    cv, nothing = split.cv or 0, np.zeros((n_rows, 0))
    if groups is not None:
        yield from model_selection.GroupKFold(cv).split(nothing, groups=groups)
    elif times is not None:
        order = np.argsort(known_times(times), kind="stable")
        try:
            folds = list(model_selection.TimeSeriesSplit(cv).split(nothing))
        except ValueError as error:
            raise DataError(f"too few rows: {error}", where="split.cv", fix="use fewer folds") from error
        yield from ((order[train], order[test]) for train, test in folds)
    else:
        shuffling = {"shuffle": split.shuffle, "random_state": seed if split.shuffle else None}
        if y is None:
            yield from model_selection.KFold(cv, **shuffling).split(nothing)
        else:
            yield from model_selection.StratifiedKFold(cv, **shuffling).split(nothing, y)


def _require_folds(split: Split, n_rows: int, y: Array | None, groups: Array | None, times: Array | None) -> None:
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
        counts = np.bincount(y)
        rarest = int(np.where(counts == 0, counts.max(initial=0) + 1, counts).argmin())
        if counts[rarest] < cv:
            what = f"has {counts[rarest]} rows, fewer than the {cv} folds"
            raise RareClassError(rarest, what, "split.cv", "use fewer folds, ")


def _split_by_column(column: Predefined, codes: Array, levels: Sequence[Level | None]) -> tuple[Array, Array]:
    """Return the masks of training and test rows, given the code of each row and the level of each code."""
    import numpy as np

    texts = [_level_text(level) for level in levels]
    wanted = {name: {_level_text(level) for level in getattr(column, name) or ()} for name in ("train", "test")}
    unknown = sorted((wanted["train"] | wanted["test"]) - set(texts))
    if unknown:
        raise ConfigError(
            f"column {column.name!r} has no level {', '.join(unknown)}",
            where="split.column",
            fix=f"its levels are {', '.join(text for text in texts[:20] if text)}",
            names=[column.name],
        )
    both = sorted(wanted["train"] & wanted["test"])
    if both:
        raise ConfigError(f"{', '.join(both)} is both train and test", where="split.column", fix="leave it in one")
    in_test = np.array([text in wanted["test"] for text in texts])
    in_train = ~in_test if column.train is None else np.array([text in wanted["train"] for text in texts])
    return in_train[codes], in_test[codes]


def _level_text(level: Level | None) -> str:
    if level is None:
        return ""
    if isinstance(level, bool):
        return str(level).lower()
    return str(int(level)) if isinstance(level, float) and level.is_integer() else str(level)


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
