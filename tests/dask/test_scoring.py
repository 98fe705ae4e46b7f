"""Tests of scoring on a cluster: the predictions of one machine, bit for bit, as files of a folder, or no files."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from gpupipe.backends import Backend
from gpupipe.config import parse_config
from gpupipe.config.cluster import ClusterSettings
from gpupipe.errors import ArtifactError, ClusterError, ConfigError, DataError, LimitError, SchemaError
from gpupipe.inference.model import load_model
from gpupipe.inference.scoring import cluster
from gpupipe.inference.scoring.cluster import score_on_cluster, score_on_workers
from gpupipe.inference.scoring.local import score
from gpupipe.inference.scoring.scoring_settings import ScoringSettings
from gpupipe.partitions.scoring import SentModel, _cannot_write, score_chunks
from gpupipe.partitions.source_chunks import ArrowChunk
from gpupipe.partitions.workers import Workers
from gpupipe.pipeline.run import run_pipeline
from tests.dask import scorers
from tests.inline_workers import InlineWorkers

N_ROWS = 1_500
KERNEL = """\
import gpupipe as gp


@gp.kernel
def ratio(x, y):
    return x / (1.0 + y * y)
"""
MODELS: dict[str, Any] = {
    "linear": "logistic_regression",
    "trees": {"xgboost": {"n_estimators": 20}},
    "scikit-learn": {"random_forest": {"n_estimators": 5}},
    "network": {"mlp": {"epochs": 1}},
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a table, as Parquet with many row groups and as CSV, and a file of kernels."""
    rng = np.random.default_rng(3)
    path = tmp_path_factory.mktemp("scores")
    frame = pd.DataFrame(
        {
            "x": rng.normal(size=N_ROWS),
            "y": np.where(rng.random(N_ROWS) < 0.1, np.nan, rng.gamma(2.0, 3.0, N_ROWS)),
            "city": rng.choice(["Bern", "Rom", "Wien"], N_ROWS),
            "day": pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 300, N_ROWS), unit="D"),
            "who": rng.integers(0, 40, N_ROWS).astype(str),
        }
    )
    frame["bought"] = np.where(frame["x"] + rng.normal(size=N_ROWS) > 0, "yes", "no")
    frame.to_parquet(path / "all.parquet", row_group_size=97)
    frame.to_csv(path / "all.csv", index=False)
    (path / "mine.py").write_text(KERNEL)
    return path


@pytest.fixture(scope="module")
def trained(folder: Path) -> Callable[..., Path]:
    """Return a function that trains a model once and returns its run directory."""
    done: dict[str, Path] = {}

    def train(name: str, model: Any = "gaussian_nb", features: tuple[Any, ...] = ()) -> Path:
        if name not in done:
            dropped = [] if name == "history" else ["who"]
            settings = {
                "source": {"path": str(folder / "all.parquet"), "target": "bought", "drop": dropped},
                "features": list(features),
                "models": [model],
                "report": {"enabled": False},
                "evaluate": {"metrics": ["roc_auc"], "importance": False},
            }
            done[name] = run_pipeline(parse_config(settings), folder / name).path
        return done[name]

    return train


def on_one_machine(run: Path, data: Path, tmp_path: Path, **given: Any) -> pa.Table:
    score(run, str(data), tmp_path / "one.parquet", ScoringSettings(device="cpu", **given))
    return pq.read_table(tmp_path / "one.parquet")


def several(workers: Workers, backend: Backend, n: int) -> Workers:
    """Return `n` workers of the same class."""
    return type(workers)(backend, n)  # type: ignore[call-arg]


@pytest.mark.parametrize("kind", MODELS)
def test_predictions_equal_those_of_one_machine(kind, folder, trained, workers, backend, tmp_path) -> None:
    if kind == "network":
        pytest.importorskip("torch")
    run = trained(kind, MODELS[kind])
    for data in ("all.parquet", "all.csv"):
        expected = on_one_machine(run, folder / data, tmp_path)
        for n in (1, 2, 3, 7) if kind == "linear" else (3,):
            out = tmp_path / f"{data}-{n}"
            out.mkdir()
            model = load_model(run, "cpu")
            assert score_on_workers(model, str(folder / data), out, several(workers, backend, n)).n_rows == N_ROWS
            found = pq.read_table(out)
            assert found.schema.equals(expected.schema)
            if kind == "network":  # rounding of a row depends on its batch
                np.testing.assert_allclose(found["probability_yes"], expected["probability_yes"], atol=1e-6)
            else:
                assert found.equals(expected)


@pytest.mark.parametrize("kind", ["linear", "trees"])
def test_reasons_equal_those_of_one_machine(kind, folder, trained, workers, backend, tmp_path) -> None:
    """A linear model is explained by the recorded rows, which workers must have read before they remove the files."""
    run, data, out = trained(kind, MODELS[kind]), folder / "all.parquet", tmp_path / "out"
    out.mkdir()
    expected = on_one_machine(run, data, tmp_path, explain=2)
    score_on_workers(load_model(run, "cpu"), str(data), out, several(workers, backend, 3), ScoringSettings(explain=2))
    assert "reason_2" in expected.column_names and pq.read_table(out).equals(expected)


@pytest.mark.parametrize("kind", ["linear", "history"])
def test_ids_and_kept_columns_equal_those_of_one_machine(kind, folder, trained, workers, backend, tmp_path) -> None:
    lag = {"lag": {"key": "who", "time": "day", "columns": ["x"]}}
    run = trained("history", features=(lag,)) if kind == "history" else trained(kind, MODELS[kind])
    rows = pd.read_parquet(folder / "all.parquet").head(700)
    rows.assign(id=[f"{i:05d}" for i in range(700)]).to_csv(tmp_path / "new.csv", index=False)
    options: dict[str, Any] = {"ids": ["id"], "keep": ["city,boug*"]}
    expected = on_one_machine(run, tmp_path / "new.csv", tmp_path, **options)
    assert expected.column_names[:4] == ["id", "city", "bought", "prediction"]
    (tmp_path / "out").mkdir()
    there = several(workers, backend, 3)
    summary = score_on_workers(
        load_model(run, "cpu"), str(tmp_path / "new.csv"), tmp_path / "out", there, ScoringSettings(**options)
    )
    assert pq.read_table(tmp_path / "out").equals(expected)
    assert (summary.ids, summary.kept) == (("id",), ("city", "bought"))


def test_the_folder_has_only_files_named_in_the_order_of_the_rows(folder, trained, workers, backend, tmp_path) -> None:
    (tmp_path / ".part-00001.parquet.tmp-77-00ff00ff").write_bytes(b"what a lost worker had begun")
    model = load_model(trained("linear", MODELS["linear"]), "cpu")
    score_on_workers(model, str(folder / "all.parquet"), tmp_path, several(workers, backend, 3))
    assert sorted(os.listdir(tmp_path)) == [f"part-{i:05}.parquet" for i in range(3)]
    assert ds.dataset(tmp_path).count_rows() == N_ROWS


def test_a_process_opens_the_model_once_and_frees_each_chunk(folder, trained, backend, tmp_path) -> None:
    opened: list[Path] = []

    def opener(path: Path, backend: Backend) -> Any:
        opened.append(path)
        return cluster._open(path, backend, allow_code=False)

    rows, inline = pq.read_table(folder / "all.parquet"), InlineWorkers(backend)
    chunks = [ArrowChunk(inline.put(rows.slice(i, 100)), 100) for i in (0, 100)]
    sent = SentModel.of(trained("linear", MODELS["linear"]) / "model", opener)
    assert score_chunks(chunks, sent, tmp_path, inline).n_rows == 200
    assert chunks == [] and len(opened) == 1 and not opened[0].exists()


def test_a_single_worker_scores_all_rows_with_history_features(folder, trained, workers, tmp_path) -> None:
    run = trained("history", features=({"lag": {"key": "who", "time": "day", "columns": ["x"]}},))
    (tmp_path / "out").mkdir()
    said: list[str] = []
    model = load_model(run, "cpu")
    done = score_on_workers(
        model, str(folder / "all.parquet"), tmp_path / "out", workers, ScoringSettings(log=said.append)
    )
    assert os.listdir(tmp_path / "out") == ["part-00000.parquet"]
    assert pq.read_table(tmp_path / "out").equals(on_one_machine(run, folder / "all.parquet", tmp_path))
    assert said == ["features of keys and texts need all rows at once: a single worker reads and scores them"]
    assert "nulls: y 12.6% (training 12.3%)" in done.lines()


def test_reports_of_workers_are_merged(folder, trained, workers, backend, tmp_path) -> None:
    frame = pd.read_parquet(folder / "all.parquet")
    frame.loc[frame.index % 5 == 0, "city"] = "Oslo"
    frame.loc[frame.index > 1_400, "x"] = 1e6
    frame["day"] = frame["day"] - pd.Timedelta(days=1)
    frame["y"] = np.nan
    frame.to_parquet(tmp_path / "new.parquet", row_group_size=97)
    run = trained("linear", MODELS["linear"])
    alone = score(run, str(tmp_path / "new.parquet"), tmp_path / "one.parquet", ScoringSettings(device="cpu")).lines()
    (tmp_path / "out").mkdir()
    spread = several(workers, backend, 3)
    said = score_on_workers(load_model(run, "cpu"), str(tmp_path / "new.parquet"), tmp_path / "out", spread).lines()
    assert said[:-1] == alone[:-1]  # everything except the name of the output
    assert "city: 300 of 1,500 rows have a level unseen in training (found 'Oslo')" in said
    assert said[0].startswith("warning: column 'y': every row is null")


def test_custom_kernels_run_on_workers_only_if_allowed(folder, trained, workers, tmp_path) -> None:
    run = trained("kernel", features=({"kernel": {"use": str(folder / "mine.py") + ":ratio", "inputs": ["x", "y"]}},))
    with pytest.raises(ArtifactError, match="contains Python code"):
        score_on_cluster(run, str(folder / "all.parquet"), tmp_path / "out", ClusterSettings(scheduler="local"))
    (tmp_path / "out").mkdir()
    model = load_model(run, "cpu", allow_code=True)
    score_on_workers(model, str(folder / "all.parquet"), tmp_path / "out", workers, ScoringSettings(allow_code=True))
    expected = on_one_machine(run, folder / "all.parquet", tmp_path, allow_code=True)
    assert pq.read_table(tmp_path / "out").equals(expected)


def test_a_model_that_was_altered_in_transit_is_rejected(trained, workers, tmp_path) -> None:
    folder = trained("linear", MODELS["linear"]) / "model"
    sent = SentModel.of(folder, partial(cluster._open, allow_code=False))
    sent.files = {**sent.files, "schema.json": sent.files["schema.json"] + b" "}
    with pytest.raises(ArtifactError, match=r"schema\.json"):
        score_chunks([ArrowChunk(workers.put(pa.table({})), 0)], sent, tmp_path, workers)
    assert os.listdir(tmp_path) == []


def test_the_error_for_a_value_of_another_kind_names_its_row(folder, trained, workers, backend, tmp_path) -> None:
    rows = pq.read_table(folder / "all.parquet").to_pandas().astype({"x": str})
    rows.loc[1_200, "x"] = "much"
    rows.to_parquet(tmp_path / "strange.parquet", row_group_size=500)
    model = load_model(trained("linear", MODELS["linear"]), "cpu")
    with pytest.raises(SchemaError, match="expected a number in column 'x'; found 'much'") as caught:
        score_on_workers(model, str(tmp_path / "strange.parquet"), tmp_path, several(workers, backend, 3))
    assert re.findall(r"data row ([\d,]+)\n", str(caught.value)) == ["1,200"]


def test_a_missing_column_and_an_unknown_table_raise_the_errors_of_one_machine(
    folder, trained, workers, tmp_path
) -> None:
    model = load_model(trained("linear", MODELS["linear"]), "cpu")
    pq.write_table(pq.read_table(folder / "all.parquet").drop_columns(["city"]), tmp_path / "less.parquet")
    with pytest.raises(SchemaError, match="a column that is not in the data: city"):
        score_on_workers(model, str(tmp_path / "less.parquet"), tmp_path, workers)
    data = str(folder / "all.parquet")
    with pytest.raises(ConfigError, match="unknown further table 'orders'"):
        score_on_workers(model, data, tmp_path, workers, ScoringSettings(tables={"orders": data}))


def test_the_error_for_an_unreachable_folder_names_folder_and_worker(folder, trained, workers, tmp_path) -> None:
    model = load_model(trained("linear", MODELS["linear"]), "cpu")
    with pytest.raises(ConfigError, match="cannot write its file: No such file or directory") as caught:
        score_on_workers(model, str(folder / "all.parquet"), tmp_path / "elsewhere", workers)
    assert str(tmp_path / "elsewhere" / "part-00000.parquet") in caught.value.where
    assert f"process {os.getpid()} on " in caught.value.where
    assert not (tmp_path / "elsewhere").exists()


def test_a_full_disk_is_a_limit_error() -> None:
    error = _cannot_write(Path("/out/part-00000.parquet"), OSError(errno.ENOSPC, "No space left on device"))
    assert isinstance(error, LimitError) and "No space left" in error.what


@pytest.mark.parametrize(
    ("output", "words"),
    [
        ("absent/out", "no such folder"),
        ("out.parquet", "expected a folder"),
        ("full", "it is not empty"),
        ("file", "it is a file"),
    ],
)
def test_an_invalid_output_is_rejected_before_workers_start(output, words, tmp_path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine.txt").touch()
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match=words):
        score_on_cluster("no model", "no data", tmp_path / output, ClusterSettings(scheduler="local"))


@pytest.fixture
def fatal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], ClusterSettings]:
    """Return a function that makes models kill their workers: once with a witness file, else always."""
    pytest.importorskip("distributed")

    def made(witness: str) -> ClusterSettings:
        monkeypatch.setattr(cluster, "_open", scorers.dying)
        monkeypatch.setenv(scorers.WITNESS, witness)
        monkeypatch.setenv("GPUPIPE_TEST_OUTPUT", str(tmp_path))
        return ClusterSettings(scheduler="local", workers=2, threads=1, deadline=30, retries=1)

    return made


def test_a_worker_lost_while_writing_leaves_no_trace(folder, trained, fatal, tmp_path) -> None:
    run, data = trained("linear", MODELS["linear"]), str(folder / "all.parquet")
    expected = on_one_machine(run, folder / "all.parquet", tmp_path)
    said: list[str] = []
    settings = fatal(str(tmp_path / "witness"))
    scoring = ScoringSettings(device="cpu", log=said.append)
    assert score_on_cluster(run, data, tmp_path / "out", settings, scoring).n_rows == N_ROWS
    assert pq.read_table(tmp_path / "out").equals(expected)
    assert sorted(os.listdir(tmp_path / "out")) == ["part-00000.parquet", "part-00001.parquet"]
    assert any("was lost" in text for text in said)


def test_workers_that_are_lost_repeatedly_leave_no_files(folder, trained, fatal, tmp_path) -> None:
    run = trained("linear", MODELS["linear"])
    with pytest.raises(ClusterError, match="workers in turn died") as caught:
        score_on_cluster(run, str(folder / "all.parquet"), tmp_path / "out", fatal(""), ScoringSettings(device="cpu"))
    assert "scoring chunk" in caught.value.where
    assert os.listdir(tmp_path) == []


def test_a_missing_input_leaves_no_files(trained, workers, tmp_path) -> None:
    model = load_model(trained("linear", MODELS["linear"]), "cpu")
    with pytest.raises(DataError):
        score_on_workers(model, str(tmp_path / "absent.parquet"), tmp_path, workers)
    assert os.listdir(tmp_path) == []
