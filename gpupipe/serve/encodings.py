"""Compressed request bodies: gzip and deflate, decompressed within the limit of a body."""

from __future__ import annotations

import os
import sys
import threading
import zlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

from gpupipe.serve.problems import RequestProblem

# The arguments `wbits` of zlib
GZIP = 31
ZLIB = 15
RAW = -15
# Of deflate, RFC 9110 means the format of zlib; some clients send it without its header.
FORMATS = {b"gzip": (GZIP,), b"x-gzip": (GZIP,), b"deflate": (ZLIB, RAW)}
READ_BYTES, PIECE_BYTES = 2**16, 2**18  # of one call of zlib, at whose end the interpreter lock is held
# Bodies of up to 1 MiB may be compressed as much as zlib can; longer ones as Apache's DeflateInflateRatioLimit says.
FREE_BYTES, MOST_RATIO = 2**20, 200
NICENESS = 10


def _lower_priority() -> None:
    if sys.platform == "linux":  # elsewhere it is that of the process
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICENESS)


# 16 kB can have 16 MiB, which takes 40 ms: they must delay no other request.
THREAD = ThreadPoolExecutor(1, "gpupipe decompression", _lower_priority)


def decompress(body: bytes, encoding: bytes, max_bytes: int) -> bytes:
    """Return the content of a body with the header Content-Encoding; no more than `max_bytes` are decompressed.

    What decompresses to more than 1 MiB and 200 times its size is refused there: it is made to keep a server busy.
    Raise RequestProblem if the encoding is not supported (status 415), the body is malformed or incomplete (400), or
    its content is longer than `max_bytes` or compressed too much (413).
    """
    name = encoding.strip().lower()
    if name == b"identity":
        return body
    if name not in FORMATS:
        accepted = [(b"accept-encoding", b"gzip, deflate, identity")]
        raise RequestProblem(
            "unsupported_type", "expected the Content-Encoding gzip, deflate or identity", [], accepted
        )
    for wbits in FORMATS[name]:
        decoder = zlib.decompressobj(wbits)
        pieces = []
        n_bytes = 0
        try:
            for piece, n_read in _decompressed(decoder, body):
                n_bytes += len(piece)
                if n_bytes > max_bytes:
                    what = f"expected a body of at most {max_bytes:,} bytes when decompressed"
                    raise RequestProblem("too_large", what)
                if n_bytes > max(FREE_BYTES, MOST_RATIO * n_read):
                    what = f"the body decompresses to more than {MOST_RATIO} times its size: send it uncompressed"
                    raise RequestProblem("too_large", what)
                pieces.append(piece)
        except zlib.error:
            continue
        if decoder.eof and not decoder.unused_data:
            return b"".join(pieces)
    raise RequestProblem("invalid_request", f"the body is not valid {name.decode()}: expected one complete stream")


def _decompressed(decoder: zlib._Decompress, body: bytes) -> Iterator[tuple[bytes, int]]:
    """Yield the pieces of a stream, and the number of bytes read until then; what follows is its `unused_data`."""
    for at in range(0, len(body), READ_BYTES):
        data = body[at : at + READ_BYTES]
        piece = b""
        stop = min(at + READ_BYTES, len(body))
        while not decoder.eof and (data or len(piece) == PIECE_BYTES):
            piece = decoder.decompress(data, PIECE_BYTES)
            data = decoder.unconsumed_tail
            yield piece, stop - len(data)
        if decoder.eof and stop < len(body):
            decoder.decompress(body[stop:])  # adds to the unused data
            return
