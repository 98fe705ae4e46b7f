"""Guard against JSON lines that would crash Arrow's parser.

The parser aborts the process at a ``null`` instead of an object, and at values nested deeper than its stack. So the
bytes are checked before parsing: brackets outside strings, and the bytes between objects. Input for which this check
would be ambiguous (a string over several lines, an unmatched closing bracket) is not JSON and is rejected.
"""

from __future__ import annotations

import codecs
from typing import Any

import numpy as np

from gpupipe.errors import DataError
from gpupipe.io.file_streams import AdaptedStream
from gpupipe.io.files import SourceFile, mask
from gpupipe.typing import Array

MOST_DEEP = 100
# Braces; square brackets differ from them in bit 0x20
QUOTE = 34
BACKSLASH = 92
NEWLINE = 10
OPEN = 0x7B
CLOSE = 0x7D
IS_MARK = np.zeros(256, bool)
IS_MARK[[QUOTE, NEWLINE, OPEN, CLOSE, OPEN & ~0x20, CLOSE & ~0x20]] = True


class GuardedStream(AdaptedStream):
    """Stream of JSON lines that is checked while it is read."""

    def __init__(self, stream: Any, file: SourceFile) -> None:
        self._stream, self._file = stream, file
        self._decoder = codecs.getincrementaldecoder("utf-8")("strict")
        self._depth = 0
        self._in_text = False
        self._escapes = 0
        self._between = b""  # bytes since the last object

    def read(self, n_bytes: int) -> Any:
        """Return the next bytes, without a copy.

        Raise DataError if the bytes must not be parsed; UnicodeDecodeError if the bytes are not UTF-8, which the parser
        would accept.
        """
        found = self._stream.read_buffer(n_bytes)
        self._decoder.decode(found, not len(found))
        if len(found):
            self._check(np.frombuffer(found, np.uint8))
        return found

    def _check(self, block: Array) -> None:
        places = np.flatnonzero(IS_MARK[block])
        is_quote = block[places] == QUOTE
        is_quote[is_quote] = ~self._escaped(block, places[is_quote])
        kinds = block[places] | 0x20
        in_text = (np.cumsum(is_quote) - is_quote + self._in_text) % 2 == 1
        steps = np.where(in_text, 0, (kinds == OPEN).astype(np.int8) - (kinds == CLOSE))
        depths = self._depth + np.cumsum(steps)
        if (in_text & (block[places] == NEWLINE)).any() or depths.min(initial=0) < 0:
            raise self._refused("the lines are not valid JSON", "write one JSON object per line")
        if depths.max(initial=0) > MOST_DEEP:
            raise self._refused(f"values are nested deeper than {MOST_DEEP} levels", "remove the nested values")
        self._check_between(block, places, steps, depths)
        self._in_text = bool((is_quote.sum() + self._in_text) % 2)
        self._escapes = _run(block, len(block), self._escapes)
        self._depth = int(depths[-1]) if len(depths) else self._depth

    def _escaped(self, block: Array, quotes: Array) -> Array:
        """Return a mask of the quotes that follow an odd number of backslashes."""
        is_escaped = np.zeros(len(quotes), bool)
        candidates = np.flatnonzero((quotes == 0) | (block[quotes - 1] == BACKSLASH))
        for i in candidates.tolist():
            is_escaped[i] = _run(block, int(quotes[i]), self._escapes) % 2
        return is_escaped

    def _check_between(self, block: Array, places: Array, steps: Array, depths: Array) -> None:
        """Raise DataError for a null between objects, outside all brackets."""
        starts = places[(steps < 0) & (depths == 0)] + 1
        ends = places[(steps > 0) & (depths == 1)]
        if self._depth == 0:
            starts = np.concatenate([[0], starts])
        if (depths[-1] if len(depths) else self._depth) == 0:
            ends = np.concatenate([ends, [len(block)]])
        wide = np.flatnonzero(ends - starts >= len("null"))  # shorter gaps can contain it only across blocks
        for i in {0, len(starts) - 1, *wide.tolist()} if len(starts) else ():
            known = self._between if i == 0 else b""
            text = known + block[starts[i] : ends[i]].tobytes()
            if b"null" in text:
                raise self._refused("expected JSON objects, found null", "remove the line, or write {} instead")
            if i == len(starts) - 1:
                self._between = text[-3:] if ends[i] == len(block) else b""

    def _refused(self, what: str, fix: str) -> DataError:
        return DataError(what, where=mask(self._file.path), fix=fix)


def _run(block: Array, end: int, before: int) -> int:
    """Return the number of backslashes right before `end`; `before` is the number right before the block."""
    start = end
    while start and block[start - 1] == BACKSLASH:
        start -= 1
    return end - start + (before if start == 0 else 0)
