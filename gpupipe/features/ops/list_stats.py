"""Statistics of the items of lists."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field

from gpupipe.features.ops.base import OPS
from gpupipe.features.ops.items_op import ListFeature, ListOp, first_items, require_kind
from gpupipe.typing import HostArray

if TYPE_CHECKING:
    from gpupipe.table.list_columns import Lists

StatName = Literal["length", "first", "last", "min", "max", "mean", "most_frequent"]

OF_NUMBERS: tuple[StatName, ...] = ("min", "max", "mean")
DEFAULTS: dict[str, list[StatName]] = {
    "number": ["length", "first", "last", "min", "max", "mean"],
    "text": ["length", "first", "last", "most_frequent"],
}


@OPS.register("list_stats")
class ListStats(ListOp):
    """Add statistics of each list: its length, first and last item, minimum, maximum, mean, and most frequent item.

    A null list is null in all columns; the length of an empty list is 0, its other statistics are null. Null items
    count in the length, and may be first or last; other statistics ignore them. Of the items that are most frequent,
    `most_frequent` is the one that occurs first.

    Output: ``scores_length``, ``scores_first``, ...; float32. Items that are texts are categories: later ops, such as
    target_encode, select ``tags_first``. Lists are computed on the CPU.

    Examples:
        >>> import pandas as pd
        >>> from gpupipe import FeatureProgram
        >>> frame = pd.DataFrame({"scores": [[3.0, 1.0, 8.0], [2.0], [], None]})
        >>> ops = [{"list_stats": {"columns": "scores", "stats": ["length", "last", "mean"]}}]
        >>> program = FeatureProgram(ops, view="codes").set_output(transform="pandas")
        >>> program.fit_transform(frame)
           scores_length  scores_last  scores_mean
        0            3.0          8.0          4.0
        1            1.0          2.0          2.0
        2            0.0          NaN          NaN
        3            NaN          NaN          NaN
    """

    HAS_SCALE: ClassVar[bool] = False

    stats: list[StatName] | None = Field(
        None,
        min_length=1,
        description="Statistics to add. Default: length, first, last, min, max and mean of numbers; length, first, "
        "last and most_frequent of texts.",
    )

    def names(self, column: str, kind: str) -> list[str]:
        """Return ``scores_length``, …; raise ConfigError for statistics of numbers if the items are texts."""
        return [f"{column}_{stat}" for stat in self._stats(column, kind)]

    def features(self, lists: Lists, column: str) -> Iterator[ListFeature]:
        """Yield the statistics of the lists of a column."""
        for stat in self._stats(column, "number" if lists.levels is None else "text"):
            if stat in ("first", "last"):
                yield first_items(lists, from_end=stat == "last")
            elif stat == "most_frequent":
                yield _most_frequent(lists)
            else:
                yield ListFeature(FUNCTIONS[stat](lists))

    def _stats(self, column: str, kind: str) -> list[StatName]:
        stats = self.stats or DEFAULTS[kind]
        for stat in stats:
            if stat in OF_NUMBERS:
                require_kind(self, stat, column, kind, "number")
        return stats


def _length(lists: Lists) -> HostArray:
    import numpy as np

    return np.where(lists.is_null, np.nan, lists.lengths).astype(np.float32)


def _mean(lists: Lists) -> HostArray:
    import numpy as np

    # Summed in the order of the items, so that a row has the same mean alone.
    rows, n = lists.rows[lists.is_known], len(lists)
    counts = np.bincount(rows, minlength=n)
    sums = np.bincount(rows, lists.items[lists.is_known], n)
    means = np.full(n, np.nan)
    np.divide(sums, counts, out=means, where=counts > 0)
    return means.astype(np.float32)


def _reduced(name: Literal["fmin", "fmax"], lists: Lists) -> HostArray:
    import numpy as np

    found, has = np.full(len(lists), np.nan, np.float32), lists.lengths > 0
    if has.any():
        found[has] = getattr(np, name).reduceat(lists.items, lists.offsets[:-1][has])
    return found


def _most_frequent(lists: Lists) -> ListFeature:
    import numpy as np

    codes, values = lists.codes
    rows = lists.rows[lists.is_known]
    _, first, counts = np.unique(rows * max(len(values), 1) + codes, return_index=True, return_counts=True)
    order = np.lexsort((first, -counts, rows[first]))
    of_pair = rows[first][order]
    is_best = np.append(True, of_pair[1:] != of_pair[:-1])[: len(order)]
    best = order[is_best]
    found = np.full(len(lists), -1, np.int64)
    found[rows[first][best]] = codes[first][best]
    if lists.levels is not None:
        return ListFeature(found, lists.levels)
    return ListFeature(np.append(values, np.nan)[found].astype(np.float32))


FUNCTIONS: dict[str, Callable[[Lists], HostArray]] = {
    "length": _length,
    "min": partial(_reduced, "fmin"),
    "max": partial(_reduced, "fmax"),
    "mean": _mean,
}
