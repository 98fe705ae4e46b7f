"""Dask DataFrames as the source of a configuration; their rows stay in their partitions."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import pyarrow as pa

from gpupipe.errors import ConfigError, DataError
from gpupipe.io.in_memory import InMemoryTable, count, type_name


class DaskTable(InMemoryTable):
    """A Dask DataFrame, of pandas or cuDF, lazy or persisted, passed from Python instead of files."""

    is_partitioned = True

    def __init__(self, collection: Any) -> None:
        size = f"{count(collection.npartitions, 'partition')} x {count(len(collection.columns), 'column')}"
        super().__init__(f"{type_name(collection)}, {size}")
        self.collection = collection

    @property
    def has_rows(self) -> bool:
        """True: the collection has the rows."""
        return True

    @property
    def table(self) -> pa.Table:
        """Not available: always raises ConfigError."""
        raise self.refusal("this step needs all rows in one process")

    def refusal(self, what: str) -> ConfigError:
        """Return the error that `what` cannot be done with rows in partitions."""
        return ConfigError(
            f"{what}; those of a Dask DataFrame stay in its partitions",
            where=self.label,
            fix="pass collection.compute(), or files",
        )

    @property
    def column_names(self) -> list[str]:
        """Names of the columns."""
        return [str(name) for name in self.collection.columns]

    @property
    def n_bytes(self) -> int:
        """0: the size of the partitions is not known."""
        return 0

    @cached_property
    def digest(self) -> str:
        """Dask's token of the collection: equal for collections that are computed in the same way from equal inputs."""
        from dask.base import tokenize

        return str(tokenize(self.collection))

    def gather(self, names: Sequence[str], client: Any = None) -> InMemoryTable:
        """Return columns with all rows, fetched into this process.

        Columns that the collection lacks are skipped. `client` computes them; by default, Dask's scheduler in this
        process does.
        """
        wanted = self.collection[[name for name in self.collection.columns if str(name) in names]]
        return InMemoryTable.of(wanted.compute() if client is None else client.compute(wanted, sync=True))


def partition_to_arrow(frame: Any, names: Sequence[str], label: str) -> InMemoryTable:
    """Return the frame of one partition, of pandas or cuDF, as a table in memory.

    `names` are the columns of the collection; `label` names the partition in messages. Raise DataError if it is not a
    frame, has other columns than the collection, or one of them cannot be converted to Arrow.
    """
    found = [str(name) for name in getattr(frame, "columns", ())]
    if found != list(names):
        without = [name for name in names if name not in found]
        what = f"lacks {', '.join(map(repr, without))}" if without else f"has the columns {', '.join(map(repr, found))}"
        raise DataError(
            f"expected the columns of the collection; a partition {what}",
            where=label,
            fix="have the function that makes the partitions return the columns of its meta",
        )
    return InMemoryTable(label, InMemoryTable.of(frame).table)
