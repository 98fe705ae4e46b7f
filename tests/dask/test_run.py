"""Runs on workers: bit-identical to a run on one machine, for any number of partitions."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from collections.abc import Callable
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gpupipe.backends import Backend
from gpupipe.names import count_noun
from gpupipe.training.preparation import preparation
from gpupipe.training.preparation.read_stage import ReadTable, read_table
from tests.dask.run_checks import LOCAL, Left, assert_same_features, assert_same_files, run_on
from tests.inline_workers import InlineWorkers

CONFIGS = Path(__file__).parents[2] / "configs"
COUNTS = (1, 2, 3, 7)
ROWS_PER_BLOCK = 64

Compare = Callable[..., tuple[Left, list[Left]]]


@pytest.fixture
def compare(tmp_path: Path, backend: Backend, small_parts: Any) -> Compare:
    """Return a function that runs a configuration alone and with several partitions, and demands the same of all."""

    def check(config: Path, *overrides: str) -> tuple[Left, list[Left]]:
        with small_parts(ROWS_PER_BLOCK):
            alone = run_on(config, tmp_path / "alone", overrides)
            shared = []
            for n in COUNTS:
                found = run_on(config, tmp_path / f"shared by {n}", overrides, InlineWorkers(backend, n, copies=True))
                assert_same_features(found, alone)
                assert_same_files(found, alone)
                shared.append(found)
        return alone, shared

    return check


@pytest.mark.data
def test_telco_in_folds(data_dir: Path, compare: Compare) -> None:
    models = "models=[logistic_regression, xgboost: {n_estimators: 10}]"
    _, shared = compare(CONFIGS / "telco.yaml", models, "split.cv=2")
    assert [count_noun(n, "partition") in found.notes() for n, found in zip(COUNTS, shared, strict=True)] == [True] * 4


@pytest.mark.data
def test_online_retail_with_columns_derived_from_histories(data_dir: Path, compare: Compare) -> None:
    with patch.object(preparation, "read_table", read_once(read_table)):
        alone, shared = compare(CONFIGS / "online_retail.yaml", "models=[logistic_regression]", "split.cv=2")
    assert len(alone.learned[0][0].features) > 20
    assert all(any("partitions the table" in note for note in notes_outside(found)) for found in shared)


def read_once(read: Callable[..., ReadTable]) -> Callable[..., ReadTable]:
    """Return `read` for one configuration only: half a million lines are read the first time, and given each time."""
    kept: list[ReadTable] = []

    def given(*arguments: Any) -> ReadTable:
        kept[:] = kept or [read(*arguments)]
        sources = kept[0].sources
        assert sources is not None
        return replace(kept[0], sources=replace(sources, main=copy(sources.main)))  # columns are added to it

    return given


def notes_outside(found: Left) -> list[str]:
    return [note.text for note in found.run.timeline.notes]


def test_churn(compare: Compare) -> None:
    models = "models=[logistic_regression, xgboost: {n_estimators: 10}]"
    compare(CONFIGS / "churn.yaml", "source.rows=3000", models)


# Files as they come.

N = 1400
FEATURES = """\
features:
  - impute: {columns: [x], indicator: true}
  - clip: {columns: z, quantiles: [0.01, 0.99]}
  - standardize: [x, z]
  - target_encode: {columns: [plan, city], folds: 3}
  - encode: "@categorical"
"""
UNTARGETED = FEATURES.replace("  - target_encode: {columns: [plan, city], folds: 3}\n", "")
TASKS = {
    "two classes": ("target: left", "models: [logistic_regression]", FEATURES),
    "folds": ("target: left", "split: {cv: 3}\nmodels: [logistic_regression, gaussian_nb]", FEATURES),
    "numbers": ("target: paid", "models: [ridge]", FEATURES),
    "no target": ("target: null", "models: [kmeans: {n_clusters: 3}]", UNTARGETED),
}


def frame_of(n: int = N) -> pd.DataFrame:
    """Return rows whose categories come and go: ``city`` has levels that only the first and the last rows hold."""
    rng, at = np.random.default_rng(0), np.arange(n)
    x = rng.normal(size=n)
    return pd.DataFrame(
        {
            "x": np.where(rng.random(n) < 0.1, np.nan, x),
            "z": rng.integers(0, 100, n).astype(float),
            "plan": rng.choice(["basic", "plus", "all"], n, p=[0.6, 0.3, 0.1]),
            "city": np.where(at < 90, "early", np.where(at >= n - 70, "late", rng.choice(["a", "b", "c"], n))),
            "paid": x * 3 + rng.normal(size=n) + at / n,
            "left": np.where(rng.random(n) < 1 / (1 + np.exp(-x)), "yes", "no"),
        }
    )


def one_file(folder: Path) -> None:
    frame_of().to_csv(folder / "a.csv", index=False)


def empty_files(folder: Path) -> None:
    """Write files of which one has no rows, one few rows, and one no targets: its rows are dropped."""
    frame = frame_of()
    frame.loc[500:699, ["left", "paid"]] = np.nan
    for name, rows in {"a": (0, 499), "b": (0, -1), "c": (500, 699), "d": (700, 700), "e": (701, N)}.items():
        frame.loc[slice(*rows)].to_csv(folder / f"{name}.csv", index=False)


def other_columns(folder: Path) -> None:
    """Write files with other orders of the columns, whole numbers where another has fractions, and only nulls."""
    frame = frame_of()
    frame.loc[:399].to_csv(folder / "a.csv", index=False)
    second = frame.loc[400:799, ["left", "paid", "city", "plan", "z", "x"]]
    second.astype({"z": int}).to_csv(folder / "b.csv", index=False)
    frame.loc[800:].assign(z=np.nan)[["z", "x", "plan", "left", "city", "paid"]].to_csv(folder / "c.csv", index=False)


def one_huge_row_group(folder: Path) -> None:
    """Write a file that falls into a piece of nearly all rows and pieces of a few."""
    table = pa.Table.from_pandas(frame_of(), preserve_index=False)
    with pq.ParquetWriter(folder / "a.parquet", table.schema) as writer:
        for start, stop in [(0, 7), (7, 20), (20, 1390), (1390, N)]:
            writer.write_table(table.slice(start, stop - start))


def a_file_that_cannot_be_cut(folder: Path) -> None:
    (folder / "a.csv.gz").write_bytes(gzip.compress(frame_of().to_csv(index=False).encode()))


FILES = (one_file, empty_files, other_columns, one_huge_row_group, a_file_that_cannot_be_cut)


@pytest.fixture
def configuration(tmp_path: Path) -> Callable[[str], Path]:
    """Return a function that writes the configuration of a task; its source is the folder ``data``."""
    (tmp_path / "data").mkdir()

    def write(task: str) -> Path:
        target, models, features = TASKS[task]
        drop = {"two classes": ["paid"], "folds": ["paid"], "numbers": ["left"], "no target": ["left", "paid"]}[task]
        text = f"seed: 1\nsource:\n  path: {tmp_path / 'data'}\n  {target}\n  drop: {drop}\n{models}\n{features}"
        path = tmp_path / "config.yaml"
        path.write_text(text)
        return path

    return write


CASES = [(files, "two classes") for files in FILES] + [(one_file, task) for task in TASKS if task != "two classes"]


@pytest.mark.parametrize(("files", "task"), CASES, ids=lambda case: case if isinstance(case, str) else case.__name__)
def test_uneven_files(
    tmp_path: Path, configuration: Callable[[str], Path], compare: Compare, files: Callable[[Path], None], task: str
) -> None:
    files(tmp_path / "data")
    alone, _ = compare(configuration(task))
    n_known = N - 200 if files is empty_files else N
    assert len(alone.predictions()) == (n_known if task == "folds" else pytest.approx(n_known / 5, abs=1))


# The whole command, on separate processes.

SMALL = """\
source: {generate: churn, rows: 3000, target: Churn, positive: "Yes", drop: [customerID]}
models: [xgboost: {n_estimators: 10}]
report: {enabled: false}
"""


@pytest.fixture(scope="module")
def by_command(tmp_path_factory: pytest.TempPathFactory) -> tuple[subprocess.CompletedProcess[str], Path]:
    """Return a finished ``gpupipe run --json`` with two workers, and its run directory."""
    folder = tmp_path_factory.mktemp("command")
    (folder / "small.yaml").write_text(SMALL)
    sets = [LOCAL, "cluster.workers=2", "cluster.threads=1", "device=cpu"]
    command = [sys.executable, "-W", "error", "-m", "gpupipe", "run", "small.yaml", "--json", "--output", "out"]
    done = subprocess.run(
        [*command, *(f"--set={given}" for given in sets)], capture_output=True, text=True, cwd=folder, timeout=300,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}, check=False,
    )  # fmt: skip
    return done, folder / "out"


def test_the_command_succeeds_and_prints_only_its_own_output(
    by_command: tuple[subprocess.CompletedProcess[str], Path],
) -> None:
    done, path = by_command
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    metrics = json.loads((path / "metrics.json").read_text())
    assert document["models"] == metrics["models"] and list(document["models"]) == ["xgboost"]
    assert done.stderr.startswith("cpu: 2 workers; asked for\n✓ read")
    *shown, last = done.stderr.splitlines()
    assert [line for line in shown if line and not line.startswith(OWN)] == []
    assert last == str(path)


OWN = ("cpu: ", "✓ ", "   ", "★ ", "───", "imported ")


def test_the_timeline_records_the_work_of_each_worker(
    by_command: tuple[subprocess.CompletedProcess[str], Path],
) -> None:
    stages = {s["name"]: s for s in json.loads((by_command[1] / "timeline.json").read_text())["stages"]}
    of_workers = {"read", "features", "train xgboost", "predict xgboost", "explain"}
    assert {name for name, stage in stages.items() if stage["workers"]} == of_workers
    for name in of_workers:
        uses = stages[name]["workers"]
        assert len({use["address"] for use in uses}) == 2
        assert sum(use["tasks"] for use in uses) > 0 or name == "train xgboost"  # whose tasks are XGBoost's own
        assert all(use["peak_bytes"] > 10 << 20 and use["bytes_spilled"] == 0 for use in uses)
    assert sum(use["bytes_held"] for use in stages["read"]["workers"]) > 0
    assert sum(use["rows"] for use in stages["read"]["workers"]) == stages["read"]["rows"]


def test_boosting_on_two_workers_scores_like_one_machine(
    by_command: tuple[subprocess.CompletedProcess[str], Path], tmp_path: Path
) -> None:
    path = tmp_path / "small.yaml"
    path.write_text(SMALL)
    alone = run_on(path, tmp_path / "alone").run
    shared = json.loads((by_command[1] / "metrics.json").read_text())["models"]["xgboost"]
    assert shared["roc_auc"] == pytest.approx(alone.metrics["roc_auc"], abs=0.002)
    assert (by_command[1] / "model" / "program.npz").read_bytes() == (alone.path / "model" / "program.npz").read_bytes()
