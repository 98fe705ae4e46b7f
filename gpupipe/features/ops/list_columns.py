"""The items of lists as columns, such as embeddings and the last events of a sequence."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, ClassVar

from pydantic import Field, PrivateAttr

from gpupipe.errors import CellProblem, ConfigError, RowError
from gpupipe.features.ops.base import OPS
from gpupipe.features.ops.items_op import ListFeature, ListOp, first_items
from gpupipe.typing import HostArray

if TYPE_CHECKING:
    import pyarrow as pa

    from gpupipe.features.history.tables import HistoryRows
    from gpupipe.table.list_columns import Lists


MOST_ITEMS = 2**14  # columns for each list column
MOST_PROBLEMS = 100


@OPS.register("list_columns")
class ListColumns(ListOp):
    """Add a column for each item of lists of one length, such as embeddings, or for the first or last `size` items.

    Without `size`, all lists must have the same length, which is that of the lists to predict too; a null list is null
    in all columns. With `size`, shorter lists are followed by nulls, and longer ones are cut.

    Output: ``embedding_0``, ``embedding_1``, ...; float32. Items that are texts are categories. With `last`,
    ``events_0`` is the last item, ``events_1`` the one before it. Lists are computed on the CPU.

    Examples:
        >>> import pandas as pd
        >>> from gpupipe import FeatureProgram
        >>> frame = pd.DataFrame({"embedding": [[0.5, -1.0], [0.25, 2.0], None]})
        >>> program = FeatureProgram([{"list_columns": "embedding"}], view="codes").set_output(transform="pandas")
        >>> program.fit_transform(frame)
           embedding_0  embedding_1
        0         0.50         -1.0
        1         0.25          2.0
        2          NaN          NaN
    """

    HAS_SCALE: ClassVar[bool] = False

    size: int | None = Field(
        None, ge=1, le=MOST_ITEMS, description="Number of items. Default: that of all lists, which must be equal."
    )
    last: bool = Field(False, description="Take the last items, the last one first.")

    _sizes: dict[str, int] = PrivateAttr(default_factory=dict)

    def measured(self, rows: HistoryRows) -> ListColumns:
        """Return the op with the length of the lists of each column; raise ConfigError if the lengths of one differ."""
        if self.size is not None or self._sizes:
            return self
        return self._with({name: _length_of(name, rows.lists(name)[1]) for name in self.selected(rows)})

    def names(self, column: str, kind: str) -> list[str]:
        """Return ``embedding_0``, ``embedding_1``, …"""
        return [f"{column}_{i}" for i in range(self.size or self._sizes[column])]

    def features(self, lists: Lists, column: str) -> Iterator[ListFeature]:
        """Yield the items of each position; raise RowError if a list has another length than those of training."""
        size = self.size or self._sizes[column]
        if self.size is None and (wrong := (lists.lengths != size) & ~lists.is_null).any():
            rows, expected = wrong.nonzero()[0][:MOST_PROBLEMS].tolist(), f"a list of {size:,} items"
            found = [CellProblem(row, column, f"{int(lists.lengths[row]):,} items", expected) for row in rows]
            raise RowError(found)
        for i in range(size):
            yield first_items(lists, i, self.last)

    def arrays(self) -> dict[str, HostArray]:
        """Return the length of the lists of each column, for the model."""
        import numpy as np

        return {} if self.size else {"sizes": np.array([self._sizes[name] for name in self.listed()], np.int64)}

    def with_arrays(self, arrays: Mapping[str, HostArray]) -> ListColumns:
        """Return the op with the result of `arrays`; raise ValueError or KeyError if it is malformed."""
        if self.size is not None:
            return self
        sizes = [int(size) for size in arrays["sizes"].ravel()]
        if not all(1 <= size <= MOST_ITEMS for size in sizes):
            raise ValueError("sizes of lists are out of range")
        return self._with(dict(zip(self.listed(), sizes, strict=True)))

    def _with(self, sizes: dict[str, int]) -> ListColumns:
        found = self.model_copy()
        found._sizes = sizes
        return found


def _length_of(name: str, lists: pa.ChunkedArray) -> int:
    import pyarrow.compute as pc

    bounds = pc.min_max(pc.list_value_length(lists)).as_py()
    low, high = bounds["min"] or 0, bounds["max"] or 0
    if low == high and 1 <= high <= MOST_ITEMS:
        return int(high)
    found = f"{high:,} items" if low == high else f"between {low:,} and {high:,} items"
    raise ConfigError(
        f"list_columns: expected lists of one length in column {name!r}; found {found}",
        fix="set size: shorter lists are followed by nulls; or use list_stats, multi_hot or list_hash",
        names=[name],
    )
