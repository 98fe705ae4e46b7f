"""Data sheet figures of known GPUs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from gpupipe.errors import ConfigError, did_you_mean
from gpupipe.units import GIB

FILE = Path(__file__).with_suffix(".json")
# GDDR memory with error correction reports 15/16 of its size: 15,360 MiB of a T4, 23,028 MiB of an A10.
USABLE = 15 / 16
# Words that a driver may omit: "NVIDIA H100 80GB HBM3" is the SXM5 module.
VARIANTS = frozenset({"pcie", "sxm", "sxm2", "sxm4", "sxm5", "40gb", "80gb", "blackwell"})


@dataclass(frozen=True)
class GpuSpec:
    """Figures of one GPU; None where no source was found.

    - `key`, `name`: name in price files and options, and the product's name.
    - `segment`: "data centre", "workstation", "consumer" or "laptop".
    - `year`: year of the announcement.
    - `bandwidth_gbs`: peak memory bandwidth in 1e9 bytes per second.
    - `capability`: compute capability.
    - `fp32`, `fp64`: peak of plain arithmetic in TFLOPS.
    - `tf32`, `fp16`, `fp8`, `fp4`: peak of the tensor cores without sparsity, in TFLOPS.
    - `watts`: board power.
    - `pcie`: generation of 16 lanes of PCIe.
    - `cloud`: a cloud machine type with this GPU; "" if no source was found.
    """

    key: str
    name: str
    segment: str
    year: int
    memory_gb: float
    memory_type: str
    bandwidth_gbs: float | None
    capability: tuple[int, int]
    fp32: float | None
    fp64: float | None
    tf32: float | None
    fp16: float | None
    fp8: float | None
    fp4: float | None
    watts: float | None
    pcie: int | None
    cloud: str
    source: str

    @property
    def usable_bytes(self) -> int:
        """Bytes that a process can use, at least."""
        return int(self.memory_gb * GIB * USABLE)

    @property
    def lacking(self) -> tuple[str, ...]:
        """Names of the figures without which no time can be estimated."""
        return tuple(name for name in ("bandwidth_gbs", "fp32") if getattr(self, name) is None)

    def to_json(self) -> dict[str, Any]:
        """Return the figures as JSON values."""
        return vars(self) | {"capability": ".".join(map(str, self.capability))}


@dataclass(frozen=True)
class GpuCatalog:
    """The known GPUs; `date` is the day on which the sources were read."""

    date: str
    gpus: tuple[GpuSpec, ...]

    def choose(self, keys: Sequence[str], where: str) -> tuple[GpuSpec, ...]:
        """Return the GPUs with these keys, or all if there are none. Raise ConfigError if a GPU is unknown."""
        require_known(keys, [gpu.key for gpu in self.gpus], where)
        return tuple(gpu for gpu in self.gpus if gpu.key in keys) if keys else self.gpus

    def named(self, name: str) -> GpuSpec | None:
        """Return the GPU with a name that a driver reports, such as "NVIDIA A100-SXM4-40GB"; None if it is unknown."""
        words = _words(name)
        found = [gpu for gpu in self.gpus if _words(gpu.name) - VARIANTS <= words]
        return max(found, key=lambda gpu: len(_words(f"{gpu.name} {gpu.memory_type}") & words), default=None)


def require_known(keys: Iterable[str], known: Sequence[str], where: str) -> None:
    """Raise a ConfigError for the first key that is not known."""
    for key in keys:
        if key not in known:
            fix = did_you_mean(key, known) or f"one of {', '.join(known)}"
            raise ConfigError(f"unknown GPU {key!r}", where=where, fix=fix)


@cache
def load_gpus() -> GpuCatalog:
    """Return the known GPUs."""
    data = json.loads(FILE.read_text(encoding="utf-8"))
    sources = data["sources"]
    return GpuCatalog(data["date"], tuple(_spec(row, sources) for row in data["gpus"]))


def _spec(row: dict[str, Any], sources: dict[str, str]) -> GpuSpec:
    major, minor = map(int, row["capability"].split("."))
    return GpuSpec(
        **{
            **row,
            "capability": (major, minor),
            "cloud": row["cloud"] or "",
            "source": sources[row["source"]],
        }
    )


def _words(name: str) -> set[str]:
    """Return the words of a name up to a bracket, without its maker, in lower case."""
    return set(name.split("(")[0].casefold().replace("-", " ").split()) - {"nvidia", "geforce", "tesla", "generation"}
