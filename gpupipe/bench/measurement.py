"""The whole measurement: every runner on every table, in one result document."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from gpupipe.backends import choose
from gpupipe.bench.figures import PROCESS, break_even, extras_summary, known_median, summary
from gpupipe.bench.inputs import BenchTable, inputs
from gpupipe.bench.machine import describe_device, describe_machine
from gpupipe.bench.models import NO_MODEL, choose_model, peer_word
from gpupipe.bench.process import run_child
from gpupipe.bench.runners import FRESH, STEADY, FreshRunner, Progress, Runner, SteadyRunner, peer_runners, run_in_turns
from gpupipe.bench.sample import BenchSample
from gpupipe.config import Config, load_config
from gpupipe.config.redacted_output import redact_output
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
    """Measure every runner on one table."""
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
