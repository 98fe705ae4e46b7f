"""Errors of reading from servers, in words: status, refused connection, unknown host, absent credentials.

Plugins of fsspec raise errors of the libraries below, often as the cause of a FileNotFoundError (checked: fsspec
2026.9, aiohttp 3). They are recognized by their attributes and class names, without importing the libraries.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from http import HTTPStatus
from urllib.parse import urlsplit

from gpupipe.errors import DataError

NO_CREDENTIALS = {
    "NoCredentialsError",
    "PartialCredentialsError",
    "CredentialRetrievalError",
    "DefaultCredentialsError",
    "ClientAuthenticationError",
}
CREDENTIALS = {
    "s3": "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE and ~/.aws/credentials; for a public "
    "bucket, set FSSPEC_S3_ANON=true",
    "gs": "set GOOGLE_APPLICATION_CREDENTIALS to the file of a service account, or run gcloud auth application-default "
    "login",
    "az": "set AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY, or AZURE_STORAGE_CONNECTION_STRING",
}
STORES = {"s3": "s3", "s3a": "s3", "gs": "gs", "gcs": "gs", "az": "az", "abfs": "az", "abfss": "az"}
CHECK_URL = "check the URL"
CHECK_NETWORK = "check the URL and the network, and set HTTPS_PROXY if there is a proxy"


def network_error(error: BaseException, url: str, shown: str) -> DataError | None:
    """Return the error of a server or of the network in words, None for any other error.

    The causes of `error` are searched too. `shown` is the URL for the message, without secrets.
    """
    protocol, host = url.partition("://")[0].lower(), _host(url)
    for cause in _causes(error):
        names = {kind.__name__ for kind in type(cause).__mro__}
        status = getattr(cause, "status", None)
        if isinstance(status, int) and 400 <= status <= 599:
            return DataError(f"the server answered with status {_named(status)}", where=shown, fix=_fix_of(status))
        if names & NO_CREDENTIALS:
            fix = CREDENTIALS.get(STORES.get(protocol, ""), "set the credentials of the store in the environment")
            return DataError(f"there are no valid credentials for {protocol}://", where=shown, fix=fix)
        if isinstance(cause, PermissionError):
            fix = CREDENTIALS.get(STORES.get(protocol, ""), "check the credentials")
            return DataError("the server denied access", where=shown, fix=f"check the permissions; or {fix}")
        if isinstance(cause, ConnectionRefusedError):
            fix = f"{CHECK_URL}, and that the server is running"
            return DataError(f"the connection was refused by {host}", where=shown, fix=fix)
        if isinstance(cause, socket.gaierror):
            return DataError(f"the host {host} is not known", where=shown, fix=CHECK_NETWORK)
        if isinstance(cause, TimeoutError):
            return DataError(f"{host} did not answer in time", where=shown, fix=CHECK_NETWORK)
    causes = list(_causes(error))
    if any("Certificate" in type(cause).__name__ or "SSL" in type(cause).__name__ for cause in causes):
        what = f"the secure connection to {host} failed: {causes[-1]}"
        return DataError(what, where=shown, fix="check the certificate of the server, and the time of this machine")
    if any(isinstance(cause, ConnectionError) or "Connect" in type(cause).__name__ for cause in causes):
        return DataError(f"cannot connect to {host}: {causes[-1]}", where=shown, fix=CHECK_NETWORK)
    return None


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__


def _host(url: str) -> str:
    """Return host and port of a URL, without a user."""
    try:
        return urlsplit(url).netloc.rpartition("@")[2] or "the server"
    except ValueError:
        return "the server"


def _named(status: int) -> str:
    try:
        return f"{status} ({HTTPStatus(status).phrase})"
    except ValueError:
        return str(status)


def _fix_of(status: int) -> str:
    if status in (401, 403, 407):
        return "check the permission to read it; the URL may need a token, or have expired"
    return "try again later" if status == 429 or status >= 500 else CHECK_URL
