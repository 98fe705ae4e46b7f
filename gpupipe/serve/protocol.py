"""HTTP connections with limits: headers, time to receive a request, number of connections.

uvicorn (checked: 0.54) limits the time between requests only. A client that sends one byte a minute would keep its
connection, and headers may have any length.
"""

from __future__ import annotations

import asyncio
from time import monotonic
from typing import Any

from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol
from uvicorn.server import ServerState

from gpupipe.serve.metrics import Metrics
from gpupipe.serve.problems import RequestProblem

MAX_HEADER_BYTES = 32 * 1024  # URL and headers
MAX_BYTES_WITHOUT_BODY = 512 * 1024  # after the headers: sizes of chunks, and trailers, which are ignored
SWEEP_SECONDS = 0.5
NEVER = float("inf")


class _PipelinedRequest(Exception):
    """Ends parsing: a request has begun before the previous one was answered."""


class LimitedProtocol(HttpToolsProtocol):
    """HTTP/1.1 connection that must complete each request in time, and has one request at a time.

    uvicorn would queue any number of pipelined requests. Here the connection closes after the answer to the first one;
    a client sends the others again, on another connection.

    There is no timer per request: `Watchdog` compares the deadlines of all connections twice a second.
    """

    read_seconds = 10.0
    max_connections = 1024
    metrics: Metrics

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
        self._n_header_bytes = 0  # -1: the headers are complete
        self._n_bytes_without_body = 0
        self._is_pipelining = False

    def connection_made(self, transport: asyncio.Transport) -> None:
        """Start the time limit of the first request; refuse the connection if there are too many."""
        super().connection_made(transport)
        self.deadline = monotonic() + self.read_seconds
        if len(self.connections) > self.max_connections:
            self.refuse(RequestProblem("unavailable", "too many connections", [], [(b"retry-after", b"1")], True))
            self.metrics.count_closed()

    def data_received(self, data: bytes) -> None:
        """Parse bytes; start the time limit of a request with its first byte."""
        if self.deadline == NEVER and (self.cycle is None or self.cycle.response_complete):
            self.deadline = monotonic() + self.read_seconds
        if self._is_pipelining:
            return
        self._n_bytes_without_body += len(data)
        super().data_received(data)
        if self._n_bytes_without_body > MAX_BYTES_WITHOUT_BODY and self.deadline != NEVER:
            message = "too many bytes that are not part of the body"
            self.refuse(RequestProblem("headers_too_large", message, closes=True))
        if self._n_header_bytes >= 0 and self.deadline != NEVER:
            self._n_header_bytes += len(data)
            if self._n_header_bytes > MAX_HEADER_BYTES:
                message = f"expected at most {MAX_HEADER_BYTES:,} bytes of URL and headers"
                self.refuse(RequestProblem("headers_too_large", message, closes=True))

    def on_message_begin(self) -> None:
        """Begin a request; end parsing if the previous one is not answered yet."""
        if self.cycle is not None and not self.cycle.response_complete:
            self._is_pipelining = True
            raise _PipelinedRequest
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keep a header; trailers, which follow the body, are ignored."""
        if self._n_header_bytes >= 0:
            super().on_header(name, value)

    def on_body(self, body: bytes) -> None:
        """Pass a part of the body on."""
        self._n_bytes_without_body = 0
        super().on_body(body)

    def on_headers_complete(self) -> None:
        """Start the request."""
        self._n_header_bytes = -1
        super().on_headers_complete()
        if self.scope["http_version"] == "1.0" and self.parser.should_keep_alive():  # uvicorn would close
            self.cycle.keep_alive = True
            self.cycle.default_headers = [*self.cycle.default_headers, (b"connection", b"keep-alive")]

    def on_message_complete(self) -> None:
        """End the time limit."""
        self.deadline = NEVER
        self._n_header_bytes = self._n_bytes_without_body = 0
        super().on_message_complete()

    def is_stalled(self, now: float) -> bool:
        """Return whether the client has not read any of the response for the time limit of a request."""
        n_bytes = self.transport.get_write_buffer_size()
        if n_bytes == 0 or n_bytes != self._unsent_bytes:
            self._unsent_bytes, self._unsent_since = n_bytes, now
            return False
        return now - self._unsent_since > self.read_seconds

    def send_400_response(self, msg: str) -> None:
        """Answer a request that cannot be parsed; close after the current answer if requests are pipelined."""
        if self._is_pipelining:
            self.cycle.keep_alive = False
            return
        self.refuse(RequestProblem("invalid_http", "the request is not valid HTTP/1.1", closes=True))

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


class Watchdog:
    """Closes connections whose request did not arrive in time, or whose client does not read the response.

    Parameters
    ----------
    state : ServerState
        Has the open connections.
    """

    def __init__(self, state: ServerState, metrics: Metrics) -> None:
        self._state, self._metrics = state, metrics

    async def run(self) -> None:
        """Compare the deadlines until cancelled."""
        while True:
            await asyncio.sleep(SWEEP_SECONDS)
            now = monotonic()
            for connection in list(self._state.connections):
                if not isinstance(connection, LimitedProtocol):
                    continue
                if connection.is_stalled(now):
                    self._metrics.count_closed()
                    connection.transport.abort()
                elif now > connection.deadline:
                    connection.deadline = NEVER
                    self._metrics.count_closed()
                    connection.refuse(RequestProblem("read_timeout", "the request was not received in time"))
