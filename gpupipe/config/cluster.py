"""The ``cluster:`` section: workers of a distributed run, their resources, and timeouts."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import (
    Field,
    ModelWrapValidatorHandler,
    PrivateAttr,
    ValidationError,
    field_validator,
    model_validator,
)

from gpupipe.config.environment import escape
from gpupipe.errors import ConfigError
from gpupipe.settings import Settings, Size

SCHEMES = ("tcp://", "tls://", "ucx://", "ucxx://", "ws://", "wss://")


class ClusterSettings(Settings):
    """Dask workers that share a run. Without `scheduler` the run uses this process only.

    The keys have the names of dask-cuda. Those that describe workers (`threads`, `memory_limit`, `protocol`, ...) apply
    to workers that gpupipe starts (``scheduler: local``). Workers of a running scheduler keep the settings that they
    were started with; of these keys only `workers` applies to them, as the number to wait for.
    """

    scheduler: str | None = Field(
        default=None,
        min_length=1,
        description="Scheduler to connect to. `local`: start workers on this machine for this run. An address such as "
        "`tcp://host:8786`: use the workers of a running scheduler. A path: the file that `dask scheduler "
        "--scheduler-file` wrote. Null: run in this process.",
    )
    workers: int | None = Field(
        default=None,
        ge=1,
        description="Number of worker processes. Null: one per GPU, or on the CPU a number that suits the cores. With "
        "a running scheduler: the number of workers to wait for; null waits for 1.",
    )
    threads: int | None = Field(
        default=None,
        ge=1,
        description="Threads per worker, each working on one partition at a time. Null: 1 on a GPU, otherwise the "
        "cores divided by the number of workers.",
    )
    memory_limit: Size | None = Field(
        default=None,
        description="Host memory per worker: bytes, or text such as `2GiB`. A worker spills to disk as it approaches "
        "the limit and is restarted if it exceeds it. Null: the machine's memory divided by the number of workers.",
    )
    protocol: Literal["tcp", "ucx"] = Field(
        default="tcp", description="Transport between workers: `tcp`, or `ucx` for NVLink and InfiniBand."
    )
    rmm_pool_size: Size | None = Field(
        default=None,
        description="GPU memory that each worker reserves at start: bytes, or text such as `8GiB`. Null: none.",
    )
    device_memory_limit: Size | None = Field(
        default=None,
        description="GPU memory per worker above which it moves data to the host: bytes, or text such as `12GiB`. "
        "Null: 80 % of the GPU's memory.",
    )
    enable_cudf_spill: bool = Field(
        default=False, description="Let cuDF move unused buffers to host memory when GPU memory is short."
    )
    dashboard_address: str | None = Field(
        default=None,
        min_length=1,
        description="Address of Dask's dashboard, such as `127.0.0.1:8787`. Null: no dashboard.",
    )
    deadline: float = Field(
        default=60.0, gt=0, description="Seconds without any progress on the cluster after which the run fails."
    )
    retries: int = Field(
        default=3, ge=0, description="Number of workers that the same task may lose before the run fails."
    )

    _client: Any = PrivateAttr(None)

    @model_validator(mode="wrap")
    @classmethod
    def _accept_a_client(cls, value: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        """Keep a client that is given from Python as `scheduler`, whose address takes its place."""
        client = value.get("scheduler") if isinstance(value, Mapping) else None
        if not is_client(client):
            return handler(value)
        made = handler({**value, "scheduler": address_of(client)})
        made._client = client
        return made

    @property
    def client(self) -> Any:
        """The caller's ``distributed.Client`` with which to reach the scheduler; None to make one."""
        return self._client

    def with_client(self, client: Any) -> Self:
        """Return the settings with a client of the caller, a ``distributed.Client``."""
        made = self.model_copy(update={"scheduler": address_of(client)})
        made._client = client
        return made

    @field_validator("scheduler")
    @classmethod
    def _is_local_an_address_or_a_file(cls, scheduler: str | None) -> str | None:
        if scheduler is None or "://" not in scheduler:
            return scheduler
        scheme, _, rest = scheduler.partition("://")
        host, colon, port = rest.rpartition(":")
        if f"{scheme}://" not in SCHEMES or not (host and colon and port.isdecimal()):
            raise ValueError(f"expected a scheduler address such as tcp://host:8786, got {scheduler!r}")
        return scheduler

    @property
    def scheduler_file(self) -> Path | None:
        """The scheduler file, if `scheduler` is a path."""
        if self.scheduler in (None, "local") or "://" in str(self.scheduler):
            return None
        return Path(str(self.scheduler))


def is_client(value: Any) -> bool:
    """Return whether `value` is a ``distributed.Client``; this does not import Dask."""
    return any(
        kind.__name__ == "Client" and kind.__module__.partition(".")[0] == "distributed" for kind in type(value).__mro__
    )


def address_of(client: Any) -> str:
    """Return the address of a client's scheduler.

    Raise ValueError if the client cannot be used: it is closed, asynchronous, or its workers are threads of this
    process.
    """
    if client.asynchronous:
        raise ValueError("expected a client for blocking calls; got an asynchronous one: use Client(...)")
    if client.status != "running" or client.scheduler is None:
        raise ValueError(f"expected a connected client; its status is {client.status!r}: make a new one")
    address = str(client.scheduler.address)
    if address.startswith("inproc://"):
        raise ValueError("expected workers in separate processes; got threads: use Client(processes=True)")
    return address


def override_of(cluster: str) -> str:
    """Return the ``--set`` override for ``--cluster``, quoted so that YAML syntax in a file name has no effect."""
    quoted = escape(cluster).replace("'", "''")
    return f"cluster.scheduler='{quoted}'"


def settings_of(cluster: str) -> ClusterSettings:
    """Return the settings for ``--cluster`` of a command that takes no configuration.

    Raise ConfigError if it is not ``local``, an address or the name of a file.
    """
    try:
        return ClusterSettings(scheduler=cluster)
    except ValidationError as error:
        what = error.errors()[0]["msg"].removeprefix("Value error, ")
        raise ConfigError(
            what, where=f"--cluster {cluster}", fix="give local, tcp://host:8786, or a scheduler file"
        ) from None
