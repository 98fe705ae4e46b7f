"""What ops over the history of a key share: whose history, of which table, and up to when.

A *history* is the rows of one key in the order of their time; rows of the same time stand as they stand in the table.
Each row of the main table *sees* a part of one history: what was before it, never what comes after. So nothing leaks
from the future, however the rows are split later.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field, model_validator

from gpupipe.errors import ConfigError
from gpupipe.features.derived import DerivedOp, Events, Made, Rows, Sources
from gpupipe.features.spans import UNITS_US, AsOf, is_time, time_us
from gpupipe.settings import Names

if TYPE_CHECKING:
    from gpupipe.table.schema import Column

Array = Any
Unit = Literal["days", "hours", "minutes", "seconds"]
UNIT_US = {"days": UNITS_US["d"], "hours": UNITS_US["h"], "minutes": UNITS_US["min"], "seconds": UNITS_US["s"]}


class KeyedOp(DerivedOp):
    """An op over the history of a key: of earlier rows of this table, or of the events of another one."""

    table: str | None = Field(None, description="A one_to_many table of `tables:`; without, the main table itself.")
    key: Names | None = Field(None, min_length=1, description="Whose history: key columns of the main table itself.")
    time: str | None = Field(None, description="The datetime column that orders the history.")
    as_of: AsOf | None = Field(
        None,
        description="Up to when, exclusively: a date, or a datetime column of the main table. Without, and without "
        "`table`, each row sees the rows before it.",
    )
    current: bool = Field(False, description="Whether a row sees itself as well, at the end of its history.")
    prefix: str | None = Field(None, description="Put before the names of the new columns; default: TABLE_ if any.")

    @model_validator(mode="after")
    def _says_whose_history(self) -> KeyedOp:
        if self.table is None and (self.key is None or self.time is None):
            raise ValueError("give key and time (of this table), or table (of `tables:`)")
        if self.table is not None and self.key is not None:
            raise ValueError("the key of another table is what `tables:` says: leave key out")
        if self.table is not None and self.time is not None and self.as_of is None:
            raise ValueError("give as_of, a date or a column: events after it must not be seen")
        if self.current and (self.table is not None or self.as_of is not None):
            raise ValueError("current is for a history in the main table, without as_of")
        return self

    def key_columns(self) -> tuple[str, ...]:
        """Return the key columns of the main table."""
        return self.key or ()

    def named(self, name: str) -> str:
        """Return the name of a new column."""
        return f"{f'{self.table}_' if self.table and self.prefix is None else self.prefix or ''}{name}"

    def view(self, sources: Sources) -> View:
        """Return what each row of the main table sees; found once for all ops that ask for the same."""
        order = ("history", self.table, self.key, self.time)
        events, history, main_keys = sources.once(order, lambda: self._order(sources))
        asked = (*order, self.as_of, self.current)
        queries = sources.once(asked, lambda: self._queries(sources, events, history, main_keys))
        return View(self.table, events, history, queries, tuple(self._inputs(sources)), sources)

    def _order(self, sources: Sources) -> tuple[Rows, Any, Array]:
        from gpupipe_kernels import keyed

        events, main_keys, keys = self._keys(sources)
        times = sources.backend.xp.zeros(events.n_rows, "int64")
        if self.time is not None:
            times = events.column(self.time, "datetime")[1]
        history = keyed.order_events(keys, times, n_threads=sources.backend.n_threads)
        sources.engines[type(history.engine).__name__.removesuffix("Engine").lower()] = None
        return events, history, main_keys

    def _keys(self, sources: Sources) -> tuple[Rows, Array, Array]:
        """Return the table of the events, and the key codes of the main table's rows and of the events."""
        from gpupipe.table.keys import key_codes, row_codes

        main = sources.main
        if self.table is None:
            for name in self.key or ():
                main.raw(name)
            codes = _plain(row_codes(main.arrow, self.key or ()))
            return main, codes, codes
        further: Events = sources.table(self.table)
        for rows, names in ((main, further.left), (further.rows, further.right)):
            for name in names:
                rows.raw(name)
        mine, theirs = key_codes(main.arrow, further.left, further.rows.arrow, further.right, further.rows.label)
        return further.rows, _plain(mine), _plain(theirs)

    def _queries(self, sources: Sources, events: Rows, history: Any, main_keys: Array) -> Any:
        from gpupipe_kernels import keyed

        if self.table is None and self.as_of is None:
            return keyed.queries_of_events(history, self.current)
        return keyed.queries_before(history, main_keys, self._cut_off(sources))

    def _cut_off(self, sources: Sources) -> Array:
        """Return the cut-off of each row of the main table, int64 microseconds."""
        xp, n_rows = sources.backend.xp, sources.main.n_rows
        if self.as_of is None:  # a table without times: all of it is seen
            return xp.full(n_rows, 1, "int64")
        if is_time(self.as_of):
            return xp.full(n_rows, time_us(self.as_of) if sources.as_of is None else sources.as_of, "int64")
        return sources.main.column(self.as_of, "datetime")[1]

    def _inputs(self, sources: Sources) -> Iterable[str]:
        yield from (f"{self.table}.{self.time}",) if self.table and self.time else ()
        yield from (self.time,) if self.time and not self.table else ()
        if self.as_of is not None and not is_time(self.as_of):
            yield self.as_of


@dataclass(frozen=True)
class View:
    """What each row of the main table sees of a history.

    Attributes
    ----------
    table : str, optional
        The further table that the events are in; None for the main one.
    events : Rows
    history, queries : History, Queries
        See `gpupipe_kernels.keyed`.
    inputs : tuple of str
        The columns that order and end the history.
    sources : Sources
        Remembers the columns that have been put in the order of the history.
    """

    table: str | None
    events: Rows
    history: Any
    queries: Any
    inputs: tuple[str, ...]
    sources: Sources

    def kind(self, name: str) -> str:
        """Return the kind of a column of the events."""
        return self.events.table.schema[name].kind if name in self.events.table.schema else "numeric"

    def numbers(self, name: str) -> Any:
        """Return a numeric or boolean column of the events as a `gpupipe_kernels.keyed.Column`, NaN where null."""
        return self.sources.once(("column", id(self.history), name), lambda: self._numbers(name))

    def _numbers(self, name: str) -> Any:
        from gpupipe.table.schema import FIRST_LEVEL
        from gpupipe_kernels import keyed

        column, values = self.events.column(name, "numeric", "boolean")
        if column.kind == "boolean":
            flags = (values - FIRST_LEVEL).astype("float32")
            flags[values < FIRST_LEVEL] = float("nan")
            values = flags
        return keyed.column(self.history, values[self.history.order])

    def codes(self, name: str) -> tuple[Column, Array]:
        """Return a categorical column of the events, its codes in the order of the history."""
        column, codes = self.events.column(name, "categorical", "boolean")
        return column, codes[self.history.order]

    def made(self, name: str, values: Array, *columns: str, like: Column | None = None) -> Made:
        """Return a new column that is made of some of the events' columns."""
        sources = [f"{self.table}.{column}" if self.table else column for column in columns]
        return Made(name, values, tuple(dict.fromkeys((*sources, *self.inputs))), like)


def _plain(codes: Any) -> Array:
    """Return key codes as int32, -1 for null."""
    import numpy as np

    return codes.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int32)


def listed(columns: Iterable[str] | str) -> tuple[str, ...]:
    """Return names as a tuple; one name stands for itself.

    Raises
    ------
    ConfigError
        If one is a pattern: a table has its columns by name.
    """
    names = (columns,) if isinstance(columns, str) else tuple(columns)
    for name in names:
        if name.startswith("@") or "*" in name:
            raise ConfigError(f"{name!r}: ops over a history take columns by their names", fix="list them")
    return names
