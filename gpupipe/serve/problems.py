"""Errors that are sent to clients: one JSON shape for all of them, without paths, versions or tracebacks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import orjson

from gpupipe.errors import ROWS_COUNTED, CellProblem

MOST_PROBLEMS = 100  # cells listed in a response


@dataclass(frozen=True)
class ErrorCode:
    """A kind of error: its HTTP status, and its description in the OpenAPI document."""

    status: int
    text: str


CODES: Mapping[str, ErrorCode] = {
    "not_json": ErrorCode(400, "The body is not valid JSON."),
    "invalid_request": ErrorCode(400, "The request does not have the expected structure."),
    "unequal_lengths": ErrorCode(400, "Columns or tensors differ in length, or in number of values from their shape."),
    "invalid_http": ErrorCode(400, "The request is not valid HTTP."),
    "unauthorized": ErrorCode(401, "The bearer token is missing or wrong."),
    "unknown_host": ErrorCode(403, "The Host header does not name this server."),
    "foreign_origin": ErrorCode(403, "The request was sent by a web page of another site."),
    "not_found": ErrorCode(404, "The path, model or version is unknown."),
    "method_not_allowed": ErrorCode(405, "The path does not have this method."),
    "read_timeout": ErrorCode(408, "The request was not received in time."),
    "too_large": ErrorCode(413, "The body is too long, or has too many rows."),
    "unsupported_type": ErrorCode(415, "The type or encoding of the body is not supported."),
    "invalid_rows": ErrorCode(422, "Cells do not match the model's columns or rules."),
    "not_explainable": ErrorCode(422, "The predictions of this model or server cannot be explained."),
    "too_many_requests": ErrorCode(429, "Too many requests are waiting."),
    "headers_too_large": ErrorCode(431, "The URL or the headers are too long, or there are too many headers."),
    "internal": ErrorCode(500, "An error of the server, which has logged it with this id."),
    "unavailable": ErrorCode(503, "The server is shutting down, or was too busy to answer in time."),
}

Headers = list[tuple[bytes, bytes]]

NO_HEADERS: Headers = []


class RequestProblem(Exception):
    """Error response: a key of `CODES`, one sentence for the client, the wrong cells and further headers.

    If it `closes` the connection, the rest of the request was not read. `error_id` identifies the log entry of an
    internal error.
    """

    def __init__(
        self,
        code: str,
        message: str,
        problems: Sequence[CellProblem] = (),
        headers: Headers = NO_HEADERS,
        closes: bool = False,
        error_id: str = "",
    ) -> None:
        self.code = code
        self.message = message
        self.problems = problems
        self.error_id = error_id
        self.status = CODES[code].status
        self.closes = closes
        self.headers = [*headers, (b"connection", b"close")] if closes else list(headers)
        super().__init__(message)

    def body(self) -> bytes:
        """Return the JSON of the response."""
        found = {
            "error": self.message,  # this key is that of the Open Inference Protocol
            "code": self.code,
            "problems": [
                {"row": p.row, "column": p.column, "value": p.value, "rule": p.rule}
                for p in self.problems[:MOST_PROBLEMS]
            ],
        }
        if self.error_id:
            found["id"] = self.error_id
        return orjson.dumps(found)


def invalid_rows(problems: Sequence[CellProblem]) -> RequestProblem:
    """Return the error about wrong cells."""
    first, more = problems[0], len(problems) - 1
    others = f", and {more:,} more" if more else ""
    return RequestProblem("invalid_rows", f"{first}{others}; {ROWS_COUNTED}", problems)
