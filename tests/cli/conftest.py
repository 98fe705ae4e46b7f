"""Run the command line as a user does: in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.doctor.conftest import driver as driver

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def gpupipe() -> Callable[..., subprocess.CompletedProcess[str]]:
    """``gpupipe("check", "a.yaml", cwd=folder)`` runs this checkout and returns what it printed and its exit code.

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
    """A small right configuration."""
    path = tmp_path / "churn.yaml"
    path.write_text(
        "source: {generate: churn, target: churned}\n"
        "features:\n  - impute: '@numeric'\n  - standardize: '@numeric'\n"
        "models: [logistic_regression, xgboost]\n"
    )
    return path
