"""Detection of CSV files that end inside quotes: the parser takes all that follows for one value.

So a line follows the last one that is no row, whatever the file holds: where the parser does not find it, the file
has ended within quotes.
"""

from __future__ import annotations

from typing import Any

from gpupipe.io.file_streams import AdaptedStream


class StreamWithLastLine(AdaptedStream):
    """A stream with one line appended.

    Parameters
    ----------
    stream : pyarrow.NativeFile
        Of UTF-8 text.
    delimiter : str
    n_columns : int

    Attributes
    ----------
    line : str
        Has another number of fields than the rows of the file.
    """

    def __init__(self, stream: Any, delimiter: str, n_columns: int) -> None:
        mark = "\x1d" if delimiter == "\x1e" else "\x1e"
        self.line = mark if n_columns > 1 else mark + delimiter
        self._stream, self._rest = stream, f"\n{self.line}\n".encode()

    def read(self, n_bytes: int) -> Any:
        """Return the next bytes, none of them copied."""
        found = self._stream.read_buffer(n_bytes)
        if len(found):
            return found
        found, self._rest = self._rest[:n_bytes], self._rest[n_bytes:]
        return found
