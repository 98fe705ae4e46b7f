"""Thrift's compact protocol, as far as the footer and the pages of a Parquet file need it."""

from __future__ import annotations

from typing import Any

MOST_DEPTH = 16
TRUE, FALSE, BYTE, INTEGERS, DOUBLE, BINARY, LISTS, STRUCT = 1, 2, 3, (4, 5, 6), 7, 8, (9, 10), 12
LONG_LIST = 15  # of a list whose length follows


class ThriftReader:
    """Reads structs from bytes; what runs over their end is an IndexError, what is unknown a ValueError."""

    def __init__(self, data: bytes, at: int = 0) -> None:
        self.data, self.at = data, at

    def struct(self, depth: int = 0) -> dict[int, Any]:
        """Return the next struct: integers, structs and lists by the number of their field; texts are None."""
        if depth > MOST_DEPTH:
            raise ValueError("structs are nested too deeply")
        found: dict[int, Any] = {}
        field = 0
        while header := self._byte():
            field = field + (header >> 4) if header >> 4 else self._zigzag()
            kind = header & 15
            found[field] = kind == TRUE if kind in (TRUE, FALSE) else self._value(kind, depth)
        return found

    def _value(self, kind: int, depth: int) -> Any:
        if kind in INTEGERS:
            return self._zigzag()
        if kind in (TRUE, FALSE, BYTE):
            return self._byte()
        if kind == STRUCT:
            return self.struct(depth + 1)
        if kind in LISTS:
            return self._list(depth)
        if kind not in (DOUBLE, BINARY):
            raise ValueError(f"a value of the unknown type {kind}")
        length = 8 if kind == DOUBLE else self._varint()
        self.at += length
        return None

    def _list(self, depth: int) -> list[Any]:
        header = self._byte()
        length = header >> 4 if header >> 4 < LONG_LIST else self._varint()
        if length > len(self.data) - self.at:  # each item takes a byte at least
            raise ValueError(f"a list of {length:,} where {len(self.data) - self.at:,} bytes are left")
        return [self._value(header & 15, depth + 1) for _ in range(length)]

    def _byte(self) -> int:
        self.at += 1
        return self.data[self.at - 1]

    def _varint(self) -> int:
        value = shift = 0
        while shift < 70:
            byte = self._byte()
            value |= (byte & 127) << shift
            if byte < 128:
                return value
            shift += 7
        raise ValueError("a number without an end")

    def _zigzag(self) -> int:
        value = self._varint()
        return (value >> 1) ^ -(value & 1)
