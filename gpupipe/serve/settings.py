"""Settings of the server. Imports no web library, so that ``gpupipe serve --help`` starts fast."""

from __future__ import annotations

import ipaddress
import json
import os
import re
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Literal

from gpupipe.units import parse_duration_us, parse_size

if TYPE_CHECKING:
    from collections.abc import Callable

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


UNITS: dict[str, Callable[[str], float]] = {
    "size": parse_size,
    "duration": lambda text: parse_duration_us(text) / 1e6,
    "duration or zero": lambda text: parse_duration_us(text, allow_zero=True) / 1e6,
}


def setting(option: str, default: Any, help: str, *, unit: str = "", **attributes: Any) -> Any:
    """Return a field with the option of ``gpupipe serve`` that sets it, for `gpupipe.cli.serve`.

    A default with a unit of `UNITS` is a text, such as 16MiB. `attributes` are `low` and `high` of a whole number,
    `choices` of a text, and `metavar`.
    """
    metadata = {"option": option, "default": default, "help": help, "unit": unit, **attributes}
    return field(default=UNITS[unit](default) if unit else default, metadata=metadata)


@dataclass(frozen=True)
class ServeSettings:
    """Address, processes and limits of a server; each help text is that of the field's option."""

    model: str  # a run directory, a model directory, a folder of generations, or a symbolic link to one
    host: str = setting("--host", "127.0.0.1", "Address to listen on.")
    port: int = setting("--port", 8080, "Port to listen on. 0: a free port, which is printed.", low=0, high=65535)
    workers: int = setting(
        "--workers", 1, "Number of processes. Each has a copy of the model; dead ones are restarted.", low=1, high=256
    )
    max_batch: int = setting(
        "--max-batch",
        256,
        "Maximum number of rows predicted at once. Waiting requests are predicted together; larger requests in parts.",
        low=1,
        metavar="ROWS",
    )
    batch_wait_seconds: float = setting(
        "--batch-wait",
        "0ms",
        "Time that a request waits for others to be predicted with it. 0ms: only until the requests that have arrived "
        "are read.",
        unit="duration or zero",
    )
    max_body_bytes: int = setting("--max-body", "16MiB", "Maximum size of a request body.", unit="size")
    max_rows: int = setting("--max-rows", 100_000, "Maximum number of rows of a request.", low=1)
    explain: Literal["demand", "start", "off"] = setting(
        "--explain",
        "demand",
        "When the explanations of POST /predict?explain=K are prepared: by the first request for one, before the "
        "server is ready, or never.",
        choices=("demand", "start", "off"),
    )
    max_explained_rows: int = setting(
        "--max-explain-rows", 100, "Maximum number of rows of a request for explanations.", low=1, metavar="ROWS"
    )
    drift: Literal["on", "off"] = setting(
        "--drift",
        "on",
        "Compare the predicted rows with the training rows of the model, for GET /drift and the metrics.",
        choices=("on", "off"),
    )
    # 10,000, the least that a full window has by default, find a shift of 0.2 standard deviations in any of hundreds of
    # columns.
    drift_rows: int = setting(
        "--drift-rows",
        20_000,
        "Compare at most the last ROWS predicted rows of all workers, and at least half as many.",
        low=1_000,
        high=1_000_000_000,
        metavar="ROWS",
    )
    max_waiting: int = setting(
        "--max-waiting",
        512,
        "Maximum number of requests of a worker that wait for their prediction; further ones get the status 429.",
        low=1,
    )
    max_connections: int = setting(
        "--max-connections",
        1024,
        "Maximum number of open connections of a worker; further ones get the status 503.",
        low=1,
    )
    read_seconds: float = setting(
        "--read-timeout", "10s", "Time limit for receiving the headers and body of a request.", unit="duration"
    )
    request_seconds: float = setting(
        "--request-timeout",
        "30s",
        "Time limit for predicting a request after it was received; then its status is 503.",
        unit="duration",
    )
    keep_alive_seconds: float = setting(
        "--keep-alive", "75s", "Time after which an idle connection is closed.", unit="duration"
    )
    shutdown_seconds: float = setting(
        "--shutdown-timeout", "30s", "Time limit for finishing requests after SIGTERM or Ctrl-C.", unit="duration"
    )
    poll_seconds: float = setting(
        "--reload-interval",
        "1s",
        "Interval between checks for a new model in RUN_OR_MODEL. 0s: reload on SIGHUP only.",
        unit="duration or zero",
    )
    allowed_hosts: tuple[str, ...] = setting(
        "--allow-host",
        (),
        "Accept requests for this host name, such as that of a proxy, and predictions that its web pages send. "
        "Repeatable. Default: only the names of this machine if --host is a loopback address, else any name.",
        metavar="NAME",
        multiple=True,
    )
    name: str = setting("--name", "", "Name of the model in the Open Inference Protocol. Default: that of its run.")
    trust: tuple[str, ...] = setting(
        "--trust", (), "Serve models signed with this key only, in PEM. Repeatable.", metavar="KEY", multiple=True
    )
    allow_code: bool = False  # whether the Python code in the model may run
    # Limits of each process of an untrusted model: on opening it, each turn of the event loop and 32 explanations.
    limits: UntrustedLimits | None = None

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
        values |= {name: tuple(values[name]) for name in ("allowed_hosts", "trust")}
        if values["limits"] is not None:
            from gpupipe.inference.untrusted.limits import UntrustedLimits

            values["limits"] = UntrustedLimits(**values["limits"])
        return ServeSettings(**values)


def token_digest() -> str:
    """Return the SHA-256 of the header that requests need, hexadecimal; ``""`` without a token."""
    token = os.environ.get(TOKEN, "")
    return sha256(f"Bearer {token}".encode()).hexdigest() if token else os.environ.get(TOKEN_DIGEST, "")
