"""Exact shares of rows, as masks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gpupipe.errors import ConfigError, DataError
from gpupipe.splits.settings import parse_cutoff
from gpupipe.table.schema import NAT
from gpupipe.typing import Array


class RareClassError(DataError):
    """A class has too few rows.

    Parameters
    ----------
    code : int
        Of the class.
    what : str
        What is wrong with it.
    where : str
    more : str
        What can be done beside merging classes.
    """

    def __init__(self, code: int, what: str, where: str, more: str = "") -> None:
        super().__init__(
            f"class code {code} {what}", where=where, fix=f"{more}drop or merge that class, or set stratify: false"
        )
        self.code, self._what = code, what

    def named(self, labels: Sequence[Any]) -> DataError:
        """Return the error in the words of the target: `labels` of the codes."""
        return DataError(f"class {labels[self.code]!r} {self._what}", where=self.where, fix=self.fix)


def held_out(
    n_rows: int, share: float, strata: Array | None, groups: Array | None, times: Array | None, seed: Any
) -> Array:
    """Return the mask of the rows held out."""
    if groups is not None:
        return _by_group(groups, share, seed)
    if times is not None:
        return _latest(times, share)
    return _at_random(n_rows, share, strata, seed)


def _at_random(n_rows: int, share: float, strata: Array | None, seed: Any) -> Array:
    """Hold out an exact number of rows; with strata, an exact number of each, as near to the share as whole rows go.

    Each row is first drawn by itself, then the few rows too many or too few are put right at random: all choices of
    that many rows are equally likely, and no permutation is made.
    """
    import numpy as np

    generator = np.random.default_rng(seed)
    mask = generator.random(n_rows, dtype=np.float32) < share
    if strata is None:
        _put_right(mask, np.ones(n_rows, bool), count_of(n_rows, share), generator)
        return mask
    counts = np.bincount(strata)
    if (counts == 1).any():
        raise RareClassError(counts.tolist().index(1), "has a single row and cannot be shared out", "split.stratify")
    strata = strata.astype(np.min_scalar_type(len(counts)))
    for code, n_held in enumerate(_apportion(counts, count_of(n_rows, share))):
        _put_right(mask, strata == code, n_held, generator)
    return mask


def _put_right(mask: Array, members: Array, wanted: int, generator: Any) -> None:
    """Draw or put back rows among `members` until `wanted` of them are in `mask`."""
    import numpy as np

    excess = int(np.count_nonzero(mask & members)) - wanted
    if excess:
        candidates = np.flatnonzero(members & mask if excess > 0 else members & ~mask)
        mask[generator.choice(candidates, abs(excess), replace=False)] = excess < 0


def count_of(n_rows: int, share: float) -> int:
    """Return how many rows a share is, rounded up as scikit-learn does."""
    import math

    return math.ceil(n_rows * share)


def _apportion(counts: Array, total: int) -> list[int]:
    """Share `total` out in proportion to `counts`, by largest remainder."""
    import numpy as np

    exact = counts * (total / max(1, counts.sum()))
    whole = np.floor(exact).astype(np.int64)
    neediest = np.argsort(whole - exact, kind="stable")[: total - int(whole.sum())]
    whole[neediest] += 1
    shares: list[int] = whole.tolist()
    return shares


def _by_group(groups: Array, share: float, seed: Any) -> Array:
    """Hold out whole groups, in random order, until adding one more would lead away from the share."""
    import numpy as np

    _, codes = np.unique(groups, return_inverse=True)
    sizes = np.bincount(codes)
    if len(sizes) < 2:
        raise DataError("all rows are of one group", where="split.group", fix="choose another column")
    order = np.random.default_rng(seed).permutation(len(sizes))
    off = np.abs(np.cumsum(sizes[order])[:-1] - len(groups) * share)
    chosen = np.zeros(len(sizes), bool)
    chosen[order[: int(np.argmin(off)) + 1]] = True
    return chosen[codes]


def _latest(times: Array, share: float) -> Array:
    """Hold out the latest rows; rows of the same time stay together, on the side that is held out."""
    import numpy as np

    times = known_times(times)
    first = len(times) - count_of(len(times), share)
    is_test: Array = times >= np.partition(times, first)[first]
    return is_test


def known_times(times: Array) -> Array:
    """Return `times`; a missing one is an error."""
    import numpy as np

    missing = times == NAT if times.dtype.kind == "i" else np.isnan(times)
    if missing.any():
        raise DataError(
            f"{int(missing.sum()):,} rows have no time, so they are neither early nor late",
            where="split.time",
            fix="drop those rows, or split by another column",
        )
    return times


def from_cutoff(cutoff: str, times: Array) -> float:
    """Return the cutoff in the units of the column."""
    number, is_time = parse_cutoff(cutoff)
    if times.dtype.kind == "i" and not is_time:
        raise ConfigError(f"cutoff {cutoff!r} is no date", where="split.cutoff", fix="write it as 2012-10-01")
    if times.dtype.kind != "i" and is_time:
        raise ConfigError(
            f"cutoff {cutoff!r} is a date, and the column holds numbers",
            where="split.cutoff",
            fix="write a number, or declare the column a datetime in source.schema",
        )
    return number
