"""Tests of ``gpupipe predict --cluster`` with real workers: a folder of predictions, or a short error."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow.parquet as pq
import pytest

pytest.importorskip("distributed")

CONFIG = """\
source: {generate: churn, rows: 800, target: Churn, positive: "Yes", drop: [customerID]}
models: [logistic_regression]
report: {enabled: false}
evaluate: {importance: false}
"""


@pytest.fixture(scope="module")
def folder(gpupipe, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a run, and a table with several row groups."""
    from gpupipe.datasets.churn import write

    path = tmp_path_factory.mktemp("predict")
    (path / "config.yaml").write_text(CONFIG)
    write(path / "all.parquet", 800, 7)
    pq.write_table(pq.read_table(path / "all.parquet"), path / "all.parquet", row_group_size=97)
    done = gpupipe("run", path / "config.yaml", "--output", path / "run", "--quiet", "--device", "cpu", cwd=path)
    assert done.returncode == 0, done.stderr
    return path


def test_workers_write_only_the_predictions_of_one_machine(gpupipe_process, folder: Path, tmp_path: Path) -> None:
    model, data = folder / "run", os.path.relpath(folder / "all.parquet", tmp_path)
    done = gpupipe_process("predict", model, data, "-o", "one.parquet", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    spread = gpupipe_process(
        "predict", model, data, "-o", "many", "--cluster", "local", "--device", "cpu", cwd=tmp_path
    )
    assert spread.returncode == 0, spread.stderr
    said = spread.stderr.splitlines()
    assert said[0].endswith("workers on the cpu: asked for") and said[-1] == "800 scored rows written to many"
    assert said[1:-1] == done.stderr.splitlines()[:-1] and said[-2].startswith("nulls: MonthlyCharges")
    assert pq.read_table(tmp_path / "many").equals(pq.read_table(tmp_path / "one.parquet"))
    names = sorted(os.listdir(tmp_path / "many"))
    assert names == [f"part-{i:05}.parquet" for i in range(len(names))]
    assert sorted(os.listdir(tmp_path)) == ["many", "one.parquet"]


@pytest.mark.parametrize(
    ("command", "data", "output", "cluster", "code", "words"),
    [
        ("predict", "absent.parquet", "out", "local", 5, ["absent.parquet"]),
        ("predict", "all.parquet", "out.csv", "local", 2, ["expected a folder", "remove --cluster"]),
        ("predict", "all.parquet", "out", "tcp://nowhere", 2, ["expected a scheduler address", "tcp://host:8786"]),
        ("predict", "all.parquet", "out", "absent.json", 2, ["cannot read the scheduler file absent.json"]),
        ("run", "config.yaml", "out", "local", 2, ["--nproc cannot be combined with --cluster"]),
    ],
)
def test_an_error_is_short_and_leaves_no_files(
    gpupipe, folder: Path, tmp_path: Path, command, data, output, cluster, code, words
) -> None:
    if command == "run":
        given = ["run", folder / data, "--output", output, "--nproc", 2]
    else:
        given = ["predict", folder / "run", folder / data, "-o", output]
    done = gpupipe(*given, "--cluster", cluster, cwd=tmp_path)
    assert done.returncode == code, done.stderr
    assert all(word in done.stderr for word in words), done.stderr
    assert "Traceback" not in done.stderr and len(done.stderr.splitlines()) < 10
    assert os.listdir(tmp_path) == []
