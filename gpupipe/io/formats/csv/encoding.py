"""Encoding errors of text files, with the first undecodable byte and the likely encoding."""

from __future__ import annotations

import codecs
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from gpupipe.errors import DataError, EncodingError
from gpupipe.io.file_streams import open_file
from gpupipe.io.files import SourceFile, mask
from gpupipe.units import MIB

BLOCK_BYTES = MIB
HEAD_BYTES = 4096
MARKS = {  # longest first: the mark of UTF-16 is a prefix of that of UTF-32
    b"\xff\xfe\x00\x00": "utf-32", b"\x00\x00\xfe\xff": "utf-32", b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16",
}  # fmt: skip
LONGEST_BOM = max(map(len, MARKS))
GUESSES = {"utf8": "cp1252", "cp1252": "latin-1"}  # the encoding to try next if one does not fit
MANY_NULS = 0.2  # share of characters; nearly half for UTF-16 text read in another encoding


@dataclass(frozen=True)
class UndecodableByte:
    """First undecodable byte of a file: its offset, its line (from 1) and its value."""

    offset: int
    line: int
    byte: int


def encoding_error(file: SourceFile, encoding: str) -> EncodingError:
    """Return the error for a file that is not in `encoding`; reads the file again to locate the byte."""
    with open_file(file, unpack=True) as stream:
        head = bytes(stream.read(HEAD_BYTES))
    if (marked := detect_bom_encoding(head)) is not None:
        return _error(file, encoding, f"it starts with the byte order mark of {marked}", marked)
    place = find_undecodable_byte(file, encoding)
    if codecs.lookup(encoding).name != "utf-8" and _is_utf8(head):
        likely = "utf8"
    else:
        likely = "cp1252" if place and 0x80 <= place.byte < 0xA0 and encoding != "cp1252" else "latin-1"
    if place is None:
        return _error(file, encoding, "", likely)
    return _error(file, encoding, f"byte 0x{place.byte:02x} at offset {place.offset:,}, in line {place.line:,}", likely)


@contextmanager
def collect_undecodable_rows() -> Iterator[list[UnicodeDecodeError]]:
    """Collect decoding errors in Arrow's bad-row handler, which Python would otherwise print to stderr."""
    found: list[UnicodeDecodeError] = []
    before = sys.unraisablehook

    def collect(raised: sys.UnraisableHookArgs) -> None:
        if isinstance(raised.exc_value, UnicodeDecodeError):
            found.append(raised.exc_value)
        else:
            before(raised)

    sys.unraisablehook = collect
    try:
        yield found
    finally:
        sys.unraisablehook = before


def is_undecodable(error: BaseException | None) -> bool:
    """Return True if the error is a decoding error of Arrow or of a Python codec."""
    # A message of pyarrow 26.0, which raises ArrowInvalid for all malformed files.
    return isinstance(error, UnicodeError) or "invalid UTF8" in str(error)


def detect_bom_encoding(head: bytes) -> str | None:
    """Return the encoding of the byte order mark; None for UTF-8 or without a mark."""
    return next((encoding for mark, encoding in MARKS.items() if head.startswith(mark)), None)


def next_encoding(error: EncodingError) -> str:
    """Return the encoding to try after that of `error`; raise `error` if there is none."""
    if error.encoding not in GUESSES:
        raise error
    return GUESSES[error.encoding]


def require_no_nuls(text: str, file: SourceFile, encoding: str) -> None:
    """Raise DataError if more than `MANY_NULS` of the first characters are NUL: the encoding must be wrong."""
    head = text[:HEAD_BYTES]
    if head.count("\0") <= MANY_NULS * len(head):
        return
    for start, likely in ((1, "utf-16-le"), (0, "utf-16-be")):
        if head[start::2].count("\0") > 0.9 * (len(head) // 2) and head[1 - start :: 2].strip("\0"):
            raise _error(file, encoding, "every other byte is NUL", likely)
    raise DataError(
        f"{head.count(chr(0)) / len(head):.0%} of the first characters are NUL: the file is corrupt or not text",
        where=mask(file.path),
        fix="download or write it again, or set its encoding, as in csv: {encoding: utf-16-le}",
    )


def find_undecodable_byte(file: SourceFile, encoding: str) -> UndecodableByte | None:
    """Return the first undecodable byte, at its offset in the uncompressed content; None if there is none."""
    decoder = codecs.getincrementaldecoder(encoding)("strict")
    n_bytes, line = 0, 1
    with open_file(file, unpack=True) as stream:
        while True:
            raw = bytes(stream.read(BLOCK_BYTES))
            n_bytes += len(raw)
            try:
                decoder.decode(raw, not raw)
            except UnicodeDecodeError as error:
                known = error.object  # the undecoded end of the previous block, and this block
                line += known[: error.start].count(b"\n")
                return UndecodableByte(n_bytes - len(known) + error.start, line, known[error.start])
            except UnicodeError:  # some codecs report no position
                return None
            if not raw:
                return None
            line += raw.count(b"\n")


def _is_utf8(head: bytes) -> bool:
    """Return True if the first bytes are valid UTF-8."""
    try:
        codecs.getincrementaldecoder("utf-8")("strict").decode(head)
    except UnicodeDecodeError:
        return False
    return True


def _error(file: SourceFile, encoding: str, why: str, likely: str) -> EncodingError:
    return EncodingError(
        f"the text is not {encoding}" + (f": {why}" if why else ""),
        encoding,
        likely,
        where=mask(file.path),
        fix=f"set the encoding of the file, as in csv: {{encoding: {likely}}}",
    )
