"""Limits on the process of an untrusted model, and errors about them. Imports no library for tables."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gpupipe.backends import machine
from gpupipe.children import ChildError
from gpupipe.config.error_text import describe_python_value
from gpupipe.errors import ArtifactError, ConfigError, GpupipeError, LimitError, did_you_mean
from gpupipe.units import GIB, MIB, parse_duration_us

SECONDS = 120.0  # per request, including loading the model
SECONDS_PER_ROW = 0.002  # of the table and further tables
LEAST_MEMORY = 512 * MIB  # needed by the libraries: XGBoost takes 0.3 GiB on 2 cores
MEMORY_PER_THREAD = 64 * MIB  # stacks and buffers of the thread pools of three libraries
MOST_QUOTED = 200  # characters of the process's last line of output
NO_PLUGINS = "an untrusted model must not use plug-ins"
DO_NOT_USE = "do not use this model; if you trust its author, check its files with `gpupipe verify`"
# Arrow's default allocator reserves 1 GiB at once, which counts towards the memory limit.
SETTINGS = {"ARROW_DEFAULT_MEMORY_POOL": "system"}


@dataclass(frozen=True)
class UntrustedLimits:
    """Limits on the child process of an untrusted model.

    `memory_bytes` is the memory that the child may allocate in addition to its imports. `seconds` is the time per
    request: loading the model, or a batch of up to 1,048,576 rows. None: 120 s plus 2 ms per row of the batch and
    further tables.
    """

    memory_bytes: int
    seconds: float | None = None

    @classmethod
    def of(cls, settings: Mapping[str, Any] | None = None) -> UntrustedLimits:
        """Return the limits for the `limits` argument of `gpupipe.load_model`.

        - `settings`: ``memory`` in bytes or as text (``"4GiB"``); default: half of the available memory, but at least
          512 MiB plus 64 MiB per thread. ``time`` in seconds or as text (``"5min"``).

        Raise ConfigError if there is another key, or a value is not a size of at least 512 MiB, or not a duration.

        Examples
        --------
        >>> UntrustedLimits.of({"memory": "4GiB", "time": "5min"})
        UntrustedLimits(memory_bytes=4294967296, seconds=300.0)
        """
        if not isinstance(settings, Mapping | None):
            fix = 'limits={"memory": "4GiB", "time": "5min"}'
            raise ConfigError(f"limits: expected a dict; got {describe_python_value(settings)}", fix=fix)
        settings = settings or {}
        if unknown := [name for name in settings if name not in ("memory", "time")]:
            fix = did_you_mean(str(unknown[0]), ("memory", "time")) or "use memory or time"
            raise ConfigError(f"unknown limit {unknown[0]!r}", where="limits", fix=fix)
        if "memory" in settings:
            from gpupipe.config.scalars import read_size

            memory_bytes = read_size("limits.memory", settings["memory"])
            if memory_bytes < LEAST_MEMORY:
                what = f"expected at least 512 MiB, which the libraries of a model need; got {settings['memory']!r}"
                raise ConfigError(what, where="limits.memory", fix="allow 1GiB or more")
        else:
            least = LEAST_MEMORY + MEMORY_PER_THREAD * machine.n_threads()
            memory_bytes = max(least, machine.memory().available // 2)
        return cls(memory_bytes, _seconds(settings["time"]) if "time" in settings else None)

    def seconds_for(self, n_rows: int) -> float:
        """Return the time limit of a request with `n_rows` rows."""
        return SECONDS + SECONDS_PER_ROW * n_rows if self.seconds is None else self.seconds


def out_of_memory(where: str, memory_bytes: int) -> ArtifactError:
    """Return the error of a model that needs more memory than its limit."""
    # Must not match `gpupipe.backends.out_of_memory.WORDS`, or callers would retry with fewer rows.
    return ArtifactError(
        f"the untrusted model exceeded its memory limit of {memory_bytes / GIB:,.2f} GiB",
        where=where,
        fix="if you trust its author, allow more memory: --limit memory=SIZE (limits={'memory': ...} in Python)",
    )


def process_error(error: ChildError, where: str, limits: UntrustedLimits, seconds: float) -> GpupipeError:
    """Return the error of a model whose process ended, or reached a limit; `seconds` is that of the request."""
    match error.cause:
        case "start":
            fix = "free memory, or check the installation with `gpupipe doctor`"
            return LimitError(f"the child process for the untrusted model {error.how}", fix=fix)
        case "memory":
            return out_of_memory(where, limits.memory_bytes)
        case "time":
            fix = "if you trust its author, allow more time: --limit time=DURATION (limits={'time': ...} in Python)"
            return ArtifactError(f"the untrusted model exceeded its limit of {seconds:,g} s", where=where, fix=fix)
    last = f": {error.output.splitlines()[-1].strip()[:MOST_QUOTED]}" if error.output else ""
    return ArtifactError(f"the child process of the untrusted model {error.how}{last}", where=where, fix=DO_NOT_USE)


def _seconds(value: Any) -> float:
    try:
        found = parse_duration_us(value) / 1e6 if isinstance(value, str) else value
    except ValueError as error:
        raise ConfigError(str(error), where="limits.time") from None
    if isinstance(found, bool) or not isinstance(found, int | float) or not 0 < found < math.inf:
        raise ConfigError(
            f'expected seconds, or text such as "5min"; got {describe_python_value(value)}', where="limits.time"
        )
    return float(found)
