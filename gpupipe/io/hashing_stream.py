"""Output stream that hashes what is written to it."""

from __future__ import annotations

import hashlib
from io import RawIOBase
from typing import Any


class HashingStream(RawIOBase):
    """Output stream that hashes the bytes written to it, and passes them on to `file`, if there is one.

    `hash` is the SHA-256 of the bytes up to now.
    """

    def __init__(self, file: Any = None) -> None:
        self._file, self._size = file, 0
        self.hash = hashlib.sha256()

    def writable(self) -> bool:
        """Return True."""
        return True

    def write(self, data: Any) -> int:
        """Hash and write all of `data`, a buffer of bytes."""
        self.hash.update(data)
        if self._file is not None:
            self._file.write(data)
        self._size += len(data)
        return len(data)

    def tell(self) -> int:
        """Return the number of bytes written."""
        return self._size
