"""Settings of the server. Imports no web library, so that ``gpupipe serve --help`` starts fast."""

from __future__ import annotations

import ipaddress
import json
import os
import re
from dataclasses import asdict, dataclass
from functools import lru_cache
from hashlib import sha256
from typing import TYPE_CHECKING, Literal

from gpupipe.units import MIB

if TYPE_CHECKING:
    from gpupipe.inference.untrusted.limits import UntrustedLimits

TOKEN = "GPUPIPE_TOKEN"  # environment variable with the bearer token
TOKEN_DIGEST = "GPUPIPE_TOKEN_DIGEST"  # the same with `token_digest`, of processes of untrusted models
BACKLOG = 2048  # connections that wait to be accepted
LOCAL_NAMES = ("localhost", "127.0.0.1", "::1")
HOST = re.compile(rb"(?:\[([0-9a-f:.]+)\]|((?:[\w.~!$&'()*+,;=-]|%[0-9a-f]{2})+))(?::([0-9]{0,5}))?", re.IGNORECASE)


@lru_cache(maxsize=256)
def host_name(authority: bytes) -> str | None:
    """Return a host without its port, in lower case; None if it is malformed (RFC 3986, section 3.2).

    >>> host_name(b"LOCALHOST:8080"), host_name(b"[0:0::1]"), host_name(b"127.0.0.1:8080:x"), host_name(b"a@localhost")
    ('localhost', '::1', None, None)
    """
    found = HOST.fullmatch(authority)
    if found is None or int(found[3] or 0) > 65535:
        return None
    try:
        return str(ipaddress.IPv6Address(found[1].decode())) if found[1] else found[2].decode().lower()
    except ValueError:
        return None


def _named(host: str) -> str:
    """Return the name of a host of the command line, whose IPv6 addresses may have no brackets; "" if malformed."""
    return host_name(host.encode()) or host_name(f"[{host}]".encode()) or ""


@dataclass(frozen=True)
class ServeSettings:
    """Address, processes and limits of a server.

    Attributes
    ----------
    model : str
        A run directory, a model directory, or a symbolic link to one.
    port : int
        0: a free port.
    workers : int
        Number of processes.
    max_batch : int
        Maximum number of rows predicted at once. Larger requests are predicted in slices, between which other requests
        have their turn.
    batch_wait_seconds : float
        Time that a request waits for others to be predicted with it.
    max_body_bytes, max_rows : int
        Limits of a request.
    explain : {"demand", "start", "off"}
        When explanations are prepared: by the first request for one, before the server is ready, or never.
    max_explained_rows : int
        Limit of a request for explanations.
    drift : {"on", "off"}
        Whether predicted rows are compared with the training rows of the model.
    drift_rows : int
        The largest number of rows that are compared: the last ones. 10,000, the least that a full window has, find a
        shift of 0.2 standard deviations in any of hundreds of columns.
    max_waiting, max_connections : int
        Limits of a worker: prediction requests received and not yet answered; open connections.
    read_seconds : float
        Time limit for receiving the headers and body of a request.
    request_seconds : float
        Time limit from the complete request to its prediction.
    keep_alive_seconds : float
        Time after which an idle connection is closed.
    shutdown_seconds : float
        Time limit for finishing requests at shutdown.
    poll_seconds : float
        Interval between checks for a new model; 0: only on SIGHUP.
    allowed_hosts : tuple of str
        Further accepted names in the Host header, and in the origin of web pages that send predictions.
    allow_code : bool
        Whether the Python code in the model may run.
    limits : UntrustedLimits, optional
        Limits of each process of an untrusted model: on opening it, each turn of the event loop and 32 explanations.
    name : str
        Name of the model in the Open Inference Protocol. ``""``: that of its run.
    """

    model: str
    host: str = "127.0.0.1"
    port: int = 8080
    workers: int = 1
    max_batch: int = 256
    batch_wait_seconds: float = 0.0
    max_body_bytes: int = 16 * MIB
    max_rows: int = 100_000
    explain: Literal["demand", "start", "off"] = "demand"
    max_explained_rows: int = 100
    drift: Literal["on", "off"] = "on"
    drift_rows: int = 20_000
    max_waiting: int = 512
    max_connections: int = 1024
    read_seconds: float = 10.0
    request_seconds: float = 30.0
    keep_alive_seconds: float = 75.0
    shutdown_seconds: float = 30.0
    poll_seconds: float = 1.0
    allowed_hosts: tuple[str, ...] = ()
    allow_code: bool = False
    limits: UntrustedLimits | None = None
    name: str = ""

    @property
    def operation_seconds(self) -> float | None:
        """Time limit of an operation with the model; None: unlimited."""
        return None if self.limits is None else self.limits.seconds_for(0)

    @property
    def is_loopback(self) -> bool:
        """True if only this machine can connect."""
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"

    @property
    def allowed_names(self) -> frozenset[str]:
        """Names of `allowed_hosts`, without ports."""
        return frozenset(map(_named, self.allowed_hosts)) - {""}

    @property
    def host_names(self) -> frozenset[str] | None:
        """Accepted names in the Host header; None: any, because other machines are meant to reach the server."""
        if not self.is_loopback and not self.allowed_hosts:
            return None
        return self.allowed_names.union(LOCAL_NAMES, [_named(self.host)])

    def to_text(self) -> str:
        """Return the settings as JSON, for `from_text` in a worker process."""
        return json.dumps(asdict(self))

    @staticmethod
    def from_text(text: str) -> ServeSettings:
        """Return the settings from the result of `to_text`."""
        values = json.loads(text)
        values["allowed_hosts"] = tuple(values["allowed_hosts"])
        if values["limits"] is not None:
            from gpupipe.inference.untrusted.limits import UntrustedLimits

            values["limits"] = UntrustedLimits(**values["limits"])
        return ServeSettings(**values)


def token_digest() -> str:
    """Return the SHA-256 of the header that requests need, hexadecimal; ``""`` without a token."""
    token = os.environ.get(TOKEN, "")
    return sha256(f"Bearer {token}".encode()).hexdigest() if token else os.environ.get(TOKEN_DIGEST, "")
