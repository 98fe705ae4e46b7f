"""Frames of any library as Arrow tables: pandas, polars, DuckDB, cuDF, or anything that exports an Arrow stream."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from gpupipe.errors import DataError
from gpupipe.table.encode import require_distinct

EXPECTED = "a pandas.DataFrame, a frame of polars, cuDF or DuckDB, a pyarrow.Table, or a dict of columns"


def is_frame(data: Any) -> bool:
    """Return whether `data` is a table that `frame_to_arrow` takes, judged by its type alone."""
    return (
        isinstance(data, pa.Table | pa.RecordBatch | pa.RecordBatchReader | Mapping)
        or _is_pandas(data)
        or _is_cudf(data)
        or hasattr(data, "__arrow_c_stream__")
        or hasattr(data, "collect_schema")
    )


def frame_to_arrow(data: Any) -> pa.Table:
    """Return a frame as an Arrow table with its own column names and row order.

    Parameters
    ----------
    data : pandas.DataFrame, polars.DataFrame or LazyFrame, cudf.DataFrame, DuckDB relation, pyarrow.Table,
        RecordBatch or RecordBatchReader, anything with ``__arrow_c_stream__`` (the Arrow PyCapsule protocol), or a
        mapping of column names to sequences of one length.

    Raises
    ------
    SchemaError
        If two columns share a name.
    DataError
        If `data` is none of these, or its columns cannot be converted (the first that cannot is named).

    Examples
    --------
    >>> frame_to_arrow({"plan": ["a", None], "age": [20, 31]}).column_names
    ['plan', 'age']
    """
    try:
        table = _converted(data)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as error:
        raise DataError(f"the {type(data).__name__} cannot become an Arrow table: {error}") from error
    require_distinct(table.column_names)
    return table


def _converted(data: Any) -> pa.Table:
    if isinstance(data, pa.Table):
        return data
    if isinstance(data, pa.RecordBatch):
        return pa.Table.from_batches([data])
    if isinstance(data, pa.RecordBatchReader):
        return data.read_all()
    if _is_pandas(data):
        named = data.rename(columns=str)
        require_distinct(list(named.columns))  # pyarrow renames duplicates silently
        return pa.Table.from_pandas(named, preserve_index=False)
    if _is_cudf(data):
        return data.to_arrow(preserve_index=False)
    if isinstance(data, Mapping):
        return pa.table({str(name): pa.array(values, from_pandas=True) for name, values in data.items()})
    if hasattr(data, "__arrow_c_stream__"):
        return pa.table(data)
    if hasattr(data, "collect_schema"):  # a polars.LazyFrame
        return pa.table(data.collect())
    raise DataError(f"expected {EXPECTED}; got {type(data).__name__}")


def _is_pandas(data: Any) -> bool:
    return type(data).__module__.partition(".")[0] == "pandas" and hasattr(data, "columns")


def _is_cudf(data: Any) -> bool:
    return type(data).__module__.partition(".")[0] == "cudf" and hasattr(data, "to_arrow")
