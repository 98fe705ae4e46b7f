"""Columns of the groups and times of a split."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np

from gpupipe.backends.base import Backend
from gpupipe.config import Config
from gpupipe.config.locations import is_in_section
from gpupipe.errors import ConfigError, DataError, GpupipeError, SchemaError
from gpupipe.names import count_noun
from gpupipe.table.blocks import EncodedTable
from gpupipe.table.schema import FIRST_LEVEL, RAW_KINDS
from gpupipe.table.time_formats import declare_texts
from gpupipe.typing import Array
from gpupipe.user_warnings import UNREAD_LISTS, WarningNote


def split_columns(config: Config, table: EncodedTable, backend: Backend) -> tuple[Array | None, Array | None]:
    """Return the values of the columns of ``split.group`` and ``split.time``, on the host, or None.

    Raise ConfigError if the column of ``split.time`` contains neither times nor numbers; SchemaError if there is no
    such column.

    Returns
    -------
    groups, times : array, shape (n_rows,), or None
    """
    group, time = config.split.group, config.split.time
    require_column("split.group", group, table, config)
    require_column("split.time", time, table, config)
    groups = None if group is None else _codes(table, group, backend)
    times = None if time is None else _times(table, time, backend)
    if config.source.task == "ranking" and group is not None and groups is not None:
        _require_groups(group, groups, table.schema[group].levels is not None)
        times = None if times is None else latest_of_groups(times, groups)
    return groups, times


def _require_groups(name: str, groups: Array, is_coded: bool) -> None:
    """Raise DataError if a row of a ranking has no group."""
    is_missing = groups < FIRST_LEVEL if is_coded else groups != groups
    if n_missing := int(np.count_nonzero(is_missing)):
        raise DataError(
            f"{count_noun(n_missing, 'row', 'has', 'have')} no {name!r}, and cannot be ranked",
            where="split.group",
            fix=f'drop them with source.where: "{name} is not None"',
            names=[name],
        )


def latest_of_groups(times: Array, groups: Array) -> Array:
    """Return the latest time of the group of each row, so that a split by time keeps groups whole."""
    codes = np.unique(groups, return_inverse=True)[1]
    latest = times[np.lexsort((times, codes))]
    last = np.cumsum(np.bincount(codes)) - 1
    found: Array = latest[last][codes]
    return found


@contextmanager
def naming_dropped(notes: Sequence[str]) -> Iterator[None]:
    """Say in the error about an absent column that it is dropped, if a note of the reader does."""
    try:
        yield
    except SchemaError as error:
        fates = ("dropped", UNREAD_LISTS)
        dropped = (note for note in notes if isinstance(note, WarningNote) and note.fate in fates)
        error.what = next((note for note in dropped if note.column in error.names), error.what)
        raise


def require_column(where: str, name: str | None, table: EncodedTable, config: Config) -> None:
    """Raise SchemaError if the column of the setting `where` is absent; a setting of None has no column."""
    try:
        _ = None if name is None else table.schema[name]
    except SchemaError as error:
        error.where = where
        advise_dropped(error, config)
        raise


def _codes(table: EncodedTable, column: str, backend: Backend) -> Array:
    if table.schema[column].kind in RAW_KINDS:
        what, fix = (
            f"{column!r} {RAW_KINDS[table.schema[column].kind]}: most rows differ in it",
            f"schema: {{{column}: categorical}}",
        )
        raise SchemaError(what, where="split.group", fix=f"declare it: {fix}", names=[column])
    values = backend.to_host(table.column(column))
    return values if table.schema[column].levels is None else values.astype("int64")


def _times(table: EncodedTable, column: str, backend: Backend) -> Array:
    kind = table.schema[column].kind
    if kind not in ("datetime", "numeric"):
        raise ConfigError(
            f"expected a datetime or numeric column, got {column!r}, which is {kind}",
            where="split.time",
            fix=declare_texts(column, _texts(table, column)) or "choose a column of times or of ordered numbers",
            names=[column],
        )
    return backend.to_host(table.column(column))


def _texts(table: EncodedTable, column: str) -> list[str]:
    """Return texts of a column: its levels, or some of its values."""
    levels = table.schema[column].levels
    if levels is not None:
        return list(levels)
    values = table.texts.get(column)
    return [] if values is None else [text for text in values.slice(0, 10_000).to_pylist() if text and text.strip()]


def advise_dropped(error: GpupipeError, config: Config) -> None:
    """Set the advice of an error about a column that ``source.drop`` drops."""
    for name in error.names:
        if name in config.source.drop and not is_in_section(error.where, "source"):
            fix = f"remove {name!r} from source.drop"
            error.fix = f"{fix}; `- drop: {name}` among the features keeps it out of the models"
