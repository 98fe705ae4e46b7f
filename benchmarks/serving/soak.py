"""Minutes of load on ``gpupipe serve`` with a reload and a killed worker: ``python -m benchmarks.serving.soak``.

32 clients keep their connections open and send single rows at 80 % of the highest rate that they reach before. They
check each answer: its probability must equal that of `gpupipe.load_scorer`, bit for bit. At 40 % of the time, a
symbolic link is switched to a second model: answers may come from the first model until the worker has reloaded, and
not afterwards. At 60 %, one worker is killed: only requests that are in flight on its connections may fail, one for
each. The clients connect again.

The resident memory of each process is sampled every second. Its growth is the median of the last tenth of its samples
divided by that of the first tenth after its warm-up, minus 1; the warm-up is a fifth of the time, at most a minute.

The exit code is 1 if a further request failed, or a process grew by more than 2 %.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.serving.client import Clients, LoadRecord, http_request
from benchmarks.serving.load import CLIENTS
from benchmarks.serving.observation import connections_by_process, resident_bytes
from benchmarks.serving.request_bodies import json_row
from benchmarks.serving.servers import RunningServer, free_port, running
from benchmarks.single_row.workloads import WORKLOADS, prepare, read_rows, train_run
from gpupipe.bench.measurement import describe_machine
from gpupipe.children import python_command
from gpupipe.errors import GpupipeError
from gpupipe.files.jsonfile import dumps, write_json

MINUTES = 10.0
WORKERS = 2
SHARE = 0.8
TOP_SECONDS = 10.0
RELOAD_AT, KILL_AT = 0.4, 0.6  # shares of the time
MOST_GROWTH = 0.02
WARM_UP_SECONDS = 60.0
RELOAD_SECONDS = 15.0
WORKLOAD = "churn-xgboost"
OTHER_SEED = 8
N_ROWS = 5000

Samples = dict[int, list[tuple[float, int]]]
"""Seconds since the start and resident bytes, by process."""


class Disturbance:
    """The reload and the kill, and the memory samples, during the load."""

    def __init__(self, server: RunningServer, port: int, link: Path, model: Path, seconds: float) -> None:
        self.server = server
        self.port = port
        self.link = link
        self.model = model
        self.seconds = seconds
        self.samples: Samples = defaultdict(list)
        self.reloaded_at = self.killed_at = 0.0
        self.killed = 0
        self.killed_ports: set[int] = set()

    async def run(self) -> None:
        """Sample memory, and disturb the server at the set times."""
        started = time.perf_counter()
        while (now := time.perf_counter() - started) < self.seconds:
            for pid in self.server.pids:
                if (found := resident_bytes(pid)) is not None:
                    self.samples[pid].append((now, found))
            if not self.reloaded_at and now >= RELOAD_AT * self.seconds:
                self.reloaded_at = now
                switch_link(self.link, self.model)
            if not self.killed_at and now >= KILL_AT * self.seconds:
                self._kill()
                self.killed_at = now
            await asyncio.sleep(1.0)

    def _kill(self) -> None:
        processes = connections_by_process(self.server.pids, self.port)
        self.killed = max(set(processes.values()), key=list(processes.values()).count)
        self.killed_ports = {client for client, pid in processes.items() if pid == self.killed}
        os.kill(self.killed, signal.SIGKILL)


def switch_link(link: Path, target: Path) -> None:
    """Make a symbolic link point to `target`, atomically."""
    new = link.with_name(f"{link.name}.new")
    new.symlink_to(target)
    os.replace(new, link)


def soak(folder: Path, minutes: float, workers: int, rate: float | None) -> dict[str, Any]:
    """Return the findings of a soak test with the models of `folder`, ``run`` and ``run-2``."""
    from gpupipe import load_scorer

    runs = [folder / "run", folder / "run-2"]
    rows = read_rows(folder)[:N_ROWS]
    scorers = [load_scorer(run) for run in runs]
    expected = [scorer.predict_proba(rows)[:, 1].tolist() for scorer in scorers]
    key = f"probability_{scorers[0].goal.labels[1]}"
    seconds, port = minutes * 60, free_port()
    requests = [http_request("/predict", dumps(json_row(row)).encode(), f"127.0.0.1:{port}") for row in rows]
    clients = Clients("127.0.0.1", port, requests, expected, key)
    with tempfile.TemporaryDirectory() as name:
        link = Path(name) / "model"
        link.symlink_to(runs[0])
        command = python_command("-m", "gpupipe", "serve", str(link), "--port", str(port), "--workers", str(workers))
        with running(command, port, os.sched_getaffinity(0)) as server:
            return asyncio.run(_disturbed(server, clients, link, runs[1], seconds, rate))


async def _disturbed(
    server: RunningServer, clients: Clients, link: Path, model: Path, seconds: float, rate: float | None
) -> dict[str, Any]:
    top = None
    if rate is None:
        await clients.load(TOP_SECONDS / 5, CLIENTS)
        found = await clients.load(TOP_SECONDS, CLIENTS)
        top = sum(found.answers.values()) / TOP_SECONDS
        rate = SHARE * top
    print(f"{rate:,.0f} requests/s for {seconds / 60:g} minutes", file=sys.stderr, flush=True)
    disturbance = Disturbance(server, clients.port, link, model, seconds)
    loads = [os.getloadavg()[0]]
    record, _ = await asyncio.gather(clients.load(seconds, CLIENTS, rate), disturbance.run())
    return {"top_rate": top, "rate": rate, "load_average": [*loads, os.getloadavg()[0]]} | describe(
        record, disturbance, seconds
    )


def describe(record: LoadRecord, disturbance: Disturbance, seconds: float) -> dict[str, Any]:
    """Return the findings: counts, latencies, failures and the growth of each process."""
    in_flight = [each for each in record.failures if each.port in disturbance.killed_ports]
    is_allowed = {each.port: each for each in in_flight if each.seconds <= disturbance.killed_at + 1.0}
    lost = [each for each in record.failures if is_allowed.get(each.port) is not each]
    milliseconds = sorted(record.milliseconds)
    after = [when - disturbance.reloaded_at for _, when in record.changes if when < disturbance.killed_at]
    return {
        "seconds": seconds,
        "answers": sum(record.answers.values()),
        "answers_by_model": [record.answers[0], record.answers[1]],
        "p50_ms": statistics.median(milliseconds),
        "p99_ms": milliseconds[int(0.99 * len(milliseconds))],
        "max_ms": milliseconds[-1],
        "connects": record.n_connects,
        "refused_connects": record.n_refused,
        "killed": {"pid": disturbance.killed, "seconds": disturbance.killed_at,
                   "connections": len(disturbance.killed_ports), "failed_in_flight": len(is_allowed)},
        "reload": {"seconds": disturbance.reloaded_at, "first_new_answer_after": min(after, default=None),
                   "last_old_answer_after": record.last_of_first - disturbance.reloaded_at},
        "lost": [{"seconds": each.seconds, "what": each.what} for each in lost],
        "memory": [growth(pid, samples, seconds) for pid, samples in disturbance.samples.items()],
    }  # fmt: skip


def growth(pid: int, samples: Sequence[tuple[float, int]], seconds: float) -> dict[str, Any]:
    """Return the resident memory of a process after its warm-up, in MiB, and its growth; None if it lived too short."""
    start = samples[0][0] + min(WARM_UP_SECONDS, seconds / 5)
    found = [size / 2**20 for when, size in samples if when >= start]
    tenth = max(1, len(found) // 10)
    first, last = (statistics.median(part) if part else None for part in (found[:tenth], found[-tenth:]))
    grown = last / first - 1 if first and last and len(found) >= 10 else None
    return {"pid": pid, "samples": len(samples), "first_mib": first, "last_mib": last, "growth": grown,
            "largest_mib": max(found, default=None)}  # fmt: skip


def problems_of(found: Mapping[str, Any]) -> list[str]:
    """Return what contradicts the promises of the server."""
    problems = [f"lost after {each['seconds']:.1f} s: {each['what']}" for each in found["lost"]]
    if not all(found["answers_by_model"]):
        problems.append(f"a model gave no answer: {found['answers_by_model']}")
    if found["reload"]["last_old_answer_after"] > RELOAD_SECONDS:
        problems.append(f"the first model answered {found['reload']['last_old_answer_after']:.1f} s after the switch")
    for each in found["memory"]:
        if each["growth"] is not None and each["growth"] > MOST_GROWTH:
            problems.append(f"process {each['pid']} grew by {each['growth']:.1%}")
    return problems


def text_of(found: Mapping[str, Any]) -> str:
    """Return the findings as lines."""
    killed, reload = found["killed"], found["reload"]
    top = f" (80 % of {found['top_rate']:,.0f})" if found["top_rate"] else ""
    first = reload["first_new_answer_after"]
    lines = [
        f"{found['seconds'] / 60:g} minutes at {found['rate']:,.0f} requests/s{top}; load "
        f"{found['load_average'][0]:.1f} to {found['load_average'][1]:.1f}",
        f"{found['answers']:,} correct answers, p50 {found['p50_ms']:.2f} ms, p99 {found['p99_ms']:.2f} ms, "
        f"max {found['max_ms']:.0f} ms",
        f"reload: {found['answers_by_model'][0]:,} answers of the first model, {found['answers_by_model'][1]:,} of the "
        f"second; after the switch, first new answer {'never' if first is None else f'{first:.2f} s'}, "
        f"last old answer {reload['last_old_answer_after']:.2f} s",
        f"killed worker: {killed['connections']} connections, {killed['failed_in_flight']} requests in flight failed; "
        f"{found['connects']} connects, {found['refused_connects']} refused",
        f"lost otherwise: {len(found['lost'])}",
    ]
    for each in found["memory"]:
        if each["growth"] is not None:
            lines.append(
                f"process {each['pid']}: {each['first_mib']:.1f} MiB after the warm-up, {each['last_mib']:.1f} at the "
                f"end, largest {each['largest_mib']:.1f}: {each['growth']:+.2%}"
            )
    return "\n".join([*lines, *(found["problems"] or ["passed"])])


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the findings; return 1 if the server broke a promise."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.serving.soak",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--minutes", type=float, default=MINUTES, help=f"(default: {MINUTES:g})")
    parser.add_argument("--workers", type=int, default=WORKERS, help=f"(default: {WORKERS})")
    parser.add_argument("--rate", type=float, help="requests per second (default: 80 %% of the highest rate)")
    parser.add_argument("--work", type=Path, help="folder of models (default: a temporary folder)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all findings to this JSON file")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as temporary:
        folder = (options.work or Path(temporary)) / WORKLOAD
        try:
            prepare(WORKLOADS[WORKLOAD], folder, peers=())
            if not (folder / "run-2").exists():
                train_run(WORKLOADS[WORKLOAD], folder / "run-2", OTHER_SEED)
            found = soak(folder.resolve(), options.minutes, options.workers, options.rate)
        except GpupipeError as error:
            print(f"{error.title}: {error}", file=sys.stderr)
            return error.exit_code
    found = {"machine": describe_machine(), **found, "problems": problems_of(found)}
    if options.json:
        write_json(options.json, found)
    print(text_of(found))
    return 1 if found["problems"] else 0


if __name__ == "__main__":
    sys.exit(main())
