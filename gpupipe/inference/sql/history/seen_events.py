"""The events that each row sees, and figures of them.

Rows that see the same events have the same key and *mark*: their cut-off, or in a history of the rows themselves their
place in it. For each history, the query has the common tables

- ``history_marks_N``: the keys and marks of the rows
- ``history_events_N``: the keys, times and values of the events
- ``history_seen_N``: their join, with the age of each event
- ``history_N``: the figures of each key and mark, which are joined to the rows
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from sqlglot import exp

from gpupipe.features.ops.keyed_op import KeyedOp
from gpupipe.inference.sql.dialect import Expr, SqlDialect, all_of, case, integer, is_null, number, text
from gpupipe.inference.sql.history.event_rows import AGGREGATES, event_rows, raw_column
from gpupipe.inference.sql.history.tables import HistoryTables
from gpupipe.inference.sql.inputs import SqlInput, code_value, level_number, level_text, number_value, time_value
from gpupipe.inference.sql.query import SqlQuery, common_tables
from gpupipe.table.schema import FIRST_LEVEL, NULL, Column
from gpupipe.units import TIME_UNITS_US, TimeUnit

ROWS_TABLE = "history_rows"
# Columns of the common tables.
MARK, CUT_OFF = "mark", "cut_off"
HAPPENED, PLACE = "happened", "place"
AGE, BACK = "age", "back"  # of an event at the cut-off: microseconds, and number of places
FLAGS = ("false", "true")


@dataclass(frozen=True)
class Figure:
    """An aggregate of the events that a row sees; `default` is that of no events, None for null."""

    aggregate: Expr
    default: float | None = None
    flag: str | None = None  # the type of a flag, of which the aggregate is 0 or 1

    def written(self, found: Expr) -> Expr:
        """Return the figure as a value of a raw column."""
        if self.flag == "boolean":
            return exp.EQ(this=found, expression=integer(1))
        words = [(exp.EQ(this=found.copy(), expression=integer(i)), text(word)) for i, word in enumerate(FLAGS)]
        return case(words, None) if self.flag == "text" else found


@dataclass
class SqlHistory:
    """A history, and the queries that compute figures of it."""

    dialect: SqlDialect
    sources: HistoryTables
    op: KeyedOp
    n: int
    figures: dict[str, Figure] = field(default_factory=dict)
    values: dict[str, Expr] = field(default_factory=dict)  # of the events, named in `of_events`

    def __post_init__(self) -> None:
        self.of_events = SqlQuery(self.dialect, f"history_events_{self.n}_")
        self.seen = SqlQuery(self.dialect, f"history_{self.n}_")

    @property
    def has_places(self) -> bool:
        """True if each row sees the rows before it, whatever their time."""
        return self.op.table is None and self.op.as_of is None and self.op.gap_us is None

    @property
    def keys(self) -> tuple[Sequence[str], Sequence[str]]:
        """The key columns of the main table, and of the events."""
        if self.op.table is None:
            return (self.op.key or (), self.op.key or ())
        own = self.sources.derivation.tables[self.op.table]
        return own.left, own.right

    @property
    def key_names(self) -> list[str]:
        """Names of the key columns in the common tables."""
        return [f"key_{i}" for i in range(1, len(self.keys[0]) + 1)]

    @property
    def partition(self) -> list[Expr]:
        """Columns that are equal for the events that a row sees."""
        return [self.raw(name) for name in (*self.key_names, MARK)]

    def raw(self, name: str) -> Expr:
        """Return a column of the seen events."""
        return self.seen.define(self.seen.raw(name))

    def _time(self, query: SqlQuery, table: str | None, name: str) -> Expr:
        own = self.sources.columns(table)[name]
        found = time_value(query, SqlInput.of(own)) if own.kind == "datetime" else number_value(query, own)
        return query.define(found)

    def marks(self, rows: SqlQuery) -> dict[str, Expr]:
        """Return the columns of the rows that the marks and cut-offs of this history are in."""
        cut_off, gap = self.sources.cut_off(self.op), self.op.gap_us or 0
        if isinstance(cut_off, int):
            return {f"history_{MARK}_{self.n}": integer(cut_off - max(gap - 1, 0))}
        time = self._time(rows, None, cut_off or self.op.time or "")
        if not self.has_places:
            return {f"history_{MARK}_{self.n}": time - integer(gap - 1) if gap else time}
        ids, keys = ([rows.define(rows.raw(name)) for name in names] for names in (self.sources.keys, self.keys[0]))
        order = [exp.Ordered(this=each) for each in (time.copy(), *ids)]
        place = exp.Window(this=exp.RowNumber(), partition_by=keys, order=exp.Order(expressions=order))
        known = case([(exp.Not(this=is_null(time.copy())), place)], None)
        return {f"history_{MARK}_{self.n}": rows.define(known), f"history_{CUT_OFF}_{self.n}": time}

    def tables(self) -> list[exp.CTE]:
        """Return the common tables of the figures."""
        n = self.n
        names = dict(zip(self.keys[0], self.key_names, strict=True)) | {f"history_{MARK}_{n}": MARK}
        names |= {f"history_{CUT_OFF}_{n}": CUT_OFF} if self.has_places else {}
        distinct = select_columns(ROWS_TABLE, names).distinct(copy=False)
        outputs = {f"figure_{i}": each.aggregate for i, each in enumerate(self.figures.values(), 1)}
        identity = [*self.key_names, MARK]
        grouped = self.seen.select(exp.to_table(f"history_seen_{n}"), identity, outputs)
        grouped = grouped.group_by(*(each.this.copy() for each in grouped.expressions[: len(identity)]), copy=False)
        found, source = self._source()
        events = self._events(source)
        seen = self._seen({each.alias for each in events.expressions})
        for name, each in {"marks": distinct, "events": events, "seen": seen}.items():
            found += common_tables(f"history_{name}_{n}", each, self.dialect)
        return found + common_tables(f"history_{n}", grouped, self.dialect)

    def _source(self) -> tuple[list[exp.CTE], str]:
        """Return the name of the table of the events after its steps, and its common tables."""
        if self.op.table is None:
            return [], ROWS_TABLE
        settings, own = self.sources.events.tables[self.op.table], self.sources.derivation.tables[self.op.table]
        read = list(dict.fromkeys([*own.inputs, *own.right]))
        steps = event_rows(settings, self.sources.tables[self.op.table], read, self.dialect)
        name = f"history_table_{self.n}"
        return common_tables(name, steps, self.dialect), name

    def _events(self, source: str) -> exp.Select:
        """Return the keys, times and values of the events."""
        query, time = self.of_events, self.op.time
        found: dict[str, Expr] = {
            key: query.define(query.raw(name)) for key, name in zip(self.key_names, self.keys[1], strict=True)
        }
        if time is None:
            found[HAPPENED] = integer(0)
        elif self.sources.columns(self.op.table)[time].kind == "datetime":
            found[HAPPENED] = self._time(query, self.op.table, time)
        if self.has_places:
            found[PLACE] = query.define(query.raw(f"history_{MARK}_{self.n}"))
        return query.select(exp.to_table(source), (), found | self.values)

    def _seen(self, names: set[str]) -> exp.Select:
        """Return each event that each mark sees; `names` are the columns of the events."""
        mark = raw_column(MARK, "m")
        cut_off = raw_column(CUT_OFF, "m") if self.has_places else mark
        made = {AGE: cut_off - raw_column(HAPPENED, "e")} if HAPPENED in names else {}
        on: list[Expr] = [raw_column(key, "m").eq(raw_column(key, "e")) for key in self.key_names]
        if self.has_places:
            made[BACK] = mark - raw_column(PLACE, "e")
            on.append(made[BACK].copy() >= integer(0 if self.op.current else 1))
        else:
            on.append(made[AGE].copy() > integer(0))
        columns: list[Expr] = [raw_column(key, "m") for key in (*self.key_names, MARK)]
        columns += [exp.alias_(each, name, quoted=True) for name, each in made.items()]
        columns += [raw_column(name, "e") for name in self.values]
        query = exp.Select(expressions=columns)
        query = query.from_(exp.alias_(exp.to_table(f"history_marks_{self.n}"), "m", table=True), copy=False)
        events = exp.alias_(exp.to_table(f"history_events_{self.n}"), "e", table=True)
        return query.join(events, on=all_of(on), join_type="inner", copy=False)

    def join(self, joined: exp.Select) -> exp.Select:
        """Return a query of the rows ``r`` with the figures of this history joined."""
        alias = f"h{self.n}"
        for i, (name, each) in enumerate(self.figures.items(), 1):
            found: Expr = raw_column(f"figure_{i}", alias)
            if each.default is not None:
                found = exp.Coalesce(this=found, expressions=[number(each.default)])
            found = each.written(found)
            joined = joined.select(exp.alias_(found, name, quoted=True), copy=False)
        pairs = [*zip(self.keys[0], self.key_names, strict=True), (f"history_{MARK}_{self.n}", MARK)]
        on = [raw_column(name, "r").eq(raw_column(own, alias)) for name, own in pairs]
        table = exp.alias_(exp.to_table(f"history_{self.n}"), alias, table=True)
        return joined.join(table, on=all_of(on), join_type="left", copy=False)

    # values of the events, null where missing

    def numbers(self, name: str) -> Expr:
        """Return a numeric or boolean column of the events as float64."""
        own = self.sources.columns(self.op.table)[name]
        if own.kind == "boolean":
            code = self.code(own)
            return self.seen.define(self.dialect.cast(code - integer(FIRST_LEVEL), "double"))
        x = self.of_events.define(number_value(self.of_events, own))
        return self._value(self.dialect.rounded(x) if own.storage != "float64" else x)

    def code(self, own: Column) -> Expr:
        """Return the code of a category or flag; null instead of that of null."""
        code = self.of_events.define(code_value(self.of_events, SqlInput.of(own)))
        return self._value(case([(exp.NEQ(this=code, expression=integer(NULL)), code.copy())], None))

    def level(self, own: Column) -> Expr:
        """Return the level of a category: a text, or a number if the levels are numbers."""
        query = self.of_events
        x, is_missing = (level_number if SqlInput.of(own).type == "number" else level_text)(query, own)
        return self._value(case([(is_missing, exp.Null())], x.copy()))

    def column(self, name: str) -> Column | None:
        """Return a column of the events that has codes; None for numbers."""
        own = self.sources.columns(self.op.table)[name]
        return own if own.kind in ("categorical", "boolean") else None

    def _value(self, found: Expr) -> Expr:
        named = self.of_events.define(found)
        name = f"x_{named.name}"
        self.values[name] = named
        return self.raw(name)

    # the events that a row sees

    def age(self) -> Expr:
        """Return the microseconds from each event to the cut-off."""
        return self.raw(AGE)

    def newest(self, condition: Expr | None = None, oldest: bool = False) -> Expr:
        """Return the position of each event, from 1 for the newest of those for which a condition holds."""
        partition = self.partition
        if condition is not None:
            partition.append(self.seen.define(case([(condition.copy(), integer(1))], integer(0))))
        return self.seen.define(_window(exp.RowNumber(), partition, self.order(oldest)))

    def order(self, oldest: bool = False) -> list[exp.Ordered]:
        """Return the order of the events, newest first, or oldest first."""
        if self.has_places:
            return [exp.Ordered(this=self.raw(BACK), desc=oldest)]
        ids = self.sources.keys if self.op.table is None else ()  # rows of one time
        ties = [self._value(self.of_events.raw(name)) for name in ids]
        ordered = [exp.Ordered(this=each, desc=not oldest) for each in ties]
        return [exp.Ordered(this=self.age(), desc=oldest), *ordered]

    def pick(self, x: Expr, k: int = 1, condition: Expr | None = None, oldest: bool = False) -> Expr:
        """Return the value of the event at a position of `newest`, of those for which a condition holds."""
        is_it: Expr = self.newest(condition, oldest).eq(integer(k))
        is_it = is_it if condition is None else exp.And(this=condition.copy(), expression=is_it)
        return exp.Max(this=case([(is_it, x.copy())], None))

    def measured(self, function: str, x: Expr, condition: Expr | None = None) -> Figure:
        """Return an aggregate of the values that are not null, of the events for which a condition holds."""
        if condition is not None:
            x = self.seen.define(case([(condition.copy(), x.copy())], None))
        if function in ("first", "last"):
            is_known = exp.Not(this=is_null(x.copy()))
            return Figure(self.pick(x, 1, is_known, oldest=function == "first"))
        if function in ("count", "nunique"):
            counted = x.copy() if function == "count" else exp.Distinct(expressions=[x.copy()])
            return Figure(exp.Count(this=counted), 0.0)
        if function != "std":
            return Figure(AGGREGATES[function](this=x.copy()), 0.0 if function == "sum" else None)
        mean = self.seen.define(_window(exp.Avg(this=x.copy()), self.partition))
        apart = self.seen.define(x.copy() - mean)
        n = exp.Count(this=x.copy())
        less = self.dialect.cast(n - integer(1), "double")
        variance = self.dialect.divide(exp.Sum(this=apart * apart.copy()), less)
        return Figure(case([(n.copy() > integer(1), self.dialect.call("SQRT", variance))], None))

    def since(self, which: str, unit: TimeUnit, condition: Expr | None = None) -> Figure:
        """Return the time from the last or first event for which a condition holds."""
        age = self.age() if condition is None else self.seen.define(case([(condition, self.age())], None))
        found = (exp.Min if which == "last" else exp.Max)(this=age.copy())
        return Figure(self.in_unit(found, unit))

    def in_unit(self, micros: Expr, unit: TimeUnit) -> Expr:
        """Return a duration in a unit, as float64."""
        return self.dialect.divide(self.dialect.cast(micros, "double"), number(float(TIME_UNITS_US[unit])))

    def pauses(self) -> Expr:
        """Return the microseconds since the event before; null for the first."""
        before = self.seen.define(_window(exp.Lag(this=self.age()), self.partition, self.order(oldest=True)))
        return self.seen.define(before - self.age())


def select_columns(table: str, columns: Mapping[str, str]) -> exp.Select:
    """Return the query of some columns by their new names."""
    aliased = [exp.alias_(raw_column(name), new, quoted=True) for name, new in columns.items()]
    return exp.Select(expressions=aliased).from_(exp.to_table(table), copy=False)


def _window(function: Expr, partition: Sequence[Expr], by: Sequence[exp.Ordered] = ()) -> exp.Window:
    order = exp.Order(expressions=list(by)) if by else None
    return exp.Window(this=function, partition_by=[each.copy() for each in partition], order=order)
