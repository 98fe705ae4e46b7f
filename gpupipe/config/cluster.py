"""The ``cluster:`` section: which workers share a run, and how long they may keep it waiting."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field, ValidationError, field_validator

from gpupipe.config.environment import escape
from gpupipe.errors import ConfigError
from gpupipe.settings import Settings, Size

SCHEMES = ("tcp://", "tls://", "ucx://", "ucxx://", "ws://", "wss://")


class ClusterSettings(Settings):
    """Workers on Dask, under dask-cuda's own names; with `scheduler` left out, a run has none.

    What describes the workers is for those that are started here (``scheduler: local``). Those of a scheduler that runs
    already are as whoever started them made them; only how many to wait for is ours.
    """

    scheduler: str | None = Field(
        default=None,
        min_length=1,
        description="local: workers are started here, for this run. tcp://host:8786: those of a scheduler that runs. "
        "A file: the one that its --scheduler-file wrote.",
    )
    workers: int | None = Field(
        default=None,
        ge=1,
        description="Processes; default: one for each GPU, else as many as suit the cores. Of a scheduler that runs: "
        "how many to wait for; default: 1.",
    )
    threads: int | None = Field(
        default=None,
        ge=1,
        description="Partitions that a worker works on at a time; default: 1 on a GPU, else its share of the cores.",
    )
    memory_limit: Size | None = Field(
        default=None,
        description="Host memory of a worker, as in 2GiB: it spills to the disk before that, and is ended beyond; "
        "default: its share of the machine.",
    )
    protocol: Literal["tcp", "ucx"] = Field(default="tcp", description="How workers talk; ucx: by NVLink, InfiniBand.")
    rmm_pool_size: Size | None = Field(default=None, description="Device memory that a worker sets aside at once.")
    device_memory_limit: Size | None = Field(
        default=None, description="Device memory from which a worker moves what it holds to the host; default: 80 %."
    )
    enable_cudf_spill: bool = Field(default=False, description="Let cuDF move to the host what it does not use.")
    dashboard_address: str | None = Field(
        default=None, min_length=1, description="Where Dask shows its work, as in 127.0.0.1:8787; default: nowhere."
    )
    deadline: float = Field(
        default=60.0, gt=0, description="Seconds for which the whole cluster may do nothing before the run ends."
    )
    retries: int = Field(
        default=3, ge=0, description="Workers that may be lost over one and the same task before the run ends."
    )

    @field_validator("scheduler")
    @classmethod
    def _is_local_an_address_or_a_file(cls, scheduler: str | None) -> str | None:
        if scheduler is None or "://" not in scheduler:
            return scheduler
        scheme, _, rest = scheduler.partition("://")
        host, colon, port = rest.rpartition(":")
        if f"{scheme}://" not in SCHEMES or not (host and colon and port.isdecimal()):
            raise ValueError(f"{scheduler!r} is no address of a scheduler; write it as in tcp://host:8786")
        return scheduler

    @property
    def scheduler_file(self) -> Path | None:
        """The file that says where the scheduler is, if that is how it was given."""
        if self.scheduler in (None, "local") or "://" in str(self.scheduler):
            return None
        return Path(str(self.scheduler))


def override_of(cluster: str) -> str:
    """Return what ``--cluster`` means, as a ``--set``: quoted, so that nothing in a file's name is taken for YAML."""
    quoted = escape(cluster).replace("'", "''")
    return f"cluster.scheduler='{quoted}'"


def settings_of(cluster: str) -> ClusterSettings:
    """Return what ``--cluster`` means where there is no configuration.

    Raises
    ------
    ConfigError
        If it is neither ``local`` nor an address nor the name of a file.
    """
    try:
        return ClusterSettings(scheduler=cluster)
    except ValidationError as error:
        what = error.errors()[0]["msg"].removeprefix("Value error, ")
        raise ConfigError(
            what, where=f"--cluster {cluster}", fix="local, tcp://host:8786, or a scheduler file"
        ) from None
