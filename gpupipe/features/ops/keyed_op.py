"""Base of the ops over the history of a key: its key, table, order and cut-off.

A *history* is the rows of one key in the order of their time; rows of the same time stand as they stand in the table.
Each row of the main table *sees* a part of one history: what was before it, never what comes after. So nothing leaks
from the future, however the rows are split later. Past values of the target are seen only if the configuration says how
old they must be to be known (`gap`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pydantic import Field, model_validator

from gpupipe.errors import ConfigError
from gpupipe.features.history.derivation import DerivedColumn, DerivedOp
from gpupipe.features.history.key_partitions import derive_by_keys
from gpupipe.features.history.keys import EntityKeys, encode_own_keys, encode_shared_keys, order_events
from gpupipe.features.history.tables import DerivationSources, HistoryRows
from gpupipe.settings import DurationOrZero, Names, TimeText
from gpupipe.typing import Array
from gpupipe.units import is_time, parse_duration_us, parse_time_us

if TYPE_CHECKING:
    from gpupipe.table.schema import Column


class KeyedOp(DerivedOp):
    """An op over the history of a key: of earlier rows of this table, or of the events of another one."""

    table: str | None = Field(None, description="Name of a one_to_many table of `tables:`; default: the main table.")
    key: Names | None = Field(
        None, description="Key columns of the main table that identify the entity; [] for a single time series."
    )
    time: str | None = Field(
        None, description="Datetime column that orders the history; default: the `time` of the further table."
    )
    as_of: TimeText | None = Field(
        None,
        description="Cut-off, exclusive: a date, or a datetime column of the main table. Default: in a history of the "
        "main table, each row sees the rows before it; for a further table, the cut-off of `source.entities`.",
    )
    current: bool = Field(False, description="Include the row itself at the end of its history.")
    prefix: str | None = Field(
        None, description="Prefix of the new column names; default: TABLE_ for a further table, else none."
    )

    @property
    def needs_time(self) -> bool:
        """True if the op needs the times of events, which a further table may lack."""
        return False

    @model_validator(mode="after")
    def _says_whose_history(self) -> KeyedOp:
        if self.table is None and (self.key is None or self.time is None):
            raise ValueError("give key and time (of this table; key: [] for a single series), or table (of `tables:`)")
        if self.table is not None and self.key is not None:
            raise ValueError("the key of another table is what `tables:` says: leave key out")
        if self.current and (self.table is not None or self.as_of is not None or self.gap_us is not None):
            raise ValueError("current is for a history in the main table, without as_of and gap")
        return self

    @property
    def gap_us(self) -> int | None:
        """Minimum age of the events that a row sees, in microseconds; None: no minimum."""
        return None

    def key_columns(self) -> tuple[str, ...]:
        """Return the key columns of the main table."""
        return self.key or ()

    def named(self, name: str) -> str:
        """Return the name of a new column."""
        return f"{f'{self.table}_' if self.table and self.prefix is None else self.prefix or ''}{name}"

    def run(self, sources: DerivationSources) -> Iterable[DerivedColumn]:
        """Return the columns, derived for some keys at a time if memory runs out."""
        return derive_by_keys(self, sources)

    def view(self, sources: DerivationSources) -> HistoryView:
        """Return the view of each row of the main table on its history; cached for ops with the same settings."""
        order = ("history", self.table, self.key, self.time)
        events, history = sources.once(order, lambda: self._order(sources))
        asked = (*order, self.as_of, self.current, self.gap_us)
        queries = sources.once(asked, lambda: self._queries(sources, history))
        past = self.gap_us is not None and self.as_of is None
        return HistoryView(self.table, events, history, queries, tuple(self._inputs(sources)), sources, past)

    def seen_before(self, sources: DerivationSources, history: Any, age_us: int) -> Any:
        """Return the queries by which each row sees the events that are at least `age_us` microseconds old."""
        from gpupipe_kernels import keyed

        cut_off = subtract_age(self._cut_off(sources), age_us)
        return keyed.queries_before(history, self.keys(sources).main, cut_off)

    @property
    def key_id(self) -> tuple[str | None, ...]:
        """The identity of the keys in the cache: ops with the same one share the keys."""
        return "keys", self.table, *(self.key or ())

    def keys(self, sources: DerivationSources) -> EntityKeys:
        """Return the entity keys of the main table and of the events; cached for all ops with the same key.

        Raises
        ------
        SchemaError
            If the keys of two tables cannot be compared.
        """
        found: EntityKeys = sources.once(self.key_id, lambda: self._keys(sources))
        return found

    def _keys(self, sources: DerivationSources) -> EntityKeys:
        if self.table is None:
            return encode_own_keys(sources.main, self.key or (), sources.backend)
        return encode_shared_keys(sources.main, sources.table(self.table), sources.backend)

    def _order(self, sources: DerivationSources) -> tuple[HistoryRows, Any]:
        events = sources.main if self.table is None else sources.table(self.table).rows
        times = sources.backend.xp.zeros(events.n_rows, "int64")
        if self.time is not None:
            times = events.column(self.time, "datetime")[1]
        history = order_events(self.keys(sources), times, sources.backend, sources.n_events or events.n_rows)
        sources.engines[history.engine.name] = None
        return events, history

    def _queries(self, sources: DerivationSources, history: Any) -> Any:
        from gpupipe_kernels import keyed

        if self.table is None and self.as_of is None and self.gap_us is None:
            return keyed.queries_of_events(history, self.current)
        return self.seen_before(sources, history, self.gap_us or 0)

    def _cut_off(self, sources: DerivationSources) -> Array:
        """Return the cut-off of each row of the main table, int64 microseconds."""
        xp, n_rows = sources.backend.xp, sources.main.n_rows
        if self.as_of is None and self.table is None:
            return sources.main.column(self.time or "", "datetime")[1]
        if self.as_of is None:  # a table without times: all of it is seen
            return xp.full(n_rows, 1, "int64")
        if is_time(self.as_of):
            return xp.full(n_rows, parse_time_us(self.as_of) if sources.as_of is None else sources.as_of, "int64")
        return sources.main.column(self.as_of, "datetime")[1]

    def _inputs(self, sources: DerivationSources) -> Iterable[str]:
        yield from (f"{self.table}.{self.time}",) if self.table and self.time else ()
        yield from (self.time,) if self.time and not self.table else ()
        if self.as_of is not None and not is_time(self.as_of):
            yield self.as_of


class HistoryOp(KeyedOp):
    """An op over the values of a history, which may be known some time after their rows only."""

    gap: DurationOrZero | None = Field(
        None,
        description="Minimum age of the events that a row sees: a row at time T sees events up to T - gap; with 0, "
        "those before T. Required for the target, as the delay after which its values are known.",
    )

    @property
    def gap_us(self) -> int | None:
        """Minimum age of the events that a row sees, in microseconds; None: no minimum."""
        return None if self.gap is None else parse_duration_us(self.gap, allow_zero=True)

    @property
    def needs_time(self) -> bool:
        """True if the op needs the times of events."""
        return self.gap is not None


def subtract_age(times: Array, age_us: int) -> Array:
    """Return the cut-offs, exclusive, by which events are seen that were `age_us` old or older at `times`.

    With an age of 0 events of that very time are not seen. NAT stays NAT, which sees nothing.
    """
    from gpupipe.table.schema import NAT

    if age_us == 0:
        return times
    cut_offs = times - (age_us - 1)
    cut_offs[times == NAT] = NAT
    return cut_offs


@dataclass(frozen=True)
class HistoryView:
    """The part of a history that each row of the main table sees.

    Attributes
    ----------
    table : str, optional
        The further table that the events are in; None for the main one.
    events : HistoryRows
    history, queries : History, Queries
        See `gpupipe_kernels.keyed`.
    inputs : tuple of str
        The columns that order and end the history.
    sources : DerivationSources
        Caches the columns that have been put in the order of the history.
    past : bool
        Whether rows see only values that are known by their time, so that the target may be one of them.
    """

    table: str | None
    events: HistoryRows
    history: Any
    queries: Any
    inputs: tuple[str, ...]
    sources: DerivationSources
    past: bool = False

    def kind(self, name: str) -> str:
        """Return the kind of a column of the events."""
        return self.events.table.schema[name].kind if name in self.events.table.schema else "numeric"

    def numbers(self, name: str) -> Any:
        """Return a numeric or boolean column of the events as a `gpupipe_kernels.keyed.KeyedColumn`, NaN where null."""
        return self.sources.once(("column", id(self.history), name, self.past), lambda: self._numbers(name))

    def _numbers(self, name: str) -> Any:
        from gpupipe.table.schema import FIRST_LEVEL
        from gpupipe_kernels import keyed

        column, values = self.events.column(name, "numeric", "boolean", past=self.past)
        if column.kind == "boolean":
            flags = (values - FIRST_LEVEL).astype("float32")
            flags[values < FIRST_LEVEL] = float("nan")
            values = flags
        return keyed.column(self.history, self._in_order(values))

    def codes(self, name: str) -> tuple[Column, Array]:
        """Return a categorical column of the events, its codes in the order of the history."""
        column, codes = self.events.column(name, "categorical", "boolean", past=self.past)
        return column, self._in_order(codes).astype("int32")

    def _in_order(self, values: Array) -> Array:
        ordered: Array = values[self.array(self.history.order)]
        return ordered

    def array(self, made: Array) -> Array:
        """Return what a kernel made as an array of the backend, which has operators; nothing is copied."""
        return self.sources.backend.xp.asarray(made)

    def made(self, name: str, values: Array, *columns: str, like: Column | None = None) -> DerivedColumn:
        """Return a new column that is made of some of the events' columns."""
        sources = [f"{self.table}.{column}" if self.table else column for column in columns]
        return DerivedColumn(name, self.array(values), tuple(dict.fromkeys((*sources, *self.inputs))), like)


def require_names(columns: Iterable[str] | str) -> tuple[str, ...]:
    """Return names as a tuple; one name stands for itself.

    Raises
    ------
    ConfigError
        If one is a pattern: a table has its columns by name.
    """
    names = (columns,) if isinstance(columns, str) else tuple(columns)
    for name in names:
        if name.startswith("@") or "*" in name:
            raise ConfigError(
                f"{name!r}: ops over a history take columns by their names", fix="list them", names=[name]
            )
    return names
