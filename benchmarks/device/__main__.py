"""Measurements of gpupipe on a GPU machine: ``python -m benchmarks.device --out DIR``.

The steps run in order of value per second: a description of the machine and the doctor's findings; the copy bandwidth,
and one launch for 20 columns as a share of it; every kernel compared with its reference; reading, features and XGBoost
from end to end, compared with a hand-written script and the host; features and models compared with the CPU's; keyed
features compared with cuDF's; mini-batches; the tests that need a GPU, those of networks, those of a cluster; host
scripts under cudf.pandas and cuml.accel. Each step has its own process and time limit (``--list``). DIR contains
results.json and results.md, updated after each step, including steps that timed out. The exit code is 4 without a GPU,
and 1 if a step failed or timed out.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.device import processes
from benchmarks.device.results import MARKS, Status, StepResult, StepResults, summary
from benchmarks.device.steps import STEPS, DeviceStep
from gpupipe.backends import device_report
from gpupipe.children import python_command
from gpupipe.errors import ConfigError, DeviceError, GpupipeError, did_you_mean
from gpupipe.report.text import last_lines

ROWS = 50_000_000
EVENTS = 10_000_000
LEAST_SECONDS = 5  # remaining time that a step needs to start


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the steps, print and write their results; return the exit code."""
    options = _parse(arguments)
    if options.list:
        total = sum(step.seconds for step in STEPS.values())
        print("\n".join(f"{name:<14}{step.seconds:>5} s  {step.title}" for name, step in STEPS.items()))
        print(f"{'all':<14}{total:>5} s  at most")
        return 0
    try:
        names = chosen(options.steps)
        _require_gpu()
        results = StepResults(options.out, list(STEPS))
    except GpupipeError as error:
        print(f"{error.title}: {error}", file=sys.stderr)
        return error.exit_code
    return run(names, STEPS, options, results)


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.device", description=__doc__)
    parser.add_argument("--out", type=Path, metavar="DIR", default=Path("gpu-results"), help="default: %(default)s")
    parser.add_argument("--steps", metavar="A,B", help="run only these steps; earlier results of others stay in DIR")
    parser.add_argument("--list", action="store_true", help="list the steps and their time limits")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="time limit of all steps together")
    parser.add_argument("--rows", type=int, default=ROWS, help="rows of the tables (default: %(default)s)")
    parser.add_argument(
        "--events", type=int, default=EVENTS, help="events of the keyed features (default: %(default)s)"
    )
    parser.add_argument("--skip-tests", default="", metavar="WORDS", help="skip tests that match WORDS (pytest -k)")
    return parser.parse_args(arguments)


def chosen(steps: str | None) -> list[str]:
    """Return the names in a list such as ``a,b`` in the order of `STEPS`; all names if None.

    Raises
    ------
    ConfigError
        If a step does not exist.
    """
    names = list(STEPS) if steps is None else [name.strip() for name in steps.split(",")]
    for name in names:
        if name not in STEPS:
            fix = did_you_mean(name, STEPS) or f"one of {', '.join(STEPS)}"
            raise ConfigError(f"unknown step {name!r}", where="--steps", fix=fix)
    return [name for name in STEPS if name in names]


def _require_gpu() -> None:
    gpu = device_report().gpu
    if not gpu.usable:
        raise DeviceError(
            f"no usable GPU: {gpu.reason}", fix="run this on a machine with a GPU; gpupipe doctor finds problems"
        )


def run(
    names: Sequence[str], steps: Mapping[str, DeviceStep], options: argparse.Namespace, results: StepResults
) -> int:
    """Run the steps `names`; return 1 if one failed, 0 if all succeeded or were skipped."""
    deadline, ended = time.monotonic() + options.seconds, []
    for name in names:
        print(f"{name}: {steps[name].title} ...", flush=True)
        ended.append(_run(name, steps[name], options, deadline - time.monotonic()))
        results.add(ended[-1])
        _show(ended[-1])
    print(", ".join(f"{n} {status}" for status, n in summary(ended).items()) + f": {options.out / 'results.md'}")
    return 0 if all(result.status in ("done", "skipped") for result in ended) else 1


def _show(result: StepResult) -> None:
    reason = f": {result.reason}" if result.reason else ""
    print(f"  {MARKS[result.status]} after {result.seconds:.0f} s{reason}")
    for line in result.lines:
        print(f"    {line}")
    sys.stdout.flush()


def _run(name: str, step: DeviceStep, options: argparse.Namespace, seconds_left: float) -> StepResult:
    if obstacle := step.obstacle():
        return StepResult(name, step.title, "skipped", reason=obstacle)
    if seconds_left < LEAST_SECONDS:
        return StepResult(name, step.title, "skipped", reason="the time limit --seconds was reached")
    with tempfile.TemporaryDirectory(prefix="gpupipe-bench-") as folder:
        out = Path(folder) / "step.json"
        start = time.monotonic()
        command = ["--rows", str(options.rows), "--events", str(options.events), "--json", str(out)]
        command += ["--skip-tests", options.skip_tests]
        code, said = process([name, *command], min(step.seconds, seconds_left), folder)
        seconds = time.monotonic() - start
        document = json.loads(out.read_text(encoding="utf8")) if out.exists() else {}
    return _result(name, step, code, said, seconds, document)


def _result(
    name: str, step: DeviceStep, code: int | None, said: str, seconds: float, document: dict[str, Any]
) -> StepResult:
    lines, failed, has_ended = document.pop("lines", []), document.pop("failed", []), document.pop("ended", False)
    status: Status = "failed" if failed else "done"
    reason = "; ".join(failed)
    if code is None:
        status, reason = "timed out", f"timed out after {seconds:.0f} s"
    elif not has_ended:
        status, reason = "broken", f"exit code {code}: {said}"
    return StepResult(name, step.title, status, round(seconds, 1), reason, lines, document)


def process(arguments: Sequence[str], seconds: float, folder: str) -> tuple[int | None, str]:
    """Run `benchmarks.device.steps`; return its exit code, None if it timed out, and the end of its stderr.

    It runs in its own process group, so that its children can be killed with it. Its temporary files are in `folder`,
    because a killed process does not remove them.
    """
    command = python_command("-m", "benchmarks.device.steps", *arguments)
    environment = {**processes.environment(), "TMPDIR": folder}
    with tempfile.TemporaryFile("w+", errors="replace") as said:
        started = subprocess.Popen(
            command, env=environment, stdout=subprocess.DEVNULL, stderr=said, start_new_session=True
        )
        code: int | None
        try:
            code = started.wait(seconds)
        except subprocess.TimeoutExpired:
            code = None
        finally:
            if started.poll() is None:
                os.killpg(started.pid, signal.SIGKILL)
                started.wait()
        said.seek(0)
        return code, last_lines(said.read())


if __name__ == "__main__":
    sys.exit(main())
