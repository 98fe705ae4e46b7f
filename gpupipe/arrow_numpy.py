"""Arrow arrays from and to NumPy without ``pyarrow.array``, ``pyarrow.scalar`` and ``to_numpy``, which import pandas.

That import takes 0.3 s and 40 MB, a third of the process of a small run that never sees pandas. What every run executes
converts its arrays here; tests/import_budget.py names the runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    import numpy.typing as npt


def number_array(values: npt.ArrayLike, is_null: npt.NDArray[np.bool_] | None = None) -> pa.Array:
    """Return an Arrow array of `values`, numbers or bools, shape (n,), without a copy of numbers; NaN stays NaN.

    Examples
    --------
    >>> number_array(np.array([1, 2, 3], "int8"), np.array([False, True, False])).to_pylist()
    [1, None, 3]
    """
    held = np.ascontiguousarray(values)
    validity = None if is_null is None else _bits(~is_null)
    data = _bits(held) if held.dtype == bool else pa.py_buffer(held)
    return pa.Array.from_buffers(pa.from_numpy_dtype(held.dtype), len(held), [validity, data])


def text_array(texts: Iterable[str | None], kind: pa.DataType | None = None) -> pa.Array:
    """Return an Arrow array of texts, of a string type; None is null.

    Examples
    --------
    >>> text_array(["a", None, "é"]).to_pylist()
    ['a', None, 'é']
    """
    known = list(texts)
    encoded = [b"" if text is None else text.encode() for text in known]
    ends = np.zeros(len(known) + 1, np.int64)
    np.cumsum(np.fromiter(map(len, encoded), np.int64, len(known)), out=ends[1:])
    is_known = np.array([text is not None for text in known], bool)
    buffers = [None if is_known.all() else _bits(is_known), pa.py_buffer(ends), pa.py_buffer(b"".join(encoded))]
    return pa.Array.from_buffers(pa.large_string(), len(known), buffers).cast(kind or pa.string())


def value_array(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """Return an Arrow array of bools, numbers, texts, or times in the units of `kind`, as `kind` says; None is null.

    Examples
    --------
    >>> value_array([True, None], pa.bool_()).to_pylist()
    [True, None]
    """
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return text_array(values, kind)
    dtype = np.int64 if pa.types.is_timestamp(kind) else np.dtype(kind.to_pandas_dtype())
    is_null = np.array([value is None for value in values], bool)
    return number_array(np.array([0 if value is None else value for value in values], dtype), is_null).cast(kind)


def scalar(value: bool | float | str | None, kind: pa.DataType) -> pa.Scalar:
    """Return a value as a scalar of an Arrow type.

    Examples
    --------
    >>> scalar(-1, pa.int32())
    <pyarrow.Int32Scalar: -1>
    """
    return pa.nulls(1, kind)[0] if value is None else value_array([value], kind)[0]


def to_numpy(values: pa.Array | pa.ChunkedArray) -> npt.NDArray[Any]:
    """Return what ``values.to_numpy(zero_copy_only=False)`` returns; numbers without null are a read-only view.

    Examples
    --------
    >>> to_numpy(number_array(np.array([1, 2], "int8"), np.array([False, True])))
    array([ 1., nan])
    """
    array: Any = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
    kind, types = array.type, pa.types
    n, start = len(array), array.offset
    is_bool = types.is_boolean(kind)
    if array.null_count if is_bool else not (types.is_integer(kind) or types.is_floating(kind)):
        return np.asarray(array.to_numpy(zero_copy_only=False))
    if is_bool:
        packed = np.frombuffer(array.buffers()[1] or b"", np.uint8)[start // 8 : (start + n + 7) // 8]
        return np.unpackbits(packed, bitorder="little")[start % 8 :][:n].view(bool)
    numbers = view_numbers(array)
    if not array.null_count:
        numbers.flags.writeable = False  # Arrow's memory may be shared
        return numbers
    found = numbers.astype(float) if numbers.dtype.kind in "iu" else numbers.copy()
    found[to_numpy(array.is_null())] = np.nan
    return found


def view_numbers(array: pa.Array) -> npt.NDArray[Any]:
    """Return the numbers of an array over its memory, shape (n,); those at null positions are undefined."""
    dtype = np.dtype(array.type.to_pandas_dtype())
    start = array.offset * dtype.itemsize
    return np.frombuffer(array.buffers()[1], dtype, len(array), start) if len(array) else np.empty(0, dtype)


def _bits(flags: npt.NDArray[np.bool_]) -> pa.Buffer:
    return pa.py_buffer(np.packbits(flags, bitorder="little"))
