"""Train-test splits and cross-validation folds of a configuration."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gpupipe.errors import ConfigError, DataError
from gpupipe.names import count_noun
from gpupipe.random_streams import derive_seed, make_generator
from gpupipe.splits.fold import Fold
from gpupipe.splits.settings import EXPANDING, Level, Predefined, Split
from gpupipe.splits.time_folds import make_time_folds
from gpupipe.table.holdout import RareClassError, count_of, held_out, merge_rare
from gpupipe.typing import Array

CHANGE = "change the share or the column, or add rows"


def make_splits(
    split: Split,
    n_rows: int,
    y: Array | None = None,
    groups: Array | None = None,
    times: Array | None = None,
    seed: int = 0,
    parts: tuple[Array, Sequence[Level | None]] | None = None,
) -> list[Fold]:
    """Return the folds of a split, those of a repeat together; one fold without ``cv``.

    Raise DataError if the training or test rows would be empty, there are too few groups or rows of a class, or times
    are missing; ConfigError if ``cutoff``, ``gap`` or ``window`` does not match the type of the column, or ``column``
    names an unknown level.

    - `y` (array of int, shape (n_rows,)): class codes; None if there are no classes to stratify by
    - `groups` (array, shape (n_rows,)): values of the column ``split.group``
    - `times` (array of int64 or float, shape (n_rows,)): values of the column ``split.time``; int64 is microseconds
      since 1970-01-01 UTC
    - `seed`: random seed unless ``split.seed`` is set
    - `parts` ((array of int, shape (n_rows,), sequence)): codes of the column ``split.column``, and the level of each
      code
    """
    seed = seed if split.seed is None else split.seed
    if split.time is not None:
        if times is None or (split.group is not None and groups is None):
            raise ValueError("split.time is set, so times must be given, and groups if split.group is set")
        return make_time_folds(split, times, groups, seed)
    strata = _strata(split, y)
    if split.cv is not None:
        return _cross_validation(split, n_rows, strata, groups, seed)
    if split.column is not None:
        if parts is None:
            raise ValueError("split.column is set, so parts must be given")
        return [Fold(*_split_by_column(split.column, *parts)).require_rows("split.column", CHANGE)]
    if split.shuffle or groups is not None:
        test = held_out(n_rows, split.test_size, strata, groups, None, make_generator(seed, "test rows"))
    else:
        import numpy as np

        test = np.arange(n_rows) >= n_rows - count_of(n_rows, split.test_size)
    return [Fold(~test, test).require_rows("split", CHANGE)]


def check_splits(
    split: Split,
    n_rows: int,
    y: Array | None = None,
    groups: Array | None = None,
    times: Array | None = None,
    seed: int = 0,
    parts: tuple[Array, Sequence[Level | None]] | None = None,
) -> None:
    """Raise the errors of `make_splits` without computing random folds."""
    if split.cv is not None and split.time is None:
        _require_folds(split, n_rows, _strata(split, y), groups)
    else:
        make_splits(split, n_rows, y, groups, times, seed, parts)


def check_classes(split: Split, y: Array | None) -> None:
    """Raise RareClassError if a class has too few rows to be stratified.

    `y` (array of int64, shape (n_rows,)): class codes.
    """
    import numpy as np

    strata = _strata(split, y)
    if strata is None:
        return
    if split.cv is not None:
        _require_class_rows(strata, split.cv)
    elif (alone := np.flatnonzero(np.bincount(strata) == 1)).size:
        raise RareClassError(int(alone[0]), "has a single row and cannot be stratified", "split.stratify")


def _strata(split: Split, y: Array | None) -> Array | None:
    """Return the class codes to stratify by, or None."""
    stratify = split.stratify is not False and split.group is None and split.time is None and split.column is None
    return y if stratify and (split.shuffle or split.cv) else None


def hold_out(
    split: Split, train: Array, share: float, y: Array | None, groups: Array | None, times: Array | None, seed: int
) -> Fold:
    """Split training rows into rows to fit and rows to validate on, by the rules of `make_splits`.

    `train` is a mask of the training rows, bool, shape (n_rows,), of which `share` are held out. The other arguments
    are as for `make_splits`; `y` is ignored if there are groups or times, and so is a class of a single row.
    """
    import numpy as np

    rows = np.flatnonzero(train)
    strata, groups, times = (None if values is None else values[rows] for values in (y, groups, times))
    fold = Fold(np.zeros(len(train), bool), np.zeros(len(train), bool))
    if times is not None:
        update = {"test_size": share, "cv": None, "cutoff": None, "window": EXPANDING}
        try:
            (inner,) = make_time_folds(split.model_copy(update=update), times, groups, seed)
        except DataError as error:
            raise DataError(f"validation: {error.what}", where="evaluate.validation", fix=error.fix) from error
        fold.train[rows[inner.train]] = True
        chosen = inner.test
    else:
        generator = make_generator(seed, "validation rows")
        strata = None if groups is not None or strata is None else merge_rare(strata, 2)
        chosen = held_out(len(rows), share, strata, groups, None, generator)
        fold.train[rows[~chosen]] = True
    fold.test[rows[chosen]] = True
    return fold.require_rows("evaluate.validation", CHANGE)


def _cross_validation(split: Split, n_rows: int, y: Array | None, groups: Array | None, seed: int) -> list[Fold]:
    import numpy as np

    folds = []
    for train, test in _fold_rows(split, n_rows, y, groups, seed):
        fold = Fold(np.zeros(n_rows, bool), np.zeros(n_rows, bool))
        fold.train[train] = True
        fold.test[test] = True
        folds.append(fold)
    return folds


def _fold_rows(
    split: Split, n_rows: int, y: Array | None, groups: Array | None, seed: int
) -> Iterator[tuple[Array, Array]]:
    """Yield the training and test row numbers of each fold: those of scikit-learn with the seed of the folds."""
    import numpy as np
    from sklearn import model_selection

    _require_folds(split, n_rows, y, groups)
    cv, nothing = split.cv or 0, np.zeros((n_rows, 0))
    if groups is not None and split.repeats == 1:
        yield from model_selection.GroupKFold(cv).split(nothing, groups=groups)
        return
    # One generator for all repeats, as in scikit-learn's RepeatedKFold: the first has the folds of a single one.
    generator = np.random.RandomState(derive_seed(seed, "folds")) if split.shuffle else None
    shuffling = {"shuffle": split.shuffle, "random_state": generator}
    for _ in range(split.repeats):
        if groups is not None:
            yield from model_selection.GroupKFold(cv, **shuffling).split(nothing, groups=groups)
        elif y is None:
            yield from model_selection.KFold(cv, **shuffling).split(nothing)
        else:
            yield from model_selection.StratifiedKFold(cv, **shuffling).split(nothing, y)


def _require_folds(split: Split, n_rows: int, y: Array | None, groups: Array | None) -> None:
    """Raise DataError if rows, groups or rows of a class are fewer than the folds; does not import scikit-learn."""
    import numpy as np

    cv = split.cv or 0
    if n_rows < cv:
        raise _too_few(n_rows, "row", cv)
    if groups is not None:
        n_groups = len(np.unique(groups))
        if n_groups < cv:
            raise _too_few(n_groups, "group", cv)
    elif y is not None:
        _require_class_rows(y, cv)


def _too_few(n: int, noun: str, cv: int) -> DataError:
    return DataError(
        f"{count_noun(n, noun, 'is', 'are')} too few for {cv} folds", where="split.cv", fix="use fewer folds"
    )


def _require_class_rows(y: Array, cv: int) -> None:
    import numpy as np

    counts = np.bincount(y)
    rarest = int(np.where(counts == 0, counts.max(initial=0) + 1, counts).argmin())
    if counts[rarest] < cv:
        what = f"has {count_noun(counts[rarest], 'row')}; {cv} folds need at least {cv}"
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
        raise ConfigError(
            f"{', '.join(both)} is in both train and test", where="split.column", fix="remove it from one"
        )
    in_test = np.array([text in wanted["test"] for text in texts])
    in_train = ~in_test if column.train is None else np.array([text in wanted["train"] for text in texts])
    return in_train[codes], in_test[codes]


def _level_text(level: Level | None) -> str:
    if level is None:
        return ""
    if isinstance(level, bool):
        return str(level).lower()
    return str(int(level)) if isinstance(level, float) and level.is_integer() else str(level)
