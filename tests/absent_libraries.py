"""Tests whose library is not installed: skipped, with what to install, and counted in the summary.

The extra ``test`` has what most tests need, ``test-all`` has the libraries below too. No list says which test needs
which: a test, a fixture or a module that fails because one of them is absent is skipped, since its error names the
library. CI then runs whatever did not pass in an environment with all of them. A test whose error does not name its
library, or that does much before, declares it: ``@pytest.mark.needs("torch")``.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Generator
from importlib.util import find_spec
from pathlib import Path
from typing import TypeVar

import pytest

Report = TypeVar("Report", pytest.TestReport, pytest.CollectReport)

# Import names, and the names in commands that install them, where these differ.
LIBRARIES = {
    "aiohttp": "aiohttp",
    "OpenSSL": "sign",
    "catboost": "catboost",
    "cyclonedx": "cyclonedx-python-lib",
    "deltalake": "delta",
    "flask": "flask",
    "ipykernel": "ipykernel",
    "jax": "jax",
    "kubernetes_validate": "kubernetes-validate",
    "mapie": "mapie",
    "mlflow": "mlflow",
    "model_signing": "sign",
    "nbclient": "nbclient",
    "nbformat": "nbformat",
    "nvidia": "test-all",  # compilers for its devices
    "onnx": "onnx",
    "onnxruntime": "onnxruntime",
    "openapi_python_client": "openapi-python-client",
    "pyiceberg": "iceberg",
    "safetensors": "safetensors",
    "schemathesis": "schemathesis",
    "torch": "torch",
    "tritonclient": "tritonclient",
    "uv": "uv",
    "wandb": "wandb",
}
INSTALL = "pip install '.[test-all]'"
PREFIX = "needs "


def absent_libraries() -> tuple[str, ...]:
    """Return the libraries of ``test-all`` that are not installed."""
    return tuple(name for name in LIBRARIES if find_spec(name) is None)


def named_library(text: str, absent: tuple[str, ...]) -> str | None:
    """Return the absent library that an error names, by Python's words or by a command that installs it."""
    for name in absent:
        command = rf"pip install [\"']?(gpupipe\[)?{LIBRARIES[name]}\b"
        words = rf"No module named \\*'{name}\b|could not import '{name}\b|(?i:\b{name}('s \w+)? is not installed)"
        if re.search(f"{words}|{command}", text):
            return name
    return None


class AbsentLibraries:
    """Plug-in of pytest that skips what needs one of the absent libraries."""

    def __init__(self) -> None:
        self.absent = absent_libraries()

    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Skip a test with the marker ``needs``."""
        for marker in item.iter_markers("needs"):
            for name in marker.args:
                if name in self.absent:
                    pytest.skip(f"{PREFIX}{name}")

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        if report.outcome == "passed" or not self.absent:
            return report
        path, line, _ = item.location
        return self._skip(report, Path(path), line or 0)

    @pytest.hookimpl(wrapper=True)
    def pytest_make_collect_report(
        self, collector: pytest.Collector
    ) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
        report = yield
        if report.outcome == "passed" or not self.absent:
            return report
        name = ".".join(collector.path.relative_to(collector.config.rootpath).with_suffix("").parts)
        sys.modules.pop(name, None)  # half of a module, which others must not import
        return self._skip(report, collector.path, 0)

    def _skip(self, report: Report, path: Path, line: int) -> Report:
        """Turn a failure that names an absent library into a skip, and a skip into one that says it our way."""
        text = "\n".join([str(report.longrepr), *(content for _, content in report.sections)])
        if name := named_library(text, self.absent):
            report.outcome, report.longrepr = "skipped", (str(path), line + 1, f"Skipped: {PREFIX}{name}")
        return report


def write_skipped(terminalreporter: pytest.TerminalReporter) -> None:
    """Say how many tests were skipped, for want of which libraries."""
    tests: Counter[str] = Counter()
    files: Counter[str] = Counter()
    for report in terminalreporter.stats.get("skipped", []):
        reason = report.longrepr[2].removeprefix("Skipped: ") if isinstance(report.longrepr, tuple) else ""
        if reason.startswith(PREFIX) and (name := reason.removeprefix(PREFIX)) in LIBRARIES:
            (tests if isinstance(report, pytest.TestReport) else files)[name] += 1
    if names := sorted(tests.keys() | files.keys(), key=lambda name: (-tests[name] - files[name], name)):
        terminalreporter.write_sep("-", "skipped: libraries that are not installed")
        terminalreporter.write_line(
            f"{tests.total():,} tests and {files.total():,} whole files need {', '.join(names)}: {INSTALL}"
        )
