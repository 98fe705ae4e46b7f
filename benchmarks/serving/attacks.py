"""Hostile requests to a server, at a bounded rate, in a separate process."""

from __future__ import annotations

import asyncio
import json
import os
import random
import time
import zlib
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

from gpupipe.serve.served_model import ServedModel
from tools.fuzz_server import FuzzRequest, RequestMaker

HOST = "127.0.0.1"
ANSWER_SECONDS, MOST_OPEN = 30.0, 200
NO_ANSWER = "closed without an answer"
CHUNKED = "Transfer-Encoding: chunked\r\n"

Attack = Callable[[], Awaitable[str]]


class Attacker:
    """Hostile clients of a server on this machine.

    Parameters
    ----------
    model : ServedModel
        The model of the server, for requests that are nearly valid.
    token : str
        The bearer token of the server: most requests have it, so that they come further than the guard.
    """

    def __init__(self, model: ServedModel, port: int, token: str, seed: int) -> None:
        self._port, self._token = port, token
        self._random = random.Random(seed)
        self._maker = RequestMaker(model, seed)
        self._rare = self._rows_of_large_integers()
        self.attacks: dict[str, Attack] = {
            "damaged bodies": self._damaged,
            "Arrow mutants": lambda: self._damaged("arrow"),
            "wrong tokens": lambda: self._send(self._head("POST", "/predict", f"Authorization: {self._word()}\r\n")),
            "slow headers": self._slow_headers,
            "half-open connections": lambda: self._exchange(b""),
            "slow bodies": lambda: self._send(self._own("POST", "/predict", "Content-Length: 100\r\n"), b"{"),
            "huge headers": lambda: self._send(self._own("GET", "/schema", f"X: {'a' * 70_000}\r\n")),
            "many headers": lambda: self._send(self._own("GET", "/schema", "X: a\r\n" * 5000)),
            "oversize bodies": lambda: self._send(
                self._own("POST", "/predict", f"Content-Length: {2**30}\r\n"), b" " * 2**20
            ),
            "decompression bombs": self._bomb,
            "nested bodies": lambda: self._post(b"[" * 100_000),
            "large integers": lambda: self._post(self._rare),
            "pipelined requests": lambda: self._send(self._own("GET", "/v2/health/live") * 100),
            "two Host headers": lambda: self._send(self._own("GET", "/schema", "Host: a.example\r\n")),
            "two framings": lambda: self._send(
                self._own("POST", "/predict", "Content-Length: 4\r\n" + CHUNKED), b"0\r\n\r\nGET / HTTP/1.1\r\n\r\n"
            ),
            "other Host names": lambda: self._exchange(b"GET /schema HTTP/1.1\r\nHost: a.example\r\n\r\n"),
            "unknown paths": lambda: self._send(self._own("GET", f"/{self._word()}")),
            "pages of other sites": lambda: self._send(
                self._own("POST", "/predict", "Origin: https://a.example\r\nContent-Length: 2\r\n"), b"{}"
            ),
            "bytes": lambda: self._exchange(self._random.randbytes(2000)),
            "resets": self._reset,
        }

    async def run(self, seconds: float, rate: float) -> Counter[tuple[str, str]]:
        """Start `rate` attacks per second, each kind in turn; return their number by kind and status."""
        counts: Counter[tuple[str, str]] = Counter()
        is_free = asyncio.Semaphore(MOST_OPEN)

        async def attack(kind: str) -> None:
            try:
                counts[kind, await self.attacks[kind]()] += 1
            except (OSError, asyncio.IncompleteReadError):
                counts[kind, NO_ANSWER] += 1
            except TimeoutError:
                counts[kind, "no end in time"] += 1
            finally:
                is_free.release()

        started = time.monotonic()
        tasks = []
        kinds = list(self.attacks)
        for number in range(int(seconds * rate)):
            await asyncio.sleep(max(0.0, started + number / rate - time.monotonic()))
            await is_free.acquire()
            tasks.append(asyncio.create_task(attack(kinds[number % len(kinds)])))
        await asyncio.gather(*tasks)
        return counts

    def _head(self, method: str, path: str, further: str = "") -> bytes:
        return f"{method} {path} HTTP/1.1\r\nHost: localhost\r\n{further}\r\n".encode("latin-1")

    def _own(self, method: str, path: str, further: str = "") -> bytes:
        return self._head(method, path, f"Authorization: Bearer {self._token}\r\n{further}")

    def _word(self) -> str:
        return "".join(self._random.choices("abcdefghij", k=20))

    async def _exchange(self, *parts: bytes, pause: float = 0.0) -> str:
        """Send parts of a request, and return the status of the first answer once the server closes or is silent."""
        async with asyncio.timeout(ANSWER_SECONDS):
            reader, writer = await asyncio.open_connection(HOST, self._port)
            answer = asyncio.ensure_future(reader.readline())
            try:
                for part in parts:
                    if answer.done():  # the request was refused
                        break
                    writer.write(part)
                    await asyncio.wait({answer}, timeout=pause)
                line = await answer
                return line.split()[1].decode() if line.startswith(b"HTTP/1.1 ") else NO_ANSWER
            finally:
                writer.close()

    def _send(self, head: bytes, body: bytes = b"") -> Awaitable[str]:
        return self._exchange(head, body)

    def _post(self, body: bytes, further: str = "") -> Awaitable[str]:
        head = f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n{further}"
        return self._send(self._own("POST", "/predict", head), body)

    def _damaged(self, kind: str = "") -> Awaitable[str]:
        request: FuzzRequest = self._maker.next()
        while kind and kind not in request.headers.get("Content-Type", ""):
            request = self._maker.next()
        headers = {**request.headers, "Content-Length": str(len(request.body))}
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items() if name != "Transfer-Encoding")
        return self._send(self._own(request.method, request.path, lines), request.body)

    def _slow_headers(self) -> Awaitable[str]:
        return self._exchange(*[b"GET /schema HTTP/1.1\r\n", *[b"X: a\r\n"] * 60], pause=0.5)

    def _bomb(self) -> Awaitable[str]:
        return self._post(BOMB, "Content-Encoding: gzip\r\n")

    def _rows_of_large_integers(self) -> bytes:
        row = self._maker.valid_row()
        numbers = {name: 2**70 for name, value in row.items() if type(value) is float}
        return json.dumps([row | numbers] * 20).encode()

    async def _reset(self) -> str:
        _, writer = await asyncio.open_connection(HOST, self._port)
        writer.write(self._own("POST", "/predict", "Content-Length: 1000\r\n"))
        await writer.drain()
        writer.transport.abort()
        return "reset by the client"


def _gzip_bomb() -> bytes:
    packer = zlib.compressobj(wbits=31)
    return packer.compress(b" " * 2**28) + packer.flush()


BOMB = _gzip_bomb()


def attack(
    run: Path, port: int, token: str, seconds: float, rate: float, seed: int, connection: Any, kinds: Sequence[str] = ()
) -> None:
    """Attack a server: the main function of a process, which sends the counts of `Attacker.run` on request."""
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))  # server and honest clients have the same cores
    attacker = Attacker(ServedModel.load(run), port, token, seed)
    attacker.attacks = {kind: each for kind, each in attacker.attacks.items() if not kinds or kind in kinds}
    connection.send("ready")
    while connection.recv():
        connection.send(dict(asyncio.run(attacker.run(seconds, rate))))
