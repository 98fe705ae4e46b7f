"""Structural check of JSON lines on a device, which rejects lines that its reader would misread.

A plain line is one object whose values are strings, numbers, booleans and nulls. Every byte is checked on the device:
strings by the parity of quotes, other tokens by a table of allowed successors. The syntax of values is not checked
here: see `gpupipe.io.device.jsonl.reader`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpupipe.backends.base import Backend
from gpupipe.io.device.obstacles import UnsupportedOnDevice
from gpupipe.typing import Array
from gpupipe.units import GIB

FIX = "write one flat object per line; the host reader reads the lines, or reports which one is invalid"
QUOTE, BACKSLASH, BLANK_CODE = b'"\\ '
# Kinds of bytes outside strings. From TEXT on, each byte is a token; adjacent WORD bytes form one token.
BLANK, WORD, TEXT, OPEN, CLOSE, COLON, COMMA, END, NESTED = range(9)
KINDS = np.full(256, WORD, np.uint8)
KINDS[list(b" \t\r")] = BLANK
KINDS[list(b'"{}:,\n[]')] = [TEXT, OPEN, CLOSE, COLON, COMMA, END, NESTED, NESTED]
FOLLOWS = np.zeros((9, 9), bool)  # allowed pairs of a token and its successor
FOLLOWS[
    [END, END, OPEN, OPEN, TEXT, TEXT, TEXT, COLON, COLON, WORD, WORD, COMMA, CLOSE],
    [OPEN, END, TEXT, CLOSE, COLON, COMMA, CLOSE, TEXT, WORD, COMMA, CLOSE, TEXT, END],
] = True
ESCAPES = np.frombuffer(b'"\\/bfnrtu', np.uint8)
HEX = np.full(256, -1, np.int32)
HEX[list(b"0123456789abcdef")] = range(16)
HEX[list(b"ABCDEF")] = range(10, 16)
MOST_BYTES = GIB  # libcudf, and CuPy for indexed writes, use 32-bit offsets
LONGEST_NAME = 1_000
WIDTH = 8  # bytes of a name compared at once


@dataclass(frozen=True)
class JsonLines:
    """Structure of a block of plain JSON lines.

    Attributes
    ----------
    names : tuple of str
        Keys of the objects, in the order of first appearance.
    n_rows : int
        Number of objects.
    n_values : int
        Number of non-null values.
    """

    names: tuple[str, ...]
    n_rows: int
    n_values: int


def plain_lines(content: bytes, backend: Backend) -> JsonLines:
    """Return the structure of whole lines, each of which ends in a line feed.

    Raises
    ------
    UnsupportedOnDevice
        If a line is not plain, or not valid JSON.
    """
    if len(content) > MOST_BYTES:
        what = f"a line has more than {MOST_BYTES:,} bytes"
        raise UnsupportedOnDevice(what, "source.path", "write the file as Parquet")
    try:
        content.decode()
    except UnicodeDecodeError:
        raise UnsupportedOnDevice("the text is not UTF-8", "source.path", FIX) from None
    xp = backend.xp
    raw = backend.to_device(np.frombuffer(content, np.uint8))
    escaped = _escaped(raw, backend)
    is_mark = raw == QUOTE
    is_mark[escaped] = False
    inside = (xp.cumsum(is_mark, dtype="uint8") & 1) == 1  # from the opening quote up to the closing one
    if bool((inside & (raw < BLANK_CODE)).any()):
        raise UnsupportedOnDevice("a string contains a line break or control character", "source.path", FIX)
    if not bool(inside[escaped].all()):
        raise UnsupportedOnDevice("a backslash is outside strings", "source.path", FIX)
    places = _tokens(raw, inside, backend)
    kinds = xp.asarray(KINDS)[raw[places]]
    is_name = _names_of(kinds, backend)
    opens, closes = places[kinds == TEXT], xp.flatnonzero(is_mark & ~inside)
    which = xp.flatnonzero(is_name[kinds == TEXT])
    rows = xp.cumsum(kinds == OPEN)[is_name]
    names = _named(content, raw, opens[which] + 1, closes[which], rows, escaped, backend)
    n_nulls = int((raw[places[kinds == WORD]] == ord("n")).sum())
    return JsonLines(names, int((kinds == OPEN).sum()), int((kinds == COLON).sum()) - n_nulls)


def _escaped(raw: Array, backend: Backend) -> Array:
    """Return the positions of escaped characters; raise UnsupportedOnDevice for escapes that JSON does not define."""
    xp = backend.xp
    slashes = xp.flatnonzero(raw == BACKSLASH)
    if not len(slashes):
        return slashes
    begins = xp.diff(slashes, prepend=xp.asarray([-2])) != 1
    first: Array = slashes[begins][xp.cumsum(begins) - 1]  # in a run of backslashes, every other one starts an escape
    places: Array = slashes[(slashes - first) % 2 == 0] + 1
    if not bool(xp.isin(raw[places], xp.asarray(ESCAPES)).all()):
        raise UnsupportedOnDevice("a string has an invalid escape", "source.path", FIX)
    _require_characters(raw, places[raw[places] == ord("u")], backend)
    return places


def _require_characters(raw: Array, places: Array, backend: Backend) -> None:
    r"""Check the four hexadecimal digits of ``\u`` escapes, after each of these positions."""
    xp = backend.xp
    digits = xp.asarray(HEX)[raw[xp.minimum(places[:, None] + xp.arange(1, 5), len(raw) - 1)]]
    codes = (digits * xp.asarray([4096, 256, 16, 1])).sum(axis=1)
    if bool((digits < 0).any()) or bool((codes == 0).any()):
        raise UnsupportedOnDevice("a \\u escape is invalid, or NUL", "source.path", FIX)
    high, low = places[codes >> 10 == 0b110110], places[codes >> 10 == 0b110111]
    if len(high) != len(low) or bool((high + len("u0000\\") != low).any()):
        raise UnsupportedOnDevice("a string has an unpaired surrogate", "source.path", FIX)


def _tokens(raw: Array, inside: Array, backend: Backend) -> Array:
    """Return the start positions of tokens."""
    xp = backend.xp
    kinds = xp.asarray(KINDS)[raw]
    is_word = (kinds == WORD) & ~inside
    begins = is_word & ~xp.concatenate([xp.zeros(1, "bool"), is_word[:-1]])
    opens = inside & ~xp.concatenate([xp.zeros(1, "bool"), inside[:-1]])
    return xp.flatnonzero(begins | opens | ((kinds > TEXT) & ~inside))


def _names_of(kinds: Array, backend: Backend) -> Array:
    """Return a mask of the tokens that are keys; raise UnsupportedOnDevice if a token is misplaced."""
    xp = backend.xp
    end = xp.full(1, END, "uint8")
    before, after = xp.concatenate([end, kinds[:-1]]), xp.concatenate([kinds[1:], end])
    if bool(((kinds == NESTED) | ((kinds == OPEN) & (before == COLON))).any()):
        raise UnsupportedOnDevice(
            "nested values are not supported on the GPU", "source.path", "remove them, or write them as strings"
        )
    is_name: Array = (kinds == TEXT) & ((before == OPEN) | (before == COMMA))
    is_wrong = ~xp.asarray(FOLLOWS)[before, kinds] | ((kinds == TEXT) & (is_name != (after == COLON)))
    if bool(is_wrong.any()):
        raise UnsupportedOnDevice("a line is not a flat object", "source.path", FIX)
    return is_name


def _named(
    content: bytes, raw: Array, starts: Array, ends: Array, rows: Array, escaped: Array, backend: Backend
) -> tuple[str, ...]:
    """Return the distinct keys between `starts` and `ends`, in order of first appearance; `rows` are their rows."""
    if not len(starts):
        return ()
    xp = backend.xp
    lengths = ends - starts
    has_escapes = len(escaped) and bool((escaped < ends[xp.searchsorted(starts, escaped, side="right") - 1]).any())
    if has_escapes or int(lengths.max()) > LONGEST_NAME or not int(lengths.min()):
        what = f"a key is empty, longer than {LONGEST_NAME:,} bytes, or has escapes"
        raise UnsupportedOnDevice(what, "source.path", "rename it")
    first, which = _distinct(raw, starts, lengths, backend)
    if len(xp.unique(rows * len(first) + which)) < len(which):
        raise UnsupportedOnDevice("a line has duplicate keys", "source.path", FIX)
    found = sorted(zip(*(backend.to_host(part[first]).tolist() for part in (starts, ends)), strict=True))
    return tuple(content[start:end].decode() for start, end in found)


def _distinct(raw: Array, starts: Array, lengths: Array, backend: Backend) -> tuple[Array, Array]:
    """Return the first index of each distinct name, and its distinct index for each name."""
    xp = backend.xp
    first, which = xp.zeros(1, "int64"), xp.zeros(len(starts), "int64")
    for begin in range(0, int(lengths.max()), WIDTH):
        word = xp.zeros(len(starts), "uint64")
        for i in range(begin, begin + WIDTH):  # names contain no NUL byte, so they can be padded with it
            word = word * 256 + raw[xp.minimum(starts + i, len(raw) - 1)] * (i < lengths)
        found, part = xp.unique(word, return_inverse=True)
        _, first, which = xp.unique(which * len(found) + part, return_index=True, return_inverse=True)
    return first, which
