"""Hold-out masks with an exact share of rows: random, stratified, by group or by time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from gpupipe.errors import DataError
from gpupipe.names import count_noun
from gpupipe.table.schema import NAT
from gpupipe.typing import Array

if TYPE_CHECKING:
    import numpy as np


class RareClassError(DataError):
    """Raised if a class has too few rows.

    - `code`: code of the class
    - `what`: the problem, as a verb phrase
    - `more`: further fixes, other than merging classes
    """

    def __init__(self, code: int, what: str, where: str, more: str = "") -> None:
        super().__init__(
            f"class code {code} {what}", where=where, fix=f"{more}drop or merge that class, or set stratify: false"
        )
        self.code, self._what = code, what

    def named(self, labels: Sequence[Any]) -> DataError:
        """Return the error with the label of the class instead of its code; `labels` are those of the codes."""
        return DataError(f"class {labels[self.code]!r} {self._what}", where=self.where, fix=self.fix)


def held_out(
    n_rows: int,
    share: float,
    strata: Array | None,
    groups: Array | None,
    times: Array | None,
    generator: np.random.Generator,
) -> Array:
    """Return the mask of held-out rows; those of a time need no random numbers."""
    if groups is not None:
        return choose_groups(groups, share, generator)
    if times is not None:
        return _latest(times, share)
    return _at_random(n_rows, share, strata, generator)


def _at_random(n_rows: int, share: float, strata: Array | None, generator: np.random.Generator) -> Array:
    """Hold out an exact number of rows; with strata, an exact number per stratum, as close to the share as possible.

    Rows are first drawn independently; then the excess or shortfall is corrected at random. All selections of that
    size are equally likely, without the cost of a permutation.
    """
    import numpy as np

    mask = generator.random(n_rows, dtype=np.float32) < share
    if strata is None:
        _adjust(mask, np.ones(n_rows, bool), count_of(n_rows, share), generator)
        return mask
    counts = np.bincount(strata)
    if (counts == 1).any():
        raise RareClassError(counts.tolist().index(1), "has a single row and cannot be stratified", "split.stratify")
    strata = strata.astype(np.min_scalar_type(len(counts)))
    for code, n_held in enumerate(_apportion(counts, count_of(n_rows, share))):
        _adjust(mask, strata == code, n_held, generator)
    return mask


def merge_rare(classes: Array, least: int) -> Array:
    """Return class codes in which classes of fewer than `least` rows are part of the most frequent class."""
    import numpy as np

    counts = np.bincount(classes)
    merged: Array = np.where(counts < least, counts.argmax(), np.arange(len(counts)))[classes]
    return merged


def _adjust(mask: Array, members: Array, wanted: int, generator: np.random.Generator) -> None:
    """Add or remove random rows of `members` until `wanted` of them are in `mask`."""
    import numpy as np

    excess = int(np.count_nonzero(mask & members)) - wanted
    if excess:
        candidates = np.flatnonzero(members & mask if excess > 0 else members & ~mask)
        mask[generator.choice(candidates, abs(excess), replace=False)] = excess < 0


def count_of(n_rows: int, share: float) -> int:
    """Return the number of rows of a share, rounded up as in scikit-learn."""
    import math

    return math.ceil(n_rows * share)


def _apportion(counts: Array, total: int) -> list[int]:
    """Distribute `total` in proportion to `counts`, by largest remainder."""
    import numpy as np

    exact = counts * (total / max(1, counts.sum()))
    whole = np.floor(exact).astype(np.int64)
    neediest = np.argsort(whole - exact, kind="stable")[: total - int(whole.sum())]
    whole[neediest] += 1
    shares: list[int] = whole.tolist()
    return shares


def choose_groups(groups: Array, share: float, generator: np.random.Generator) -> Array:
    """Return the mask of the rows of whole groups, drawn so that their number is closest to the share of the rows.

    Raise DataError if all rows are in one group.
    """
    import numpy as np

    _, codes = np.unique(groups, return_inverse=True)
    sizes = np.bincount(codes)
    if len(sizes) < 2:
        raise DataError("all rows are in one group", where="split.group", fix="use another column")
    order = generator.permutation(len(sizes))
    off = np.abs(np.cumsum(sizes[order])[:-1] - len(groups) * share)
    chosen = np.zeros(len(sizes), bool)
    chosen[order[: int(np.argmin(off)) + 1]] = True
    return chosen[codes]


def _latest(times: Array, share: float) -> Array:
    """Hold out the latest rows; rows with the same time as the first of them are held out too."""
    import numpy as np

    times = known_times(times)
    first = len(times) - count_of(len(times), share)
    is_test: Array = times >= np.partition(times, first)[first]
    return is_test


def known_times(times: Array) -> Array:
    """Return `times`; raise DataError if one is missing."""
    import numpy as np

    missing = times == NAT if times.dtype.kind == "i" else np.isnan(times)
    if missing.any():
        raise DataError(
            f"{count_noun(int(missing.sum()), 'row', 'has', 'have')} no time to split by",
            where="split.time",
            fix="drop those rows, or split by another column",
        )
    return times
