"""Clients of the soak test: they keep connections open, connect again when one is lost, and check each answer."""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

CONNECT_SECONDS = 5.0
ANSWER_SECONDS = 30.0
PAUSE_SECONDS = 0.02


class _Connection(asyncio.Protocol):
    """A connection with at most one request at a time."""

    def __init__(self) -> None:
        self.port = 0
        self.is_lost = False
        self._transport: asyncio.Transport | None = None
        self._buffer = b""
        self._answer: asyncio.Future[tuple[int, bytes]] | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self._transport = transport
        self.port = transport.get_extra_info("sockname")[1]

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        head, found, body = self._buffer.partition(b"\r\n\r\n")
        if not found:
            return
        start = head.lower().find(b"content-length:")
        length = int(head[start + 15 :].split(b"\r\n", 1)[0])
        if len(body) >= length and self._answer is not None and not self._answer.done():
            self._buffer = b""
            self._answer.set_result((int(head[9:12]), body[:length]))

    def connection_lost(self, error: Exception | None) -> None:
        self.is_lost = True
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(error or ConnectionResetError("the server closed the connection"))

    async def send(self, request: bytes) -> tuple[int, bytes]:
        """Return status and body of the answer; raise OSError if the connection is lost before it."""
        assert self._transport is not None
        self._answer = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        async with asyncio.timeout(ANSWER_SECONDS):
            return await self._answer

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()


@dataclass(frozen=True)
class Failure:
    """A request without a correct answer.

    Attributes
    ----------
    seconds : float
        Time since the start of the load.
    port : int
        The client's port of the connection.
    what : str
    """

    seconds: float
    port: int
    what: str


@dataclass
class LoadRecord:
    """Answers and failures of all clients.

    Attributes
    ----------
    answers : Counter
        Correct answers, by the position of the model that gave them.
    failures : list of Failure
    n_connects, n_refused : int
        Connections made, and attempts that failed.
    milliseconds : list of float
        Latencies of correct answers.
    changes : list of tuple of int and float
        Client port and time of the first answer of a later model on each connection.
    last_of_first : float
        Time of the last answer of the first model.
    """

    answers: Counter[int] = field(default_factory=Counter)
    failures: list[Failure] = field(default_factory=list)
    n_connects: int = 0
    n_refused: int = 0
    milliseconds: list[float] = field(default_factory=list)
    changes: list[tuple[int, float]] = field(default_factory=list)
    last_of_first: float = 0.0


@dataclass(frozen=True)
class Clients:
    """Clients that send the same requests in turn.

    Attributes
    ----------
    host : str
    port : int
    requests : sequence of bytes
        Whole HTTP requests.
    expected : sequence of sequences of float
        For each model that may answer, in the order of its activation, the probability of each request.
    key : str
        Name of the probability in the answer.
    """

    host: str
    port: int
    requests: Sequence[bytes]
    expected: Sequence[Sequence[float]]
    key: str

    async def load(self, seconds: float, n_clients: int, rate: float | None = None) -> LoadRecord:
        """Send requests for some seconds, and return what happened.

        Parameters
        ----------
        seconds : float
        n_clients : int
            Open connections.
        rate : float, optional
            Requests per second of all clients; None: each sends the next request when the last one was answered.
        """
        record = LoadRecord()
        started = time.perf_counter()
        interval = 0.0 if rate is None else n_clients / rate
        await asyncio.gather(*(self._run(i, n_clients, started, seconds, interval, record) for i in range(n_clients)))
        return record

    async def _run(
        self, number: int, n_clients: int, started: float, seconds: float, interval: float, record: LoadRecord
    ) -> None:
        due = started + interval * number / n_clients
        position = number * len(self.requests) // n_clients
        connection: _Connection | None = None
        seen = 0  # the last model that answered on this connection
        while (now := time.perf_counter()) < started + seconds:
            if due > now:
                await asyncio.sleep(due - now)
            due = max(due + interval, now - 1.0)  # at most a second is caught up
            while connection is None or connection.is_lost:
                connection, seen = await self._connect(record), 0
            position = (position + 1) % len(self.requests)
            sent = time.perf_counter()
            try:
                status, body = await connection.send(self.requests[position])
            except (OSError, TimeoutError) as error:
                record.failures.append(Failure(sent - started, connection.port, f"{type(error).__name__}: {error}"))
                connection.close()
                connection = None
                continue
            done = time.perf_counter()
            model = self._model_of(position, body, seen) if status == 200 else None
            if model is None:
                text = body[:200].decode(errors="replace")
                record.failures.append(Failure(sent - started, connection.port, f"status {status}: {text}"))
                continue
            if model > seen:
                record.changes.append((connection.port, done - started))
                seen = model
            if model == 0:
                record.last_of_first = done - started
            record.answers[model] += 1
            record.milliseconds.append((done - sent) * 1e3)
        if connection is not None:
            connection.close()

    async def _connect(self, record: LoadRecord) -> _Connection | None:
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                loop = asyncio.get_running_loop()
                _, connection = await loop.create_connection(_Connection, self.host, self.port)
        except (OSError, TimeoutError):
            record.n_refused += 1
            await asyncio.sleep(PAUSE_SECONDS)
            return None
        record.n_connects += 1
        return connection

    def _model_of(self, position: int, body: bytes, first: int) -> int | None:
        """Return the model, `first` or a later one, that an answer is from; None if it is wrong."""
        probability = json.loads(body).get(self.key)
        for model in range(first, len(self.expected)):
            if self.expected[model][position] == probability:
                return model
        return None


def http_request(path: str, body: bytes, host: str) -> bytes:
    """Return a whole HTTP request with a JSON body."""
    head = (
        f"POST {path} HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body
