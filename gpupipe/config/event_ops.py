"""Defaults and checks of settings that refer to event tables: entities, labels and keyed ops."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pydantic_core import InitErrorDetails, PydanticCustomError

from gpupipe.config.features import op_name
from gpupipe.errors import did_you_mean
from gpupipe.features.ops.keyed_op import HistoryOp, KeyedOp, ShiftOp
from gpupipe.io.event_settings import AS_OF
from gpupipe.splits.settings import parse_length
from gpupipe.units import is_time, parse_duration_us, parse_time_us

if TYPE_CHECKING:
    from gpupipe.config.sections import Config
    from gpupipe.features.ops.base import FeatureOp
    from gpupipe.io.settings import JoinedTable, Source

Tables = Mapping[str, "JoinedTable"]
ErrorList = list[InitErrorDetails]


def entity_columns(config: Config) -> tuple[str, ...]:
    """Return the columns that identify a row built from events: its keys and its cut-off."""
    entities = config.source.entities
    return () if entities is None else (*config.tables[entities.table].on.left, AS_OF)


def entity_errors(source: Source, tables: Tables) -> ErrorList:
    """Return the errors of the tables that ``source.entities`` names."""
    entities, found = source.entities, ErrorList()
    if entities is None:
        return found
    named: list[tuple[tuple[str, ...], str]] = [(("table",), entities.table)]
    if entities.label is not None:
        named.append((("label", entities.label.function), entities.label.table))
    for place, name in named:
        what = _no_events(name, tables)
        if not what and tables[name].time is None:
            what = f"table {name!r} has no `time`; name the datetime column of its events"
        if what:
            found.append(_error(what, ("source", "entities", *place), name))
    if entities.label is not None and not found:
        keys, others = tables[entities.table].on.left, tables[entities.label.table].on.left
        if keys != others:
            what = (
                f"expected table {entities.label.table!r} on {', '.join(keys)}, the keys of the rows; "
                f"got {', '.join(others)}"
            )
            found.append(_error(what, ("source", "entities", "label"), others))
        if entities.label.column == "":
            what = f"{entities.label.function} needs a column; write {entities.label.table}.COLUMN"
            found.append(_error(what, ("source", "entities", "label", entities.label.function), None))
    return found


def keyed_ops(ops: Sequence[FeatureOp], source: Source, tables: Tables) -> tuple[tuple[FeatureOp, ...], ErrorList]:
    """Return the ops with the time of their table and the cut-off of the rows filled in, and the errors found."""
    done, found = [], ErrorList()
    for i, op in enumerate(ops):
        if isinstance(op, KeyedOp) and op.table is not None:
            field, what = "table", _no_events(op.table, tables)
            if not what:
                op = op.model_copy(update={"time": op.time or tables[op.table].time})
                field, what = _cut_off_error(op, source)
            if what:
                found.append(_error(what, ("features", i, op_name(op), field), getattr(op, field)))
            elif source.entities is not None:
                op = op.model_copy(update={"as_of": AS_OF})
        done.append(op)
    return tuple(done), found


def _cut_off_error(op: KeyedOp, source: Source) -> tuple[str, str]:
    """Return the field that is wrong about the times of an op, and what is wrong; ``""`` if nothing is."""
    if op.time is None and op.needs_time:
        return "time", f"{op_name(op)} needs the time of events; set `time` here or in table {op.table!r}"
    if source.entities is None:
        missing = op.time is not None and op.as_of is None
        return "as_of", "expected as_of, a date or a column; later events are not used" if missing else ""
    if op.time is None:
        return "time", f"table {op.table!r} has no `time`, which excludes events from the cut-off on; set it"
    dates = source.entities.as_of
    is_cut_off = op.as_of is None or op.as_of == AS_OF
    if not is_cut_off and len(dates) == 1 and is_time(op.as_of or ""):
        is_cut_off = parse_time_us(op.as_of or "") == parse_time_us(dates[0])
    if is_cut_off:
        return "as_of", ""
    return "as_of", f"the rows have the cut-off source.entities.as_of ({', '.join(dates)}); remove as_of here"


def _no_events(name: str, tables: Tables) -> str:
    events = [each for each, table in tables.items() if not table.is_joined]
    if name in events:
        return ""
    if name in tables:
        return f"table {name!r} is joined to the source; history features need cardinality: one_to_many"
    there_are = f"the event tables are {', '.join(events)}" if events else "`tables:` has no event tables"
    return f"no event table {name!r}; {did_you_mean(name, events) or there_are}"


def _error(what: str, at: tuple[str | int, ...], value: Any) -> InitErrorDetails:
    return InitErrorDetails(type=PydanticCustomError("no_events", "{what}", {"what": what}), loc=at, input=value)


def target_histories(config: Config) -> list[tuple[int, HistoryOp]]:
    """Return the ops that read past values of the target, with their positions among the features."""
    targets = set(config.source.targets)
    return [
        (i, op)
        for i, op in enumerate(config.features)
        if isinstance(op, HistoryOp) and op.table is None and op.gap is not None and targets & {*op.value_columns()}
    ]


def target_delays(config: Config) -> list[tuple[str, str]]:
    """Return the durations after which targets are known, each with the setting that states it."""
    entities, found = config.source.entities, []
    if entities is not None and entities.label is not None and config.split.time == AS_OF:
        found.append((entities.label.within, "source.entities.label.within"))
    found += [(op.gap or "", f"features[{i}].{op_name(op)}.gap") for i, op in target_histories(config)]
    return found


def gap_errors(config: Config) -> list[InitErrorDetails]:
    """Return an error for each delay that contradicts ``split.gap``, and each op that reads the future of a split."""
    gap, found = config.split.gap, ErrorList()
    for i, op in enumerate(config.features if config.split.time is not None else ()):
        if isinstance(op, ShiftOp) and op.later_periods:
            what = "a negative period reads later rows, which do not exist when a model predicts those of split.time"
            found.append(_error(f"{what}; remove it", ("features", i, op_name(op), "periods"), op.later_periods[0]))
    if gap is None or parse_length(gap).unit != "us":
        return found
    gap_us = parse_length(gap).size
    for delay, where in target_delays(config):
        delay_us = parse_duration_us(delay, allow_zero=True)
        if gap_us < delay_us:
            what = (
                f"{gap} is shorter than {where} ({delay}), after which a target is known: training rows would have "
                f"targets from the time of the test rows; set gap: {delay}"
            )
            found.append(_error(what, ("split", "gap"), gap))
    for i, op in target_histories(config):
        if parse_duration_us(op.gap or "", allow_zero=True) < gap_us:
            what = (
                f"with a gap of {op.gap}, test rows see targets that are not known when a model serves: by split.gap, "
                f"a target is known after {gap}; set gap: {gap}"
            )
            found.append(_error(what, ("features", i, op_name(op), "gap"), op.gap))
    return found
