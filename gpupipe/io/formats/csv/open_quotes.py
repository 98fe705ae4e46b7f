"""Detection of CSV files that end inside quotes.

The parser reads everything after an unclosed quote as one value. To detect that, a line that cannot be a row is
appended to the file: if the parser does not report it, the file ended inside quotes.
"""

from __future__ import annotations

from typing import Any

from gpupipe.io.file_streams import AdaptedStream


class StreamWithLastLine(AdaptedStream):
    """A stream of UTF-8 text with one line appended.

    `line`: the appended line; its number of fields differs from that of the rows.
    """

    def __init__(self, stream: Any, delimiter: str, n_columns: int) -> None:
        mark = "\x1d" if delimiter == "\x1e" else "\x1e"
        self.line = mark if n_columns > 1 else mark + delimiter
        self._stream, self._rest = stream, f"\n{self.line}\n".encode()

    def read(self, n_bytes: int) -> Any:
        """Return the next bytes, without a copy."""
        found = self._stream.read_buffer(n_bytes)
        if len(found):
            return found
        found, self._rest = self._rest[:n_bytes], self._rest[n_bytes:]
        return found
