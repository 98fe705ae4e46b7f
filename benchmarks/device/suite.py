"""Steps that run tests/gpu; failures and skips are saved test by test."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from benchmarks.device.processes import ROOT, stream_python

SUITE = ROOT / "tests" / "gpu"
PROCESSES = min(8, os.cpu_count() or 1)  # they share one GPU; most of a test's time is imports and host work
KERNEL_TESTS = (SUITE / "test_kernels.py", SUITE / "test_batches.py")
CUDF_TESTS = tuple(SUITE / f"test_{name}.py" for name in ("reading", "frames", "stream", "tensors"))
CLUSTER_TESTS = SUITE / "test_cluster.py"
OUTCOMES = ("PASSED", "FAILED", "ERROR", "SKIPPED", "XFAIL", "XPASS")
OUTPUT_CHARACTERS = 100_000
FAILURE = "failure: "  # prefix of the line that tests/gpu/conftest.py prints for a failed test

Save = Callable[[Mapping[str, Any]], None]


def networks() -> list[str]:
    """Return the names of the neural models, whose tests take longer than all others together."""
    from gpupipe.models import MODELS

    return [name for name, model in MODELS.items() if model.__module__.startswith("gpupipe.models.neural.")]


def run_kernel_tests(save: Save) -> dict[str, Any]:
    """Return the outcome of the tests of kernels against their references, and of mini-batches."""
    return run_pytest([str(path) for path in KERNEL_TESTS], save)


def run_tests(save: Save) -> dict[str, Any]:
    """Return the outcome of the other tests that need no RAPIDS: above all, every op compared with the CPU."""
    others = [f"--ignore={path}" for path in (*KERNEL_TESTS, CLUSTER_TESTS)]
    return run_pytest(["-m", "gpu and not rapids", "-k", f"not ({' or '.join(networks())})", *others, str(SUITE)], save)


def run_reading_tests(save: Save) -> dict[str, Any]:
    """Return the outcome of the tests that need cuDF."""
    return run_pytest(["-m", "rapids", *map(str, CUDF_TESTS)], save)


def run_pytest(arguments: Sequence[str], save: Save, n_processes: int = PROCESSES) -> dict[str, Any]:
    """Run pytest; tests fail instead of being skipped without a GPU or public tables."""
    lines: list[str] = []

    def on_line(line: str) -> None:
        lines.append(line)
        if line.startswith(FAILURE) or any(word in line for word in OUTCOMES):
            save(_document(lines))

    code, errors = stream_python(
        "-m",
        "pytest",
        "--require-gpu",
        "-v",
        "-n",
        str(n_processes),
        *(["--dist", "worksteal"] if n_processes else []),
        "-p",
        "no:cacheprovider",
        "--durations=15",
        "--continue-on-collection-errors",
        *arguments,
        on_line=on_line,
    )
    return {**_document(lines), "failed": [lines[-1] if lines else errors] if code else []}


def _document(lines: Sequence[str]) -> dict[str, Any]:
    """Return pytest's output so far: counts by outcome, failures and skips, and the last line."""
    counts = Counter(outcome for line in lines for outcome in OUTCOMES if f" {outcome} " in f"{line} " and "::" in line)
    reasons = [line for line in lines if line.startswith((FAILURE, "SKIPPED"))]
    reasons += [
        line for line in lines if line.startswith("ERROR") and "::" not in line
    ]  # skip of a file, not of a test
    said = ", ".join(f"{n} {outcome.lower()}" for outcome, n in counts.items())
    output = "\n".join(lines)[-OUTPUT_CHARACTERS:]
    return {
        "lines": [*filter(None, [said]), *reasons, *lines[-1:]],
        "counts": dict(counts),
        "output": output,
    }
