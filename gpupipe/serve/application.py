"""The ASGI application: guards, predictions, errors and metrics.

Predictions are answered here, without the router: they are the requests that speed matters for. All other paths are
routes of Starlette, in `gpupipe.serve.documents`.
"""

from __future__ import annotations

import hmac
import logging
import os
import secrets
import sys
import threading
import zlib
from asyncio import Task, create_task, get_running_loop, to_thread, wait
from collections.abc import Awaitable, Callable, Iterator, MutableMapping
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from importlib import import_module
from time import perf_counter
from typing import Any

from gpupipe.serve.bodies import ARROW, DIGITS, JSON, read_rows, response_headers
from gpupipe.serve.documents import INDEX, Documents
from gpupipe.serve.explanations import has_parameter, read_parameter
from gpupipe.serve.inference import HEADER_LENGTH, encode_inference, read_inference
from gpupipe.serve.metrics import Metrics
from gpupipe.serve.problems import Headers, RequestProblem
from gpupipe.serve.request_rows import require_rows
from gpupipe.serve.served_model import ServedModel
from gpupipe.serve.settings import ServeSettings, host_name
from gpupipe.serve.slot import ModelSlot

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

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

BUFFERED = 8  # times the body limit: bodies of all requests of a worker
PREDICTIONS = ("predict", "explain", "infer")
OPEN = ("health", "page")  # endpoints without a token; the page has nothing of the model until it has the token
NAMES = {
    "/": "page", "/schema": "schema", "/metrics": "metrics", "/drift": "drift", "/openapi.json": "openapi",
}  # fmt: skip
CLIENT_GONE = 499
VERY_LARGE = b"0" * 20  # the digits of 2**64, which are encoded with Arrow: 30 microseconds per value
TABLES = ("gpupipe.serve.arrow_bodies", "gpupipe.io.source_reader", "gpupipe.table.frames", "gpupipe.backends")
RETRY = [(b"retry-after", b"1")]

log = logging.getLogger("gpupipe.serve")


class ClientGoneError(Exception):
    """The client closed the connection before its request was complete."""


class Application:
    """ASGI application of one worker. `token` is the `token_digest` of endpoints other than health; ``""``: none."""

    def __init__(self, slot: ModelSlot, settings: ServeSettings, metrics: Metrics, token: str = "") -> None:
        self.slot = slot
        self.settings = settings
        self.metrics = metrics
        self.is_closing = False
        self.n_waiting = 0
        self._buffered_bytes = 0
        self._arrow: Task[Any] | None = None
        self.has_token, self._token = bool(token), token
        self._hosts, self._pages = settings.host_names, settings.allowed_names
        self._documents = Documents(self)

    @property
    def model(self) -> ServedModel:
        """The served model."""
        return self.slot.model

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            return
        started = perf_counter()
        path = scope["path"]
        query = scope["query_string"]
        if path == "/predict":
            endpoint = "explain" if query and has_parameter(query) else "predict"
        else:
            endpoint = self._endpoint(path)
        status = 200
        try:
            headers = dict(scope["headers"])
            self._check_access(endpoint, headers)
            if endpoint in PREDICTIONS or path == INDEX:
                status = await self._answer(endpoint, scope, headers, receive, send)
            else:
                status = await self._documents.answer(scope, receive, send)
        except RequestProblem as problem:
            status = await self._refuse(problem, scope, send)
        except ClientGoneError:
            status = CLIENT_GONE
        except Exception:
            error_id = secrets.token_hex(6)
            log.exception("internal error %s in a request to %s", error_id, endpoint)
            text = f"internal error {error_id}; the log of the server has its cause"
            status = await self._refuse(RequestProblem("internal", text, error_id=error_id), scope, send)
        self.metrics.count_request(endpoint, status, perf_counter() - started)

    def _endpoint(self, path: str) -> str:
        """Return the name of an endpoint in the metrics."""
        if path.startswith("/v2"):
            if path.endswith("/infer"):
                return "infer"
            return "health" if path.startswith("/v2/health/") else "model"
        return NAMES.get(path, "other")

    def _check_access(self, endpoint: str, headers: dict[bytes, bytes]) -> None:
        if self._hosts is not None and host_name(headers.get(b"host", b"")) not in self._hosts:
            # A foreign site can point its own name at 127.0.0.1 (DNS rebinding); browsers still send that name.
            raise RequestProblem("unknown_host", "the Host header does not name this server; see --allow-host")
        if self.has_token and endpoint not in OPEN:
            given = headers.get(b"authorization", b"")
            if not hmac.compare_digest(sha256(given).hexdigest(), self._token):
                raise RequestProblem(
                    "unauthorized",
                    "expected the header Authorization: Bearer TOKEN",
                    headers=[(b"www-authenticate", b"Bearer")],
                )

    def _check_origin(self, headers: dict[bytes, bytes]) -> None:
        """Refuse what a page of another site sends: browsers send simple requests without asking the server first.

        The page could not read the answer, but its rows would be among those that drift is computed from.
        """
        site, origin = headers.get(b"sec-fetch-site"), headers.get(b"origin")
        if (site is None and origin is None) or site in (b"same-origin", b"none"):
            return
        authority = (origin or b"").partition(b"://")[2].lower()
        if host_name(authority) in self._pages or (site is None and authority == headers.get(b"host", b"").lower()):
            return
        raise RequestProblem("foreign_origin", "pages of other sites cannot send predictions; see --allow-host")

    async def _answer(
        self, endpoint: str, scope: Scope, headers: dict[bytes, bytes], receive: Receive, send: Send
    ) -> int:
        query = scope["query_string"]
        if endpoint == "infer":
            self._documents.require_model(scope["path"].removesuffix("/infer"))
            if query and has_parameter(query):
                raise RequestProblem("invalid_request", "explain: only /predict has explanations")
        if scope["method"] != "POST":
            raise RequestProblem("method_not_allowed", "expected the method POST", headers=[(b"allow", b"POST")])
        self._check_origin(headers)
        if self.is_closing:
            raise RequestProblem("unavailable", "the server is shutting down", closes=True)
        message = await receive()
        if message["type"] != "http.request":
            raise ClientGoneError
        body, reserved = message["body"], 0
        if message["more_body"] or len(body) > self.settings.max_body_bytes:
            body, reserved = await self._read_long(headers, receive, body, message["more_body"])
        try:
            if self.n_waiting >= self.settings.max_waiting:
                raise RequestProblem("too_many_requests", "too many requests are waiting", headers=RETRY)
            if b"content-encoding" in headers:
                arguments = body, headers[b"content-encoding"], self.settings.max_body_bytes
                body = await get_running_loop().run_in_executor(THREAD, decompress, *arguments)
                reserved += self._reserve(len(body))
            self.n_waiting += 1
            try:
                content, content_type, further = await self._predict(endpoint, body, headers, query)
            finally:
                self.n_waiting -= 1
        finally:
            self._buffered_bytes -= reserved
        await send(
            {
                "type": "http.response.start",
                "status": 200,
                "headers": response_headers(content_type, len(content), further),
            }
        )
        await send({"type": "http.response.body", "body": content})
        return 200

    async def _predict(
        self, endpoint: str, body: bytes, headers: dict[bytes, bytes], query: bytes
    ) -> tuple[bytes, bytes, Headers]:
        """Return the body of the answer, its type and further headers."""
        # One slot, even if a reload replaces it
        settings = self.settings
        metrics = self.metrics
        slot = self.slot
        model = slot.model
        deadline = perf_counter() + settings.request_seconds
        if endpoint not in PREDICTIONS:
            return self._documents.index(body), JSON, []
        content_type = headers.get(b"content-type", b"")
        may_be_slow = content_type != ARROW and VERY_LARGE in body.translate(DIGITS)
        if content_type == ARROW or may_be_slow:  # the first import takes a second
            self._arrow = self._arrow or create_task(to_thread(lambda: list(map(import_module, TABLES))))
            await wait([self._arrow])
        if endpoint == "infer":
            request = read_inference(body, headers.get(HEADER_LENGTH), model, settings.max_rows)
            rows = request.rows
        else:
            n_columns = read_parameter(query, model, settings) if endpoint == "explain" else 0
            given = read_rows(body, content_type, model, settings.max_rows)
            rows = given.rows
            if n_columns:
                require_rows(len(rows), settings.max_explained_rows, "request for explanations")
        columns, unseen, n_warnings = await slot.predict(rows, deadline, settings.max_batch, 1 if may_be_slow else None)
        if endpoint == "infer":
            metrics.count_rows(len(rows), unseen, n_warnings)
            return encode_inference(request, model, columns)
        explanations = {}
        if n_columns:
            explanations = await slot.explain(rows, columns, n_columns, deadline)
            metrics.count_explained(len(rows))
        metrics.count_rows(len(rows), unseen, n_warnings)
        return given.encode(model, columns, explanations), given.content_type, []

    async def _read_long(
        self, headers: dict[bytes, bytes], receive: Receive, first: bytes, has_more: bool
    ) -> tuple[bytes, int]:
        """Return a body of several chunks, and the number of bytes reserved for it."""
        most = self.settings.max_body_bytes
        chunks, reserved = [first], 0
        n_bytes, declared = len(first), int(headers.get(b"content-length", b"0"))
        try:
            while max(n_bytes, declared) <= most and has_more:
                message = await receive()
                if message["type"] != "http.request":
                    raise ClientGoneError
                chunk, has_more = message["body"], message["more_body"]
                n_bytes += len(chunk)
                reserved += self._reserve(len(chunk))
                chunks.append(chunk)
            if max(n_bytes, declared) > most:
                raise RequestProblem("too_large", f"expected a body of at most {most:,} bytes", closes=True)
        except BaseException:
            self._buffered_bytes -= reserved
            raise
        return b"".join(chunks), reserved

    def _reserve(self, n_bytes: int) -> int:
        """Count bytes of a long body and return their number; raise RequestProblem if there are too many of all."""
        if self._buffered_bytes + n_bytes > BUFFERED * self.settings.max_body_bytes:
            text = "too many long requests are being received"
            raise RequestProblem("too_many_requests", text, headers=RETRY, closes=True)
        self._buffered_bytes += n_bytes
        return n_bytes

    async def _refuse(self, problem: RequestProblem, scope: Scope, send: Send) -> int:
        self.metrics.count_error(problem.code)
        body = problem.body()
        headers = response_headers(b"application/json", len(body), problem.headers)
        await send({"type": "http.response.start", "status": problem.status, "headers": headers})
        await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else body})
        return problem.status


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
