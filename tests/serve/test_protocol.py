"""Heads of requests, checked as functions, and connections that the server refuses, on sockets."""

from __future__ import annotations

import http.client
import json
import select
import socket
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("orjson", reason="needs the extra serve")
pytest.importorskip("uvicorn", reason="needs the extra serve")

from gpupipe.serve.problems import RequestProblem
from gpupipe.serve.protocol import MAX_HEADERS, ONCE, check_head
from gpupipe.serve.settings import ServeSettings, host_name
from tests.serve.test_processes import SECONDS, served

Headers = list[tuple[bytes, bytes]]
HOST = (b"host", b"localhost")
LIMIT = 100_000  # bytes of a body


@pytest.mark.parametrize(
    ("authority", "name"),
    [
        (b"localhost", "localhost"),
        (b"LocalHost:8080", "localhost"),
        (b"localhost:", "localhost"),  # RFC 3986: a port may be empty
        (b"127.0.0.1:65535", "127.0.0.1"),
        (b"[::1]:80", "::1"),
        (b"[0:0:0:0:0:0:0:1]", "::1"),
        (b"localhost.", "localhost."),  # well-formed, and another name
        (b"a,b", "a,b"),
        (b"%6cocalhost", "%6cocalhost"),
    ],
)
def test_hosts_are_read_as_the_standard_says(authority: bytes, name: str) -> None:
    assert host_name(authority) == name


@pytest.mark.parametrize(
    "authority",
    [
        b"",
        b":80",
        b"a:b",
        b"localhost:65536",
        b"localhost:80:90",
        b"localhost:+8",
        b"localhost:8 ",
        b" localhost",
        b"a b",
        b"a\tb",
        b"u@localhost",
        b"u:p@localhost",
        b"http://localhost",
        b"localhost/",
        b"localhost?",
        b"a#b",
        b"[localhost]",
        b"[127.0.0.1]",
        b"[::1",
        b"::1",
        b"[::1]a",
        b"[::1]:a",
        b"[::1%lo]",
        b"[::1%25lo]",
        b"[::1::]",
        b"[v1.a]",
        b"[]",
        b"a\\b",
        b'"a"',
        b"%zz",
        b"\xe2\x80\x8ba",
        b"a\x00",
        "localhost:８".encode(),
    ],
)
def test_other_hosts_are_malformed(authority: bytes) -> None:
    assert host_name(authority) is None
    with pytest.raises(RequestProblem, match="expected a Host header"):
        check_head("1.1", b"/predict", [(b"host", authority)])


@pytest.mark.parametrize("name", sorted(ONCE))
def test_headers_that_decide_something_occur_once(name: bytes) -> None:
    value = b"chunked" if name == b"transfer-encoding" else b"localhost"
    headers = [(name, value)] + [HOST] * (name != b"host")
    assert check_head("1.1", b"/", headers.copy()) == b"/"
    for second in (value, b"other"):
        for both in ([(name, second), *headers], [*headers, (name, second)]):
            with pytest.raises(RequestProblem, match="expected one"):
                check_head("1.1", b"/", both)
    assert check_head("1.1", b"/", [HOST, (b"accept", b"a"), (b"accept", b"b")]) == b"/"


@pytest.mark.parametrize(
    ("target", "path", "host"),
    [
        (b"/predict?explain=1", b"/predict?explain=1", b"localhost"),
        (b"http://Other.example:81/predict", b"/predict", b"Other.example:81"),
        (b"HTTPS://other.example?a", b"/?a", b"other.example"),
        (b"http://[::1]", b"/", b"[::1]"),
        (b"*", b"*", b"localhost"),
    ],
)
def test_the_host_of_an_absolute_target_replaces_the_header(target: bytes, path: bytes, host: bytes) -> None:
    headers = [(b"accept", b"*/*"), HOST]
    assert check_head("1.1", target, headers) == path
    assert headers == [(b"accept", b"*/*"), (b"host", host)]


@pytest.mark.parametrize(
    ("version", "target", "headers"),
    [
        ("1.1", b"/", []),  # no Host
        *[(version, b"/", [HOST]) for version in ("0.9", "1.2", "2.0", "3.0")],
        *[
            ("1.1", target, [HOST])
            for target in (
                b"",
                b"predict",
                b"/predict#a",
                b"localhost:80",
                b"ftp://localhost/",
                b"ws://localhost/",
                b"http:/a",
                b"http:///a",
                b"http://u@localhost/",
                b"http://a:b/",
                b"?a",
                b"http://localhost/#a",
            )
        ],
        *[("1.1", b"/", [HOST, (b"transfer-encoding", each)]) for each in (b"gzip, chunked", b"identity", b"")],
        ("1.0", b"/", [HOST, (b"transfer-encoding", b"chunked")]),
    ],
)
def test_other_heads_are_refused(version: str, target: bytes, headers: Headers) -> None:
    with pytest.raises(RequestProblem) as found:
        check_head(version, target, headers)
    assert (found.value.code, found.value.closes) == ("invalid_http", True)


def test_names_of_the_command_line_are_names_of_hosts() -> None:
    settings = ServeSettings("", host="::1", allowed_hosts=("App.Example:443", "fd00::1", "[fd00::2]"))
    assert settings.allowed_names == {"app.example", "fd00::1", "fd00::2"}
    assert settings.host_names == settings.allowed_names | {"localhost", "127.0.0.1", "::1"}
    assert ServeSettings("", host="0.0.0.0").host_names is None
    assert ServeSettings("", allowed_hosts=("http://app.example", "a b", "")).allowed_names == set()


@pytest.fixture(scope="module")
def port(run_folder: Path) -> Iterator[int]:
    options = ("--max-connections", "8", "--max-body", "100kB", "--read-timeout", "1s")
    with served(run_folder, *options) as (_, found):
        yield found


def answers_to(port: int, request: bytes) -> bytes:
    """Return all that a server sends before it closes the connection; raise OSError if it resets it."""
    with socket.create_connection(("127.0.0.1", port), timeout=SECONDS) as connection:
        connection.sendall(request)
        with connection.makefile("rb") as stream:
            return stream.read()


def refusal(answer: bytes) -> tuple[int, Any]:
    """Return status and JSON of the only answer, whose headers are checked."""
    head, _, body = answer.partition(b"\r\n\r\n")
    first, *lines = head.lower().split(b"\r\n")
    headers = dict(line.split(b": ", 1) for line in lines)
    assert len(headers) == len(lines)
    assert (headers[b"content-type"], headers[b"connection"]) == (b"application/json", b"close")
    assert int(headers[b"content-length"]) == len(body)
    return int(first.split()[1]), json.loads(body)


LINE = b"GET /schema HTTP/1.1\r\n"
RAW = {
    "two hosts": LINE + b"Host: localhost\r\nhost: a.example\r\n\r\n",
    "two tokens": LINE + b"Host: localhost\r\nAuthorization: a\r\nAUTHORIZATION: b\r\n\r\n",
    "no host": LINE + b"\r\n",
    "two lengths": b"POST /predict HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\n{}",
    "length and chunks": b"POST /predict HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n"
    b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "name and space": LINE + b"Host : localhost\r\n\r\n",
    "folded": LINE + b"Host: localhost\r\nA: b\r\n c\r\n\r\n",
    "carriage return": LINE + b"Host: localhost\r\nA: b\rc\r\n\r\n",
    "line feed": LINE + b"Host: localhost\r\nA: b\nc: d\r\n\r\n",
    "only line feeds": b"GET /schema HTTP/1.1\nHost: localhost\n\n",
    "zero byte": LINE + b"Host: localhost\r\nA: b\x00\r\n\r\n",
    "HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "HTTP/0.9": b"GET /schema\r\n\r\n",
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    "authority": b"CONNECT localhost:80 HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "chunk size": b"POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n0x2\r\n{}\r\n0\r\n\r\n",
}


@pytest.mark.parametrize("name", RAW)
def test_invalid_http_is_answered_in_the_form_of_all_errors(port: int, name: str) -> None:
    status, found = refusal(answers_to(port, RAW[name]))
    assert (status, found["code"], found["problems"]) == (400, "invalid_http", [])


def test_the_other_refusals_have_the_same_form_and_clients_that_still_send_can_read_them(port: int) -> None:
    start = b"POST /predict HTTP/1.1\r\nHost: localhost\r\n"
    assert refusal(answers_to(port, start))[0] == 408
    assert refusal(answers_to(port, start + b"A: " + b"a" * 33_000 + b"\r\n\r\n"))[0] == 431  # in one packet
    assert refusal(answers_to(port, start + b"A: " + b"a" * 3_000_000))[0] == 431
    lines = b"A: b\r\n"
    assert refusal(answers_to(port, start + lines * MAX_HEADERS + b"\r\n"))[0] == 431
    chunked = b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n"
    assert refusal(answers_to(port, start + chunked + lines * MAX_HEADERS + b"\r\n"))[0] == 431
    few = lines * (MAX_HEADERS - 3) + b"Content-Length: 2\r\nConnection: close\r\n\r\n{}"  # as many as may be
    assert b" 422 " in answers_to(port, start + few)[:20]
    status, found = refusal(answers_to(port, start + b"Host: localhost\r\n\r\n" + b" " * 300_000))
    assert (status, found["code"]) == (400, "invalid_http")
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=SECONDS)) as connection:
        for body in (b" " * 3 * LIMIT, iter([b" " * LIMIT] * 3)):
            connection.request("POST", "/predict", body, encode_chunked=True)  # all of it, before the answer is read
            answer = connection.getresponse()
            assert (answer.status, answer.headers["connection"]) == (413, "close")
            assert json.loads(answer.read())["code"] == "too_large"


def test_a_connection_too_many_is_refused_with_an_answer_that_its_client_can_read(port: int) -> None:
    kept = []
    for _ in range(8):
        kept.append(connection := socket.create_connection(("127.0.0.1", port), timeout=SECONDS))
        connection.sendall(LINE + b"Host: localhost\r\n\r\n")
        assert connection.recv(12) == b"HTTP/1.1 200"
    with socket.create_connection(("127.0.0.1", port), timeout=SECONDS) as connection:
        select.select([connection], [], [], SECONDS)  # the server has answered, and sends no more
        connection.sendall(LINE + b"Host: localhost\r\n\r\n" * 1000)
        with connection.makefile("rb") as stream:
            status, found = refusal(stream.read())
    assert (status, found["code"]) == (503, "unavailable")
    for connection in kept:
        connection.close()
