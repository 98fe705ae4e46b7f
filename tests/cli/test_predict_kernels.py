"""Tests of custom kernels on the command line: run, predict with and without --allow-code, and errors."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

KERNELS = """\
import gpupipe as gp


@gp.kernel
def loyalty(tenure, charges):
    return tenure / (1.0 + charges)


@gp.kernel(out="int32")
def mistyped(a):
    return a / 2
"""
RAISING = """

@gp.kernel
def raising(a):
    if a < 0:
        raise ValueError("no")
    return a
"""
CONFIG = """\
source: {{generate: churn, rows: 800, target: Churn, positive: "Yes", drop: [customerID]}}
features:
  - kernel: {{use: "{use}", inputs: [{inputs}]}}
models: [gaussian_nb]
report: {{enabled: false}}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with a configuration, its file of kernels, and a separate working directory."""
    (tmp_path / "project").mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "project" / "mine.py").write_text(KERNELS)
    return tmp_path


def configured(folder: Path, use: str = "mine.py:loyalty", inputs: str = "tenure, MonthlyCharges") -> Path:
    path = folder / "project" / "config.yaml"
    path.write_text(CONFIG.format(use=use, inputs=inputs))
    return path


def test_predicting_needs_permission_but_not_the_file_of_kernels(gpupipe_process, folder: Path) -> None:
    from gpupipe.datasets.churn import write

    write(folder / "all.parquet", 800, 7)
    config, out = configured(folder), folder / "run"
    done = gpupipe_process("run", config, "--output", out, "--quiet", cwd=folder / "elsewhere")
    assert done.returncode == 0, done.stderr
    (folder / "project" / "mine.py").unlink()

    scores = folder / "scores.csv"
    refused = gpupipe_process("predict", out, folder / "all.parquet", "-o", scores, cwd=folder / "elsewhere")
    assert refused.returncode == 5 and not scores.exists()
    assert "kernel_1_loyalty.py (sha256 " in refused.stderr and "--allow-code" in refused.stderr

    done = gpupipe_process(
        "predict", out, folder / "all.parquet", "-o", scores, "--allow-code", cwd=folder / "elsewhere"
    )
    assert done.returncode == 0, done.stderr
    of_the_run = pd.read_parquet(out / "predictions.parquet")
    scored = pd.read_csv(scores)["probability_Yes"].to_numpy()[of_the_run["row"]]
    assert scored.tolist() == pytest.approx(of_the_run["probability_Yes"].tolist(), rel=1e-12)


@pytest.mark.parametrize(
    ("use", "inputs", "words"),
    [
        (
            "mine.py:loyalty",
            "tenure",
            [
                ".inputs: expected one input for each parameter (tenure, charges); got 1",
                "config.yaml:3:46: features[0].kernel",
            ],
        ),
        ("mine.py:loyal", "tenure", [".use: no kernel loyal", "loyalty, mistyped, raising"]),
        ("mine.py:raising", "tenure", [".use: raising: cannot use raise", "mine.py:17", "return math.nan"]),
        (
            "theirs.py:loyalty",
            "tenure",
            [".use: cannot read theirs.py: No such file", "config.yaml:3:19: features[0].kernel"],
        ),
        ("mine.py", "tenure", [".use: expected file.py:function, got '"]),
    ],
)
def test_check_finds_errors_without_running_code(gpupipe, folder: Path, use, inputs, words) -> None:
    mine = folder / "project" / "mine.py"
    mine.write_text(KERNELS.replace("import gpupipe as gp", "import gpupipe as gp, nowhere") + RAISING)
    done = gpupipe("check", "--no-data", configured(folder, use, inputs), cwd=folder)
    assert done.returncode == 2
    for word in words:
        assert word in done.stderr


def test_check_of_a_valid_file_neither_runs_it_nor_loads_a_compiler(gpupipe_process, folder: Path) -> None:
    mine = folder / "project" / "mine.py"
    mine.write_text(KERNELS + "\nprint('running')\n")
    done = gpupipe_process("check", "--no-data", configured(folder), python=("-X", "importtime"), cwd=folder)
    assert done.returncode == 0 and "running" not in done.stdout
    imported = {line.rpartition("|")[2].strip().partition(".")[0] for line in done.stderr.splitlines()}
    assert "gpupipe_kernels" in imported and not imported & {"numba", "numpy"}


def test_the_error_for_a_syntax_error_names_the_line(gpupipe, folder: Path) -> None:
    (folder / "project" / "mine.py").write_text(KERNELS + "\ndef broken(:\n")
    done = gpupipe("check", "--no-data", configured(folder), cwd=folder)
    assert done.returncode == 2 and "not valid Python" in done.stderr and "mine.py:13" in done.stderr


@pytest.mark.parametrize(
    ("use", "inputs", "words"),
    [
        ("mine.py:mistyped", "tenure", ["mistyped: expected a result of type int32, found float64", "mine.py:10"]),
        ("mine.py:loyalty", "tenure, Contract", ["'Contract' is categorical", "- encode: Contract"]),
    ],
)
def test_errors_found_by_the_run_only_are_short(gpupipe, folder: Path, use, inputs, words) -> None:
    done = gpupipe("run", configured(folder, use, inputs), "--output", folder / "run", "--quiet", cwd=folder)
    assert done.returncode == 2 and not (folder / "run").exists()
    for word in words:
        assert word in done.stderr
    assert "Traceback" not in done.stderr and len(done.stderr.splitlines()) < 10
