"""Folds whose test rows are later than their training rows, with a gap, a window and whole groups."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from gpupipe.errors import ConfigError, DataError
from gpupipe.random_streams import make_generator
from gpupipe.splits.fold import Fold
from gpupipe.splits.settings import EXPANDING, ROLLING, Length, Split, parse_cutoff, parse_length
from gpupipe.table.holdout import choose_groups, count_of, known_times
from gpupipe.typing import Array

if TYPE_CHECKING:
    import numpy as np


def make_time_folds(split: Split, times: Array, groups: Array | None, seed: int) -> list[Fold]:
    """Return the folds of a split by time, in order of time; one fold without ``cv``.

    `times` are int64 (microseconds since 1970-01-01 UTC) or float, shape (n_rows,). `groups` are the values of the
    column ``split.group``. `seed` is that of the groups to test. Raise DataError if training or test rows of a fold
    would be empty, there are too few times, or times are missing; ConfigError if the cutoff, gap or window does not
    match the type of the column.
    """
    import numpy as np

    times = known_times(times)
    codes = None if groups is None else np.unique(groups, return_inverse=True)[1]
    gap, bounds = _length_of(split.gap, times, "split.gap"), _bounds(split, times)
    window = _window_of(split, times, bounds, gap)
    named = [key for key in ("cutoff", "gap", "window", "purge") if getattr(split, key) not in (None, EXPANDING)]
    fix = f"change {' or '.join(named or ['test_size', *['group'] * (codes is not None)])}, or add rows"
    fix = f"use fewer folds, {fix}" if split.cv else fix
    folds = []
    for i, (first, end) in enumerate(bounds):
        test = times >= first if end is None else (times >= first) & (times < end)
        train = _training_rows(times, first, gap, window)
        if codes is not None:
            train, test = _keep_groups_apart(split, train, test, codes, make_generator(seed, "test groups of times", i))
        which = "the split" if len(bounds) == 1 else f"fold {i + 1} of {len(bounds)}"
        folds.append(Fold(train, test).require_rows("split", fix, which))
    return folds


def final_training_rows(split: Split, times: Array) -> Array:
    """Return the mask of the rows to train on after a cross-validation: all rows, or the latest ones of a window."""
    import numpy as np

    gap, bounds = _length_of(split.gap, times, "split.gap"), _bounds(split, times)
    window = _window_of(split, times, bounds, gap)
    return _latest_window(times, np.ones(len(times), bool), times.max(), window)


def _window_of(
    split: Split, times: Array, bounds: Sequence[tuple[float, float | None]], gap: Length | None
) -> Length | None:
    """Return the length of the training window; None if it is unlimited."""
    if split.window == EXPANDING:
        return None
    if split.window == ROLLING:
        return Length(int(_training_rows(times, bounds[0][0], gap, None).sum()), "rows")
    return _length_of(split.window, times, "split.window")


def _bounds(split: Split, times: Array) -> list[tuple[float, float | None]]:
    """Return the first time of the test rows of each fold, and the first one after them."""
    import numpy as np

    if split.cutoff is not None:
        return [(_from_cutoff(split.cutoff, times), None)]
    if split.cv is None:
        first = len(times) - count_of(len(times), split.test_size)
        return [(np.partition(times, first)[first], None)]
    distinct, before = np.unique(times, return_counts=True)
    before = np.concatenate([[0], before.cumsum()[:-1]])  # rows before each distinct time
    if len(distinct) <= split.cv:
        what = f"{len(distinct):,} distinct times are too few for {split.cv} folds"
        raise DataError(what, where="split.cv", fix="use fewer folds")
    # Tests of equal size, as in scikit-learn's TimeSeriesSplit; each starts with the first row of a time.
    size = len(times) // (split.cv + 1)
    places, last = [], 0
    for fold in range(split.cv):
        start = len(times) - (split.cv - fold) * size
        place = int(np.searchsorted(before, start, side="right")) - 1
        last = min(max(place, last + 1), len(distinct) - (split.cv - fold))
        places.append(last)
    firsts = [distinct[place] for place in places]
    return list(zip(firsts, [*firsts[1:], None], strict=True))


def _training_rows(times: Array, first: float, gap: Length | None, window: Length | None) -> Array:
    """Return the mask of the rows to train on: those of a window that ends a gap before the first test row."""
    train: Array = times < first
    end = first
    if gap is not None and gap.unit == "rows":
        train = _latest_rows(times, train, skip=int(gap.size))
    elif gap is not None:
        end = first - gap.size
        train = times <= end
    return _latest_window(times, train, end, window)


def _latest_window(times: Array, mask: Array, end: float, window: Length | None) -> Array:
    """Return the mask of the rows of `mask` in a window; of time, it ends at `end`."""
    if window is None:
        return mask
    if window.unit == "rows":
        return _latest_rows(times, mask, keep=int(window.size))
    return mask & (times >= end - window.size)


def _latest_rows(times: Array, mask: Array, skip: int = 0, keep: int | None = None) -> Array:
    """Return the mask of the latest `keep` rows of `mask` without the latest `skip` ones.

    Of equal times, the last row is the latest.
    """
    import numpy as np

    rows = np.flatnonzero(mask)
    rows = rows[np.argsort(times[rows], kind="stable")][: max(0, len(rows) - skip)]
    found = np.zeros(len(mask), bool)
    found[rows if keep is None else rows[max(0, len(rows) - keep) :]] = True
    return found


def _keep_groups_apart(
    split: Split, train: Array, test: Array, codes: Array, generator: np.random.Generator
) -> tuple[Array, Array]:
    """Return the masks with each group, given as codes, on one side only."""
    import numpy as np

    def has_rows(mask: Array) -> Array:
        """Return whether each row's group has a row in `mask`."""
        found = np.zeros(int(codes.max()) + 1, bool)
        found[codes[mask]] = True
        each: Array = found[codes]
        return each

    if split.purge == "test":
        return train, test & ~has_rows(train)
    if split.purge is None and test.any():
        tested = np.flatnonzero(test)
        test = np.zeros(len(test), bool)
        test[tested[choose_groups(codes[tested], split.test_size, generator)]] = True
    return train & ~has_rows(test), test


def _length_of(text: str | None, times: Array, where: str) -> Length | None:
    """Return a length, or None; raise ConfigError if its unit does not match the type of the times."""
    if text is None:
        return None
    length, is_time = parse_length(text), times.dtype.kind == "i"
    if is_time and length.unit == "number":
        what, fix = "a duration, as the column is a datetime", f"write it as {text}d, or as {text} rows"
    elif not is_time and length.unit == "us":
        what, fix = "a number, as the column is numeric", "write a number, or declare the column as datetime"
    else:
        return length
    raise ConfigError(f"expected {what}; got {text!r}", where=where, fix=fix)


def _from_cutoff(cutoff: str, times: Array) -> float:
    """Return the cutoff in the unit of the column."""
    number, is_time = parse_cutoff(cutoff)
    if times.dtype.kind == "i" and not is_time:
        what = f"expected a date, as the column is a datetime; got cutoff {cutoff!r}"
        raise ConfigError(what, where="split.cutoff", fix="write it as 2012-10-01")
    if times.dtype.kind != "i" and is_time:
        raise ConfigError(
            f"expected a number, as the column is numeric; got cutoff {cutoff!r}",
            where="split.cutoff",
            fix="write a number, or declare the column as datetime in source.schema",
        )
    return number
