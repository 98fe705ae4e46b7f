"""Errors of servers and of the network, from a real server and from the classes of libraries that are not installed."""

from __future__ import annotations

import http.server
import socket
import threading
from collections.abc import Iterator

import pytest

from gpupipe.errors import DataError
from gpupipe.io.files import convert_read_errors, find_files
from gpupipe.io.network_errors import network_error
from gpupipe.io.settings import Source


class _Refuser(http.server.BaseHTTPRequestHandler):
    """Server that answers with the status in the path."""

    def do_GET(self) -> None:
        self.send_error(int(self.path.split("/")[1]))

    do_HEAD = do_GET

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Refuser)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server.server_port
    server.shutdown()
    server.server_close()


def _refusal(url: str) -> DataError:
    with pytest.raises(DataError) as caught:
        find_files(Source(path=url))
    assert caught.value.exit_code == 5
    return caught.value


@pytest.mark.needs("aiohttp")
@pytest.mark.parametrize(
    ("status", "words", "fix"),
    [
        (404, "404 (Not Found)", "check the URL"),
        (403, "403 (Forbidden)", "permission"),
        (503, "503", "try again later"),
    ],
)
def test_the_status_of_a_server_is_shown_with_the_url(port: int, status: int, words: str, fix: str) -> None:
    url = f"http://127.0.0.1:{port}/{status}/rows.parquet"
    error = _refusal(url)
    assert words in error.what and error.where == url and fix in error.fix


@pytest.mark.needs("aiohttp")
def test_a_refused_connection_is_shown_with_its_host() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        host = f"127.0.0.1:{free.getsockname()[1]}"
    assert _refusal(f"http://{host}/rows.csv").what == f"the connection was refused by {host}"


def _caused(error: Exception, cause: Exception) -> Exception:
    error.__cause__ = cause
    return error


def _of_library(name: str) -> Exception:
    return type(name, (Exception,), {})("no answer")


@pytest.mark.parametrize(
    ("url", "error", "words", "fix"),
    [
        ("s3://b/a.csv", _of_library("NoCredentialsError"), "no valid credentials for s3://", "AWS_ACCESS_KEY_ID"),
        (
            "gs://b/a.csv",
            _of_library("DefaultCredentialsError"),
            "credentials for gs://",
            "GOOGLE_APPLICATION_CREDENTIALS",
        ),
        ("abfs://b/a.csv", _of_library("ClientAuthenticationError"), "credentials for abfs://", "AZURE_STORAGE"),
        ("s3://b/a.csv", PermissionError("Access Denied"), "the server denied access", "AWS_PROFILE"),
        (
            "https://u:p@host/a",
            _caused(FileNotFoundError(), socket.gaierror(-2, "x")),
            "host host is not known",
            "PROXY",
        ),
        ("https://host/a", TimeoutError(), "host did not answer in time", "network"),
        ("https://host/a", _of_library("ClientConnectorCertificateError"), "secure connection to host", "certificate"),
        ("https://host/a", _of_library("ServerDisconnectedConnectError"), "cannot connect to host", "network"),
    ],
)
def test_errors_of_libraries_are_in_words(url: str, error: Exception, words: str, fix: str) -> None:
    with pytest.raises(DataError) as caught, convert_read_errors(url):
        raise error
    assert words in caught.value.what and fix in caught.value.fix and "u:p" not in str(caught.value)


def test_other_errors_are_not_of_the_network() -> None:
    assert network_error(ValueError("no table"), "https://host/a", "") is None
    with pytest.raises(DataError, match="permission to read the file was denied"), convert_read_errors("/a.csv"):
        raise PermissionError
