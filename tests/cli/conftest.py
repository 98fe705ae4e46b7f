"""Run the command line: in this process, or in a separate one as a user does."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import chdir, redirect_stderr, redirect_stdout
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from gpupipe.cli import main
from tests.doctor.conftest import driver as driver

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def gpupipe() -> Callable[..., CompletedProcess[str]]:
    """Return a function that runs a command in this process and returns its output and exit code.

    ``gpupipe("check", "a.yaml", cwd=folder)``. Where the process itself is tested (imports, signals, streams, a broken
    machine), use `gpupipe_process`.
    """

    def run(*args: object, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
        out, err = io.StringIO(), io.StringIO()
        with chdir(cwd or "."), redirect_stdout(out), redirect_stderr(err):
            code = main([*map(str, args)])
        return CompletedProcess("gpupipe", code, out.getvalue(), err.getvalue())

    return run


@pytest.fixture(scope="session")
def gpupipe_process() -> Callable[..., CompletedProcess[str]]:
    """Return a function like `gpupipe` that starts ``python -m gpupipe`` of this checkout.

    ``python=("-X", "importtime")`` are options of the interpreter. GPUPIPE_DATA is as in the tests' own environment.
    """

    def run(*args: object, python: tuple[str, ...] = (), cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'kernels'}"}
        command = [sys.executable, *python, "-m", "gpupipe", *map(str, args)]
        return subprocess.run(
            command, capture_output=True, text=True, env=environment, cwd=cwd, timeout=600, check=False
        )

    return run


@pytest.fixture
def churn(tmp_path: Path) -> Path:
    """A small valid configuration."""
    path = tmp_path / "churn.yaml"
    path.write_text(
        "source: {generate: churn, target: churned}\n"
        "features:\n  - impute: '@numeric'\n  - standardize: '@numeric'\n"
        "models: [logistic_regression, xgboost]\n"
    )
    return path
