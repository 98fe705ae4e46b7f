"""Messages to and from the child process of an untrusted model: a JSON object, followed by raw buffers.

Rows are sent to the child as Arrow IPC. Replies contain JSON and plain little-endian arrays only, and every length is
checked here: a malicious model may control the child, and could crash a native parser of its replies.
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
MOST_JSON = 64 * MIB  # more than the description of 100,000 columns takes


def pack(document: Mapping[str, Any], parts: Sequence[Any] = ()) -> bytes:
    """Return a message with a JSON object and buffers."""
    sizes = [memoryview(part).nbytes for part in parts]
    head = json.dumps({**document, "parts": sizes}, allow_nan=False).encode()
    return b"".join([LENGTH.pack(len(head)), head, *parts])


def unpack(message: bytes) -> tuple[dict[str, Any], list[memoryview]]:
    """Return the JSON object and the buffers of a message. Raise ValueError if the message is malformed."""
    if len(message) < LENGTH.size:
        raise ValueError(f"expected a message of at least {LENGTH.size} bytes; found {len(message)}")
    (length,) = LENGTH.unpack_from(message)
    end = LENGTH.size + length
    if length > min(MOST_JSON, len(message) - LENGTH.size):
        raise ValueError(f"a message of {len(message):,} bytes declares {length:,} bytes of JSON")
    document = parse_json(message[LENGTH.size : end])
    if not isinstance(document, dict):
        raise ValueError("expected a JSON object")
    sizes = document.pop("parts", None)
    if not isinstance(sizes, list) or any(type(size) is not int or size < 0 for size in sizes):
        raise ValueError("parts: expected the sizes of the buffers")
    if sum(sizes) != len(message) - end:
        raise ValueError(f"expected {sum(sizes):,} bytes of buffers; found {len(message) - end:,}")
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

    `described` is its JSON description in the message. `dtypes` are the allowed ones, such as ``"<f8"``. None in
    `shape` allows any length of that dimension. Raise ValueError if the description is malformed, or contradicts
    `part`, `dtypes` or `shape`.
    """
    if not isinstance(described, dict) or set(described) != {"name", "dtype", "shape", "order"}:
        raise ValueError("array: expected the keys name, dtype, shape, order")
    name, dtype, found, order = (described[key] for key in ("name", "dtype", "shape", "order"))
    if dtype not in tuple(dtypes) or order not in ("C", "F"):
        raise ValueError(f"array {name!r:.40} has the invalid dtype {dtype!r:.40} or order {order!r:.40}")
    if not isinstance(found, list) or any(type(n) is not int or n < 0 for n in found) or len(found) != len(shape):
        raise ValueError(f"array {name!r:.40} has the invalid shape {found!r:.80}")
    if any(length is not None and length != n for n, length in zip(found, shape, strict=True)):
        raise ValueError(f"array {name!r:.40}: expected shape {list(shape)}; found {found!r:.80}")
    if math.prod(found) * np.dtype(dtype).itemsize != part.nbytes:
        raise ValueError(f"array {name!r:.40} of {dtype} and shape {found!r:.80} has {part.nbytes:,} bytes")
    return np.frombuffer(part, dtype).reshape(found, order=order).astype(np.dtype(dtype).newbyteorder("="), order="K")


def pack_table(table: pa.Table) -> pa.Buffer:
    """Return a table as an Arrow IPC stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


def unpack_table(part: memoryview) -> pa.Table:
    """Return the table of a trusted Arrow IPC stream."""
    with pa.ipc.open_stream(pa.py_buffer(part)) as reader:
        return reader.read_all()
