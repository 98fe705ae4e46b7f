"""Feature hashing of the items of lists."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field

from gpupipe.features.ops.base import OPS
from gpupipe.features.ops.items_op import ListFeature, ListOp
from gpupipe.typing import HostArray

if TYPE_CHECKING:
    from gpupipe.table.list_columns import Lists


@OPS.register("list_hash")
class ListHash(ListOp):
    """Hash the items of lists to `buckets` columns, without a vocabulary.

    The hash is that of hash_bucket (MurmurHash3), of the text of an item: 7.0 is hashed as ``7``. Nothing is learned,
    so items that are not in the training rows count as well. A null or empty list is 0 in all columns; null items are
    ignored. Models of scaled numbers take the columns as they are.

    Output: ``tags_hash_0``, ``tags_hash_1``, ...; float32, never null. Lists are computed on the CPU.

    Examples:
        >>> import pandas as pd
        >>> from gpupipe import FeatureProgram
        >>> frame = pd.DataFrame({"tags": [["red", "blue", "red"], ["red"], None]})
        >>> ops = [{"list_hash": {"columns": "tags", "buckets": 3}}]
        >>> program = FeatureProgram(ops, view="codes").set_output(transform="pandas")
        >>> program.fit_transform(frame)
           tags_hash_0  tags_hash_1  tags_hash_2
        0          1.0          0.0          2.0
        1          0.0          0.0          1.0
        2          0.0          0.0          0.0
    """

    HAS_SCALE: ClassVar[bool] = True

    buckets: int = Field(32, ge=2, le=2**14, description="Number of columns for each list column.")
    value: Literal["count", "binary"] = Field(
        "count", description="Value of a column: the number of items, or 1 if there are any (binary)."
    )

    def names(self, column: str, kind: str) -> list[str]:
        """Return ``tags_hash_0``, ``tags_hash_1``, …"""
        return [f"{column}_hash_{i}" for i in range(self.buckets)]

    def features(self, lists: Lists, column: str) -> Iterator[ListFeature]:
        """Yield the number of items of each bucket."""
        import numpy as np

        codes, values = lists.codes
        buckets = item_buckets(values, self.buckets)[codes]
        counts = np.bincount(buckets * len(lists) + lists.rows[lists.is_known], minlength=self.buckets * len(lists))
        counts = np.minimum(counts, 1) if self.value == "binary" else counts
        for row in counts.reshape(self.buckets, len(lists)):
            yield ListFeature(row.astype(np.float32))


def item_buckets(values: Iterable[float | str], n_buckets: int) -> HostArray:
    """Return the bucket of each item that is not null, int64, shape (len(values),)."""
    from gpupipe.table.hash_buckets import bucket_codes
    from gpupipe.table.level_text import canonical_text
    from gpupipe.table.schema import FIRST_LEVEL

    texts = [value if isinstance(value, str) else canonical_text(float(value)) or "" for value in values]
    return bucket_codes(texts, n_buckets) - FIRST_LEVEL
