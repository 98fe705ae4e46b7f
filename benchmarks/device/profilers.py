"""Steps that run kernels under NVIDIA's tools: hardware counters by Nsight Compute, and compute-sanitizer."""

from __future__ import annotations

import csv
import subprocess
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Lock
from typing import Any

from benchmarks.device.processes import ROOT, environment, stream_python
from gpupipe.children import python_command

Save = Callable[[Mapping[str, Any]], None]

DURATION, INSTRUCTIONS = "gpu__time_duration.sum", "smsp__inst_executed.sum"
IPC, DRAM = "sm__inst_executed.avg.per_cycle_active", "dram__throughput.avg.pct_of_peak_sustained_elapsed"
WARPS = "sm__warps_active.avg.pct_of_peak_sustained_active"
METRICS = (
    DURATION,
    INSTRUCTIONS,
    IPC,
    DRAM,
    WARPS,
    "dram__bytes.sum",
    "sm__cycles_active.avg.per_second",
    "smsp__average_warps_issue_stalled_long_scoreboard_per_issue_active.ratio",
    "launch__registers_per_thread",
)
COUNTED_ROWS = 20_000_000
# Without --clock-control none, ncu locks the clocks of the GPU: not allowed on a borrowed machine, and at base clock.
COUNTERS = ("ncu", "--csv", "--print-units", "base", "--clock-control", "none",
            "--kernel-name", "regex:interpret", "--metrics", ",".join(METRICS))  # fmt: skip
TOOLS = ("memcheck", "racecheck")
SANITIZER = ("compute-sanitizer", "--error-exitcode", "9", "--tool")
SANITIZED_ROWS, SANITIZED_SEED = 1_500, 3
SUMMARY = "SUMMARY:"  # of the last line of compute-sanitizer
OUTPUT_CHARACTERS = 100_000


def count(save: Save) -> dict[str, Any]:
    """Return the hardware counters of one launch of the interpreter in each order."""
    code = f"from benchmarks.device.program import launch_each; launch_each({COUNTED_ROWS})"
    done = subprocess.run(
        [*COUNTERS, *python_command("-c", code)],
        cwd=ROOT,
        env=environment(),
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    found = counters_of(done.stdout.splitlines())
    failed = [] if found and done.returncode == 0 else [f"ncu ended with exit code {done.returncode}"]
    lines = [_counters_line(name, values) for name, values in found.items()]
    return {
        "lines": lines,
        "failed": failed,
        "counters": found,
        "rows": COUNTED_ROWS,
        "output": (done.stdout + done.stderr)[-OUTPUT_CHARACTERS:],
    }


def counters_of(lines: Iterable[str]) -> dict[str, dict[str, float]]:
    """Return kernel to metrics in base units; of several launches of a kernel, those of the one with most instructions.

    Parameters
    ----------
    lines : iterable of str
        Output of ncu with ``--csv``: a table of one row per launch and metric, between other lines.
    """
    table = [line for line in lines if line.startswith('"')]
    launches: dict[tuple[str, str], dict[str, float]] = {}
    for row in csv.DictReader(table):
        try:
            value = float(row["Metric Value"].replace(",", ""))
        except ValueError:  # "n/a"
            continue
        launches.setdefault((row["ID"], row["Kernel Name"]), {})[row["Metric Name"]] = value
    found: dict[str, dict[str, float]] = {}
    for (_, name), values in launches.items():
        if values.get(INSTRUCTIONS, 0.0) >= found.get(name, {}).get(INSTRUCTIONS, 0.0):
            found[name] = values
    return found


def _counters_line(name: str, values: Mapping[str, float]) -> str:
    nan = float("nan")
    return (
        f"{name}: {values.get(DURATION, nan) / 1e6:.2f} ms, DRAM at {values.get(DRAM, nan):.0f}% of its peak, "
        f"{values.get(IPC, nan):.2f} instructions per cycle, {values.get(WARPS, nan):.0f}% of the warps active"
    )


def sanitize(save: Save) -> dict[str, Any]:
    """Run every kernel on few rows under memcheck and racecheck, side by side, and return their findings."""
    said: dict[str, list[str]] = {tool: [] for tool in TOOLS}
    code, lock = "from benchmarks.device.profilers import run_kernels; run_kernels()", Lock()

    def document() -> dict[str, Any]:
        kept = {tool: "\n".join(output)[-OUTPUT_CHARACTERS:] for tool, output in said.items()}
        return {"lines": [_sanitizer_line(tool, output) for tool, output in said.items()], "failed": [], "output": kept}

    def run(tool: str) -> list[str]:
        def on_line(line: str) -> None:
            with lock:
                said[tool].append(line)
                save(document())

        ended, errors = stream_python("-c", code, on_line=on_line, under=(*SANITIZER, tool))
        return [] if ended == 0 else [f"{tool} ended with exit code {ended}: {errors}"]

    with ThreadPoolExecutor(len(TOOLS)) as pool:
        failed = [problem for problems in pool.map(run, TOOLS) for problem in problems]
    return {**document(), "failed": failed}


def _sanitizer_line(tool: str, output: Sequence[str]) -> str:
    n_kernels = sum(not line.startswith("=") for line in output)
    summary = next((line.strip("= ") for line in reversed(output) if SUMMARY in line), "not finished")
    return f"{tool}: {n_kernels} kernels, {summary}"


def run_kernels() -> None:
    """Compare every kernel with its reference on the device, and print a line for each.

    Raises
    ------
    SystemExit
        If a kernel does not equal its reference.
    """
    from gpupipe_kernels.catalog import kernels
    from gpupipe_kernels.proof.fuzz import compare, on_device

    failed = []
    for name, kernel in kernels().items():
        outcome = compare(kernel, on_device(kernel), SANITIZED_SEED, SANITIZED_ROWS)
        failure = " ".join(outcome.failure.split())
        print(name, failure or "ok", flush=True)
        failed += [f"{name}: {failure}"] if failure else []
    if failed:
        raise SystemExit("; ".join(failed))
