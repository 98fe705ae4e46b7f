"""Reader of Protocol Buffers fields without a schema, to search messages for forbidden content."""

from __future__ import annotations

from collections.abc import Iterator

VARINT = 0
FIXED64 = 1
BYTES = 2
FIXED32 = 5


def fields(data: memoryview) -> Iterator[tuple[int, memoryview | int]]:
    """Yield the number and value of each field: an integer for a varint, else the bytes.

    Raise ValueError if the message is malformed.
    """
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        kind, number = tag & 7, tag >> 3
        if kind == VARINT:
            value, at = _varint(data, at)
            yield number, value
            continue
        length = {FIXED64: 8, FIXED32: 4}.get(kind, -1)
        if kind == BYTES:
            length, at = _varint(data, at)
        if not 0 <= length <= len(data) - at:
            raise ValueError(f"field {number} of type {kind} exceeds its message")
        yield number, data[at : at + length]
        at += length


def varints(data: memoryview) -> list[int]:
    """Return the integers of a packed field.

    Raise ValueError if the field ends within an integer.
    """
    found, at = [], 0
    while at < len(data):
        value, at = _varint(data, at)
        found.append(value)
    return found


def _varint(data: memoryview, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(data):
            raise ValueError("the message ends within a varint")
        value |= (data[at] & 127) << shift
        at += 1
        if data[at - 1] < 128:
            return value, at
    raise ValueError("a varint exceeds 10 bytes")
