"""Inputs of derived ops: the main table and event tables, both encoded and raw."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from gpupipe.errors import ConfigError, did_you_mean
from gpupipe.table.schema import Column, Schema
from gpupipe.typing import Array

if TYPE_CHECKING:
    import pyarrow as pa

    from gpupipe.backends.base import Backend
    from gpupipe.table.blocks import Table
    from gpupipe.table.device.frame_columns import DeviceDictionary, DeviceNumbers

    RawColumn: TypeAlias = pa.ChunkedArray | DeviceNumbers | DeviceDictionary


class HistoryRows:
    """A table as derived ops see it, encoded and raw. It records the columns that are read.

    - `raw_columns`: the same rows as they were read, for keys and texts: values instead of codes. For a table that was
      read on the device, only the columns that ops may need.
    - `label`: the name of the table in messages
    - `unknown`: columns that are not known when a model serves, such as the target
    """

    def __init__(
        self, table: Table, raw_columns: Mapping[str, RawColumn], label: str, unknown: Sequence[str] = ()
    ) -> None:
        self.table = table
        self.raw_columns = raw_columns
        self.label = label
        self.unknown = unknown
        self._encoded: dict[str, None] = {}
        self._raw: dict[str, None] = {}

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.table.n_rows

    def column(self, name: str, *kinds: str, past: bool = False) -> tuple[Column, Array]:
        """Return a column of one of the accepted `kinds` and its encoded values, shape (n_rows,).

        With `past`, each row uses only values that were known at its time; then the target may be used. Raise
        ConfigError if the column does not exist, or has another kind.
        """
        self._require(name, self.table.schema.names, past)
        column = self.table.schema[name]
        if column.kind not in kinds:
            raise ConfigError(
                f"column {name!r} of {self.label}: expected {' or '.join(kinds)}, found {column.kind}",
                fix=f"if its values allow it, declare schema: {{{name}: {' or '.join(kinds)}}}",
                names=[name],
            )
        if not column.derived:
            self._encoded[name] = None
        return column, self.table.column(name)

    @classmethod
    def of_arrow(cls, table: Table, arrow: pa.Table, label: str, unknown: Sequence[str] = ()) -> HistoryRows:
        """Return the rows of a table that was read on the host."""
        return cls(table, dict(zip(arrow.column_names, arrow.columns, strict=True)), label, unknown)

    def raw(self, name: str) -> RawColumn:
        """Return a column as it was read, or raise ConfigError if it does not exist."""
        self._require(name, list(self.raw_columns))
        self._raw[name] = None
        return self.raw_columns[name]

    def lists(self, name: str) -> tuple[Column, pa.ChunkedArray]:
        """Return a list column, in the layout of `gpupipe.table.list_columns`; raise ConfigError if it has no lists."""
        self._require(name, self.table.schema.names)
        column = self.table.schema[name]
        if column.kind != "list":
            raise ConfigError(
                f"column {name!r} of {self.label}: expected lists, found {column.kind}",
                fix=f"if its texts are JSON arrays, declare schema: {{{name}: list}}",
                names=[name],
            )
        if not column.derived:
            self._encoded[name] = None
        return column, self.table.texts[name]

    def host_columns(self, names: Sequence[str]) -> pa.Table:
        """Return raw columns on the host, as a table."""
        import pyarrow as pa

        return pa.table({name: self.raw_columns[name] for name in names})

    def _require(self, name: str, names: Sequence[str], past: bool = False) -> None:
        if name in self.unknown and not past:
            raise ConfigError(
                f"{name!r} is the target, which is not known when the model serves",
                fix="use other columns; or, for past values in a history of this table without `as_of`, set `gap` to "
                "the delay after which they are known, such as gap: 7d (gap: 0 if they are known at once)",
                names=[name],
            )
        if name not in names:
            known = list(dict.fromkeys([*(column.name for column in self.table.schema if not column.derived), *names]))
            hint = did_you_mean(name, known) or f"the columns are {', '.join(known[:20])}"
            raise ConfigError(f"{self.label} has no column {name!r}", fix=hint, names=[name])

    @property
    def read(self) -> tuple[str, ...]:
        """The input columns that have been read."""
        return tuple(dict.fromkeys((*self._encoded, *self._raw)))

    @property
    def schema(self) -> Schema:
        """The columns whose encoded values have been read."""
        return Schema(tuple(column for column in self.table.schema if column.name in self._encoded))


@dataclass(frozen=True)
class EventTable:
    """A further table, whose rows are events of the entities of the main table.

    `left` and `right` are the key columns of the main table and of this table.
    """

    rows: HistoryRows
    left: tuple[str, ...]
    right: tuple[str, ...]


@dataclass
class DerivationSources:
    """The inputs of derived ops, and the results that they share."""

    main: HistoryRows
    events: Mapping[str, EventTable]
    backend: Backend
    # A time in microseconds since 1970 that overrides the cut-off dates of the ops when a model serves.
    as_of: int | None = None
    memory: dict[Any, Any] = field(default_factory=dict)  # results that ops share, such as a sorted history
    # The engines that have been used (numpy, numba, cuda), for the timeline.
    engines: dict[str, None] = field(default_factory=dict)
    n_events: int | None = None  # the number of events of all keys, if this is a partition of the keys
    # What the user should know about the values, such as texts that are not numbers.
    warnings: list[str] = field(default_factory=list)

    def once(self, key: Any, make: Callable[[], Any]) -> Any:
        """Return the cached result for `key`; call `make` on the first access."""
        if key not in self.memory:
            self.memory[key] = make()
        return self.memory[key]

    def table(self, name: str) -> EventTable:
        """Return a further table, or raise ConfigError if there is no event table of that name."""
        if name not in self.events:
            raise ConfigError(
                f"no event table {name!r}",
                fix=did_you_mean(name, self.events)
                or f"declare it: tables: {{{name}: {{path: ..., on: KEY, cardinality: one_to_many}}}}",
                names=[name],
            )
        return self.events[name]
