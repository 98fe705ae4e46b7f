"""Universal Binary JSON as written by XGBoost. Typed arrays are NumPy views of the file's bytes, without a copy."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

NUMBERS = {"i": ">i1", "U": ">u1", "I": ">i2", "l": ">i4", "L": ">i8", "d": ">f4", "D": ">f8"}
_STRUCTS = {kind: struct.Struct(">" + letter) for kind, letter in zip("iUIlLdD", "bBhiqfd", strict=True)}
_LENGTH = _STRUCTS["L"]
_LETTERS = {dtype[1:]: letter.encode() for letter, dtype in NUMBERS.items()}
_WORDS = {"Z": None, "T": True, "F": False}
MOST_DEPTH = 16


def render(value: Any) -> bytearray:
    """Return the bytes of a document of dict, list, str, int, float (as float32) and arrays of `NUMBERS`."""
    out = bytearray()
    _write(value, out)
    return out


def _write(value: Any, out: bytearray) -> None:
    if isinstance(value, dict):
        out += b"{"
        for key, item in value.items():
            _write_text(key, out)
            _write(item, out)
        out += b"}"
    elif isinstance(value, list):
        out += b"[#L" + _LENGTH.pack(len(value))
        for item in value:
            _write(item, out)
    elif isinstance(value, str):
        out += b"S"
        _write_text(value, out)
    elif isinstance(value, int):
        out += b"L" + _LENGTH.pack(value)
    elif isinstance(value, float):
        out += b"d" + _STRUCTS["d"].pack(value)
    else:
        out += b"[$" + _LETTERS[value.dtype.newbyteorder(">").str[1:]] + b"#L" + _LENGTH.pack(len(value))
        out += memoryview(value).cast("B") if len(value) else b""


def _write_text(text: str, out: bytearray) -> None:
    encoded = text.encode()
    out += b"L" + _LENGTH.pack(len(encoded)) + encoded


class UbjsonReader:
    """Reader of one document: objects become dicts, arrays of numbers NumPy arrays, other arrays lists."""

    def __init__(self, data: Any) -> None:
        self.data, self.at = memoryview(data), 0

    def document(self) -> Any:
        """Return the document.

        Raise ValueError if it is malformed, truncated, nested too deeply, or declares more bytes than it has.
        """
        try:
            value = self._value(self._letter(), 0)
        except (IndexError, KeyError, struct.error, UnicodeDecodeError) as error:
            raise ValueError(f"malformed binary JSON at byte {self.at}: {error}") from None
        if self.at != len(self.data):
            raise ValueError(f"{len(self.data) - self.at:,} extra bytes after the document")
        return value

    def _value(self, kind: str, depth: int) -> Any:
        if depth > MOST_DEPTH:
            raise ValueError("nested too deeply")
        if kind == "{":
            return self._object(depth)
        if kind == "[":
            return self._array(depth)
        if kind == "S":
            return self._text()
        return _WORDS[kind] if kind in _WORDS else self._number(kind)

    def _object(self, depth: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        while self.data[self.at] != ord("}"):
            key = self._text()
            if key in found:
                raise ValueError(f"duplicate key {key[:40]!r}")
            found[key] = self._value(self._letter(), depth + 1)
        self.at += 1
        return found

    def _array(self, depth: int) -> Any:
        letter = self._letter()
        if letter == "$":
            kind = self._letter()
            if self._letter() != "#" or kind not in NUMBERS:
                raise ValueError(f"unsupported array type {kind!r}")
            return self._numbers(kind, self._length())
        if letter == "#":
            return [self._value(self._letter(), depth + 1) for _ in range(self._length())]
        values = []
        while letter != "]":
            values.append(self._value(letter, depth + 1))
            letter = self._letter()
        return values

    def _numbers(self, kind: str, count: int) -> np.ndarray[Any, Any]:
        import numpy as np

        dtype = np.dtype(NUMBERS[kind])
        if count * dtype.itemsize > len(self.data) - self.at:
            raise ValueError(f"an array declares {count:,} numbers, but {len(self.data) - self.at:,} bytes remain")
        values = np.frombuffer(self.data, dtype, count, self.at)
        self.at += values.nbytes
        return values

    def _text(self) -> str:
        length = self._length()
        self.at += length
        return str(self.data[self.at - length : self.at], "utf-8")

    def _length(self) -> int:
        length = self._number(self._letter())
        if not isinstance(length, int) or not 0 <= length <= len(self.data) - self.at:
            raise ValueError(f"a length of {length}, but {len(self.data) - self.at:,} bytes remain")
        return length

    def _number(self, kind: str) -> int | float:
        found = _STRUCTS[kind]
        self.at += found.size
        value: int | float = found.unpack_from(self.data, self.at - found.size)[0]
        return value

    def _letter(self) -> str:
        self.at += 1
        return chr(self.data[self.at - 1])
