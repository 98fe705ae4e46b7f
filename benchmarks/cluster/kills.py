"""Runs with a worker killed at a random moment: each must succeed, or end with a clear error in time.

A run is a ``gpupipe run`` process with two workers. The worker to kill and the moment are random; the moment is within
the duration of an undisturbed run, counted from when its workers have connected. A result is right if it equals that of
the undisturbed run: the metrics of the linear model bit for bit, those of XGBoost within `TOLERANCE`, since its
sketches depend on the remaining workers.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from gpupipe.children import child_environment, python_command
from gpupipe.errors import GpupipeError

RIGHT = "right"
REFUSED = "refused"
WRONG = "wrong"
HUNG = "hung"
REFUSALS = (3, 4)  # exit codes of errors that name the lost workers
TOLERANCE = 0.002
DEADLINE = 60.0  # cluster.deadline, after which a run without progress ends
SPARE = 2.0  # limit as a multiple of an undisturbed run, because work may be repeated
LOOK_SECONDS, LEAVE_SECONDS = 0.02, 5.0

CONFIG = """\
source: {{path: "{data}", target: Churn, positive: "Yes", drop: [customerID], cache: false}}
features:
  - impute: {{columns: "@numeric", strategy: median}}
  - standardize: "@numeric"
  - target_encode: {{columns: City, folds: 5}}
  - encode: "@categorical"
models: [logistic_regression, xgboost: {{n_estimators: 30}}]
report: {{enabled: false}}
"""

Metrics = Mapping[str, Mapping[str, float]]


@dataclass(frozen=True)
class KilledRun:
    """Outcome of a run.

    Attributes
    ----------
    outcome : {"right", "refused", "wrong", "hung"}
    moment : float
        Seconds from when the workers had connected until one was killed.
    stage : str
        The last stage that the run had reported as finished by then.
    seconds : float
        From when the workers had connected to the end.
    killed : bool
        False if the run finished first.
    left : int
        Number of leftover processes.
    said : str
        The last lines on stderr, if the outcome is not "right".
    """

    outcome: str
    moment: float
    stage: str
    seconds: float
    killed: bool
    left: int
    said: str


def run_with_kills(data: Path, n_runs: int, seed: int, folder: Path, told: Callable[[str], None]) -> dict[str, Any]:
    """Run once undisturbed and `n_runs` times with a killed worker; return the outcomes.

    Raises
    ------
    GpupipeError
        If the undisturbed run fails.
    """
    config = folder / "kills.yaml"
    config.write_text(CONFIG.format(data=data), encoding="utf8")
    with _started(config, folder / "undisturbed") as run:
        seconds = _wait(run, None)
    if seconds is None or run.process.returncode:
        raise GpupipeError(f"the undisturbed run failed:\n{run.said()}", where=str(config))
    expected = run.metrics()
    draw = random.Random(seed)
    ended = []
    for i in range(n_runs):
        ended.append(_disturbed(config, folder / f"run {i}", expected, seconds, draw))
        told(f"run {i + 1} of {n_runs}: {ended[-1].outcome}, killed after {ended[-1].stage or 'nothing'}")
    counts = {outcome: sum(e.outcome == outcome for e in ended) for outcome in (RIGHT, REFUSED, WRONG, HUNG)}
    return {
        "runs": n_runs, "seed": seed, "undisturbed_seconds": seconds, "deadline": DEADLINE, "counts": counts,
        "left_behind": sum(e.left for e in ended), "ended": [asdict(e) for e in ended],
    }  # fmt: skip


@dataclass
class _RunningJob:
    """A run: its process and the files of its output; `began` is the time when its workers had connected."""

    process: subprocess.Popen[bytes]
    out: Path
    err: Path
    began: float = 0.0

    def said(self) -> str:
        """Return the last lines on stderr."""
        return "\n".join(self.err.read_text(encoding="utf8", errors="replace").strip().splitlines()[-6:])

    def stage(self) -> str:
        """Return the last finished stage."""
        lines = self.err.read_text(encoding="utf8", errors="replace").splitlines()
        done = [line[2:40].strip() for line in lines if line.startswith("✓ ")]
        return done[-1] if done else ""

    def metrics(self) -> Metrics:
        """Return the printed metrics."""
        found: Metrics = json.loads(self.out.read_text(encoding="utf8"))["models"]
        return found

    def workers(self) -> list[int]:
        """Return the process IDs of the workers."""
        return sorted(pid for pid, command in _processes(self.process.pid).items() if "spawn_main" in command)

    def left(self) -> list[int]:
        """Return the processes that outlive the run, except Python's resource tracker."""
        end = time.monotonic() + LEAVE_SECONDS
        while found := [p for p, c in _processes(self.process.pid).items() if "resource_tracker" not in c]:
            if time.monotonic() > end:
                break
            time.sleep(LOOK_SECONDS)
        return found


@contextmanager
def _started(config: Path, output: Path) -> Iterator[_RunningJob]:
    """Start a run in its own session; kill its remaining processes on exit."""
    sets = ["cluster.scheduler=local", "cluster.workers=2", "cluster.threads=1", f"cluster.deadline={DEADLINE:g}"]
    command = python_command("-m", "gpupipe", "run", str(config), "--json", "--device", "cpu")
    out, err = output.with_suffix(".json"), output.with_suffix(".txt")
    environment = child_environment({"PYTHONIOENCODING": "utf8"})
    with out.open("wb") as to_out, err.open("wb") as to_err:
        process = subprocess.Popen(
            [*command, "--output", str(output), *(f"--set={given}" for given in sets)],
            stdout=to_out,
            stderr=to_err,
            env=environment,
            start_new_session=True,
        )
    run = _RunningJob(process, out, err)
    try:
        while process.poll() is None and not run.began:
            run.began = time.monotonic() if len(run.workers()) == 2 else 0.0
            time.sleep(LOOK_SECONDS)
        yield run
    finally:
        for pid in _processes(process.pid):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        process.wait()


def _disturbed(config: Path, output: Path, expected: Metrics, seconds: float, draw: random.Random) -> KilledRun:
    moment, which = draw.uniform(0.0, seconds), draw.random()
    with _started(config, output) as run:
        over = _wait(run, moment) is not None
        stage, workers = run.stage(), run.workers()
        killed = not over and bool(workers)
        if killed:
            os.kill(workers[int(which * len(workers))], signal.SIGKILL)
        took = _wait(run, moment + SPARE * seconds + DEADLINE)
        left = len(run.left()) if took is not None else 0
        outcome = HUNG if took is None else _outcome(run, expected)
        ended = took if took is not None else time.monotonic() - run.began
        return KilledRun(outcome, moment, stage, ended, killed, left, "" if outcome == RIGHT else run.said())


def _wait(run: _RunningJob, until: float | None) -> float | None:
    """Wait at most `until` seconds for a run to end; return its seconds, or None if it is still running."""
    try:
        run.process.wait(None if until is None else max(0.0, run.began + until - time.monotonic()))
    except subprocess.TimeoutExpired:
        return None
    return time.monotonic() - run.began


def _outcome(run: _RunningJob, expected: Metrics) -> str:
    if run.process.returncode in REFUSALS:
        return REFUSED
    if run.process.returncode:
        return WRONG
    found = run.metrics()
    near = abs(found["xgboost"]["roc_auc"] - expected["xgboost"]["roc_auc"]) <= TOLERANCE
    return RIGHT if near and found["logistic_regression"] == expected["logistic_regression"] else WRONG


def _processes(session: int) -> dict[int, str]:
    """Return the processes of a session except zombies, with their command lines, from /proc."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended in the meantime
            state, _, _, own, *_ = (folder / "stat").read_text().rpartition(")")[2].split()
            if int(own) == session and state != "Z":
                found[int(folder.name)] = (folder / "cmdline").read_text().replace("\0", " ")
    return found
