"""Measurements of gpupipe on a GPU machine: ``python -m benchmarks.device --out DIR``.

The steps run in order of value per second; ``--list`` prints them. Each has its own process and time limit. DIR
contains results.json and results.md, updated after each step; log.txt, the output of all steps; and, while a step runs,
STEP.json: what it has measured so far, which remains if this process is killed. The exit code is 4 without a GPU, and 1
if a step failed or timed out.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.device import processes
from benchmarks.device.results import MARKS, StepResult, StepResults, partial_path, result_of, summary
from benchmarks.device.steps import STEPS, DeviceStep
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
        if not options.unchecked:
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
    parser.add_argument("--unchecked", action="store_true", help="start the steps even if no usable GPU is found")
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
    from gpupipe.backends import device_report

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
        partial_path(options.out, name).unlink(missing_ok=True)
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
    partial, start = partial_path(options.out, name), time.monotonic()
    partial.unlink(missing_ok=True)  # of an earlier call
    command = [name, "--rows", str(options.rows), "--events", str(options.events), "--json", str(partial.resolve())]
    code, said = process(command, min(step.seconds, seconds_left), options.out / "log.txt")
    return result_of(name, step.title, partial, code, said, round(time.monotonic() - start, 1))


def process(arguments: Sequence[str], seconds: float, log: Path) -> tuple[int | None, str]:
    """Run `benchmarks.device.steps`; return its exit code, None if it timed out, and the end of its output.

    Its output is appended to `log`. It runs in its own process group, so that its children can be killed with it. Its
    temporary files are in a folder that is removed here, because a killed process does not remove them.
    """
    command = python_command("-m", "benchmarks.device.steps", *arguments)
    with tempfile.TemporaryDirectory(prefix="gpupipe-bench-") as folder, log.open("a+", errors="replace") as said:
        print(f"== {arguments[0]}", file=said, flush=True)
        begin = said.seek(0, os.SEEK_END)
        environment = {**processes.environment(), "TMPDIR": folder}
        started = subprocess.Popen(command, env=environment, stdout=said, stderr=said, start_new_session=True)
        code: int | None
        try:
            code = started.wait(seconds)
        except subprocess.TimeoutExpired:
            code = None
        finally:
            if started.poll() is None:
                os.killpg(started.pid, signal.SIGKILL)
                started.wait()
        said.seek(begin)
        return code, last_lines(said.read())


if __name__ == "__main__":
    sys.exit(main())
