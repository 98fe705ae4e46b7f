"""Inputs of derived ops: the main table and event tables, both encoded and as they were read."""

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
    """A table as derived ops see it: encoded, and as it was read. It records the columns that are read.

    Parameters
    ----------
    table : Table
    raw_columns : mapping of str to (ChunkedArray, DeviceNumbers or DeviceDictionary)
        The same rows as they were read, for keys and texts: their values, not their codes. Of a table that a device has
        read, only these columns.
    label : str
        What the table is called in messages.
    unknown : sequence of str
        Columns that are not known when a model serves.
    """

    def __init__(
        self, table: Table, raw_columns: Mapping[str, RawColumn], label: str, unknown: Sequence[str] = ()
    ) -> None:
        self.table, self.raw_columns, self.label, self.unknown = table, raw_columns, label, unknown
        self._encoded: dict[str, None] = {}
        self._raw: dict[str, None] = {}

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.table.n_rows

    def column(self, name: str, *kinds: str, past: bool = False) -> tuple[Column, Array]:
        """Return a column and its encoded values, shape (n_rows,).

        Parameters
        ----------
        name : str
        *kinds : str
            The kinds that it may have.
        past : bool
            Whether each row uses only values of rows that were known by its time: then the target may be used.

        Raises
        ------
        ConfigError
            If there is none of that name, or it is of none of these kinds.
        """
        self._require(name, self.table.schema.names, past)
        column = self.table.schema[name]
        if column.kind not in kinds:
            raise ConfigError(
                f"column {name!r} of {self.label} is {column.kind}; {' or '.join(kinds)} is needed",
                fix=f"declare it, if its values are: schema: {{{name}: {' or '.join(kinds)}}}",
                names=[name],
            )
        if not column.derived:
            self._encoded[name] = None
        return column, self.table.column(name)

    @classmethod
    def of_arrow(cls, table: Table, arrow: pa.Table, label: str, unknown: Sequence[str] = ()) -> HistoryRows:
        """Return rows that the host has read."""
        return cls(table, dict(zip(arrow.column_names, arrow.columns, strict=True)), label, unknown)

    def raw(self, name: str) -> RawColumn:
        """Return a column as it was read.

        Raises
        ------
        ConfigError
            If there is none of that name.
        """
        self._require(name, list(self.raw_columns))
        self._raw[name] = None
        return self.raw_columns[name]

    def host_columns(self, names: Sequence[str]) -> pa.Table:
        """Return columns that the host has read as a table."""
        import pyarrow as pa

        return pa.table({name: self.raw_columns[name] for name in names})

    def _require(self, name: str, names: Sequence[str], past: bool = False) -> None:
        if name in self.unknown and not past:
            raise ConfigError(
                f"{name!r} is the target: it is not known when the model serves",
                fix="use other columns; or its past values, in an op over the history of this table, without `as_of`: "
                "`gap` says how old a value must be to be known, such as gap: 7d (gap: 0 if it is known at once)",
                names=[name],
            )
        if name not in names:
            known = list(dict.fromkeys([*(column.name for column in self.table.schema if not column.derived), *names]))
            hint = did_you_mean(name, known) or f"the columns are {', '.join(known[:20])}"
            raise ConfigError(f"{self.label} has no column {name!r}", fix=hint, names=[name])

    @property
    def read(self) -> tuple[str, ...]:
        """The columns of the input that were read."""
        return tuple(dict.fromkeys((*self._encoded, *self._raw)))

    @property
    def schema(self) -> Schema:
        """The columns whose encoded values were read."""
        return Schema(tuple(column for column in self.table.schema if column.name in self._encoded))


@dataclass(frozen=True)
class EventTable:
    """A further table: its rows are the events of the entities of the main table.

    Attributes
    ----------
    rows : HistoryRows
    left, right : tuple of str
        The key columns of the main table, and of this one.
    """

    rows: HistoryRows
    left: tuple[str, ...]
    right: tuple[str, ...]


@dataclass
class DerivationSources:
    """The inputs of derived ops, and what they share during one derivation.

    Attributes
    ----------
    main : HistoryRows
    events : mapping of str to EventTable
    backend : Backend
    as_of : int, optional
        A time in microseconds that overrides every cut-off date of an op: "today", when a model serves.
    memory : dict
        Results that ops share, such as the order of a history.
    engines : dict of str to None
        The engines that computed over histories (numpy, numba, cuda), for the timeline.
    n_events : int, optional
        The events of all keys, where these are the rows of some keys.
    """

    main: HistoryRows
    events: Mapping[str, EventTable]
    backend: Backend
    as_of: int | None = None
    memory: dict[Any, Any] = field(default_factory=dict)
    engines: dict[str, None] = field(default_factory=dict)
    n_events: int | None = None

    def once(self, key: Any, make: Callable[[], Any]) -> Any:
        """Return the cached result of `make` under `key`; call it if there is none."""
        if key not in self.memory:
            self.memory[key] = make()
        return self.memory[key]

    def table(self, name: str) -> EventTable:
        """Return a further table.

        Raises
        ------
        ConfigError
            If there is none of that name whose rows are events.
        """
        if name not in self.events:
            raise ConfigError(
                f"there is no table {name!r} of events",
                fix=did_you_mean(name, self.events)
                or f"declare it: tables: {{{name}: {{path: ..., on: KEY, cardinality: one_to_many}}}}",
                names=[name],
            )
        return self.events[name]
