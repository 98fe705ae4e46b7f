"""The step that runs tests/gpu: its command line, and the results it saves when it is interrupted."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks.device import networks, suite


def test_without_a_gpu_each_test_fails_with_its_reason_as_soon_as_it_has_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUPIPE_FORCE_CPU", "1")
    monkeypatch.delenv("PYTEST_XDIST_WORKER", raising=False)  # the tests run in this process
    saved = list[Any]()

    def save(document: Any) -> None:
        saved.append(json.loads(json.dumps(document)))

    arguments = ["-k", "not free_bytes", str(suite.SUITE / "test_stream.py")]
    document = suite.run_pytest(arguments, save, n_processes=0)
    failure = "(setup): Failed: needs a GPU: GPUPIPE_FORCE_CPU is set"
    first = next(one for one in saved if one["counts"])
    assert first["counts"] in ({"ERROR": 1}, {"FAILED": 1})
    assert next(line for line in saved[-1]["lines"] if line.startswith("failure: ")).endswith(failure)
    assert sum(document["counts"].values()) == 2
    (verdict,) = document["failed"]
    assert "1 deselected" in verdict and "2 error" in verdict


def test_networks_are_known_by_name() -> None:
    assert suite.networks() == list(networks.NETWORKS)


def test_the_files_of_the_steps_exist() -> None:
    assert all(path.is_file() for path in (*suite.KERNEL_TESTS, *suite.CUDF_TESTS, suite.CLUSTER_TESTS))


def test_a_run_that_is_cut_off_has_counts_and_the_failures_so_far() -> None:
    lines = ["[gw0] [ 50%] PASSED tests/gpu/test_a.py::test_x[F]", "[gw1] [ 60%] FAILED tests/gpu/test_b.py::test_y",
             "failure: tests/gpu/test_b.py::test_y (call): ValueError: no"]  # fmt: skip
    document = suite._document(lines)
    assert document["counts"] == {"PASSED": 1, "FAILED": 1}
    assert document["lines"][:2] == [
        "1 passed, 1 failed",
        "failure: tests/gpu/test_b.py::test_y (call): ValueError: no",
    ]
    assert document["output"] == "\n".join(lines)


@pytest.mark.parametrize(("option", "outcome"), [("--require-gpu", "1 error"), ("-q", "1 skipped")])
def test_without_public_tables_the_gpu_tests_fail_if_a_gpu_is_required(
    tmp_path: Path, option: str, outcome: str
) -> None:
    (tmp_path / "test_it.py").write_text("def test_it(data_dir): pass\n")
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    environment = {**os.environ, "GPUPIPE_DATA": "", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-m", "pytest", "-p", "tests.conftest", "-p", "no:cacheprovider", option, "."]
    done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert outcome in done.stdout.splitlines()[-1], done.stdout + done.stderr
