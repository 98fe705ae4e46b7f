"""Compressed request bodies: gzip and deflate, decompressed within the limit of a body."""

from __future__ import annotations

import zlib

from gpupipe.serve.problems import RequestProblem

GZIP, ZLIB, RAW = 31, 15, -15  # the arguments `wbits` of zlib
# Of deflate, RFC 9110 means the format of zlib; some clients send it without its header.
FORMATS = {b"gzip": (GZIP,), b"x-gzip": (GZIP,), b"deflate": (ZLIB, RAW)}


def decompress(body: bytes, encoding: bytes, max_bytes: int) -> bytes:
    """Return the content of a body with the header Content-Encoding; no more than `max_bytes` are decompressed.

    Raises
    ------
    RequestProblem
        If the encoding is not supported (status 415), the body is malformed or incomplete (400), or its content is
        longer than `max_bytes` (413).
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
        try:
            found = decoder.decompress(body, max_bytes + 1)
        except zlib.error:
            continue
        if len(found) > max_bytes:
            raise RequestProblem("too_large", f"expected a body of at most {max_bytes:,} bytes when decompressed")
        if decoder.eof and not decoder.unused_data:
            return found
    raise RequestProblem("invalid_request", f"the body is not valid {name.decode()}: expected one complete stream")
