"""Reader of CPU metrics computed in advance, from the file that ``GPUPIPE_CPU_METRICS`` names.

The key of an entry is what determines the metrics: the resolved configuration, the contents of its tables, and the
version of gpupipe. Library versions and the hash of gpupipe's sources are recorded with the entries. Differences from
the machine that reads them are reported (`version_differences`) but do not invalidate an entry: the GPU machine
naturally has other versions, and a fix of the GPU path must not discard the CPU's metrics.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from gpupipe import __version__
from gpupipe.config import Config
from gpupipe.errors import DataError
from gpupipe.files.libraries import libraries
from gpupipe.io.input_files import input_files
from gpupipe.io.settings import TableSource
from gpupipe.training.checkpoints.keys import code_digest, digest

VARIABLE = "GPUPIPE_CPU_METRICS"
# Sections that do not affect metrics; tables are identified by their contents instead of their paths.
IRRELEVANT = {"name", "device", "fallback", "gpu", "cluster", "limits", "report", "output"}


def key_of(config: Config) -> str:
    """Return the key of a configuration's metrics: equal for equal tables, wherever they are stored.

    Raises
    ------
    DataError, ConfigError
        If a table of `config` is absent.
    """
    document = config.model_dump(mode="json", by_alias=True, exclude=IRRELEVANT)
    sections: list[tuple[dict[str, Any], TableSource]] = [(document["source"], config.source)]
    sections += [(document["tables"][name], table) for name, table in config.tables.items()]
    for section, source in sections:
        section["path"] = [_identity(file.path, file.size) for file in input_files(source)]
        section.pop("cache", None)
        if source.prepare:  # the file that contains the function is one of the input files
            section["prepare"] = source.prepare.rpartition(":")[2]
    return digest([__version__, document])


def _identity(path: str, size: int) -> str:
    file = Path(path)
    return hashlib.sha256(file.read_bytes()).hexdigest() if file.is_file() else f"{path}, {size}"


def recorded(config: Config) -> Mapping[str, float] | None:
    """Return the CPU metrics of `config` from the file that ``GPUPIPE_CPU_METRICS`` names, or None.

    Raises
    ------
    DataError
        If the variable is set and the file is absent or malformed.
    """
    if not (name := os.environ.get(VARIABLE)):
        return None
    found = load(Path(name))["metrics"].get(key_of(config))
    return None if found is None else {name: float(value) for name, value in found["metrics"].items()}


def version_differences() -> list[str]:
    """Return the differences between the libraries and sources here and those of the recorded metrics."""
    if not (name := os.environ.get(VARIABLE)):
        return []
    document, here = load(Path(name)), libraries()
    there: dict[str, str] = document["libraries"]
    lines = [
        f"CPU metrics: {library} {version} when recorded, {here.get(library, 'absent')} here"
        for library, version in sorted(there.items())
        if here.get(library) != version
    ]
    if document["sources"] != sources():
        lines.append(
            "CPU metrics: recorded with different sources of gpupipe; record them again if a CPU result changed"
        )
    return lines


@cache
def load(path: Path) -> dict[str, Any]:
    """Return the parsed file of CPU metrics.

    Raises
    ------
    DataError
        If the file is absent or malformed.
    """
    fix = "write it with python -m benchmarks.device.cpu_metrics --out FILE"
    try:
        document: dict[str, Any] = json.loads(path.read_text(encoding="utf8"))
        _ = document["metrics"], document["libraries"], document["sources"]
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise DataError(f"cannot read the CPU metrics: {error!r}", where=str(path), fix=fix) from None
    return document


def sources() -> str:
    """Return the hash of the sources that determine a metric."""
    return code_digest()
