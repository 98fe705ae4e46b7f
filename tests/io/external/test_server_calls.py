"""Calls that wait for a server."""

from __future__ import annotations

import ctypes
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest

from gpupipe.errors import DataError
from gpupipe.io.external import sql
from gpupipe.io.external.sql import wait_for, without_notices
from gpupipe.io.input_files import input_files
from gpupipe.io.settings import TableSource

PASSWORD = "c0rrect horse"
ESCAPE = b"\x1b]0;owned\x07\x1b[31mred"


def message(kind: bytes, body: bytes) -> bytes:
    """Return a message of the protocol of PostgreSQL."""
    return kind + struct.pack("!I", len(body) + 4) + body


def answer(kind: bytes, text: bytes) -> bytes:
    """Return an error (E) or a notice (N) with a text."""
    return message(kind, b"SERROR\0VERROR\0C28000\0M" + text + b"\0\0")


GREETING = message(b"R", bytes(4)) + message(b"K", bytes(8)) + message(b"Z", b"I")  # the client is let in


@pytest.fixture(autouse=True)
def _printing() -> Iterator[None]:
    """Restore the stream of C libraries after calls that did not end."""
    stream = ctypes.c_void_p.in_dll(ctypes.CDLL(None), "stderr")
    before = stream.value
    yield
    stream.value = before


@pytest.fixture
def serve() -> Iterator[Callable[[bytes], str]]:
    """Return a function that starts a server that sends these bytes to each client, and returns its URI."""
    listeners, clients, threads = [], [], []

    def start(sent: bytes) -> str:
        listener = socket.create_server(("127.0.0.1", 0))
        listeners.append(listener)

        def accept() -> None:
            with suppress(OSError):
                while True:
                    client, _ = listener.accept()
                    clients.append(client)
                    with suppress(OSError):  # the client is gone
                        client.recv(4096)
                        client.sendall(sent)

        threads.append(threading.Thread(target=accept))
        threads[-1].start()
        user = f"ada:{PASSWORD.replace(' ', '%20')}"
        return f"postgresql://{user}@127.0.0.1:{listener.getsockname()[1]}/shop?sslmode=disable&gssencmode=disable"

    yield start
    for each in listeners:
        each.shutdown(socket.SHUT_RDWR)  # ends its `accept`
    for each in clients:
        with suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)
    for thread in threads:
        thread.join()
    for each in (*listeners, *clients):
        each.close()


@pytest.mark.parametrize(
    ("sent", "reason"),
    [
        (b"", "did not answer"),
        (GREETING, "did not answer"),
        (GREETING + answer(b"N", ESCAPE) * 50, "did not answer"),
        (GREETING + b"T" + struct.pack("!IH", 1 << 30, 65535), "did not answer"),
        (answer(b"E", ESCAPE * 400 + b"\n" * 40 + PASSWORD.encode()), "owned"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "expected authentication"),
        (GREETING + b"\xff" * 9000, "synchronization"),
    ],
)
def test_a_hostile_server_is_one_clear_error(
    sent: bytes,
    reason: str,
    serve: Callable[[bytes], str],
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    if reason == "did not answer":
        monkeypatch.setattr(sql, "CONNECT_SECONDS", 0.2)
    with pytest.raises(DataError) as error:
        input_files(TableSource(sql="SELECT 1", uri=serve(sent)))
    assert reason in error.value.what
    assert error.value.what.isprintable()
    assert len(error.value.what) < 400
    assert PASSWORD not in str(error.value)
    assert capfd.readouterr() == ("", "")


def test_passwords_in_options_are_hidden(serve: Callable[[bytes], str]) -> None:
    uri = f"{serve(answer(b'E', b'no hunter-two for you'))}&sslpassword=hunter-two"
    with pytest.raises(DataError) as error:
        input_files(TableSource(sql="SELECT 1", uri=uri))
    assert "hunter-two" not in str(error.value)


def test_results_and_errors_of_calls() -> None:
    assert wait_for(lambda: 7) == 7
    with pytest.raises(ZeroDivisionError):
        wait_for(lambda: 1 // 0)
    blocked = threading.Event()
    with pytest.raises(TimeoutError, match=r"0\.01 s"):
        wait_for(blocked.wait, 0.01)
    blocked.set()


def test_c_libraries_print_again_after_a_call(capfd: pytest.CaptureFixture[str]) -> None:
    library = ctypes.CDLL(None)
    with without_notices():
        library.perror(b"dropped")
    library.perror(b"printed")
    assert capfd.readouterr().err.startswith("printed")


@pytest.mark.parametrize("option", ["sslkeylogfile=/tmp/keys", "sslmode=require&%73slkeylogfile=keys"])
def test_a_uri_does_not_write_files(option: str) -> None:
    with pytest.raises(ValueError, match="sslkeylogfile"):
        TableSource(sql="SELECT 1", uri=f"postgresql://h/d?{option}")
