"""Properties of whole runs: reproducible bytes, no leakage from test rows, and models that repeat their predictions."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpupipe.backends import choose
from gpupipe.inference.model import load_model
from gpupipe.pipeline.result import Run
from gpupipe.splits.folds import hold_out
from gpupipe.tasks import View
from gpupipe.timeline.timeline import Timeline
from gpupipe.training.fit import learn_features, select_rows
from gpupipe.training.job import Job
from gpupipe.training.preparation.preparation import folds_of, open_job
from tests.examples import examples
from tests.properties.fitting import in_bits
from tests.properties.runs import TABLE, configured, run, table_with_target
from tests.properties.tables import other_rows

Array = Any

LEADERBOARD = """\
logistic_regression, hist_gradient_boosting: {max_iter: 5}, xgboost: {n_estimators: 5},
  random_forest: {n_estimators: 2}"""
# Models that compute each row separately; with others the last digits depend on the rows of the same batch.
SERVED = {
    "logistic_regression": "classes", "hist_gradient_boosting: {max_iter: 5}": "classes", "ridge": "numbers",
    "random_forest: {n_estimators: 2}": "classes", "xgboost: {n_estimators: 5}": "numbers",
}  # fmt: skip
BYTES = ("metrics.json", "predictions.parquet", "model/program.npz", "model/levels.json", "model/learned.json")


@pytest.fixture(scope="module")
def leaderboard(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Return a finished run of several models."""
    return run(tmp_path_factory.mktemp("runs") / "first", table_with_target(), LEADERBOARD)


def test_a_seed_gives_the_same_bytes_in_another_process_on_one_thread(leaderboard: Run) -> None:
    config = leaderboard.path.parent / "config.yaml"
    other = leaderboard.path.parent / "again"
    environment = {**os.environ, "PYTHONHASHSEED": "12345", "GPUPIPE_THREADS": "1"}
    command = [sys.executable, "-m", "gpupipe", "run", str(config), "--output", str(other), "--quiet"]
    subprocess.run(command, env=environment, check=True)
    for file in BYTES:
        assert (other / file).read_bytes() == (leaderboard.path / file).read_bytes(), file


def test_another_seed_tests_other_rows_and_gives_other_figures(leaderboard: Run, tmp_path: Path) -> None:
    other = run(tmp_path, table_with_target(), LEADERBOARD, overrides=["seed=4"])
    assert rows_of(other.path) != rows_of(leaderboard.path)
    assert other.document["models"] != leaderboard.document["models"]


def rows_of(path: Path) -> list[int]:
    """Return the rows that a run has tested."""
    rows: list[int] = pq.read_table(path / "predictions.parquet")["row"].to_pylist()
    return rows


@pytest.mark.filterwarnings("ignore::gpupipe.PredictionWarning")  # the level of a single row may be unseen
@pytest.mark.parametrize("model", SERVED)
def test_a_model_repeats_its_predictions_in_any_batches_and_order(model: str, tmp_path: Path) -> None:
    table = table_with_target(SERVED[model])
    path = run(tmp_path, table, model).path
    said, served = pq.read_table(path / "predictions.parquet").drop_columns(["target"]), load_model(path)

    @examples(3)
    @given(st.integers(1, 30), st.permutations(range(said.num_rows)), st.permutations(table.column_names))
    def same_bytes(height: int, order: list[int], names: list[str]) -> None:
        expected = said.take(order[:30])
        rows = table.take(expected["row"]).select(names)
        for given_rows in (rows, rows.to_pandas()):
            parts = [served.predict_table(given_rows[at : at + height]) for at in range(0, expected.num_rows, height)]
            assert bits(pa.concat_tables(parts)) == bits(expected.drop_columns(["row"]))

    same_bytes()


def bits(table: pa.Table) -> dict[str, Any]:
    """Return the columns of a table, numbers in bits."""
    columns = {name: table[name].to_numpy() for name in table.column_names}
    return {name: v.tolist() if v.dtype == object else v.tobytes() for name, v in columns.items()}


@pytest.mark.parametrize("cv", [None, 3])
def test_no_fold_and_no_validation_learns_of_its_other_rows(cv: int | None, tmp_path: Path) -> None:
    table, backend = table_with_target(), choose("cpu")

    def job_of(rows: pa.Table) -> Job:
        config = configured(tmp_path, rows, "logistic_regression", split=f"{{cv: {cv}, stratify: false}}" if cv else "")
        return open_job(config, backend, Timeline())

    job = job_of(table)
    masks = [fold.train for fold in folds_of(job)]
    if cv is None:  # where a threshold or the best model is chosen, on rows that are held out once more
        masks.append(hold_out(job.config.split, masks[0], 0.2, None, None, None, job.config.seed).train)
    for mask in masks:
        others = with_other_rows(table, ~mask)
        for view in ("dense", "codes"):
            assert learned(job_of(others), mask, view) == learned(job, mask, view)


def with_other_rows(table: pa.Table, rows: Array) -> pa.Table:
    """Return the table with other values, targets among them, in `rows`."""
    changed = pa.array(np.where(rows, ~table["y"].to_numpy(zero_copy_only=False), table["y"]).astype(bool))
    return other_rows(TABLE, rows, 5).append_column("y", changed)


def learned(job: Job, mask: Array, view: View) -> list[str]:
    """Return what is learned of the rows of `mask`, in bits."""
    rows = select_rows(job.table, job.y, mask, job.goal, job.config, job.backend, job.derivation)
    return in_bits(learn_features(rows, view, job.config.features))


def test_a_model_does_not_depend_on_the_rows_that_test_it(leaderboard: Run, tmp_path: Path) -> None:
    table = table_with_target()
    tested = np.isin(np.arange(len(table)), rows_of(leaderboard.path))
    other = run(tmp_path, with_other_rows(table, tested), LEADERBOARD).path
    assert rows_of(other) == rows_of(leaderboard.path)
    kept = table.filter(pa.array(~tested))
    mine, theirs = (load_model(path).predict_table(kept) for path in (leaderboard.path, other))
    assert bits(mine) == bits(theirs)
