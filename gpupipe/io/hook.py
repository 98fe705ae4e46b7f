"""Prepare hook, ``prepare: "file.py:function"``: a user's function from DataFrame to DataFrame."""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from gpupipe.errors import ConfigError, DataError, did_you_mean
from gpupipe.io.files import SourceFile
from gpupipe.references import split_reference
from gpupipe.system_errors import memory_shortage

if TYPE_CHECKING:
    import pandas as pd

FIX = "write a function that takes a pandas.DataFrame and returns one"


def hook_file(reference: str) -> SourceFile:
    """Return the file of ``"file.py:function"`` with its identity: a modified hook counts as a modified input.

    Raise ConfigError if the file does not exist.
    """
    path = split_reference(reference)[0].expanduser().absolute()
    if not os.path.isfile(path):  # Path.is_file raises an error if the name is too long
        raise ConfigError(
            "prepare: no such file", where=str(path), fix="check the path, which is relative to the configuration"
        )
    return SourceFile.local(str(path), path.stat(), "python")


def run_hook(table: pa.Table, reference: str) -> pa.Table:
    """Return the result of the user's function for `table`.

    The function gets plain columns: text as ``str``, integers with nulls as ``Int64``, times as ``datetime64[us]``.
    Raise ConfigError if the file or the function does not exist; DataError if the function raises an error, whose file
    and line are in the message, or does not return a DataFrame.
    """
    import pandas as pd

    path = hook_file(reference).path
    name = split_reference(reference)[1]
    function = _load(path, name)
    try:
        result = function(to_pandas(table))
    except Exception as error:  # a user's function may raise anything
        if (short := memory_shortage(error)) is not None:
            short.place(_place(error, path))
            raise short from error
        raise DataError(
            f"prepare: {name} failed: {type(error).__name__}: {error}",
            where=_place(error, path),
            fix="fix the function",
        ) from error
    if not isinstance(result, pd.DataFrame):
        what = f"prepare: expected a pandas.DataFrame from {name}, got {type(result).__name__}"
        raise DataError(what, where=path, fix=FIX)
    return _to_arrow(result, path)


def to_pandas(table: pa.Table) -> pd.DataFrame:
    """Return a DataFrame of plain columns: no categoricals, nullable integers only for columns with nulls."""
    import pandas as pd

    columns = {}
    for name, column in zip(table.column_names, table.columns, strict=True):
        if pa.types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        nullable = pa.types.is_integer(column.type) and column.null_count
        columns[name] = (
            column.cast(pa.int64()).to_pandas(types_mapper=lambda kind: pd.Int64Dtype())
            if nullable
            else column.to_pandas()
        )
    return pd.DataFrame(columns)


def _load(path: str, name: str) -> Callable[[pd.DataFrame], Any]:
    module = ModuleType("gpupipe_prepare_hook")
    module.__file__ = path
    try:  # an import would rely on the file's modification time and write byte code next to it
        exec(compile(Path(path).read_bytes(), path, "exec"), vars(module))
    except Exception as error:  # a user's module may raise anything
        raise ConfigError(
            f"prepare: cannot be imported: {type(error).__name__}: {error}", where=_place(error, path), fix=FIX
        ) from error
    function = getattr(module, name, None)
    if not callable(function):
        hint = did_you_mean(name, [key for key, value in vars(module).items() if callable(value)])
        raise ConfigError(f"prepare: no such function: {name!r}", where=path, fix=hint or FIX)
    return function  # type: ignore[no-any-return]


def _place(error: Exception, path: str) -> str:
    """Return the path with the innermost line of the traceback that is in the user's file."""
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == path]
    return f"{path}:{lines[-1]}" if lines else path


def _to_arrow(frame: pd.DataFrame, path: str) -> pa.Table:
    if not all(isinstance(name, str) for name in frame.columns) or not frame.columns.is_unique:
        raise DataError("prepare: column names must be unique strings", where=path, fix="rename the columns")
    try:
        return pa.Table.from_pandas(frame, preserve_index=False).replace_schema_metadata(None)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as error:
        raise DataError(
            f"prepare: returned a column of mixed types: {error.args[0]}",
            where=path,
            fix="convert each column to one type",
        ) from None
