"""Structure of JSON lines on a device: their names, and the lines that its reader would misread.

A plain line is one object, and its values are texts, numbers, booleans and nulls. That is proven of every byte, where
the backend computes: the marks of texts by their parity, the rest by what may follow what. How the values are written
is not looked at here: see `gpupipe.io.device.jsonl.reader`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpupipe.backends.base import Backend
from gpupipe.io.device.obstacles import UnsupportedOnDevice
from gpupipe.typing import Array
from gpupipe.units import GIB

FIX = "write one flat object a line; the host reader reads the lines, or says which one is wrong"
QUOTE, BACKSLASH, BLANK_CODE = b'"\\ '
# What a byte can be outside of texts; those from TEXT on are tokens by themselves, a word is one with its neighbours.
BLANK, WORD, TEXT, OPEN, CLOSE, COLON, COMMA, END, NESTED = range(9)
KINDS = np.full(256, WORD, np.uint8)
KINDS[list(b" \t\r")] = BLANK
KINDS[list(b'"{}:,\n[]')] = [TEXT, OPEN, CLOSE, COLON, COMMA, END, NESTED, NESTED]
FOLLOWS = np.zeros((9, 9), bool)  # token, and the one behind it
FOLLOWS[
    [END, END, OPEN, OPEN, TEXT, TEXT, TEXT, COLON, COLON, WORD, WORD, COMMA, CLOSE],
    [OPEN, END, TEXT, CLOSE, COLON, COMMA, CLOSE, TEXT, WORD, COMMA, CLOSE, TEXT, END],
] = True
ESCAPES = np.frombuffer(b'"\\/bfnrtu', np.uint8)
HEX = np.full(256, -1, np.int32)
HEX[list(b"0123456789abcdef")] = range(16)
HEX[list(b"ABCDEF")] = range(10, 16)
MOST_BYTES = GIB  # libcudf, and CuPy where it writes by places, count in 32 bits
LONGEST_NAME = 1_000
WIDTH = 8  # bytes of a name that are compared at once


@dataclass(frozen=True)
class JsonLines:
    """The structure of a block of plain JSON lines.

    Attributes
    ----------
    names : tuple of str
        In the order in which they first appear.
    n_rows : int
        Number of objects.
    n_values : int
        Number of values that are not null.
    """

    names: tuple[str, ...]
    n_rows: int
    n_values: int


def plain_lines(content: bytes, backend: Backend) -> JsonLines:
    """Return what whole lines hold, each of which ends in a line feed.

    Raises
    ------
    UnsupportedOnDevice
        If one is not plain, or no JSON.
    """
    if len(content) > MOST_BYTES:
        raise UnsupportedOnDevice("a line is very long", "source.path", "write the file as Parquet")
    try:
        content.decode()
    except UnicodeDecodeError:
        raise UnsupportedOnDevice("the text is not UTF-8", "source.path", FIX) from None
    xp = backend.xp
    raw = backend.to_device(np.frombuffer(content, np.uint8))
    escaped = _escaped(raw, backend)
    is_mark = raw == QUOTE
    is_mark[escaped] = False
    inside = (xp.cumsum(is_mark, dtype="uint8") & 1) == 1  # from a mark that opens up to the one that closes
    if bool((inside & (raw < BLANK_CODE)).any()):
        raise UnsupportedOnDevice("a text goes on in the next line, or has a control character", "source.path", FIX)
    if not bool(inside[escaped].all()):
        raise UnsupportedOnDevice("a backslash is outside of texts", "source.path", FIX)
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
    """Return the places behind backslashes that stand for something else; each is one that JSON knows."""
    xp = backend.xp
    slashes = xp.flatnonzero(raw == BACKSLASH)
    if not len(slashes):
        return slashes
    begins = xp.diff(slashes, prepend=xp.asarray([-2])) != 1
    first: Array = slashes[begins][xp.cumsum(begins) - 1]  # of a run of them every other one is meant
    places: Array = slashes[(slashes - first) % 2 == 0] + 1
    if not bool(xp.isin(raw[places], xp.asarray(ESCAPES)).all()):
        raise UnsupportedOnDevice("a backslash is before what needs none", "source.path", FIX)
    _require_characters(raw, places[raw[places] == ord("u")], backend)
    return places


def _require_characters(raw: Array, places: Array, backend: Backend) -> None:
    """Check what is written as a number: four digits behind each of these places."""
    xp = backend.xp
    digits = xp.asarray(HEX)[raw[xp.minimum(places[:, None] + xp.arange(1, 5), len(raw) - 1)]]
    codes = (digits * xp.asarray([4096, 256, 16, 1])).sum(axis=1)
    if bool((digits < 0).any()) or bool((codes == 0).any()):
        raise UnsupportedOnDevice("a character that is written as a number is none, or NUL", "source.path", FIX)
    high, low = places[codes >> 10 == 0b110110], places[codes >> 10 == 0b110111]
    if len(high) != len(low) or bool((high + len("u0000\\") != low).any()):
        raise UnsupportedOnDevice("a text has half of a surrogate pair", "source.path", FIX)


def _tokens(raw: Array, inside: Array, backend: Backend) -> Array:
    """Return where tokens begin."""
    xp = backend.xp
    kinds = xp.asarray(KINDS)[raw]
    is_word = (kinds == WORD) & ~inside
    begins = is_word & ~xp.concatenate([xp.zeros(1, "bool"), is_word[:-1]])
    opens = inside & ~xp.concatenate([xp.zeros(1, "bool"), inside[:-1]])
    return xp.flatnonzero(begins | opens | ((kinds > TEXT) & ~inside))


def _names_of(kinds: Array, backend: Backend) -> Array:
    """Return which tokens are names of values; each is where it may be."""
    xp = backend.xp
    end = xp.full(1, END, "uint8")
    before, after = xp.concatenate([end, kinds[:-1]]), xp.concatenate([kinds[1:], end])
    if bool(((kinds == NESTED) | ((kinds == OPEN) & (before == COLON))).any()):
        raise UnsupportedOnDevice(
            "a value is nested", "source.path", "leave lists and objects out, or write them as text"
        )
    is_name: Array = (kinds == TEXT) & ((before == OPEN) | (before == COMMA))
    is_wrong = ~xp.asarray(FOLLOWS)[before, kinds] | ((kinds == TEXT) & (is_name != (after == COLON)))
    if bool(is_wrong.any()):
        raise UnsupportedOnDevice("a line is no flat object", "source.path", FIX)
    return is_name


def _named(
    content: bytes, raw: Array, starts: Array, ends: Array, rows: Array, escaped: Array, backend: Backend
) -> tuple[str, ...]:
    """Return the names that are between places, in the order in which they first appear; `rows` is where each is."""
    if not len(starts):
        return ()
    xp = backend.xp
    lengths = ends - starts
    has_escapes = len(escaped) and bool((escaped < ends[xp.searchsorted(starts, escaped, side="right") - 1]).any())
    if has_escapes or int(lengths.max()) > LONGEST_NAME or not int(lengths.min()):
        raise UnsupportedOnDevice("a name is empty, very long, or has escapes", "source.path", "write it as letters")
    first, which = _distinct(raw, starts, lengths, backend)
    if len(xp.unique(rows * len(first) + which)) < len(which):
        raise UnsupportedOnDevice("a line has a name more than once", "source.path", FIX)
    found = sorted(zip(*(backend.to_host(part[first]).tolist() for part in (starts, ends)), strict=True))
    return tuple(content[start:end].decode() for start, end in found)


def _distinct(raw: Array, starts: Array, lengths: Array, backend: Backend) -> tuple[Array, Array]:
    """Return the first of each distinct name, and which of these each is: by some bytes of all of them at a time."""
    xp = backend.xp
    first, which = xp.zeros(1, "int64"), xp.zeros(len(starts), "int64")
    for begin in range(0, int(lengths.max()), WIDTH):
        word = xp.zeros(len(starts), "uint64")
        for i in range(begin, begin + WIDTH):  # no name has a byte 0, which stands behind its end
            word = word * 256 + raw[xp.minimum(starts + i, len(raw) - 1)] * (i < lengths)
        found, part = xp.unique(word, return_inverse=True)
        _, first, which = xp.unique(which * len(found) + part, return_index=True, return_inverse=True)
    return first, which
