"""Messages between a process and the child that holds an untrusted model: JSON, followed by raw buffers.

Rows go to the child as Arrow IPC. What comes back is JSON and plain little-endian arrays, whose every length is checked
here: a native parser of replies could be crashed by a child that a hostile model has taken over.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from gpupipe.artifact.untrusted.json_documents import parse_json
from gpupipe.typing import Array
from gpupipe.units import MIB

LENGTH = struct.Struct("<Q")  # bytes of the JSON document
MOST_JSON = 64 * MIB  # bytes: a description of 100,000 columns takes less


def pack(document: Mapping[str, Any], parts: Sequence[Any] = ()) -> bytes:
    """Return a message of a JSON object and buffers."""
    sizes = [memoryview(part).nbytes for part in parts]
    head = json.dumps({**document, "parts": sizes}, allow_nan=False).encode()
    return b"".join([LENGTH.pack(len(head)), head, *parts])


def unpack(message: bytes) -> tuple[dict[str, Any], list[memoryview]]:
    """Return the JSON object and the buffers of a message.

    Raises
    ------
    ValueError
        If the message is malformed.
    """
    if len(message) < LENGTH.size:
        raise ValueError(f"a message of {len(message)} bytes")
    (length,) = LENGTH.unpack_from(message)
    end = LENGTH.size + length
    if length > min(MOST_JSON, len(message) - LENGTH.size):
        raise ValueError(f"{length:,} bytes of JSON in a message of {len(message):,}")
    document = parse_json(message[LENGTH.size : end])
    if not isinstance(document, dict):
        raise ValueError("the message is not a JSON object")
    sizes = document.pop("parts", None)
    if not isinstance(sizes, list) or any(type(size) is not int or size < 0 for size in sizes):
        raise ValueError("the message does not state the sizes of its buffers")
    if sum(sizes) != len(message) - end:
        raise ValueError(f"{len(message) - end:,} bytes of buffers; expected {sum(sizes):,}")
    view, found = memoryview(message), []
    for size in sizes:
        found.append(view[end : end + size])
        end += size
    return document, found


def pack_arrays(arrays: Mapping[str, Array]) -> tuple[list[dict[str, Any]], list[Array]]:
    """Return the JSON description and the buffers of NumPy arrays; matrices keep their memory order."""
    described: list[dict[str, Any]] = []
    parts: list[Array] = []
    for name, array in arrays.items():
        order: Literal["C", "F"] = "F" if array.ndim > 1 and array.flags.f_contiguous else "C"
        array = np.asarray(array, array.dtype.newbyteorder("<"), order=order)
        described.append({"name": name, "dtype": array.dtype.str, "shape": list(array.shape), "order": order})
        parts.append(array.T if order == "F" else array)
    return described, parts


def unpack_array(described: Any, part: memoryview, dtypes: Iterable[str], shape: Sequence[int | None]) -> Array:
    """Return a writable array from an untrusted buffer.

    Parameters
    ----------
    described : Any
        What the message says of it.
    part : memoryview
    dtypes : iterable of str
        The dtypes that it may have, such as ``"<f8"``.
    shape : sequence of int, optional
        The shape that it must have; None: any length.

    Raises
    ------
    ValueError
        If it is anything else.
    """
    if not isinstance(described, dict) or set(described) != {"name", "dtype", "shape", "order"}:
        raise ValueError("an array without name, dtype, shape and order")
    name, dtype, found, order = (described[key] for key in ("name", "dtype", "shape", "order"))
    if dtype not in tuple(dtypes) or order not in ("C", "F"):
        raise ValueError(f"array {name!r:.40} has dtype {dtype!r:.40} and order {order!r:.40}")
    if not isinstance(found, list) or any(type(n) is not int or n < 0 for n in found) or len(found) != len(shape):
        raise ValueError(f"array {name!r:.40} has the shape {found!r:.80}")
    if any(length is not None and length != n for n, length in zip(found, shape, strict=True)):
        raise ValueError(f"array {name!r:.40} has the shape {found!r:.80}; expected {list(shape)}")
    if math.prod(found) * np.dtype(dtype).itemsize != part.nbytes:
        raise ValueError(f"array {name!r:.40} of shape {found!r:.80} has {part.nbytes:,} bytes")
    return np.frombuffer(part, dtype).reshape(found, order=order).astype(np.dtype(dtype).newbyteorder("="), order="K")


def pack_table(table: pa.Table) -> pa.Buffer:
    """Return a table as an Arrow IPC stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


def unpack_table(part: memoryview) -> pa.Table:
    """Return the table of an Arrow IPC stream, which must be trusted."""
    with pa.ipc.open_stream(pa.py_buffer(part)) as reader:
        return reader.read_all()
