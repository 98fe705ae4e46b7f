"""Input columns that are copied to the output of predictions: identifiers and kept columns."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow as pa

from gpupipe.errors import ConfigError, did_you_mean
from gpupipe.io.files import SourceFile
from gpupipe.io.input_files import input_files
from gpupipe.io.raw_columns import numbers_of_texts, read_stored, require_rows, stored_names
from gpupipe.io.settings import TableSource
from gpupipe.model_parts.decision import Decision
from gpupipe.model_parts.goal import Goal, output_of_target
from gpupipe.names import NamePatterns
from gpupipe.table.frames import frame_to_arrow

NAMES_SHOWN = 20
ROW = "row"  # column with the position in the input, present if rows can be rejected


@dataclass(frozen=True)
class IdColumns:
    """Input columns to copy: identifiers first, then the others."""

    ids: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """All columns, in the order of the output."""
        return (*self.ids, *self.kept)


def choose_columns(
    ids: Sequence[str] | None, keep: Sequence[str], known: Sequence[str], found: Sequence[str]
) -> IdColumns:
    """Return the columns to copy.

    `ids` has exact names; None selects the columns of `known`, the identifiers recorded in the model, that the input
    has. `keep` has names and globs, each possibly a comma-separated list. `found` has the columns of the input. Raise
    ConfigError if the input does not have a named column.
    """
    chosen = (
        [name for name in known if name in found]
        if ids is None
        else [require_column(name, "--id", found) for name in ids]
    )
    kept = [name for name in _kept(keep, found, "--keep") if name not in chosen]
    return IdColumns(tuple(dict.fromkeys(chosen)), tuple(kept))


def output_names(goal: Goal, decision: Decision, numbered: bool = False) -> list[str]:
    """Return the output columns known before any row is scored; those of embeddings are not."""
    names = [ROW] if numbered else []
    if goal.task == "embedding":
        return names
    if goal.targets:
        for own, decided in zip(goal.targets, decision.targets, strict=True):
            names += [output_of_target(name, own) for name in output_names(own, decided)]
        return names
    names += goal.quantile_names or ["prediction", *(f"probability_{label}" for label in goal.label_texts)]
    if decision.intervals is not None:
        names += [f"set_{label}" for label in goal.label_texts] or ["lower", "upper"]
    return [*names, "distance"] if goal.task == "clustering" else names


def require_free_names(columns: IdColumns, others: Collection[str]) -> None:
    """Raise ConfigError if a column to copy has the name of another output column."""
    taken = [name for name in columns.names if name in others]
    if taken:
        off = "use --no-id" if taken[0] in columns.ids else "do not keep it"
        raise ConfigError(
            f"cannot copy the input column {taken[0]!r}: the output already has a column of this name",
            where=f"output columns: {', '.join(list(others)[:NAMES_SHOWN])}",
            fix=f"rename it in the input, or {off}",
        )


def copy_columns(data: Any, keep: Sequence[str], source_of: Callable[[str], TableSource]) -> pa.Table:
    """Return the columns to keep of a frame, a path or a source.

    For `data`, see `gpupipe.table.frames.frame_to_arrow`. `keep` has names and globs. `source_of` returns the source
    for a path.
    """
    if isinstance(data, str | Path | TableSource):
        source = data if isinstance(data, TableSource) else source_of(str(data))
        files = input_files(source)
        return read_stored(source, _kept(keep, stored_names(source, files)), files)
    if hasattr(data, "iloc"):
        names = {str(name): name for name in data.columns}
        return frame_to_arrow(data[[names[name] for name in _kept(keep, list(names))]])
    table = frame_to_arrow(data)
    return table.select(_kept(keep, table.column_names))


def _kept(keep: Sequence[str], found: Sequence[str], option: str = "keep") -> list[str]:
    return list(dict.fromkeys(chain.from_iterable(_selected(item, found, option) for item in keep)))


def read_columns(
    columns: IdColumns, source: TableSource, files: Sequence[SourceFile], n_rows: int | None, suffix: str
) -> pa.Table:
    """Return the columns to copy, one row for each of the `n_rows` read from `files`; None: not read yet.

    Identifiers from CSV files stay text. In Parquet outputs, other columns become numbers if that keeps their values.

    Raise ConfigError if the output is CSV (by its `suffix`) and a column is nested, and DataError if the files cannot
    be read, or changed since the first reading.
    """
    if not columns.names:
        return pa.table({})
    table = read_stored(source, columns.names, files)
    if n_rows is not None:
        require_rows(table, n_rows, source)
    if suffix == ".csv":
        nested = [name for name in table.column_names if pa.types.is_nested(table.field(name).type)]
        if nested:
            raise ConfigError(
                f"column {nested[0]!r} has type {table.field(nested[0]).type}, which CSV does not support",
                fix="write a .parquet file, or do not copy the column",
            )
        return table
    if all(pa.types.is_string(kind) for kind in table.schema.types):
        found = dict(zip(table.column_names, table.columns, strict=True))
        table = pa.table(found | {name: numbers_of_texts(found[name]) for name in columns.kept})
    return table


def _selected(item: str, found: Sequence[str], option: str) -> list[str]:
    names = [item] if item in found else [name.strip() for name in item.split(",") if name.strip()]
    selected = []
    for name in names:
        if name in found:
            selected.append(name)
        elif set(name) & set("*?["):
            selected += list(filter(NamePatterns([name]).matches, found)) or [require_column(name, option, found)]
        else:
            selected.append(require_column(name, option, found))
    return selected


def require_column(name: str, option: str, found: Sequence[str]) -> str:
    """Return `name` if the input has this column; raise ConfigError that names the option otherwise."""
    if name not in found:
        more = ", ..." if len(found) > NAMES_SHOWN else ""
        raise ConfigError(
            f"{option}: the input has no column {name!r}",
            where=f"input columns: {', '.join(found[:NAMES_SHOWN])}{more}",
            fix=did_you_mean(name, found) or "choose a column of the input",
        )
    return name
