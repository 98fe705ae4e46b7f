"""CPU metrics computed in advance: the host's half of the model comparisons, in a file that travels to the GPU machine.

``python -m gpupipe.bench.device.cpu_metrics --out FILE``, from the checkout, with ``GPUPIPE_DATA`` set, trains on the
CPU every model that a step or a test compares with its GPU twin. Where the environment variable ``GPUPIPE_CPU_METRICS``
names that file, `gpupipe.bench.device.parity.metrics_of` reads the CPU's metrics from it, and the time on the GPU
machine pays for GPU work alone. Entries that FILE already has are kept, so that an interrupted call can be repeated.

An entry is found by what determines the metrics: the resolved configuration, the contents of its tables, the version of
gpupipe. Library versions and the hash of gpupipe's sources are recorded beside the entries and compared with those of
the machine that reads them (`version_differences`): they are reported, and do not invalidate an entry, because the GPU
machine has other versions by nature, and a fix of the GPU path must not cost the CPU's metrics.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from gpupipe import __version__
from gpupipe.bench.device.child import ROOT
from gpupipe.bench.device.results import replace
from gpupipe.config import Config
from gpupipe.errors import ConfigError, DataError, GpupipeError
from gpupipe.pipeline.jsonfile import dumps
from gpupipe.pipeline.libraries import libraries
from gpupipe.pipeline.stages.keys import code_of, digest
from gpupipe.readers.read import input_files
from gpupipe.readers.settings import TableSource

VARIABLE = "GPUPIPE_CPU_METRICS"
# Sections that do not change a metric; tables are identified by their contents instead of their paths.
IRRELEVANT = {"name", "device", "fallback", "gpu", "cluster", "limits", "report", "output"}
LEARNERS = "tests.gpu.learners"  # the configurations of the tests; not in the wheel


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
        if source.prepare:  # the file with the function is among the input files
            section["prepare"] = source.prepare.rpartition(":")[2]
    return digest([__version__, document])


def _identity(path: str, size: int) -> str:
    file = Path(path)
    return hashlib.sha256(file.read_bytes()).hexdigest() if file.is_file() else f"{path}, {size}"


def recorded(config: Config) -> Mapping[str, float] | None:
    """Return the CPU metrics of `config` in the file that ``GPUPIPE_CPU_METRICS`` names; None if it has none.

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
    """Return where the libraries or sources here differ from those that the recorded metrics were computed with."""
    if not (name := os.environ.get(VARIABLE)):
        return []
    document, here = load(Path(name)), libraries()
    there: dict[str, str] = document["libraries"]
    lines = [
        f"CPU metrics: {library} {version} when recorded, {here.get(library, 'absent')} here"
        for library, version in sorted(there.items())
        if here.get(library) != version
    ]
    if document["sources"] != _sources():
        lines.append("CPU metrics: recorded with other sources of gpupipe; record them again if a CPU result changed")
    return lines


@cache
def load(path: Path) -> dict[str, Any]:
    """Return the document in a file of CPU metrics.

    Raises
    ------
    DataError
        If the file is absent or malformed.
    """
    fix = "write it with python -m gpupipe.bench.device.cpu_metrics --out FILE"
    try:
        document: dict[str, Any] = json.loads(path.read_text(encoding="utf8"))
        _ = document["metrics"], document["libraries"], document["sources"]
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise DataError(f"cannot read the CPU metrics: {error!r}", where=str(path), fix=fix) from None
    return document


def _sources() -> str:
    return digest([code_of(stage) for stage in ("reading", "features", "training")])


def record(path: Path, configurations: Iterator[tuple[str, Config]]) -> int:
    """Compute the CPU metrics that `path` lacks, and write the file after each of them.

    Returns
    -------
    int
        How many entries the file has for `configurations`.
    """
    from gpupipe.bench.device.parity import compute_metrics

    found: dict[str, Any] = {}
    if path.exists():
        earlier = load(path)
        if (earlier["libraries"], earlier["sources"]) == (libraries(), _sources()):
            found = dict(earlier["metrics"])
    keys = []
    for title, config in configurations:
        keys.append(key := key_of(config))
        if key in found:
            continue
        start = time.perf_counter()
        metrics = compute_metrics(config, "cpu")
        seconds = round(time.perf_counter() - start, 1)
        found[key] = {"title": title, "seconds": seconds, "metrics": metrics}
        print(f"{title}: {seconds:.1f} s", flush=True)
        replace(path, dumps({"libraries": libraries(), "sources": _sources(), "metrics": found}, indent=1) + "\n")
    return len({*keys} & {*found})


def configurations() -> Iterator[tuple[str, Config]]:
    """Yield title and configuration of each model that a step or a test compares on both devices."""
    from gpupipe.bench.device.comparisons import model_configurations

    yield from model_configurations()
    yield from import_module(LEARNERS).compared(Path(os.environ["GPUPIPE_DATA"]).resolve())


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the file of CPU metrics; return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m gpupipe.bench.device.cpu_metrics", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("--out", type=Path, metavar="FILE", required=True)
    options = parser.parse_args(arguments)
    try:
        if not (ROOT / "tests").is_dir():
            raise ConfigError("the tests are not in the wheel", where=str(ROOT), fix="run this from the checkout")
        if not os.environ.get("GPUPIPE_DATA"):
            raise ConfigError("GPUPIPE_DATA is not set", fix="set it to the folder of public tables")
        n = record(options.out, configurations())
    except GpupipeError as error:
        print(f"{error.title}: {error}", file=sys.stderr)
        return error.exit_code
    print(f"{options.out}: CPU metrics of {n} configurations")
    return 0


if __name__ == "__main__":
    sys.exit(main())
