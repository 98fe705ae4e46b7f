"""Each history op as aggregates of the events that a row sees."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from sqlglot import exp

from gpupipe.features.history.derivation import DerivedOp
from gpupipe.features.ops.aggregate import ROWS, Aggregate
from gpupipe.features.ops.content_op import ContentOp
from gpupipe.features.ops.decay import Decay
from gpupipe.features.ops.difference import Difference
from gpupipe.features.ops.keyed_op import HistoryOp, KeyedOp, ShiftOp
from gpupipe.features.ops.lag import Lag
from gpupipe.features.ops.rfm import RFM
from gpupipe.features.ops.rolling import Rolling
from gpupipe.features.ops.sessions import Sessions
from gpupipe.features.ops.time_since import TimeSince
from gpupipe.inference.sql.dialect import SqlDialect, case, integer, is_null, number
from gpupipe.inference.sql.history.event_rows import refused_steps
from gpupipe.inference.sql.history.seen_events import Figure, SqlHistory
from gpupipe.inference.sql.history.tables import HistoryTables
from gpupipe.inference.sql.inputs import SqlInput, refused_columns
from gpupipe.units import parse_duration_us

OLDEST_AGE = 700.0  # in half-lives; a smaller power is an error in PostgreSQL
Figures = Iterator[tuple[str, Figure]]


def _aggregate(op: Aggregate, history: SqlHistory) -> Figures:
    for name, functions in op.functions_by_column().items():
        own = None if name == ROWS else history.column(name)
        for function in functions:
            if name == ROWS:
                yield "count", Figure(exp.Count(this=exp.Star()), 0.0)
            elif own is not None and function in ("first", "last"):
                flag = SqlInput.of(own).type if own.kind == "boolean" else None
                x = history.level(own) if flag is None else history.numbers(name)
                yield f"{name}_{function}", Figure(history.measured(function, x).aggregate, flag=flag)
            elif own is not None and function in ("count", "nunique"):
                yield f"{name}_{function}", history.measured(function, history.code(own))
            else:
                yield f"{name}_{function}", history.measured(function, history.numbers(name))
    for function in op.gaps:
        pause = history.seen.define(history.in_unit(history.pauses(), op.unit))
        yield f"gap_{function}", history.measured(function, pause)


def _rfm(op: RFM, history: SqlHistory) -> Figures:
    yield "recency", history.since("last", op.unit)
    yield "tenure", history.since("first", op.unit)
    yield "frequency", Figure(exp.Count(this=exp.Star()), 0.0)
    if op.amount is not None:
        yield "monetary", history.measured("sum", history.numbers(op.amount))
        yield "monetary_mean", history.measured("mean", history.numbers(op.amount))


def _time_since(op: TimeSince, history: SqlHistory) -> Figures:
    for which in op.of:
        if not op.columns:
            yield f"time_since_{which}", history.since(which, op.unit)
        for name in op.columns:
            counts = exp.NEQ(this=history.numbers(name), expression=number(0.0))
            yield f"time_since_{which}_{name}", history.since(which, op.unit, counts)


def _rolling(op: Rolling, history: SqlHistory) -> Figures:
    for window in op.windows:
        if isinstance(window, int):
            inside = history.newest() <= integer(window)
        else:
            oldest = parse_duration_us(window) - int(op.current)
            inside = history.age() <= integer(oldest)
        if not op.columns:
            yield f"count_{window}", Figure(exp.Count(this=case([(inside, integer(1))], None)), 0.0)
        for name in op.columns:
            for function in op.functions:
                yield f"{name}_{function}_{window}", history.measured(function, history.numbers(name), inside)


def _decay(op: Decay, history: SqlHistory) -> Figures:
    dialect = history.dialect
    for label in op.half_life:
        lives = dialect.divide(dialect.cast(history.age(), "double"), number(float(parse_duration_us(label))))
        lives = dialect.extreme("MIN", [lives, dialect.double(OLDEST_AGE)])
        weight = history.seen.define(exp.Pow(this=dialect.double(2.0), expression=exp.Neg(this=exp.Paren(this=lives))))
        if not op.columns:
            yield f"decay_{label}", history.measured("sum", weight)
        for name in op.columns:
            faded = history.seen.define(history.numbers(name) * weight.copy())
            yield f"{name}_decay_{label}", history.measured("sum", faded)


def _lag(op: Lag, history: SqlHistory) -> Figures:
    for name in op.columns:
        for k in op.periods:
            x = history.numbers(name)
            if isinstance(k, int):
                yield f"{name}_lag_{k}", Figure(history.pick(x, k + int(op.current)))
            else:
                oldest = parse_duration_us(k) - max((op.gap_us or 0) - 1, 0)
                is_old = history.age() >= integer(oldest)
                yield f"{name}_lag_{k}", Figure(history.pick(x, 1, is_old))


def _difference(op: Difference, history: SqlHistory) -> Figures:
    for name in op.columns:
        for k in op.periods:
            x = history.numbers(name)
            yield f"{name}_difference_{k}", Figure(history.pick(x) - history.pick(x, k + 1))


def _sessions(op: Sessions, history: SqlHistory) -> Figures:
    pause = history.pauses()
    is_later = pause.copy() > integer(parse_duration_us(op.gap))
    begins = exp.Or(this=is_null(pause), expression=is_later)
    found = {
        "count": Figure(exp.Sum(this=case([(begins, integer(1))], integer(0))), 0.0),
        "rows": Figure(exp.Min(this=case([(begins.copy(), history.newest())], None)), 0.0),
        "age": history.since("last", op.unit, begins.copy()),
    }
    for figure in op.figures:
        yield f"session_{figure}", found[figure]


WRITERS: dict[type[DerivedOp], Callable[[Any, SqlHistory], Figures]] = {
    Aggregate: _aggregate,
    RFM: _rfm,
    TimeSince: _time_since,
    Rolling: _rolling,
    Decay: _decay,
    Lag: _lag,
    Difference: _difference,
    Sessions: _sessions,
}


def refused_ops(tables: HistoryTables, dialect: SqlDialect) -> Iterator[str]:
    """Yield what SQL, or a dialect, cannot express of history ops and their tables."""
    for op in tables.derivation.ops:
        read = [] if not isinstance(op, HistoryOp) else [name for name in op.value_columns() if name != ROWS]
        what = f"{op.title()} of {', '.join(read) or 'rows'}"
        if type(op) not in WRITERS and not isinstance(op, ContentOp):  # which all targets refuse
            yield f"{op.title()}, which reads other rows"
        own = read if isinstance(op, HistoryOp) and op.table is None else ()
        if made := [name for name in own if name in tables.derivation.made]:
            yield f"{what}: {made[0]} is the result of another op"
        if isinstance(op, ShiftOp) and op.later_periods:
            yield f"{what}: period {op.later_periods[0]} reads later rows"
        if isinstance(op, KeyedOp) and op.time is None and _needs_order(op):
            yield f"{what}: events without a time have no order in a database"
    for name in (None, *tables.derivation.tables):
        columns = tuple(tables.columns(name))
        yield from refused_columns(columns, dialect)
        yield from (f"numbers in the texts of {each.source}" for each in columns if each.number_format is not None)
        if name is not None:
            yield from refused_steps(name, tables.events.tables[name], dialect)


def _needs_order(op: KeyedOp) -> bool:
    if isinstance(op, Aggregate):
        return any({"first", "last"} & {*functions} for functions in op.functions_by_column().values())
    return isinstance(op, ShiftOp) or (isinstance(op, Rolling) and any(isinstance(each, int) for each in op.windows))
