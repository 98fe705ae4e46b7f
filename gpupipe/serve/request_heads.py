"""Checks of the head of a request (RFC 9112): version, repeated headers, framing, Host and request target."""

from __future__ import annotations

import re

from gpupipe.serve.problems import Headers, RequestProblem
from gpupipe.serve.settings import host_name

# Headers that decide something here, or in a proxy: if one is repeated, the two may follow different values.
ONCE = frozenset(
    b"authorization content-encoding content-length content-type host inference-header-content-length origin "
    b"sec-fetch-site transfer-encoding".split()
)
VERSIONS = ("1.1", "1.0")
ABSOLUTE = re.compile(rb"https?://([^/?#]*)([^#]*)", re.IGNORECASE)


def check_head(version: str, target: bytes, headers: Headers) -> bytes:
    """Return the path and query of a request, and put the host of an absolute target into the Host header.

    Raise RequestProblem if the head is not valid, or could be read in two ways.
    """
    if version not in VERSIONS:
        raise invalid(f"expected HTTP/1.1 or HTTP/1.0; found HTTP/{version}")
    values = dict(headers)
    if len(values) < len(headers):
        names = [name for name, _ in headers]
        for name in ONCE.intersection(names):
            if names.count(name) > 1:
                raise invalid(f"expected one {name.decode().title()} header; found {names.count(name)}")
    coding, host = values.get(b"transfer-encoding"), values.get(b"host")
    if coding is not None and (coding.lower() != b"chunked" or version == "1.0"):
        raise invalid("expected no Transfer-Encoding, or chunked, which HTTP/1.0 does not have")
    if (host is not None or version == "1.1") and host_name(host or b"") is None:
        raise invalid("expected a Host header of the form NAME, NAME:PORT or [ADDRESS]:PORT")
    if (target.startswith(b"/") and b"#" not in target) or target == b"*":
        return target
    found = ABSOLUTE.fullmatch(target)
    if found is None or host_name(found[1]) is None:
        raise invalid("expected a request target of the form /PATH or http://HOST/PATH")
    # The host of the target counts, whatever the header is (RFC 9112, section 3.2.2).
    headers[:] = [(name, value) for name, value in headers if name != b"host"] + [(b"host", found[1])]
    return found[2] if found[2].startswith(b"/") else b"/" + found[2]


def invalid(message: str) -> RequestProblem:
    """Return the error of a request that is not valid HTTP; the connection closes."""
    return RequestProblem("invalid_http", message, closes=True)
