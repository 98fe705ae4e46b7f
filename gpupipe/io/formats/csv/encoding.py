"""Encoding errors of text files: the first undecodable byte, and the likely encoding."""

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
MARKS = {  # the longer ones first: that of UTF-16 is the beginning of one of UTF-32
    b"\xff\xfe\x00\x00": "utf-32", b"\x00\x00\xfe\xff": "utf-32", b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16",
}  # fmt: skip
LONGEST_BOM = max(map(len, MARKS))
GUESSES = {"utf8": "cp1252", "cp1252": "latin-1"}  # the encoding to try after one that does not fit
MANY_NULS = 0.2  # of the characters: in UTF-16 that is taken for another encoding nearly half are


@dataclass(frozen=True)
class UndecodableByte:
    """The first undecodable byte of a file: its offset, its line (from 1) and its value."""

    offset: int
    line: int
    byte: int


def encoding_error(file: SourceFile, encoding: str) -> EncodingError:
    """Return the error for a file whose bytes are not in `encoding`; the file is read again for it."""
    with open_file(file, unpack=True) as stream:
        head = bytes(stream.read(HEAD_BYTES))
    if (marked := detect_bom_encoding(head)) is not None:
        return _error(file, encoding, f"it begins with the byte order mark of {marked}", marked)
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
    """Collect the rows that Arrow cannot decode for its bad-row handler, which Python would print to stderr."""
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
    """Return whether Arrow or a Python codec could not decode a text."""
    # A message of pyarrow 26.0, which raises ArrowInvalid for all malformed files.
    return isinstance(error, UnicodeError) or "invalid UTF8" in str(error)


def detect_bom_encoding(head: bytes) -> str | None:
    """Return the encoding of the byte order mark, except UTF-8; None if there is no such mark."""
    return next((encoding for mark, encoding in MARKS.items() if head.startswith(mark)), None)


def next_encoding(error: EncodingError) -> str:
    """Return the encoding to try after the one of `error`, which is raised if there is none."""
    if error.encoding not in GUESSES:
        raise error
    return GUESSES[error.encoding]


def require_no_nuls(text: str, file: SourceFile, encoding: str) -> None:
    """Raise DataError if the first text of a file has so many NUL characters that it is in another encoding."""
    head = text[:HEAD_BYTES]
    if head.count("\0") <= MANY_NULS * len(head):
        return
    for start, likely in ((1, "utf-16-le"), (0, "utf-16-be")):
        if head[start::2].count("\0") > 0.9 * (len(head) // 2) and head[1 - start :: 2].strip("\0"):
            raise _error(file, encoding, "every other byte is NUL", likely)
    raise DataError(
        f"{head.count(chr(0)) / len(head):.0%} of the first characters are NUL: the file is damaged, or no text",
        where=mask(file.path),
        fix="fetch it again; or state its encoding, as in csv: {encoding: utf-16-le}",
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
                known = error.object  # what was left of the block before, and this one
                line += known[: error.start].count(b"\n")
                return UndecodableByte(n_bytes - len(known) + error.start, line, known[error.start])
            except UnicodeError:  # some codecs say no more
                return None
            if not raw:
                return None
            line += raw.count(b"\n")


def _is_utf8(head: bytes) -> bool:
    """Whether the first bytes are UTF-8, as all ASCII is."""
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
        fix=f"state the encoding of the file, as in csv: {{encoding: {likely}}} (latin-1, cp1252, utf-16...)",
    )
