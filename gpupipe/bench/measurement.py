"""The whole measurement: every runner on every table, in one document that describes the machine."""

from __future__ import annotations

import json
import os
import platform
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from gpupipe.backends import choose, device_report
from gpupipe.backends.base import Backend
from gpupipe.bench.figures import PROCESS, break_even, extras_summary, known_median, summary
from gpupipe.bench.models import NO_MODEL, choose_model, peer_word
from gpupipe.bench.process import run_child
from gpupipe.bench.runners import FRESH, STEADY, FreshRunner, Progress, Runner, SteadyRunner, peer_runners, run_in_turns
from gpupipe.bench.sample import BenchSample
from gpupipe.config import Config, load_config
from gpupipe.config.environment import escape
from gpupipe.config.redacted_output import redact_output
from gpupipe.errors import ConfigError
from gpupipe.io.input_files import input_files
from gpupipe.io.origin_settings import ORIGIN_OF, ORIGINS
from gpupipe.units import GIB
from gpupipe.version import __version__


@dataclass(frozen=True)
class BenchRequest:
    """The options of ``gpupipe bench``.

    - `repeat`: number of runs of each runner.
    - `peers`: scripts that follow the peer protocol (`gpupipe.bench.sample`).
    - `data`: a file to read instead of the configuration's source.
    - `model`: see `gpupipe.bench.models.choose_model`.
    - `steady`: whether to measure gpupipe warm too: the stages repeated in one process.
    - `rows`: sizes of the generated table.
    - `serve`: whether the peers also transform all rows.
    """

    config: Path
    overrides: tuple[str, ...] = ()
    repeat: int = 5
    peers: tuple[Path, ...] = ()
    data: Path | None = None
    model: str | None = None
    steady: bool = False
    rows: tuple[int, ...] = ()
    serve: bool = False


def measure(request: BenchRequest, progress: Progress) -> dict[str, Any]:
    """Measure and return the result document: machine, medians, ratios and all runs.

    Raise GpupipeError if the configuration, a peer or the data is invalid.
    """
    config = load_config(request.config, request.overrides)
    redactor = config.origin.redactor
    with redact_output(redactor):
        return {key: redactor.hide_all(value) for key, value in _measured(request, config, progress).items()}


def _measured(request: BenchRequest, config: Config, progress: Progress) -> dict[str, Any]:
    document: dict[str, Any] = {
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
        "gpupipe": __version__,
        "config": str(request.config),
        "overrides": list(request.overrides),
        "repeat": request.repeat,
        "baseline": STEADY if request.steady else FRESH,
        "folds": config.split.cv or 1,
        "device": describe_device(choose(config.device)),
        "machine": describe_machine(),
    }
    with TemporaryDirectory(prefix="gpupipe-bench-") as name:
        folder = Path(name)
        tables = inputs(config, request.data, sorted(set(request.rows)), folder)
        document["tables"] = [_measure_table(request, config, table, folder, progress) for table in tables]
    libraries = [table.pop("libraries") for table in document["tables"]]
    document["machine"]["libraries"] = libraries[0]
    if request.rows:
        document["break_even_rows"] = break_even_rows(document["tables"])
    return document


def _measure_table(
    request: BenchRequest, config: Config, table: BenchTable, folder: Path, progress: Progress
) -> dict[str, Any]:
    progress(config.origin.redactor.hide(f"table: {table.label}"))
    ours = FreshRunner(_arguments(request, table))
    word = peer_word(choose_model(config, request.model), request.model) if request.peers else NO_MODEL
    others = peer_runners(request.peers, table.path, word)
    warm = [SteadyRunner(ours.arguments, request.repeat)] if request.steady else []
    runners: list[Runner] = [*warm, ours, *others]
    samples = run_in_turns(runners, request.repeat, folder, progress)
    first = samples[FRESH][0].document
    described = {name: first[name] for name in ("model", "rows", "features", "task", "metric", "interpreter")}
    return {
        "data": table.label,
        **described,
        "runners": summary(samples, [*(each.name for each in warm), ours.name], first["metric"]),
        "extras": _measure_extras(request, table, folder, progress),
        "libraries": ours.libraries,
    }


def _arguments(request: BenchRequest, table: BenchTable) -> list[str]:
    """Return the arguments of a child process, without the encoded cache, which would hide the time of the reader."""
    overrides = [*request.overrides, *table.overrides, "source.cache=false"]
    sets = chain.from_iterable(("--set", override) for override in overrides)
    return [str(request.config), *sets, *(["--model", request.model] if request.model else [])]


def _measure_extras(request: BenchRequest, table: BenchTable, folder: Path, progress: Progress) -> dict[str, Any]:
    """Time the encoded cache and serving in separate processes, since the totals of the peers include neither."""
    arguments = _arguments(request, table)
    servers = peer_runners(request.peers, table.path, NO_MODEL, ["--serve"]) if request.serve else []
    ours: list[dict[str, Any]] = []
    theirs: dict[str, list[BenchSample]] = {server.name: [] for server in servers}
    for turn in range(request.repeat):
        progress(f"turn {turn + 1} of {request.repeat}: {FRESH}, encoded cache and serving")
        ours.append(run_child(["extras", *arguments], folder / f"extras_{turn}.json").document)
        for server in servers:
            progress(f"turn {turn + 1} of {request.repeat}: {server.name}, serving")
            theirs[server.name] += server.run(turn, folder)
    serving = {name: _serving(samples) for name, samples in theirs.items()}
    notes = list(dict.fromkeys(chain.from_iterable(document["notes"] for document in ours)))
    return {**extras_summary(ours), "peers": serving, "notes": notes, "runs": ours}


def _serving(samples: Sequence[BenchSample]) -> dict[str, float | None]:
    documents = [sample.document for sample in samples]
    stage = "serve_transform_all"
    return {
        "seconds": known_median([document["stages_s"].get(stage) for document in documents]),
        "cpu_seconds": known_median([document["stages_cpu_s"].get(stage) for document in documents]),
    }


def break_even_rows(tables: Sequence[dict[str, Any]]) -> dict[str, int | None]:
    """Return for each peer the number of rows from which the whole gpupipe process is faster; None if never."""

    def seconds(name: str) -> list[float | None]:
        return [table["runners"][name]["seconds"][PROCESS] for table in tables]

    rows = [table["rows"] for table in tables]
    others = [name for name in tables[0]["runners"] if name not in (FRESH, STEADY)]
    return {name: break_even(rows, seconds(FRESH), seconds(name)) for name in others}


def describe_machine() -> dict[str, Any]:
    """Return CPU, cores, threads used by a run, memory, operating system, Python version and the current load."""
    report = device_report()
    load = os.getloadavg() if hasattr(os, "getloadavg") else (0.0, 0.0, 0.0)
    return {
        "cpu": cpu_model(),
        "cores": os.cpu_count(),
        "threads": report.n_threads,
        "memory_gib": round(report.memory.total / GIB, 1),
        "system": platform.platform(),
        "python": platform.python_version(),
        "load_average": [round(value, 2) for value in load],
    }


def cpu_model(cpuinfo: Path = Path("/proc/cpuinfo")) -> str:
    """Return the name of the CPU, as reported by the system."""
    try:
        lines = cpuinfo.read_text(encoding="utf8", errors="replace").splitlines()
    except OSError:
        lines = []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, "") or platform.processor() or platform.machine()


def describe_device(backend: Backend) -> dict[str, str]:
    """Return the name of the device and the reason for its choice; on the CPU also why no GPU was measured."""
    described = {"name": backend.name, "reason": backend.reason}
    if backend.name == "cpu":
        obstacle = device_report().gpu_obstacle
        described["gpu"] = f"not measured: {obstacle or 'the configuration selects the CPU'}"
    return described


@dataclass(frozen=True)
class BenchTable:
    """A table to measure.

    - `label`: name in the report.
    - `overrides`: overrides, as in ``--set``, that make the configuration read the table.
    - `path`: file for the peers; None unless there is exactly one.
    """

    label: str
    overrides: tuple[str, ...] = ()
    path: Path | None = None


def inputs(config: Config, data: Path | None, sizes: Sequence[int], folder: Path) -> Iterator[BenchTable]:
    """Iterate over the tables to measure: one for each of `sizes`, or a single one.

    A generated table is written to a Parquet file in `folder`, so that reading is measured and generation is not. So is
    the result of a query, or a Delta or Iceberg table. `data` is a file to read instead of the configuration's source.
    `sizes` are numbers of rows to generate; none for that of the configuration. Raise ConfigError if `sizes` are given
    and the source is not generated, or `data` does not exist.
    """
    source = config.source
    if sizes and (source.generate != "churn" or data is not None):
        raise ConfigError(
            "--rows needs a generated table",
            where="--rows",
            fix="omit --data, and use a configuration with source: {generate: churn}",
        )
    if data is not None:
        if not data.is_file():
            raise ConfigError(f"there is no file {data}", where="--data", fix="pass one CSV or Parquet file")
        yield _file(data, data.name)
    elif source.is_external:
        copy = input_files(source)[0]  # once, so that reading is measured and the database is not
        path = shutil.move(copy.path, folder / "table.parquet")
        yield _file(Path(path), f"{source.label}, copied to Parquet")
    elif source.generate == "churn":
        for rows in sizes or [source.rows]:
            yield _generated(rows, source.seed, folder)
    else:
        paths = source.paths
        only = Path(paths[0]) if len(paths) == 1 and Path(paths[0]).is_file() else None
        yield BenchTable(source.label, path=only)


def _generated(rows: int, seed: int, folder: Path) -> BenchTable:
    path = folder / f"churn_{rows}.parquet"
    run_child(["table", str(path), "--rows", str(rows), "--seed", str(seed)], folder / "table.json")
    return _file(path, f"generated churn table, seed {seed}, as Parquet")


def _file(path: Path, label: str) -> BenchTable:
    quoted = json.dumps(escape(str(path.resolve())))
    others = [f"source.{origin}=null" for origin in (*ORIGINS, *ORIGIN_OF) if origin not in ("path", "frame")]
    return BenchTable(label, (f"source.path={quoted}", *others, "source.format=auto"), path.resolve())
