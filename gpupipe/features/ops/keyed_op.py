"""Base classes of the ops over the history of an entity key: its table, order and cut-off.

A *history* is the rows of one key, sorted by time; rows with equal times keep their order in the table. Each row of the
main table *sees* the part of one history before its cut-off and never a later event, so nothing leaks from the future,
however the rows are split. Past values of the target are visible only if the configuration states the delay after which
they are known (`gap`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self

from pydantic import Field, model_validator

from gpupipe.errors import ConfigError
from gpupipe.features.history.derivation import DerivedColumn, DerivedOp
from gpupipe.features.history.key_partitions import derive_by_keys
from gpupipe.features.history.keys import EntityKeys, encode_own_keys, encode_shared_keys, order_events
from gpupipe.features.history.tables import DerivationSources, HistoryRows
from gpupipe.names import SELECTORS
from gpupipe.settings import DurationOrZero, Names, TimeText
from gpupipe.typing import Array
from gpupipe.units import is_time, parse_duration_us, parse_time_us

if TYPE_CHECKING:
    from gpupipe.table.schema import Column


class KeyedOp(DerivedOp):
    """An op over the history of a key: earlier rows of the main table, or events of a further table."""

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

    takes_numbers: ClassVar[bool] = False
    """True if a number may order the history instead of a time, as the op reads no ages."""

    @property
    def needs_time(self) -> bool:
        """True if the op requires event times, which a further table may lack."""
        return False

    @model_validator(mode="after")
    def _check_key_and_table(self) -> KeyedOp:
        if self.table is None and (self.key is None or self.time is None):
            raise ValueError(
                "set key and time (columns of the main table; key: [] for a single series), or table (of `tables:`)"
            )
        if self.table is not None and self.key is not None:
            raise ValueError("a further table has its key in `tables:`; remove key here")
        if self.current and (self.table is not None or self.as_of is not None or self.gap_us is not None):
            raise ValueError("current requires a history in the main table without as_of and gap")
        return self

    @property
    def gap_us(self) -> int | None:
        """Minimum age of the events that a row sees, in microseconds; by default, there is none."""
        return None

    def key_columns(self) -> tuple[str, ...]:
        """Return the key columns of the main table."""
        return self.key or ()

    def column_name(self, name: str) -> str:
        """Return the name of a new column, with the prefix."""
        if self.prefix is not None:
            return f"{self.prefix}{name}"
        return f"{self.table}_{name}" if self.table else name

    def run(self, sources: DerivationSources) -> Iterable[DerivedColumn]:
        """Return the derived columns; if memory runs out, compute them for fewer keys at a time."""
        return derive_by_keys(self, sources)

    def view(self, sources: DerivationSources) -> HistoryView:
        """Return the part of its history that each row of the main table sees; cached by settings."""
        order = ("history", self.table, self.key, self.time)
        events, history = sources.once(order, lambda: self._order(sources))
        query_key = (*order, self.as_of, self.current, self.gap_us)
        queries = sources.once(query_key, lambda: self._queries(sources, history))
        past = self.gap_us is not None and self.as_of is None
        return HistoryView(self.table, events, history, queries, tuple(self._inputs(sources)), sources, past)

    def seen_before(self, sources: DerivationSources, history: Any, age_us: int) -> Any:
        """Return queries of the events that are at least `age_us` microseconds old at each row's cut-off."""
        from gpupipe_kernels import keyed

        cut_off = subtract_age(self._cut_off(sources), age_us)
        return keyed.queries_before(history, self.keys(sources).main, cut_off)

    @property
    def key_id(self) -> tuple[str | None, ...]:
        """The cache key of the entity keys: ops with equal ones share them."""
        return "keys", self.table, *(self.key or ())

    def keys(self, sources: DerivationSources) -> EntityKeys:
        """Return the entity keys of the main table and of the events; cached for all ops with the same key.

        Raise SchemaError if the keys of two tables cannot be compared.
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
            column, times = events.column(self.time, "datetime", *(("numeric",) if self.takes_numbers else ()))
            times = times if column.kind == "datetime" else _ordered_codes(times, sources.backend.xp)
        history = order_events(self.keys(sources), times, sources.backend, sources.n_events or events.n_rows)
        sources.engines[history.engine.name] = None
        return events, history

    def _queries(self, sources: DerivationSources, history: Any) -> Any:
        from gpupipe_kernels import keyed

        if self.table is None and self.as_of is None and self.gap_us is None:
            return keyed.queries_of_events(history, self.current)
        return self.seen_before(sources, history, self.gap_us or 0)

    def _cut_off(self, sources: DerivationSources) -> Array:
        """Return the exclusive cut-off of each row of the main table, int64 microseconds since 1970."""
        xp, n_rows = sources.backend.xp, sources.main.n_rows
        if self.as_of is None and self.table is None:
            return sources.main.column(self.time or "", "datetime")[1]
        if self.as_of is None:  # a table without times: every event is visible
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
    """An op over the values of a history, which may become known some time after the event."""

    gap: DurationOrZero | None = Field(
        None,
        description="Minimum age of the events that a row sees: a row at time T sees events up to T - gap; with 0, "
        "those before T. Required for the target, as the delay after which its values are known.",
    )

    @property
    def gap_us(self) -> int | None:
        """Minimum age of the events that a row sees, in microseconds, or None."""
        return None if self.gap is None else parse_duration_us(self.gap, allow_zero=True)

    @property
    def needs_time(self) -> bool:
        """True if the op requires event times."""
        return self.gap is not None

    def value_columns(self) -> tuple[str, ...]:
        """Return the columns whose values the op reads."""
        return tuple(getattr(self, "columns", ()))


Period = Annotated[int, Field(ge=-10_000, le=10_000)]


class ShiftOp(HistoryOp):
    """An op over the value some rows before, or with a negative period after, a row of its key."""

    takes_numbers: ClassVar[bool] = True
    columns: Names = Field(min_length=1, description="Numeric or boolean columns.")

    @property
    def has_own_history(self) -> bool:
        """True if the history ends with the row itself."""
        return self.table is None and self.as_of is None and self.gap is None

    @property
    def later_periods(self) -> list[int]:
        """The periods that read later rows."""
        return [k for k in getattr(self, "periods", ()) if isinstance(k, int) and k < 0]

    @model_validator(mode="after")
    def _check_signs(self) -> Self:
        if 0 in getattr(self, "periods", ()):
            raise ValueError("periods: expected rows before (1) or after (-1) a row; got 0")
        if self.later_periods and not self.has_own_history:
            what = f"periods: {self.later_periods[0]} reads later rows"
            raise ValueError(f"{what}; remove table, as_of and gap, or use a positive period")
        return self

    def run(self, sources: DerivationSources) -> Iterable[DerivedColumn]:
        """Return the derived columns; warn if they read later rows."""
        if self.later_periods:
            what = f"{self.title()}: periods {', '.join(map(str, self.later_periods))} read later rows of a key"
            sources.warnings.append(f"{what}; a model needs these rows in the table to predict, or the values are null")
        return super().run(sources)

    def later(self, view: HistoryView, name: str, k: int) -> Array:
        """Return the value of the `k`-th later row of the key, null or not; float64, NaN if there is none."""
        xp, order = view.sources.backend.xp, view.array(view.history.order)
        keys, values = self.keys(view.sources).main[order], view.array(view.numbers(name).values)
        found = xp.full(view.history.n_rows, xp.nan, "float64")
        found[order[:-k]] = xp.where(keys[k:] == keys[:-k], values[k:], xp.nan)
        return found


def _ordered_codes(numbers: Array, xp: Any) -> Array:
    """Return integers in the order of numbers, equal for equal ones; `NAT` for NaN."""
    from gpupipe.table.schema import NAT

    bits = (numbers.astype("float64") + 0.0).view("int64")  # -0.0 becomes 0.0
    codes: Array = xp.where(xp.isnan(numbers), NAT, xp.where(bits < 0, -(bits & (2**63 - 1)), bits))
    return codes


def subtract_age(times: Array, age_us: int) -> Array:
    """Return the exclusive cut-offs before which events are at least `age_us` microseconds old at `times`.

    With an age of 0, events at exactly that time are excluded. NAT stays NAT and sees no events.
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

    `table` is the further table that contains the events; None for the main table. For `history` and `queries`, see
    `gpupipe_kernels.keyed`. `inputs` are the columns that give the order and the cut-off of the history. `sources`
    caches the columns in the order of the history. With `past`, rows see only values that are known at their time, so
    that the target may be used.
    """

    table: str | None
    events: HistoryRows
    history: Any
    queries: Any
    inputs: tuple[str, ...]
    sources: DerivationSources
    past: bool = False

    def kind(self, name: str) -> str:
        """Return the kind of an event column."""
        return self.events.table.schema[name].kind if name in self.events.table.schema else "numeric"

    def numbers(self, name: str) -> Any:
        """Return a numeric or boolean event column as a `gpupipe_kernels.keyed.KeyedColumn`, NaN where null."""
        return self.sources.once(("column", id(self.history), name, self.past), lambda: self._numbers(name))

    def _numbers(self, name: str) -> Any:
        from gpupipe_kernels import keyed

        return keyed.column(self.history, self._in_order(self._values(name)))

    def earlier(self, name: str, k: int) -> Array:
        """Return the value of the `k`-th last event that each row sees; in its own precision, NaN if there is none."""
        from gpupipe_kernels import keyed

        xp, rows = self.sources.backend.xp, self.array(keyed.row(self.queries, k))
        found: Array = xp.where(rows >= 0, self._values(name)[rows].astype("float64"), xp.nan)
        return found

    def _values(self, name: str) -> Array:
        """Return a numeric or boolean event column in the order of its table, NaN where null."""
        from gpupipe.table.schema import FIRST_LEVEL

        column, values = self.events.column(name, "numeric", "boolean", past=self.past)
        if column.kind == "boolean":
            flags = (values - FIRST_LEVEL).astype("float32")
            flags[values < FIRST_LEVEL] = float("nan")
            values = flags
        return values

    def codes(self, name: str) -> tuple[Column, Array]:
        """Return a categorical event column and its codes in the order of the history."""
        column, codes = self.events.column(name, "categorical", "boolean", past=self.past)
        return column, self._in_order(codes).astype("int32")

    def _in_order(self, values: Array) -> Array:
        ordered: Array = values[self.array(self.history.order)]
        return ordered

    def array(self, values: Array) -> Array:
        """Return the result of a kernel as an array of the backend, without a copy."""
        return self.sources.backend.xp.asarray(values)

    def new_column(self, name: str, values: Array, *columns: str, like: Column | None = None) -> DerivedColumn:
        """Return a column derived from the given event columns."""
        if self.table and not columns and not self.inputs:  # a count reads the keys only
            columns = self.sources.events[self.table].right
        sources = [f"{self.table}.{column}" if self.table else column for column in columns]
        found = DerivedColumn(name, values, tuple(dict.fromkeys((*sources, *self.inputs))), like)
        return found if found.is_list else replace(found, values=self.array(values))


def require_names(columns: Iterable[str] | str) -> tuple[str, ...]:
    """Return column names as a tuple; a single name becomes a tuple of one. Raise ConfigError if one is a pattern."""
    names = (columns,) if isinstance(columns, str) else tuple(columns)
    for name in names:
        if name in SELECTORS or "*" in name:
            raise ConfigError(
                f"{name!r} is a pattern; history ops take column names", fix="list the columns by name", names=[name]
            )
    return names
