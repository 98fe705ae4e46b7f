"""Identifiers and other columns of the input that are copied beside the predictions."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from gpupipe.errors import ConfigError, did_you_mean
from gpupipe.io.files import SourceFile
from gpupipe.io.input_files import input_files
from gpupipe.io.raw_columns import numbers_of_texts, read_stored, require_rows, stored_names
from gpupipe.io.settings import TableSource
from gpupipe.names import NamePatterns
from gpupipe.pipeline.target import Goal
from gpupipe.table.frames import frame_to_arrow

NAMES_SHOWN = 20
ROW = "row"  # the column with the place in the input, where rows can be rejected


@dataclass(frozen=True)
class IdColumns:
    """Columns of the input that are copied: identifiers first, then the others."""

    ids: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """All of them, in the order of the output."""
        return (*self.ids, *self.kept)


def choose_columns(
    ids: Sequence[str] | None, keep: Sequence[str], known: Sequence[str], found: Sequence[str]
) -> IdColumns:
    """Return the columns to copy.

    Parameters
    ----------
    ids : sequence of str, optional
        Exact names; None: those of `known` that the input has.
    keep : sequence of str
        Names and globs, each also a list separated by commas.
    known : sequence of str
        The identifiers that the model knows of.
    found : sequence of str
        The columns of the input.

    Raises
    ------
    ConfigError
        If the input lacks a column that is named.
    """
    chosen = [name for name in known if name in found] if ids is None else [_one(name, "--id", found) for name in ids]
    selected = [name for item in keep for name in _selected(item, found)]
    return IdColumns(
        tuple(dict.fromkeys(chosen)), tuple(name for name in dict.fromkeys(selected) if name not in chosen)
    )


def output_names(goal: Goal, numbered: bool = False) -> list[str]:
    """Return the columns of the output that are known before any row is scored; those of embeddings are not."""
    names = [ROW] if numbered else []
    if goal.task == "embedding":
        return names
    names += ["prediction", *(f"probability_{label}" for label in goal.labels)]
    return [*names, "distance"] if goal.task == "clustering" else names


def require_free_names(columns: IdColumns, others: Collection[str]) -> None:
    """Raise ConfigError if a column to copy has the name of another column of the output."""
    taken = [name for name in columns.names if name in others]
    if taken:
        off = "use --no-id" if taken[0] in columns.ids else "do not keep it"
        raise ConfigError(
            f"the input column {taken[0]!r} cannot be copied: the output has a column of that name",
            where=f"columns of the output: {', '.join(list(others)[:NAMES_SHOWN])}",
            fix=f"rename it in the input, or {off}",
        )


def copy_columns(data: Any, keep: Sequence[str], source_of: Callable[[str], TableSource]) -> pa.Table:
    """Return columns of a table given as a frame, a path or a source, for Python.

    Parameters
    ----------
    data : frame, path or TableSource
        See `gpupipe.table.frames.frame_to_arrow`.
    keep : sequence of str
        Names and globs.
    source_of : callable
        Returns the source of a path.
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


def _kept(keep: Sequence[str], found: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(name for item in keep for name in _selected(item, found, "keep")))


def read_columns(
    columns: IdColumns, source: TableSource, files: Sequence[SourceFile], n_rows: int, suffix: str
) -> pa.Table:
    """Return the columns to copy, one row for each of the `n_rows` that were read from `files`.

    Identifiers from CSV are text; of the others those become numbers, in Parquet, whose values that leaves unchanged.

    Raises
    ------
    ConfigError
        If the output (by its `suffix`) is CSV and a column is nested.
    DataError
        If the files cannot be read, or changed since the first reading.
    """
    if not columns.names:
        return pa.table({})
    table = require_rows(read_stored(source, columns.names, files), n_rows, source)
    if suffix == ".csv":
        nested = [name for name in table.column_names if pa.types.is_nested(table.field(name).type)]
        if nested:
            raise ConfigError(
                f"column {nested[0]!r} holds {table.field(nested[0]).type}, which CSV cannot hold",
                fix="write a .parquet file, or leave the column out",
            )
        return table
    if all(pa.types.is_string(kind) for kind in table.schema.types):
        found = dict(zip(table.column_names, table.columns, strict=True))
        table = pa.table(found | {name: numbers_of_texts(found[name]) for name in columns.kept})
    return table


def _selected(item: str, found: Sequence[str], option: str = "--keep") -> list[str]:
    names = [item] if item in found else [name.strip() for name in item.split(",") if name.strip()]
    selected = []
    for name in names:
        if name in found:
            selected.append(name)
        elif set(name) & set("*?["):
            selected += list(filter(NamePatterns([name]).matches, found)) or [_one(name, option, found)]
        else:
            selected.append(_one(name, option, found))
    return selected


def _one(name: str, option: str, found: Sequence[str]) -> str:
    if name not in found:
        more = ", ..." if len(found) > NAMES_SHOWN else ""
        raise ConfigError(
            f"{option}: the input has no column {name!r}",
            where=f"columns found: {', '.join(found[:NAMES_SHOWN])}{more}",
            fix=did_you_mean(name, found) or "name a column of the input",
        )
    return name
