"""Tests that need a GPU, those marked `rapids` also RAPIDS: skipped without, failed with ``--require-gpu``.

Tests share nothing but the device and may run side by side: ``pytest -m gpu -n 6 --dist worksteal tests/gpu``.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from gpupipe.config import Config, load_config
from gpupipe.datasets.churn import customers
from tests.gpu.learners import telco_file

ROOT = Path(__file__).parents[2]
CONFIGS = ROOT / "configs"
CHURN_ROWS = 100_000


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker("gpu")
            item.add_marker(pytest.mark.filterwarnings("default"))  # we cannot fix those of RAPIDS


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Print the reason of a failure at once: a run that is cut off has no summary."""
    if report.failed and "PYTEST_XDIST_WORKER" not in os.environ:
        crash = getattr(report.longrepr, "reprcrash", None)
        message = " ".join(str(crash.message if crash else report.longrepr).split())[:300]
        print(f"\nfailure: {report.nodeid} ({report.when}): {message}", flush=True)


class Command:
    """``python -m gpupipe`` in a separate process.

    Attributes
    ----------
    code : int
    said : str
        stdout and stderr.
    """

    def __init__(self, *arguments: str, **environment: str) -> None:
        everything = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), **environment}
        command = [sys.executable, "-m", "gpupipe", *arguments]
        done = subprocess.run(command, env=everything, capture_output=True, text=True, check=False)
        self.code, self.said = done.returncode, done.stdout + done.stderr


@pytest.fixture(scope="session")
def command() -> type[Command]:
    """The command line: ``command("run", path, CUDA_VISIBLE_DEVICES="")``."""
    return Command


@pytest.fixture(scope="session")
def churn_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Generated customers as a Parquet file."""
    path = tmp_path_factory.mktemp("churn") / "churn.parquet"
    pq.write_table(customers(CHURN_ROWS), path)
    return path


@pytest.fixture(scope="session")
def churn(churn_file: Path) -> Config:
    """A churn configuration that reads a file."""
    return load_config(CONFIGS / "bench_churn.yaml", environment={"CHURN_FILE": str(churn_file)})


@pytest.fixture(scope="session")
def config(data_dir: Path) -> Any:
    """Return a function of the name of a configuration in configs/, for a table that GPUPIPE_DATA has."""
    return lambda name, *overrides: load_config(
        CONFIGS / f"{name}.yaml", overrides, environment={"GPUPIPE_DATA": str(data_dir)}
    )


@pytest.fixture(scope="session")
def telco(data_dir: Path) -> Path:
    """The customers of Telco, as a CSV file."""
    return telco_file(data_dir)


@pytest.fixture(scope="session")
def stages() -> Any:
    """Return a function of a run directory: its stages, as timeline.json has them."""
    return lambda folder: json.loads((folder / "timeline.json").read_text())["stages"]
