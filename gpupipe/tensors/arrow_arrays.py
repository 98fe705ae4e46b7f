"""Numeric Arrow data as NumPy arrays: views of the same memory, or copies."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Literal

import numpy as np

from gpupipe.backends.cpu.memory import copy_of, empty
from gpupipe.tensors.handover_obstacles import ZeroCopyObstacle


def is_arrow(X: Any) -> bool:
    """Return whether `X` is a pyarrow array or table, without importing pyarrow for other objects."""
    if type(X).__module__.partition(".")[0] != "pyarrow":
        return False
    import pyarrow as pa

    return isinstance(X, pa.Array | pa.ChunkedArray | pa.Table | pa.RecordBatch | pa.Tensor)


def view(X: Any) -> np.ndarray:
    """View a pyarrow Array, ChunkedArray, Table, RecordBatch or Tensor as a NumPy array over its memory.

    A table becomes a matrix if its columns are evenly spaced in one buffer, as in a column-major matrix. The array is
    read-only if Arrow marks its buffer as immutable. Raise ZeroCopyObstacle if the data is not stored as one array of
    numbers; `ZeroCopyObstacle.copy_helps` tells whether a copy helps.
    """
    import pyarrow as pa

    if isinstance(X, pa.Tensor):
        return X.to_numpy()
    return _matrix([_chunk(column) for column in _columns(X)]) if _is_table(X) else _values(_chunk(X))


def copy(X: Any, order: Literal["C", "F"] | None = None) -> np.ndarray:
    """Copy the values to new memory, column-major for a table unless `order` is given; null becomes NaN."""
    import pyarrow as pa

    if isinstance(X, pa.Tensor):
        return copy_of(X.to_numpy(), order)
    columns = _columns(X) if _is_table(X) else [X]
    out = empty((len(X), len(columns)), _dtype(columns), order or "F")
    for column, into in zip(columns, out.T, strict=True):
        _fill(column, into)
    return out if _is_table(X) else out[:, 0]


def _is_table(X: Any) -> bool:
    return hasattr(X, "num_columns")


def _columns(X: Any) -> list[Any]:
    if X.num_columns == 0:
        raise ZeroCopyObstacle("has no columns", "pass at least one column")
    return list(X.columns)


def _chunk(column: Any) -> Any:
    if not hasattr(column, "num_chunks"):
        return column
    if column.num_chunks > 1:
        raise ZeroCopyObstacle(f"has {column.num_chunks} chunks")
    return column.combine_chunks() if column.num_chunks == 0 else column.chunk(0)


def _dtype(columns: Sequence[Any]) -> Any:
    """Return the one dtype of the columns."""
    kinds = list(dict.fromkeys(str(column.type) for column in columns))
    if len(kinds) > 1:
        raise ZeroCopyObstacle(
            f"has columns of different types: {', '.join(kinds)}", "convert them: table.cast(schema)"
        )
    import pyarrow as pa

    kind = columns[0].type
    if pa.types.is_dictionary(kind):
        raise ZeroCopyObstacle("is dictionary-encoded", "pass its codes: array.indices")
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):  # Arrow stores booleans as bits
        raise ZeroCopyObstacle(f"has the Arrow type {kind}, which tensors lack", "convert it: X.cast('float32')")
    return np.dtype(kind.to_pandas_dtype())


def _values(array: Any, nulls: bool = False) -> np.ndarray:
    """Return the numbers of an Array; with `nulls` allowed, the values at null positions are undefined."""
    dtype = _dtype([array])
    if array.null_count and not nulls:
        raise ZeroCopyObstacle(f"has {array.null_count} null{'s' * (array.null_count > 1)}", **_null_fix(dtype))
    from gpupipe.arrow_numpy import view_numbers

    return view_numbers(array)


def _null_fix(dtype: np.dtype[Any]) -> dict[str, str]:
    return {} if dtype.kind == "f" else {"fix": "integers have no NaN: fill them, X.fill_null(0), or cast them"}


def _fill(column: Any, into: np.ndarray) -> None:
    start = 0
    for chunk in getattr(column, "chunks", [column]):
        stop = start + len(chunk)
        floats = into.dtype.kind == "f"
        into[start:stop] = _values(chunk, nulls=floats)
        if floats and chunk.null_count:
            into[start:stop][chunk.is_null().to_numpy(zero_copy_only=False)] = np.nan
        start = stop


class _Memory:
    """Memory for ``numpy.asarray``; the array keeps this object, and so the owners of the memory, alive."""

    def __init__(self, interface: dict[str, Any], owners: Any) -> None:
        self.__array_interface__, self.owners = interface, owners


def _matrix(arrays: Sequence[Any]) -> np.ndarray:
    dtype, rows = _dtype(arrays), len(arrays[0])
    columns = [_values(array) for array in arrays]
    if rows == 0:
        return np.empty((0, len(arrays)), dtype, order="F")
    starts = [column.ctypes.data for column in columns]
    step = starts[1] - starts[0] if len(starts) > 1 else rows * dtype.itemsize
    evenly = all(after - before == step for before, after in pairwise(starts))
    if not evenly or step < rows * dtype.itemsize or not _without_holes(arrays):
        raise ZeroCopyObstacle("has columns that are not evenly spaced in one buffer")
    read_only = not all(column.flags.writeable for column in columns)
    interface = {
        "version": 3, "typestr": dtype.str, "shape": (rows, len(arrays)), "strides": (dtype.itemsize, step),
        "data": (starts[0], read_only),
    }  # fmt: skip
    return np.asarray(_Memory(interface, columns))


def _without_holes(arrays: Sequence[Any]) -> bool:
    """Return whether each column's buffer reaches the next one's.

    Saving a tensor reads it from its first byte to its last, so the bytes between the columns must belong to their
    buffers: other memory may not be readable.
    """
    buffers = [array.buffers()[1] for array in arrays]
    return all(a.address + a.size >= b.address for a, b in pairwise(buffers))
