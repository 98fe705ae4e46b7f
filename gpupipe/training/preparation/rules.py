"""Enforcement of the rules of ``data:`` in a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from gpupipe.backends.base import Backend
from gpupipe.errors import ROWS_COUNTED, ConfigError, DataError, GpupipeError, SchemaError
from gpupipe.features.program.selection import resolve, select_dropped
from gpupipe.io.column_filter import ColumnFilter
from gpupipe.io.files import SourceFile, mask
from gpupipe.io.input_files import InputFiles, data_files
from gpupipe.io.join import read_joined
from gpupipe.io.settings import CheckedSource, Source
from gpupipe.io.source_reader import read_arrow
from gpupipe.names import SELECTORS
from gpupipe.rules import ColumnRules, RuleViolation
from gpupipe.rules.check import find_violations
from gpupipe.rules.enforcement import NameRow, row_text, settle
from gpupipe.rules.model_rules import ServedRules
from gpupipe.table.blocks import EncodedTable
from gpupipe.table.device.frame_columns import DeviceText
from gpupipe.table.encode import encode
from gpupipe.table.schema import DeclaredColumn, Schema

if TYPE_CHECKING:
    from gpupipe.config import Config

Rules = Mapping[str, Sequence[ColumnRules]]

GLOB = "*?["
LOOSEN = "change the rules (data:), or let them only warn (otherwise: warn)"


@dataclass(frozen=True)
class RuleResults:
    """Results of checking the rules of a table."""

    broken: tuple[RuleViolation, ...] = ()  # violations of rules that only warn
    warnings: tuple[str, ...] = ()  # their messages
    served: tuple[ServedRules, ...] = ()  # rules to store in the model


NO_RULES = RuleResults()


def include_ruled_columns(config: Config) -> Config:
    """Return the configuration for reading, including columns with rules that ``drop:`` or ``columns:`` exclude.

    Only columns named exactly by a rule are included; globs match the columns that are read anyway.
    """
    source, names = (
        config.source,
        [n for n in config.data if not (n in SELECTORS or n.startswith("!") or set(n) & set(GLOB))],
    )
    gone = [name for name in names if not ColumnFilter(source).is_wanted(name)]
    if any(table.is_joined for table in config.tables.values()):
        gone = [name for name in gone if name in source.drop]  # the others may be columns of joined tables
    kept = [name for name in names if ColumnFilter(source).is_wanted(name)]
    if not gone and not any(name in SELECTORS for name in source.drop):
        return config
    fields = {name: getattr(source, name) for name in type(source).model_fields}
    checked = CheckedSource.model_construct(**fields, also=(*gone, *kept)).read_as(source.keys, lists=source.lists)
    return config.model_copy(update={"source": checked})


def enforce(table: EncodedTable, config: Config, backend: Backend, files: InputFiles | None = None) -> RuleResults:
    """Check the rules on the whole table read from `files`, including the columns that only rules need.

    Raise ConfigError if a rule names a missing column, or does not apply to the kind of its column; SchemaError if
    rules are violated; the message lists all violations.
    """
    if not config.data:
        return NO_RULES
    rules = ruled_columns(config, table.schema)
    files = InputFiles.find(config.source, config.tables) if files is None else files
    broken = _broken(table, rules, config, backend, files)
    warnings = settle(
        broken, *name_rows(config, table.n_rows, broken, files.source), fix=f"correct the rows; or {LOOSEN}"
    )
    unserved = (*config.source.targets, config.source.weight)  # rows to predict have neither
    schema = table.schema
    served: list[ServedRules] = []
    for name, given in rules.items():
        if name not in unserved:
            column = schema[name]
            declared = DeclaredColumn(column.kind, time_format=column.time_format, number_format=column.number_format)
            served += [ServedRules(name, declared, each) for each in given]
    return RuleResults(tuple(broken), tuple(warnings), tuple(served))


def rule_only_columns(config: Config, schema: Schema) -> list[str]:
    """Return the columns that `include_ruled_columns` adds and the configuration excludes."""
    source, kinds = config.source, {column.name: column.kind for column in schema}
    wanted, gone = ColumnFilter(source), select_dropped(source.drop, kinds, source.targets)
    checked = include_ruled_columns(config).source.checked
    return [name for name in checked if name in kinds and (name in gone or not wanted.is_wanted(name))]


def ruled_columns(config: Config, schema: Schema) -> dict[str, list[ColumnRules]]:
    """Return the rules of each column that has rules."""
    kinds, alone = {column.name: column.kind for column in schema}, rule_only_columns(config, schema)
    kept = {name: kind for name, kind in kinds.items() if name not in alone}  # the columns that globs and @kinds match
    rules: dict[str, list[ColumnRules]] = {}
    for selector, given in config.data.items():
        try:
            names = resolve(selector, kinds if selector in kinds else kept)
        except ConfigError as error:
            raise ConfigError(
                f"{error.what} for a rule", where=f"data.{selector}", fix=error.fix, names=error.names
            ) from None
        for name in names:
            rules.setdefault(name, []).append(given)
    return rules


def _broken(
    table: EncodedTable, rules: Rules, config: Config, backend: Backend, files: InputFiles
) -> list[RuleViolation]:
    texts = [name for name in rules if isinstance(table.texts.get(name), DeviceText)]
    broken = find_violations(table, {name: given for name, given in rules.items() if name not in texts}, backend)
    if not texts:
        return broken
    backend.fall_back(
        f"rules for {', '.join(texts)}: a device does not keep texts", "read: data", "remove the rules of these columns"
    )
    loaded = read_joined(config.source, config.tables, columns=texts, files=files)
    on_host = encode(loaded.table.select(texts), backend.host, {name: DeclaredColumn("text") for name in texts})
    return [*broken, *find_violations(on_host, {name: rules[name] for name in texts}, backend.host)]


def name_rows(
    config: Config, n_rows: int, broken: Sequence[RuleViolation], files: Sequence[SourceFile]
) -> tuple[NameRow, str]:
    """Return a function that names rows in messages, and the location of the rows."""
    source = config.source
    where = f"{mask(source.label)}; {ROWS_COUNTED}"
    where += ", after prepare" if source.prepare else ""
    where += ", after source.where" if source.where else ""
    where += ", without rows skipped by csv.bad_rows" if source.csv.bad_rows == "skip" else ""
    heights = _rows_of_files(source, n_rows, files) if any(each.rows for each in broken) else []
    if not heights:
        return row_text, where

    ends = np.cumsum([height for _, height in heights])

    def name_row(row: int) -> str:
        file = int(np.searchsorted(ends, row, side="right"))
        return f"{row_text(row - (ends[file] - heights[file][1]))} of {heights[file][0]}"

    return name_row, f"{where}, in each file"


def _rows_of_files(source: Source, n_rows: int, files: Sequence[SourceFile]) -> list[tuple[str, int]]:
    """Return the name and the number of rows of each local file, by reading them again; empty for a single file."""
    files = data_files(files)
    if source.prepare or len(files) < 2 or any(file.remote is not None for file in files):
        return []
    try:
        heights = [_height(source, file) for file in files]
    except GpupipeError:
        return []
    names = [file.path.rpartition("/")[2] for file in files]
    labels = names if len(set(names)) == len(names) else [mask(file.path) for file in files]
    return list(zip(labels, heights, strict=True)) if sum(heights) == n_rows else []


def _height(source: Source, file: SourceFile) -> int:
    try:
        return int(read_arrow(source, columns=[] if source.target else None, files=[file]).table.num_rows)
    except SchemaError:
        raise
    except DataError:
        return 0  # no rows, or none that pass the filter
