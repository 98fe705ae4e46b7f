"""Arguments of `Pipeline` and its methods, and translation of errors to Python's terms."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar, get_args

from gpupipe.backends import Device
from gpupipe.config import Config
from gpupipe.config.advice import cli_to_python, yaml_to_python
from gpupipe.config.error_text import describe_python_value
from gpupipe.config.redacted_output import redact_output
from gpupipe.config.redaction import Redactor
from gpupipe.errors import ConfigError, GpupipeError, did_you_mean
from gpupipe.features.history.derivation import derived_ops
from gpupipe.io.dask_table import DaskTable
from gpupipe.io.file_formats import format_of
from gpupipe.io.frame_field import in_memory_table, is_in_memory, read_frame_field
from gpupipe.io.in_memory import InMemoryTable
from gpupipe.io.origin_settings import ORIGIN_OF, ORIGINS
from gpupipe.io.settings import Source, TableSource
from gpupipe.names import SELECTORS, unmatched
from gpupipe.table.frames import frame_to_arrow
from gpupipe.timeline.timeline import Note, Stage
from gpupipe.user_warnings import warn_user

Table = TypeVar("Table", bound=TableSource)

SOURCE = "a frame (pandas, polars, pyarrow, DuckDB, cuDF, Dask), a path, or a list of paths"
YAML = (".yaml", ".yml")


def source_section(source: object) -> dict[str, Any]:
    """Return the ``source`` section for the first argument of `Pipeline`.

    Raise ConfigError if it is a whole configuration, a dict of columns, the path of a YAML file, or not a source at
    all.
    """
    if isinstance(source, Mapping):
        return _section(source)
    if isinstance(source, str | os.PathLike) and os.fspath(source).lower().endswith(YAML):
        fix = "use gp.Pipeline.from_yaml for a configuration file"
        raise ConfigError(f"expected {SOURCE}; got {describe_python_value(os.fspath(source))}", where="source", fix=fix)
    return {"frame" if is_in_memory(source) else "path": _require_data(source, "source")}


def _section(source: Mapping[Any, Any]) -> dict[str, Any]:
    if "source" in source or (source and set(source) <= set(Config.model_fields)):
        what, fix = f"expected {SOURCE}; got a whole configuration", "use gp.Pipeline.from_dict for a dict of sections"
        raise ConfigError(f"{what} ({describe_python_value(source)})", where="source", fix=fix)
    if not set(source) & {field.alias or name for name, field in Source.model_fields.items()}:
        raise ConfigError(
            f"expected {SOURCE}; got {describe_python_value(source)}",
            where="source",
            fix='convert a dict of columns with pandas.DataFrame; a dict of reader options needs "path" or "frame"',
        )
    return dict(source)


def place_values(source: Any, given: Any, argument: str) -> tuple[Any, Any]:
    """Return a source with values given instead of the name of a column, and their name; other arguments unchanged.

    Raise ConfigError if the source is not a frame in this process, or has other rows.

    - `given`: values in the order of the rows. They replace a column of their name, and are else the column `argument`.
    - `argument`: {"target", "weight"}
    """
    is_list = isinstance(given, list) and hasattr(source, "columns") and hasattr(source, "__len__")
    if is_list and len(given) == len(source) > len(set(map(str, given))):  # values: names are different
        import numpy as np

        given = np.asarray(given)
    if not hasattr(given, "__array__") or getattr(given, "ndim", 1) == 0:
        return source, given
    what = describe_python_value(given)
    if not is_in_memory(source) or isinstance(table := read_frame_field(source), DaskTable):
        fix = f"name the column: {argument}={str(getattr(given, 'name', None) or 'y')!r}"
        raise ConfigError(f"expected the name of a column of the source; got {what}", where=argument, fix=fix)
    given = given.copy() if hasattr(given, "copy") else given  # the caller may modify it before it is read
    index: Any = getattr(given, "index", None)
    rows: Any = getattr(source, "index", None)
    if hasattr(index, "equals") and hasattr(rows, "equals") and not index.equals(rows) and set(index) == set(rows):
        fix = f"align it: {argument}.loc[frame.index]"
        raise ConfigError("the index of the values has another order than that of the frame", where=argument, fix=fix)
    if hasattr(given, "columns"):
        values = frame_to_arrow(given)
    elif getattr(given, "ndim", 1) == 1:
        name = getattr(given, "name", None)
        values = frame_to_arrow({argument if name in (None, "") else name: given})
    else:
        raise ConfigError(f"expected one column; got an array of {given.ndim} dimensions", where=argument)
    arrow = table.table
    if values.num_rows != arrow.num_rows:
        what = f"expected {arrow.num_rows:,} values, one for each row of the source; got {values.num_rows:,}"
        raise ConfigError(what, where=argument, fix="take them from the same frame, after all filters")
    for name, column in zip(values.column_names, values.columns, strict=True):
        at = arrow.schema.get_field_index(name)
        arrow = arrow.append_column(name, column) if at < 0 else arrow.set_column(at, name, column)
    names = values.column_names
    return InMemoryTable(table.label, arrow), names[0] if len(names) == 1 else names


def name_split_columns(split: Any, source: Any) -> Any:
    """Return the section ``split`` with the names of its columns as texts."""
    if not isinstance(split, Mapping):
        return split
    return {key: name_columns(value, source) if key in ("group", "time") else value for key, value in split.items()}


def name_columns(given: Any, source: Any) -> Any:
    """Return column names as texts: pandas also allows numbers and, with several levels, tuples as names.

    >>> name_columns([3, "age"], None)
    ['3', 'age']
    """
    if isinstance(given, tuple) and hasattr(source, "iloc") and given in list(source.columns):
        return str(given)
    if isinstance(given, Mapping):
        return {name_columns(name, source): value for name, value in given.items()}
    if isinstance(given, list | tuple):
        return [name_columns(name, source) for name in given]
    given = given.item() if hasattr(given, "item") and getattr(given, "ndim", 1) == 0 else given  # a number of NumPy
    return str(given) if isinstance(given, int | float) and not isinstance(given, bool) else given


def with_data(config: Config, data: Any = None, tables: Any = None) -> Config:
    """Return `config` with other rows to read.

    Reader options, columns, filters, keys and the target are kept. The file format is that of the new files if their
    suffix identifies it. Raise ConfigError if one has an invalid type, or the configuration has no such table.

    - `data`: replacement of the source
    - `tables`: replacements of further tables, by name
    """
    update: dict[str, Any] = {} if data is None else {"source": _reading(config.source, data, "data")}
    if tables is not None:
        if not isinstance(tables, Mapping):
            fix = 'name each table: tables={"orders": frame}'
            raise ConfigError(
                f"expected a dict of tables; got {describe_python_value(tables)}", where="tables", fix=fix
            )
        for name in tables:
            if name not in config.tables:
                known = f"expected one of {', '.join(config.tables)}" if config.tables else "it has no further tables"
                fix = did_you_mean(str(name), config.tables) or known
                raise ConfigError(f"the pipeline has no table {name!r}", where="tables", fix=fix)
        changed = {name: _reading(config.tables[name], given, f"tables.{name}") for name, given in tables.items()}
        update["tables"] = {**config.tables, **changed}
    return config.model_copy(update=update) if update else config


def with_client(config: Config) -> Config:
    """Return `config` with Dask's current client if its source is a Dask DataFrame, and no cluster is configured.

    Raise ConfigError if no client is given or current, or rows that stay on workers cannot be used as configured.
    """
    frame = config.source.frame
    if not isinstance(frame, DaskTable):
        return config
    needing_all = [op.title() for op in derived_ops(config.features)]
    needing_all += [f"tables.{name}" for name, table in config.tables.items() if isinstance(table.frame, DaskTable)]
    if needing_all:
        raise frame.refusal(f"{', '.join(needing_all)} needs all rows in one process")
    if config.cluster.scheduler is not None:
        return config
    from gpupipe.dask.connect import current_client

    try:
        cluster = config.cluster.with_client(current_client())
    except ValueError as error:
        raise ConfigError(str(error), where="cluster") from None
    return config.model_copy(update={"cluster": cluster})


def _reading(source: Table, data: Any, name: str) -> Table:
    """Return `source` with `data` as its rows."""
    if not isinstance(data, Mapping):  # here a dict is a dict of columns
        _require_data(data, name)
    fields: dict[str, Any] = dict.fromkeys((*ORIGINS, *ORIGIN_OF))
    if is_in_memory(data) or isinstance(data, Mapping):
        fields["frame"] = in_memory_table(data)
        names = fields["frame"].column_names  # columns to drop may be missing
        gone = frozenset(unmatched((item for item in source.drop if item not in SELECTORS), names))
        fields["drop"] = tuple(item for item in source.drop if item not in gone)
    else:
        given = [data] if isinstance(data, str | os.PathLike) else data
        paths = tuple(map(os.fspath, given))
        fields["path"] = paths[0] if len(paths) == 1 else paths
        if any(map(format_of, paths)):
            fields["format"] = "auto"
    return source.model_copy(update=fields)


def _require_data(data: object, name: str) -> Any:
    """Return `data` if it is a frame, a path or a list of paths; raise ConfigError if not."""
    is_list = isinstance(data, list | tuple)
    paths: Sequence[Any] = data if isinstance(data, list | tuple) else [data]
    if is_in_memory(data) or (paths and all(isinstance(path, str | os.PathLike) and os.fspath(path) for path in paths)):
        return data
    odd = next((path for path in paths if not isinstance(path, str | os.PathLike)), data) if is_list else data
    fix = 'pass a file name such as "customers.parquet", or a frame such as pandas.DataFrame(rows)'
    got = (
        f"a list that contains {describe_python_value(odd)}"
        if is_list and odd is not data
        else describe_python_value(data)
    )
    raise ConfigError(f"expected {SOURCE}; got {got}", where=name, fix=fix)


def require_choice(name: str, value: object, known: Sequence[str]) -> None:
    """Raise ConfigError unless `value` is one of the `known` texts."""
    if not isinstance(value, str) or value not in known:
        hint = did_you_mean(value, known) if isinstance(value, str) else ""
        expected = ", ".join(map(repr, known))
        raise ConfigError(f"expected one of {expected}; got {describe_python_value(value)}", where=name, fix=hint)


def require_count(name: str, value: object) -> None:
    """Raise ConfigError unless `value` is a whole number of at least 1."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ConfigError(f"expected a whole number of at least 1; got {describe_python_value(value)}", where=name)


def require_place(name: str, value: object) -> None:
    """Raise ConfigError unless `value` is a non-empty path."""
    if not isinstance(value, str | os.PathLike) or not os.fspath(value):
        raise ConfigError(f"expected a path; got {describe_python_value(value)}", where=name)


def with_device(overrides: Sequence[str], device: object) -> Sequence[str]:
    """Return `overrides` with the device as the last one; the loader checks their type."""
    if device is None:
        return overrides
    require_choice("device", device, get_args(Device))
    return [*overrides, f"device={device}"] if isinstance(overrides, list | tuple) else overrides


class WarningListener:
    """Listener that issues each warning of a run once, as a `RunWarning` at the line of the user.

    `config`: its notation, YAML or Python, is that of the advice.
    """

    def __init__(self, config: Config) -> None:
        self._config, self._issued = config, set[str]()

    def started(self, stage: Stage) -> None:
        """Do nothing."""

    def ended(self, stage: Stage) -> None:
        """Do nothing."""

    def noted(self, note: Note) -> None:
        """Issue a warning; infos are only in `gpupipe.Run.notes`."""
        if note.level != "info":
            self.warn(note.text)

    def warn(self, text: str) -> None:
        """Issue a warning, unless an earlier fold or view had the same."""
        if text not in self._issued:
            self._issued.add(text)
            warn_user(in_python(text, self._config))


def in_python(advice: str, config: Config | None = None) -> str:
    """Return advice in Python's notation; YAML stays if `config` was read from a file, which is then to change."""
    advice = cli_to_python(advice)
    return yaml_to_python(advice) if config is not None and config.origin.path is None else advice


@contextmanager
def python_notation() -> Iterator[None]:
    """Translate the advice of errors raised in the ``with`` block from YAML to Python."""
    try:
        yield
    except GpupipeError as error:
        error.fix = yaml_to_python(error.fix)
        raise


@contextmanager
def python_errors(config: Config | None = None) -> Iterator[None]:
    """Translate the advice of errors raised in the ``with`` block with `in_python`, and hide secrets of `config`."""
    with redact_output(Redactor() if config is None else config.origin.redactor):
        try:
            yield
        except GpupipeError as error:
            error.fix = in_python(error.fix, config)
            raise
