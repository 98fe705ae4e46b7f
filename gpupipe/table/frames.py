"""Conversion of data frames of any library, and of rows as dicts or Series, to Arrow tables."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa

from gpupipe.errors import DataError, SchemaError
from gpupipe.table.encode import require, require_distinct
from gpupipe.table.exact_values import exact_array
from gpupipe.table.level_text import canonical_text
from gpupipe.table.list_columns import is_list
from gpupipe.table.temporal_objects import uniform_times, with_uniform_times

EXPECTED = "a pandas.DataFrame, a frame of polars, cuDF or DuckDB, a pyarrow.Table or Dataset, or a dict of columns"
EXPECTED_ROWS = (
    "a frame (pandas, polars, pyarrow, cuDF, DuckDB), a dict of columns, one row as a dict or a pandas.Series, "
    "a list of dicts, or a path"
)


def is_frame(data: Any) -> bool:
    """Return whether `frame_to_arrow` accepts the type of `data`."""
    return (
        isinstance(data, pa.Table | pa.RecordBatch | pa.RecordBatchReader)
        or _is_mapping(data)
        or is_pandas(data)
        or _is_cudf(data)
        or (hasattr(data, "__arrow_c_stream__") and not _is_series(data))
        or _is_lazy(data)
        or _is_a(data, "pyarrow", "Dataset")
        or _is_a(data, "datasets", "Dataset")
    )


def frame_to_arrow(data: Any) -> pa.Table:
    """Return a data frame as an Arrow table with the same column names and row order.

    `data` is a pandas.DataFrame, polars.DataFrame or LazyFrame, cudf.DataFrame, DuckDB relation, pyarrow.Table,
    RecordBatch, RecordBatchReader or Dataset, datasets.Dataset of Hugging Face, anything with ``__arrow_c_stream__``
    (the Arrow PyCapsule protocol), or a mapping of column names to sequences of one length.

    Raise SchemaError if two columns share a name, and DataError if `data` has another type, or a column cannot be
    converted; the message contains the first such column.

    Examples
    --------
    >>> frame_to_arrow({"plan": ["a", None], "age": [20, 31]}).column_names
    ['plan', 'age']
    """
    try:
        table = _converted(data)
    except (pa.ArrowException, OverflowError) as error:
        reason = "; ".join(map(str, error.args))
        raise DataError(f"cannot convert {type(data).__name__} to an Arrow table: {reason}") from error
    require_distinct(table.column_names)
    return table


def rows_to_arrow(
    data: Any, required: Sequence[str], optional: Sequence[str] = (), lists: Collection[str] = ()
) -> pa.Table:
    """Return the columns that a model reads as an Arrow table, from a data frame of any library or from rows.

    Other columns are ignored, whatever they contain; the `optional` ones may be absent. `data` is any frame that
    `frame_to_arrow` accepts, a mapping of column names to values (one row), a pandas.Series whose index contains the
    column names (one row), or a list of mappings (one per row). In a list, a column that is absent from a row is null
    there. The columns `lists` may have a list in each row.

    Raise SchemaError if a required column is absent, or a column occurs twice or contains lists or structs; DataError
    if `data` has another type, or a column cannot be converted; the message contains its name.

    Examples
    --------
    >>> rows_to_arrow([{"age": 20, "plan": "a"}, {"age": 31}], ["plan", "age"]).to_pydict()
    {'plan': ['a', None], 'age': [20, 31]}
    >>> rows_to_arrow({"age": 20, "plan": "a"}, ["age"]).to_pydict()
    {'age': [20]}
    """
    table = _read_rows(data, required, optional, lists)
    for field in table.schema:
        if pa.types.is_nested(field.type) and not (field.name in lists and is_list(field.type)):
            raise SchemaError(f"column {field.name!r} contains {field.type}: expected a single value per row")
    return table


def _read_rows(data: Any, required: Sequence[str], optional: Sequence[str], lists: Collection[str]) -> pa.Table:
    if _is_series(data):
        data = row_of_series(data)
    if _is_mapping(data):
        columns = {str(name): values for name, values in data.items()}
        read = {name: columns[name] for name in _wanted(list(columns), required, optional)}
        return frame_to_arrow(_as_columns(read, lists))
    if isinstance(data, list | tuple):
        return _of_rows(data, required, optional, lists)
    if is_pandas(data) or _is_cudf(data):
        names = [str(name) for name in data.columns]
        wanted = set(_wanted(names, required, optional))
        return frame_to_arrow(data.loc[:, [name in wanted for name in names]])
    if is_dask_frame(data):
        what = f"expected {EXPECTED_ROWS}; got a Dask DataFrame"
        fix = "predict, predict_proba, predict_table and transform of a model accept it; or pass data.compute()"
        raise DataError(what, fix=fix)
    if not is_frame(data):
        raise DataError(f"expected {EXPECTED_ROWS}; got {type(data).__name__}", fix=_way_out(data, required))
    if hasattr(
        data, "collect_schema"
    ):  # polars: object columns cannot be converted, even if the model does not read them
        return frame_to_arrow(data.select(_wanted(data.collect_schema().names(), required, optional)))
    if _is_a(data, "pyarrow", "Dataset"):
        return frame_to_arrow(data.to_table(columns=_wanted(data.schema.names, required, optional)))
    table = frame_to_arrow(data)
    return table.select(_wanted(table.column_names, required, optional))


def _wanted(found: list[str], required: Sequence[str], optional: Sequence[str]) -> list[str]:
    require(found, required, "the model needs")
    return [name for name in dict.fromkeys([*required, *optional]) if name in found]


def _of_rows(rows: Sequence[Any], required: Sequence[str], optional: Sequence[str], lists: Collection[str]) -> pa.Table:
    for at, row in enumerate(rows):
        if not isinstance(row, Mapping):
            raise DataError(f"expected a list of dicts, one per row; got {type(row).__name__} in row {at}")
    if not rows:
        return pa.table({name: pa.nulls(0) for name in required})
    names = [str(name) for name in dict.fromkeys(chain.from_iterable(rows))]
    columns = {name: [row.get(name) for row in rows] for name in _wanted(names, required, optional)}
    for name, values in columns.items():
        for at, value in enumerate(values):
            if name in lists:
                continue
            if _is_column(value):
                raise DataError(f"row {at}, column {name!r}: expected a single value; got a {type(value).__name__}")
            values[at] = _single(value)
    return frame_to_arrow(columns)


def _as_columns(values: Mapping[str, Any], lists: Collection[str]) -> Mapping[str, Any]:
    """Return columns unchanged, or single values as columns of one row; a column of `lists` is a list of lists."""
    given = {
        name: next(filter(_is_column, v), None) if name in lists and _is_column(v) else v for name, v in values.items()
    }
    columns = [name for name, value in given.items() if _is_column(value)]
    if len(columns) == len(values):
        return values
    if columns:
        single = next(name for name, value in given.items() if not _is_column(value))
        raise DataError(
            f"expected either single values or columns in the dict; got both ({single!r} and {columns[0]!r})",
            fix="pass a single value per column (one row), or a list per column (a table)",
        )
    return {name: [value if name in lists else _single(value)] for name, value in values.items()}


def _single(value: Any) -> Any:
    """Return one value in a form that Arrow accepts: intervals and periods become text."""
    if _is_a(value, "pandas", "Interval") or _is_a(value, "pandas", "Period"):
        return str(value)
    return value.item() if isinstance(value, np.ndarray) else value


def row_of_series(series: Any) -> dict[str, Any]:
    """Return a Series as one row, by its index; raise DataError if this has not the names of columns."""
    series = series.to_pandas() if _library(series) == "cudf" else series
    names = list(getattr(series, "index", ()))
    if not names or not all(isinstance(name, str) for name in names):
        what = f"a {_library(series)}.Series is read as one row, whose index must contain the column names"
        shown = f"; found {', '.join(map(repr, names[:3]))}" if names else "; found no index"
        raise DataError(what + shown, fix="pass a row of a frame (frame.iloc[0]) or a frame (series.to_frame())")
    if len(set(names)) < len(names):
        require_distinct(names)
    return dict(zip(names, series.to_list(), strict=True))


def _is_column(value: Any) -> bool:
    return hasattr(value, "__len__") and not isinstance(value, str | bytes | Mapping) and getattr(value, "ndim", 1) != 0


def _way_out(data: Any, required: Sequence[str]) -> str:
    if getattr(data, "ndim", 0) == 2:
        shown = ", ".join(map(repr, required[:3])) + (", …" if len(required) > 3 else "")
        return f"add column names: pandas.DataFrame(array, columns=[{shown}])"
    return "pass list(rows) if they are dicts" if hasattr(data, "__next__") else ""


def _converted(data: Any) -> pa.Table:
    if isinstance(data, pa.Table):
        return data
    if isinstance(data, pa.RecordBatch):
        return pa.Table.from_batches([data])
    if isinstance(data, pa.RecordBatchReader):
        return data.read_all()
    if is_pandas(data):
        named = with_uniform_times(data.rename(columns=str))
        require_distinct(list(named.columns))  # pyarrow renames duplicates silently
        return _pandas_table(named)
    if _is_cudf(data):
        return data.to_arrow(preserve_index=False)
    if _is_mapping(data):
        return pa.table({str(name): _array(str(name), values) for name, values in data.items()})
    if _is_series(data):
        raise DataError(f"expected {EXPECTED}; got a Series", fix="pass series.to_frame()")
    if hasattr(data, "__arrow_c_stream__"):
        return pa.table(_with_decimals(data))
    if _is_lazy(data):
        return pa.table(_with_decimals(data.collect()))
    if _is_a(data, "pyarrow", "Dataset"):
        return data.to_table()
    if _is_a(data, "datasets", "Dataset"):
        # `data` is the whole memory-mapped table; rows that were selected or shuffled are an index into it.
        return data.with_format("arrow")[:] if len(data) else pa.table(data.data.table).slice(0, 0)
    raise DataError(f"expected {EXPECTED}; got {type(data).__name__}")


def _pandas_table(frame: Any) -> pa.Table:
    """Return a pandas frame as an Arrow table, with integers of any size; sparse columns become dense."""
    sparse = [name for name, dtype in frame.dtypes.items() if hasattr(dtype, "fill_value")]
    frame = frame.assign(**{name: frame[name].sparse.to_dense() for name in sparse}) if sparse else frame
    try:
        return pa.Table.from_pandas(frame, preserve_index=False)
    except (pa.ArrowException, OverflowError, TypeError, ValueError):  # again, for an error that contains the name
        return pa.table({name: _array(name, column) for name, column in frame.items()})


def _with_decimals(frame: Any) -> Any:
    """Return a polars frame with 128-bit integers as decimals, which Arrow has; other frames unchanged."""
    wide = [name for name, kind in getattr(frame, "schema", {}).items() if str(kind) in ("Int128", "UInt128")]
    if not wide or _library(frame) != "polars":
        return frame
    import polars as pl

    return frame.with_columns(pl.col(wide).cast(pl.Decimal(38, 0)))


def _array(name: str, values: Iterable[Any]) -> Any:
    """Return a column of any library as an Arrow array; CuPy arrays are copied to the host."""
    if not _is_column(values):
        raise DataError(f"column {name!r}: expected a sequence of values; got {type(values).__name__}")
    try:
        if hasattr(values, "to_arrow"):  # a polars or cuDF Series
            return values.to_arrow()
        values = values.get() if hasattr(values, "__cuda_array_interface__") and hasattr(values, "get") else values
        values = uniform_times(values)
        try:
            return exact_array(values)
        except pa.ArrowInvalid:  # lists of intervals and periods
            return pa.array(list(map(_single, values)), from_pandas=True)
    except (pa.ArrowException, OverflowError, TypeError, ValueError) as error:
        if (texts := _texts_of_several_types(values)) is not None:
            return texts
        what = f"cannot convert column {name!r}{_dtype_of(values)} to an Arrow array: {error}"
        fix = f"convert it to one type, for example to text: frame[{name!r}].astype(str); or drop it"
        raise DataError(what, fix=fix) from error


def _dtype_of(values: Any) -> str:
    return f" of dtype {values.dtype}" if hasattr(values, "dtype") else ""


def _texts_of_several_types(values: Iterable[Any]) -> pa.Array | None:
    """Return texts, numbers, booleans and times as the texts of levels; None if there is any other value.

    So a value has one meaning, whatever the types of other rows are.
    """
    texts: list[str | None] = []
    if len({type(value) for value in values} - {type(None)}) < 2:
        return None
    for value in values:
        if hasattr(value, "to_pydatetime") and value == value:  # a time of pandas, with nanoseconds
            value = value.floor("us").to_pydatetime()
        text = value if value is None or isinstance(value, str) else canonical_text(value)
        if text is None and value is not None:
            return None
        texts.append(text or None)
    try:
        return pa.array(texts, pa.string())
    except UnicodeEncodeError:  # a lone surrogate
        return None


def is_dask_frame(data: Any) -> bool:
    """Return whether `data` is a ``dask.dataframe.DataFrame``, or its subclass of dask-cudf."""
    return _is_a(data, "dask", "DataFrame")


def is_pandas(data: Any) -> bool:
    """Return whether `data` is a ``pandas.DataFrame``."""
    return _is_a(data, "pandas", "DataFrame")


def _is_mapping(data: Any) -> bool:
    return isinstance(data, Mapping) and not hasattr(data, "shape")  # may be a SciPy sparse matrix of cells


def _is_cudf(data: Any) -> bool:
    return _is_a(data, "cudf", "DataFrame")


def _is_series(data: Any) -> bool:
    return any(_is_a(data, library, "Series") for library in ("pandas", "polars", "cudf"))


def _is_a(data: Any, library: str, name: str) -> bool:
    """Return whether `data` is an instance of a library's class, without importing the library."""
    return any(kind.__name__ == name and kind.__module__.split(".")[0] == library for kind in type(data).__mro__)


def _library(data: Any) -> str:
    return type(data).__module__.split(".")[0]


def _is_lazy(data: Any) -> bool:
    return hasattr(data, "collect_schema") and hasattr(data, "collect")  # a polars.LazyFrame
