"""HTTP connections with limits: headers, time to receive a request, number of connections.

uvicorn (checked: 0.54) limits the time between requests only. A client that sends one byte a minute would keep its
connection, and headers may have any length.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from itertools import chain
from time import monotonic
from typing import Any

from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol
from uvicorn.server import ServerState

from gpupipe.serve.metrics import Metrics
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


MAX_HEADER_BYTES = 32 * 1024  # URL and headers
MAX_HEADERS = 100  # with trailers; as Apache's LimitRequestFields: thousands of them would take milliseconds
MAX_BYTES_WITHOUT_BODY = 512 * 1024  # after the headers: sizes of chunks, and trailers, which are ignored
DRAIN_SECONDS = 2.0  # at least, for a client that still sends after its answer
SPARE_CONNECTIONS = 64  # more than the limit: drained, so that their clients can read the refusal
SWEEP_SECONDS = 0.5
NEVER = float("inf")
INVALID = invalid("the request is not valid HTTP/1.1")
LONG_HEAD = RequestProblem("headers_too_large", "URL, headers, trailers or sizes of chunks are too long", closes=True)
MANY_HEADERS = RequestProblem("headers_too_large", f"expected at most {MAX_HEADERS} headers and trailers", closes=True)


class _EndOfParsing(Exception):
    """A request has begun before the previous one was answered, or has an invalid head or too many trailers."""


class _Transport:
    """The transport of a connection with another `close`."""

    def __init__(self, transport: asyncio.Transport, close: Callable[[], None], is_closing: Callable[[], bool]) -> None:
        self.transport = transport
        self.write = transport.write
        self.close = close
        self.is_closing = is_closing

    def __getattr__(self, name: str) -> Any:
        return getattr(self.transport, name)


class LimitedProtocol(HttpToolsProtocol):
    """HTTP/1.1 connection that must complete each request in time, and has one request at a time.

    uvicorn would queue any number of pipelined requests. Here the connection closes after the answer to the first one;
    a client sends the others again, on another connection.

    A connection with a client that may still be sending is closed in two steps: at first, only its side that sends is.
    Closed at once, it would be reset, and the client could lose the answer.

    There is no timer per request: `close_overdue` compares the deadlines of all connections twice a second.
    """

    read_seconds = 10.0
    max_connections = 1024
    max_drained_bytes = 2**26
    metrics: Metrics
    url: bytes

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self.deadline = NEVER
        self._unsent_bytes, self._unsent_since = 0, 0.0
        self._n_bytes_without_body = self._n_drained_bytes = self._n_headers = 0
        self._has_head = self._is_pipelining = self.is_draining = False
        self._problem = INVALID

    def connection_made(self, transport: asyncio.Transport) -> None:
        """Start the time limit of the first request; refuse the connection if there are too many."""
        self._socket = transport
        super().connection_made(_Transport(transport, self.close, self._is_closing))
        self.deadline = monotonic() + self.read_seconds
        if (n_beyond := len(self.connections) - self.max_connections) > 0:
            self.deadline = 0.0  # only `DRAIN_SECONDS`
            self.refuse(RequestProblem("unavailable", "too many connections", [], [(b"retry-after", b"1")], True))
            self.metrics.count_closed()
            if n_beyond > SPARE_CONNECTIONS:
                transport.close()

    def close(self) -> None:
        """Close the connection, after the client has closed its side if it may still be sending."""
        if self._is_closing() or (self.deadline == NEVER and not self._is_pipelining):
            self._socket.close()
            return
        self.is_draining = True
        self.deadline = max(monotonic() + DRAIN_SECONDS, 0.0 if self.deadline == NEVER else self.deadline)
        if self.cycle is not None:
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        self.flow.resume_reading()
        self._socket.write_eof()

    def shutdown(self) -> None:
        """Close the connection, unless a request is being answered."""
        if self.is_draining or self.cycle is None or self.cycle.response_complete:
            self._socket.close()
        else:
            super().shutdown()

    def _is_closing(self) -> bool:
        return self.is_draining or self._socket.is_closing()

    def data_received(self, data: bytes) -> None:
        """Parse bytes; start the time limit of a request with its first byte."""
        if self.is_draining:
            self._n_drained_bytes += len(data)
            if self._n_drained_bytes > self.max_drained_bytes:
                self._socket.close()
            return
        if self.deadline == NEVER and (self.cycle is None or self.cycle.response_complete):
            self.deadline = monotonic() + self.read_seconds
        if self._is_pipelining:
            return
        self._n_bytes_without_body += len(data)
        super().data_received(data)
        most = MAX_BYTES_WITHOUT_BODY if self._has_head else MAX_HEADER_BYTES
        if self._n_bytes_without_body > most and self.deadline != NEVER:
            self.refuse(LONG_HEAD)

    def on_message_begin(self) -> None:
        """Begin a request; end parsing if the previous one is not answered yet."""
        if self.cycle is not None and not self.cycle.response_complete:
            self._is_pipelining = True
            raise _EndOfParsing
        self._n_headers = 0
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keep a header; trailers, which follow the body, are ignored."""
        self._n_headers += 1
        if self._n_headers > MAX_HEADERS:
            self._problem = MANY_HEADERS
            raise _EndOfParsing
        if not self._has_head:
            super().on_header(name, value)

    def on_body(self, body: bytes) -> None:
        """Pass a part of the body on."""
        self._n_bytes_without_body = 0
        super().on_body(body)

    def on_headers_complete(self) -> None:
        """Check the head, and start the request."""
        n_bytes = self._n_bytes_without_body  # or more: the first of the body
        if (
            n_bytes > MAX_HEADER_BYTES
            and sum(len(part) for part in chain(*self.headers, [self.url])) > MAX_HEADER_BYTES
        ):
            self._problem = LONG_HEAD
            raise _EndOfParsing
        try:
            self.url = check_head(self.parser.get_http_version(), self.url, self.headers)
        except RequestProblem as problem:
            self._problem = problem
            raise _EndOfParsing from None
        self._has_head = True
        super().on_headers_complete()
        if self.scope["http_version"] == "1.0" and self.parser.should_keep_alive():  # uvicorn would close
            self.cycle.keep_alive = True
            self.cycle.default_headers = [*self.cycle.default_headers, (b"connection", b"keep-alive")]

    def on_message_complete(self) -> None:
        """End the time limit."""
        self.deadline = NEVER
        self._has_head, self._n_bytes_without_body = False, 0
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        """Answer a request that cannot be parsed; close after the current answer if requests are pipelined."""
        if self._is_pipelining:
            self.cycle.keep_alive = False
            return
        self.refuse(self._problem)

    def close_if_overdue(self, now: float) -> None:
        """Close the connection if its request, or the reading of the response, takes longer than the time limit."""
        n_bytes = self.transport.get_write_buffer_size()
        if n_bytes == 0 or n_bytes != self._unsent_bytes:
            self._unsent_bytes, self._unsent_since = n_bytes, now
        if n_bytes and now - self._unsent_since > self.read_seconds:
            self.metrics.count_closed()
            self.transport.abort()
        elif now > self.deadline and self.is_draining:
            self._socket.close()
        elif now > self.deadline:
            self.metrics.count_closed()
            self.refuse(RequestProblem("read_timeout", "the request was not received in time", closes=True))

    def refuse(self, problem: RequestProblem) -> None:
        """Answer with an error outside of the application, if no response has begun, and close the connection."""
        if self.transport.is_closing():
            return
        if self.cycle is None or not self.cycle.response_started or self.cycle.response_complete:
            body = problem.body()
            self.transport.write(
                STATUS_LINE[problem.status]
                + b"content-type: application/json\r\nconnection: close\r\ncontent-length: %d\r\n" % len(body)
                + b"".join(name + b": " + value + b"\r\n" for name, value in problem.headers if name != b"connection")
                + b"\r\n"
                + body
            )
            self.metrics.count_error(problem.code)
            self.metrics.count_request("other", problem.status, 0.0)
        self.transport.close()


async def close_overdue(state: ServerState) -> None:
    """Close connections whose request did not arrive in time, or whose client does not read, until cancelled."""
    while True:
        await asyncio.sleep(SWEEP_SECONDS)
        now = monotonic()
        for connection in list(state.connections):
            if isinstance(connection, LimitedProtocol):
                connection.close_if_overdue(now)
