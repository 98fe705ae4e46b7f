"""ONNX as a tree of protobuf wire fields: a list of [number, kind, value], with messages as nested lists."""

from __future__ import annotations

import struct
from typing import Any

VARINT = "varint"
FIXED64 = "fixed64"
BYTES = "bytes"
FIXED32 = "fixed32"
MESSAGE = "message"
_KINDS = {0: VARINT, 1: FIXED64, 2: BYTES, 5: FIXED32}
_NUMBERS: dict[object, int] = {FIXED64: 1, FIXED32: 5}

# Fields that are messages, and their message types, from onnx.proto.
MESSAGES: dict[str, dict[int, str]] = {
    "model": {7: "graph", 8: "opset", 14: "entry", 25: "function"},
    "graph": {1: "node", 5: "tensor", 11: "value", 12: "value", 13: "value", 15: "sparse"},
    "node": {5: "attribute"},
    "attribute": {5: "tensor", 6: "graph", 10: "tensor", 11: "graph", 22: "sparse", 23: "sparse"},
    "tensor": {13: "entry"},
    "value": {2: "type"},
    "type": {1: "tensor type"},
    "tensor type": {2: "shape"},
    "shape": {1: "dimension"},
}


def read_onnx(content: bytes, message: str = "model") -> Any:
    """Return the fields of a message."""
    fields = []
    at = 0
    inner = MESSAGES.get(message, {})
    while at < len(content):
        tag, at = _varint(content, at)
        number, kind = tag >> 3, _KINDS[tag & 7]
        value: Any
        if kind == VARINT:
            value, at = _varint(content, at)
            value -= (value >> 63) << 64  # as int64
        else:
            length, at = _varint(content, at) if kind == BYTES else (8 if kind == FIXED64 else 4, at)
            value = content[at : at + length]
            at += length
        if kind == BYTES and number in inner:
            kind, value = MESSAGE, read_onnx(value, inner[number])
        elif kind == BYTES:
            value = _text(value)
        fields.append([number, kind, value])
    return fields


def write_onnx(fields: Any) -> bytes:
    """Return the bytes of a message; invalid fields are dropped, and a wrong kind is replaced by that of the value."""
    out = bytearray()
    for field in fields:
        if isinstance(field, list) and len(field) == 3 and type(field[0]) is int:
            out += _field(field[0] % 2**29, field[1], field[2])
    return bytes(out)


def _field(number: int, kind: object, value: Any) -> bytes:
    if isinstance(value, int):
        return _varint_bytes(number << 3) + _varint_bytes(value % 2**64)
    if isinstance(value, float):
        return _varint_bytes((number << 3) | 1) + struct.pack("<d", value)
    if kind in (FIXED32, FIXED64) and isinstance(value, bytes):
        length = 4 if kind == FIXED32 else 8
        return _varint_bytes((number << 3) | _NUMBERS[kind]) + value[:length].ljust(length, b"\0")
    if isinstance(value, list):
        content = write_onnx(value)
    else:
        content = value if isinstance(value, bytes) else str(value).encode("utf-8", "surrogatepass")
    return _varint_bytes((number << 3) | 2) + _varint_bytes(len(content)) + content


def _text(value: bytes) -> str | bytes:
    """Return bytes as a string if they are readable text, such as a name."""
    try:
        text = value.decode("ascii")
    except UnicodeDecodeError:
        return value
    return text if text.isprintable() else value


def _varint(content: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        value |= (content[at] & 127) << shift
        shift, at = shift + 7, at + 1
        if content[at - 1] < 128:
            return value, at


def _varint_bytes(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append((value & 127) | 128)
        value >>= 7
    out.append(value)
    return bytes(out)
