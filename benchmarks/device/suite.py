"""Steps that run tests/gpu; failures and skips are saved test by test."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from benchmarks.device.processes import ROOT, stream_python

SUITE = ROOT / "tests" / "gpu"
PROCESSES = 6  # processes share one GPU; most of a test's time is imports and host work
CLUSTER_TESTS = SUITE / "test_cluster.py"
OUTCOMES = ("PASSED", "FAILED", "ERROR", "SKIPPED", "XFAIL", "XPASS")
OUTPUT_CHARACTERS = 100_000
FAILURE = "failure: "  # prefix of the line that tests/gpu/conftest.py prints for a failed test

Save = Callable[[Mapping[str, Any]], None]


def networks() -> list[str]:
    """Return the names of the neural models, whose tests take longer than all others together."""
    from gpupipe.models import MODELS

    return [name for name, model in MODELS.items() if model.__module__.startswith("gpupipe.models.neural.")]


def run_tests(options: argparse.Namespace, save: Save) -> dict[str, Any]:
    """Return the outcome of the GPU tests, without those of networks and clusters."""
    return _run_pytest(f"not ({' or '.join(networks())})", [f"--ignore={CLUSTER_TESTS}", str(SUITE)], options, save)


def run_network_tests(options: argparse.Namespace, save: Save) -> dict[str, Any]:
    """Return the outcome of the GPU tests of networks."""
    return _run_pytest(" or ".join(networks()), [f"--ignore={CLUSTER_TESTS}", str(SUITE)], options, save)


def run_cluster_tests(options: argparse.Namespace, save: Save) -> dict[str, Any]:
    """Return the outcome of the cluster tests, run sequentially because each starts workers on the same GPU."""
    return _run_pytest("", [str(CLUSTER_TESTS)], options, save, n_processes=0)


def _run_pytest(
    words: str, arguments: Sequence[str], options: argparse.Namespace, save: Save, n_processes: int = PROCESSES
) -> dict[str, Any]:
    """Run pytest; tests fail instead of being skipped without a GPU or public tables."""
    lines: list[str] = []
    left_out = [f"not run: tests that match {options.skip_tests!r}"] if options.skip_tests else []
    if options.skip_tests:
        words = f"({words}) and not ({options.skip_tests})" if words else f"not ({options.skip_tests})"

    def on_line(line: str) -> None:
        lines.append(line)
        if line.startswith(FAILURE) or any(word in line for word in OUTCOMES):
            save(_document(lines, left_out))

    code, errors = stream_python(
        "-m", "pytest", "-m", "gpu", *(["-k", words] if words else []), "--require-gpu", "-v", "-n", str(n_processes),
        *(["--dist", "worksteal"] if n_processes else []), "-p", "no:cacheprovider", "--durations=15", *arguments,
        on_line=on_line,
    )  # fmt: skip
    document = _document(lines, left_out)
    verdict = lines[-1] if lines else errors
    return {**document, "failed": [verdict] if code else []}


def _document(lines: Sequence[str], left_out: Sequence[str]) -> dict[str, Any]:
    """Return pytest's output so far: counts by outcome, failures and skips, and the last line."""
    counts = Counter(outcome for line in lines for outcome in OUTCOMES if f" {outcome} " in f"{line} " and "::" in line)
    reasons = [line for line in lines if line.startswith((FAILURE, "SKIPPED"))]
    reasons += [
        line for line in lines if line.startswith("ERROR") and "::" not in line
    ]  # skip of a file, not of a test
    said = ", ".join(f"{n} {outcome.lower()}" for outcome, n in counts.items())
    output = "\n".join(lines)[-OUTPUT_CHARACTERS:]
    return {
        "lines": [*left_out, *filter(None, [said]), *reasons, *lines[-1:]],
        "counts": dict(counts),
        "output": output,
    }
