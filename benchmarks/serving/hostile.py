"""Honest and hostile load on ``gpupipe serve``: ``python -m benchmarks.serving.hostile``.

Phases alternate: honest load alone, then honest and hostile load. Honest clients keep their connections open and send
single rows at a fixed rate; each answer must have the probability of `gpupipe.load_scorer`, bit for bit. Another
process sends hostile requests at a fixed rate, a kind of `benchmarks.serving.attacks` after the other: slow headers and
bodies, half-open connections, damaged bodies, Arrow mutants, bombs, oversize bodies, huge headers, wrong tokens,
pipelined requests, two framings. It runs when a core is idle, because clients and server share the cores; elsewhere,
only the requests of attackers reach the server.

With ``--kills 2``, two workers are killed in each hostile phase. Only requests in flight on their connections may fail
then, within a second.

The exit code is 1 if another honest request failed, if an attack was answered with status 500 or not in time, or if the
p99 of hostile phases is more than twice that of the others.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import os
import signal
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.serving.attacks import HOST, attack
from benchmarks.serving.client import Clients, LoadRecord
from benchmarks.serving.request_bodies import json_row
from benchmarks.serving.servers import RunningServer, descendants, free_port, running
from benchmarks.serving.soak import N_ROWS, WORKLOAD
from benchmarks.single_row.workloads import WORKLOADS, prepare, read_rows
from gpupipe.bench.measurement import describe_machine
from gpupipe.children import python_command
from gpupipe.errors import GpupipeError
from gpupipe.files.jsonfile import dumps, write_json
from gpupipe.serve.settings import TOKEN

MINUTES = 20.0
WORKERS = 2
PHASE_SECONDS = 15.0
CLIENTS = 8
RATE = 300.0
HOSTILE_RATE = 20.0
READ_TIMEOUT = "5s"  # slow attacks end soon, before the next phase
MOST_RATIO, LOST_SECONDS = 2.0, 1.0
SECRET = "hostile-benchmark"


async def kill_workers(server: RunningServer, seconds: float, kills: int) -> list[float]:
    """Kill workers at equal intervals; return the times in seconds since the start."""
    started, times = time.perf_counter(), []
    for number in range(kills):
        await asyncio.sleep(max(0.0, started + seconds * (number + 0.5) / kills - time.perf_counter()))
        workers = [pid for pid in descendants(server.pid) if "gpupipe.serve.child" in command_of(pid)]
        if workers:
            os.kill(workers[number % len(workers)], signal.SIGKILL)
            times.append(time.perf_counter() - started)
    return times


def command_of(pid: int) -> str:
    """Return the command line of a process; ``""`` if it has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_text(encoding="utf8")
    except OSError:
        return ""


async def phase(clients: Clients, server: RunningServer, seconds: float, rate: float, kills: int) -> dict[str, Any]:
    """Return latencies and failures of a phase of honest load."""
    record, times = await asyncio.gather(clients.load(seconds, CLIENTS, rate), kill_workers(server, seconds, kills))
    return {"milliseconds": record.milliseconds, "kills": times, **failures_of(record, times)}


def failures_of(record: LoadRecord, kills: Sequence[float]) -> dict[str, Any]:
    """Return the failures, apart from those of requests in flight on a killed worker."""
    is_lost = [
        any(each.seconds <= at + LOST_SECONDS and at <= each.seconds + LOST_SECONDS for at in kills)
        and "status" not in each.what
        for each in record.failures
    ]
    return {
        "lost_to_kills": sum(is_lost),
        "failures": [each.what for each, lost in zip(record.failures, is_lost, strict=True) if not lost],
    }


def measure(folder: Path, minutes: float, options: argparse.Namespace) -> dict[str, Any]:
    """Return latencies of all phases, and the numbers of attacks by kind and status."""
    from gpupipe import load_scorer

    run, port = folder / "run", free_port()
    rows, scorer = read_rows(folder)[:N_ROWS], load_scorer(folder / "run")
    expected = [scorer.predict_proba(rows)[:, 1].tolist()]
    requests = [request(dumps(json_row(row)).encode()) for row in rows]
    clients = Clients(HOST, port, requests, expected, f"probability_{scorer.goal.labels[1]}")
    command = python_command(
        "-m",
        "gpupipe",
        "serve",
        str(run),
        "--port",
        str(port),
        "--workers",
        str(WORKERS),
        "--read-timeout",
        READ_TIMEOUT,
    )
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    arguments = (run, port, SECRET, options.phase, options.hostile_rate, options.seed, theirs, options.only or ())
    phases: dict[str, list[dict[str, Any]]] = {"honest": [], "hostile": []}
    counts: Counter[tuple[str, str]] = Counter()
    with running(command, port, os.sched_getaffinity(0), {TOKEN: SECRET}) as server:
        attacker = context.Process(target=attack, args=arguments, daemon=True)
        attacker.start()
        ours.recv()
        asyncio.run(clients.load(3.0, CLIENTS, options.rate))  # warm-up
        for number in range(max(2, round(minutes * 60 / options.phase))):
            kind = "hostile" if number % 2 else "honest"
            if kind == "hostile":
                ours.send(True)
            kills = options.kills if kind == "hostile" else 0
            phases[kind].append(asyncio.run(phase(clients, server, options.phase, options.rate, kills)))
            if kind == "hostile":
                counts.update(ours.recv())  # after the last attack was answered
            print(
                f"{kind}: p99 {percentile(phases[kind][-1]['milliseconds'], 0.99):.2f} ms", file=sys.stderr, flush=True
            )
        ours.send(False)
        attacker.join(60)
    by_kind: dict[str, dict[str, int]] = {}
    for (name, status), n in sorted(counts.items()):
        by_kind.setdefault(name, {})[status] = n
    return {
        "seconds": options.phase,
        "rate": options.rate,
        "hostile_rate": options.hostile_rate,
        "attacks": by_kind,
        "phases": {kind: described(each) for kind, each in phases.items()},
    }


def request(body: bytes) -> bytes:
    """Return a prediction request of an honest client."""
    head = f"POST /predict HTTP/1.1\r\nHost: {HOST}\r\nAuthorization: Bearer {SECRET}\r\n"
    return f"{head}Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


def percentile(values: Sequence[float], share: float) -> float:
    """Return a percentile of values; NaN without values."""
    return sorted(values)[int(share * len(values))] if values else float("nan")


def described(phases: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the figures of the phases of one kind, together."""
    milliseconds = [each for found in phases for each in found["milliseconds"]]
    return {
        "phases": len(phases),
        "answers": len(milliseconds),
        "p50_ms": statistics.median(milliseconds),
        "p99_ms": percentile(milliseconds, 0.99),
        "max_ms": max(milliseconds),
        "p99_ms_of_phases": [percentile(found["milliseconds"], 0.99) for found in phases],
        "kills": sum(len(found["kills"]) for found in phases),
        "lost_to_kills": sum(found["lost_to_kills"] for found in phases),
        "failures": [what for found in phases for what in found["failures"]],
    }


def problems_of(found: Mapping[str, Any]) -> list[str]:
    """Return what contradicts the promises of the server."""
    honest, hostile = found["phases"]["honest"], found["phases"]["hostile"]
    problems = [f"an honest request failed: {what}" for what in honest["failures"] + hostile["failures"]]
    ratio = hostile["p99_ms"] / honest["p99_ms"]
    if ratio > MOST_RATIO:
        problems.append(f"p99 of hostile phases is {ratio:.2f} times that of honest ones")
    for kind, statuses in found["attacks"].items():
        for status in ("500", "no end in time"):
            if n := statuses.get(status):
                problems.append(f"{kind}: {n} with the result {status}")
    return problems


def text_of(found: Mapping[str, Any]) -> str:
    """Return the findings as tables."""
    honest, hostile = found["phases"]["honest"], found["phases"]["hostile"]
    lines = [
        f"{found['rate']:g} honest requests/s, {found['hostile_rate']:g} attacks/s, phases of {found['seconds']:g} s",
        "",
        "| phases | number | correct answers | failed | lost to kills | p50 ms | p99 ms | max ms |",
        "|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for name, each in (("honest load", honest), ("honest and hostile load", hostile)):
        cells = [name, each["phases"], f"{each['answers']:,}", len(each["failures"]), each["lost_to_kills"]]
        cells += [f"{each[key]:.2f}" for key in ("p50_ms", "p99_ms", "max_ms")]
        lines.append(f"| {' | '.join(map(str, cells))} |")
    ratios = [hostile[key] / honest[key] for key in ("p50_ms", "p99_ms")]
    lines += [f"| ratio | | | | | {ratios[0]:.2f} | {ratios[1]:.2f} | |", "", "| attack | results |", "|---|---|"]
    for kind, statuses in found["attacks"].items():
        lines.append(f"| {kind} | {', '.join(f'{status}: {n:,}' for status, n in statuses.items())} |")
    return "\n".join([*lines, "", *(found["problems"][:20] or ["passed"])])


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the findings; return 1 if the server broke a promise."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.serving.hostile",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--minutes", type=float, default=MINUTES, help=f"of all phases (default: {MINUTES:g})")
    parser.add_argument("--phase", type=float, default=PHASE_SECONDS, help=f"seconds (default: {PHASE_SECONDS:g})")
    parser.add_argument("--rate", type=float, default=RATE, help=f"honest requests per second (default: {RATE:g})")
    parser.add_argument("--hostile-rate", type=float, default=HOSTILE_RATE, help=f"(default: {HOSTILE_RATE:g})")
    parser.add_argument("--kills", type=int, default=0, help="workers killed in each hostile phase (default: 0)")
    parser.add_argument("--only", action="append", metavar="KIND", help="only this kind of attack; repeatable")
    parser.add_argument("--seed", type=int, default=1, help="(default: 1)")
    parser.add_argument("--work", type=Path, help="folder of models (default: a temporary folder)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all findings to this JSON file")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as temporary:
        folder = (options.work or Path(temporary)) / WORKLOAD
        try:
            prepare(WORKLOADS[WORKLOAD], folder, peers=())
            found = measure(folder.resolve(), options.minutes, options)
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
