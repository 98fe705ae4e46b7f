"""Edits of bytes, as made by a bad disk, an interrupted transfer, an editor or an attacker."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from random import Random

_FIELD_END = re.compile(rb"[,;:\n}]")

Edit = Callable[[bytes, Random], bytes]

EXTREMES = (
    b"\x00", b"\xff", b"\x7f", b"\x80", b"\x00" * 4, b"\xff" * 4, b"\xff\xff\xff\x7f", b"\x00\x00\x00\x80", b"\xff" * 8,
    b"\xff" * 7 + b"\x7f", b"\x01" + b"\x00" * 7, b"\x00" * 8,
    b"\xff\xff\xff\xff\x0f", b"\x80\x80\x80\x80\x08", b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01",  # varints
)  # fmt: skip


def damaged(data: bytes, rng: Random, words: Sequence[bytes] = EXTREMES) -> bytes:
    """Return `data` with one edit; `words` are inserted, or overwrite existing bytes."""
    edits: list[Edit] = [
        flipped,
        flipped,
        flipped,
        overwritten,
        cut,
        cut_out,
        doubled,
        moved,
        lambda d, r: inserted(d, r, words),
        lambda d, r: inserted(d, r, words),
        lambda d, r: replaced(d, r, words),
        lambda d, r: replaced(d, r, words),
    ]
    return rng.choice(edits)(data, rng)


def flipped(data: bytes, rng: Random) -> bytes:
    """Flip one to eight bits of one byte."""
    if not data:
        return data
    at = place(data, rng)
    bits = rng.choice([1, 2, 4, 8, 16, 32, 64, 128, rng.randrange(1, 256)])
    return data[:at] + bytes([data[at] ^ bits]) + data[at + 1 :]


def overwritten(data: bytes, rng: Random) -> bytes:
    """Replace some bytes by random ones."""
    at, length = place(data, rng), rng.choice([1, 2, 4, 8, 64])
    return data[:at] + rng.randbytes(min(length, len(data) - at)) + data[at + length :]


def cut(data: bytes, rng: Random) -> bytes:
    """Drop the end or the beginning."""
    at = place(data, rng)
    return data[:at] if rng.random() < 0.8 else data[at:]


def cut_out(data: bytes, rng: Random) -> bytes:
    """Drop a range of bytes."""
    start, stop = _part(data, rng)
    return data[:start] + data[stop:]


def doubled(data: bytes, rng: Random) -> bytes:
    """Repeat a range of bytes, once or many times."""
    start, stop = _part(data, rng)
    times = rng.choice([2, 2, 2, 50]) if stop - start < 4096 else 2
    return data[:start] + data[start:stop] * times + data[stop:]


def moved(data: bytes, rng: Random) -> bytes:
    """Copy a range of bytes over another one."""
    start, stop = _part(data, rng)
    at = place(data, rng)
    return data[:at] + data[start:stop] + data[at + stop - start :]


def inserted(data: bytes, rng: Random, words: Sequence[bytes]) -> bytes:
    """Insert a word."""
    at = place(data, rng)
    return data[:at] + rng.choice(words) * rng.choice([1, 1, 1, 1, 3, 200]) + data[at:]


def replaced(data: bytes, rng: Random, words: Sequence[bytes]) -> bytes:
    """Overwrite bytes with a word."""
    at, word = place(data, rng), rng.choice(words)
    return data[:at] + word + data[at + len(word) :]


def with_another_field(data: bytes, rng: Random, words: Sequence[bytes]) -> bytes:
    """Replace the content of one field by a word; the number of fields stays the same."""
    at = place(data, rng)
    before, after = _FIELD_END.search(data[at::-1]), _FIELD_END.search(data, at)
    start = at - before.start() + 1 if before else 0
    return data[:start] + rng.choice(words) + data[after.start() if after else len(data) :]


def place(data: bytes, rng: Random) -> int:
    """Return a position in `data`; half of the time near an end, where headers and footers are."""
    if not data:
        return 0
    near = min(200, len(data))
    where = rng.random()
    if where < 0.2:
        return rng.randrange(near)
    if where < 0.5:
        return len(data) - 1 - rng.randrange(near)
    return rng.randrange(len(data))


def _part(data: bytes, rng: Random) -> tuple[int, int]:
    start = place(data, rng)
    return start, min(len(data), start + rng.choice([1, 2, 4, 8, 16, 100, 1000]))
