"""Predictions over HTTP, one worker on one core: ``python -m benchmarks.serving``.

``gpupipe serve``          with the model of configs/churn.yaml, XGBoost with 150 trees of depth 4
``FastAPI, scikit-learn``  a pipeline with the same kinds of features and the same model, on the same event loop and
                           HTTP parser (uvloop, httptools)
``uvicorn, no work``       an application that reads the body and answers with as many bytes: what uvicorn costs

The server is pinned to one core, the load generator to another one. 32 clients keep their connections open; wrk sends
the rows of 20,000 different customers in turn, the next one when the last one was answered, and h2load sends one row
at a fixed rate. Servers take turns. The result of a scenario is that of the round with the highest rate, or with the
lowest p99 for the fixed rate, because other work on the machine only lowers one and raises the other. ``CPU`` are the
microseconds of CPU time of the server per row.

The exit code is 1 if a request failed, or if the server's probabilities differ from those of `gpupipe.load_scorer`.
Needs the packages of `benchmarks.single_row`, FastAPI, uvicorn with uvloop and httptools, wrk and h2load.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any
from urllib.request import urlopen

from benchmarks.serving.load import LoadResult, closed_loop, fixed_rate, require_generators
from benchmarks.serving.request_bodies import BATCH, INFER, N_BATCH, ONE, write_bodies
from benchmarks.serving.servers import (
    ANSWER,
    FASTAPI,
    FLOOR,
    FOLDER,
    GPUPIPE,
    RunningServer,
    command_of,
    free_port,
    running,
)
from benchmarks.single_row.workloads import WORKLOADS, prepare, read_rows
from gpupipe.bench.measurement import describe_machine
from gpupipe.errors import GpupipeError
from gpupipe.files.jsonfile import write_json

SECONDS = 10.0
ROUNDS = 3
RATE = 3000.0
WARM_UP_SECONDS = 2.0
N_CHECKED = 200
WORKLOAD = "churn-xgboost"
FIXED = "one row, /predict, fixed rate"
SCENARIOS = {  # servers of each scenario
    ONE: (GPUPIPE, FASTAPI, FLOOR),
    FIXED: (GPUPIPE, FLOOR),
    BATCH: (GPUPIPE, FASTAPI, FLOOR),
    INFER: (GPUPIPE,),
}


@dataclass
class Comparison:
    """Servers that take turns on one core, and their results.

    Attributes
    ----------
    folder : Path
        Filled by `benchmarks.single_row.workloads.prepare`.
    seconds : float
        Time of a measurement.
    rate : float
        Requests per second of `FIXED`.
    server_core, load_core : int
    lengths : dict of str to int
        Length of gpupipe's answer by scenario.
    """

    folder: Path
    seconds: float
    rate: float
    server_core: int
    load_core: int
    lengths: dict[str, int] = field(default_factory=dict)

    def measure(self, name: str, scenario: str, bodies: Path) -> dict[str, Any]:
        """Return the result of a server, after a warm-up."""
        with self.running(name, scenario) as server:
            path = "/predict" if scenario != INFER else f"/v2/models/{_model_name(server)}/infer"
            if name == GPUPIPE:
                self.lengths[scenario] = len(server.post(path, bodies.read_bytes().splitlines()[0]))
            closed_loop(server.url, path, bodies, WARM_UP_SECONDS, self.load_core)
            before = server.cpu_seconds()
            if scenario == FIXED:
                result = fixed_rate(server.url, path, bodies, self.seconds, self.load_core, self.rate)
            else:
                result = closed_loop(server.url, path, bodies, self.seconds, self.load_core)
            return _described(result, server.cpu_seconds() - before, N_BATCH if scenario == BATCH else 1)

    def running(self, name: str, scenario: str) -> AbstractContextManager[RunningServer]:
        """Return the context in which a server runs."""
        settings = {FOLDER: str(self.folder), ANSWER: str(self.lengths.get(scenario, 0))}
        port = free_port()
        return running(command_of(name, self.folder, port), port, {self.server_core}, settings)


def compare(comparison: Comparison, rounds: int) -> dict[str, Any]:
    """Return the results of all servers and scenarios in each round."""
    from gpupipe import load_scorer

    scorer = load_scorer(comparison.folder / "run")
    found: dict[str, dict[str, list[dict[str, Any]]]] = {name: {} for name in SCENARIOS}
    with tempfile.TemporaryDirectory() as name:
        kinds = {column.source: column.kind for column in scorer.columns}
        files = write_bodies(read_rows(comparison.folder), kinds, Path(name))
        for turn in range(rounds):
            for scenario, servers in SCENARIOS.items():
                # gpupipe is first in the first round: others give answers of the same length
                for server in servers if turn % 2 == 0 else reversed(servers):
                    print(f"round {turn + 1} of {rounds}: {scenario}, {server}", file=sys.stderr, flush=True)
                    result = comparison.measure(server, scenario, files.get(scenario, files[ONE]))
                    found[scenario].setdefault(server, []).append(result)
        with comparison.running(GPUPIPE, ONE) as running_server:
            n_unequal = count_unequal(running_server, scorer, files[ONE])
    return {"rounds": found, "unequal": n_unequal, "rate": comparison.rate}


def _model_name(server: RunningServer) -> str:
    with urlopen(server.url + "/schema", timeout=30) as response:
        name: str = json.loads(response.read())["name"]
        return name


def _described(result: LoadResult, cpu_seconds: float, rows_per_request: int) -> dict[str, Any]:
    rows = result.requests * rows_per_request
    return {
        **asdict(result), "requests_per_second": result.rate, "rows_per_second": result.rate * rows_per_request,
        "cpu_us_per_row": cpu_seconds * 1e6 / max(1, rows), "load_average": os.getloadavg()[0],
    }  # fmt: skip


def count_unequal(server: RunningServer, scorer: Any, bodies: Path) -> int:
    """Return the number of rows, of the first `N_CHECKED`, whose answer has other probabilities than the scorer."""
    n = 0
    for body in bodies.read_bytes().splitlines()[:N_CHECKED]:
        answer = json.loads(server.post("/predict", body))
        found = [answer[f"probability_{label}"] for label in scorer.goal.labels]
        n += found != scorer.predict_proba(json.loads(body)).tolist()
    return n


def best_round(rounds: Sequence[Mapping[str, Any]], scenario: str) -> Mapping[str, Any]:
    """Return the round that other work on the machine disturbed least."""
    if scenario == FIXED:
        return min(rounds, key=lambda each: each["p99_ms"])
    return max(rounds, key=lambda each: each["rows_per_second"])


def text_of(figures: Mapping[str, Any]) -> str:
    """Return the results as a table."""
    machine = figures["machine"]
    lines = [f"{machine['cpu']}, Python {machine['python']}, load {machine['load_average'][0]:.1f}", ""]
    lines += ["| scenario | server | requests/s | rows/s | p50 ms | p99 ms | CPU us per row | failed | load |"]
    lines += ["|---|---|---:|---:|---:|---:|---:|---:|---:|"]
    for scenario, servers in figures["rounds"].items():
        for name, rounds in servers.items():
            best = best_round(rounds, scenario)
            label = f"{scenario}, {figures['rate']:,.0f}/s" if scenario == FIXED else scenario
            cells = [
                label, name, f"{best['requests_per_second']:,.0f}", f"{best['rows_per_second']:,.0f}",
                f"{best['p50_ms']:.2f}", f"{best['p99_ms']:.2f}", f"{best['cpu_us_per_row']:.1f}",
                str(sum(each["failed"] for each in rounds)), f"{best['load_average']:.1f}",
            ]  # fmt: skip
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join([*lines, "", f"answers with other probabilities than the scorer: {figures['unequal']}"])


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table; return 1 if a request failed or a probability differs."""
    cores = sorted(os.sched_getaffinity(0))
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.serving", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=SECONDS, help=f"time of a round (default: {SECONDS})")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help=f"(default: {ROUNDS})")
    parser.add_argument("--rate", type=float, default=RATE, help=f"requests per second (default: {RATE:.0f})")
    parser.add_argument("--server-core", type=int, default=cores[0], help="(default: the first one)")
    parser.add_argument("--load-core", type=int, default=cores[-1], help="(default: the last one)")
    parser.add_argument("--work", type=Path, help="folder of models and peers (default: a temporary folder)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all results to this JSON file")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as temporary:
        folder = (options.work or Path(temporary)) / WORKLOAD
        try:
            require_generators()
            prepare(WORKLOADS[WORKLOAD], folder, peers=["sklearn"])
            comparison = Comparison(folder, options.seconds, options.rate, options.server_core, options.load_core)
            figures = {"machine": describe_machine(), **compare(comparison, options.rounds)}
        except GpupipeError as error:
            print(f"{error.title}: {error}", file=sys.stderr)
            return error.exit_code
    if options.json:
        write_json(options.json, figures)
    print(text_of(figures))
    failed = sum(each["failed"] for servers in figures["rounds"].values() for run in servers.values() for each in run)
    return 1 if failed or figures["unequal"] else 0


if __name__ == "__main__":
    sys.exit(main())
