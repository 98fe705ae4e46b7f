"""The end-to-end comparison: the part that runs on the host, and the text of its results."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import types
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
import xgboost
from sklearn.metrics import roc_auc_score

from benchmarks.churn import CITY, NUMBERS, PERIODS, SMOOTHING, TARGET, TIME
from benchmarks.device import end_to_end, workload
from benchmarks.peers import churn_cudf, churn_cupy, churn_pandas
from benchmarks.peers.target_rates import rate_of_rows
from gpupipe.bench.clock import StageClock
from gpupipe.config import load_config
from gpupipe.datasets.churn import customers

ROWS = 3_000


def test_the_data_are_the_generators_rows_in_their_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workload, "FILE_ROWS", 1_000)
    workload.write_data(tmp_path / "data", 2_500, 2)
    files = sorted((tmp_path / "data").iterdir())
    assert [pq.read_metadata(file).num_rows for file in files] == [1_000, 1_000, 500]
    table = pq.read_table(tmp_path / "data")
    expected = customers(2_500, columns=[*workload.COLUMNS, TARGET]).cast(table.schema)
    assert table.equals(expected)
    assert len(workload.COLUMNS) == 20


def test_our_configuration_reads_these_columns(tmp_path: Path) -> None:
    source = workload.read_source(tmp_path / "data")
    config = load_config(workload.write_config(tmp_path, source))
    assert config.source.path == f"{tmp_path}/data/*.parquet"
    (model,) = config.models
    assert (model.name, model.params.defaults) == ("xgboost", "library")  # as the hand-written scripts


def run(tmp_path: Path, *implementations: end_to_end.Implementation, n_rows: int = 10, save: Any = bool) -> Any:
    return end_to_end.compare(implementations, n_rows, tmp_path, workload.read_source(tmp_path / "data"), save)


def test_implementations_on_the_host_do_the_same_work(tmp_path: Path) -> None:
    workload.write_data(tmp_path / "data", ROWS, 1)
    pandas = end_to_end.Implementation("pandas", end_to_end._script("churn_pandas"))
    polars = next(one for one in end_to_end.END_TO_END if one.name == end_to_end.POLARS)
    chosen = [pandas, polars] if _has("polars") else [pandas]
    saved: list[int] = []
    document = run(tmp_path, *chosen, n_rows=ROWS, save=lambda found: saved.append(len(found["implementations"])))
    assert saved == list(range(1, len(chosen) + 1))
    assert {name: one.get("error") for name, one in document["implementations"].items() if "error" in one} == {}
    for one in document["implementations"].values():
        assert list(one["samples"][0]["stages_s"]) == ["read", "split", "features", "train", "evaluate"]
        assert one["samples"][0]["auc"] > 0.7


def _has(module: str) -> bool:
    return subprocess.run([sys.executable, "-c", f"import {module}"], capture_output=True, check=False).returncode == 0


def test_a_failed_contender_is_reported_with_the_reason(tmp_path: Path) -> None:
    broken = end_to_end.Implementation("broken", ("-c", "raise SystemExit('no such thing')"))
    document = run(tmp_path, broken)
    assert document["implementations"]["broken"]["error"] == "exit code 1: no such thing"
    assert end_to_end.shortfalls(document) == ["broken did not finish"]


def test_an_implementation_that_is_not_installed_is_skipped_and_no_failure(tmp_path: Path) -> None:
    absent = end_to_end.Implementation("absent", ("-c", ""), packages=("json", "no_such_package"))
    document = run(tmp_path, absent)
    assert end_to_end.lines_of(document) == ["10 rows", "absent: skipped: not installed: no_such_package"]
    assert end_to_end.shortfalls(document) == []


def test_generated_customers_are_compared_where_the_hand_written_script_gets_them_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The GPU's metrics are the recorded ones, and no implementation runs."""
    monkeypatch.setattr(end_to_end, "GENERATED", ())
    monkeypatch.setattr(end_to_end, "recorded", lambda config: {"roc_auc": 0.81})
    monkeypatch.setattr(end_to_end, "compute_metrics", lambda config, device: {"roc_auc": 0.8})
    saved: list[Any] = []
    document = end_to_end.compare_generated(100, lambda found: saved.append([*found["lines"]]))
    assert document["failed"] == [document["lines"][-1]] == [
        "1,000,000 rows: ROC-AUC 0.80000 on the GPU, 0.81000 on the CPU"
    ]  # fmt: skip
    assert saved == [["100 rows"]]
    ((_, config),) = end_to_end.compared_configurations()
    assert (config.source.generate, config.source.rows) == ("churn", end_to_end.COMPARED_ROWS)
    assert [*(config.source.columns or ())] == [*workload.COLUMNS, TARGET]


class _HostForDevice(types.ModuleType):
    """NumPy under CuPy's name."""

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)


@pytest.fixture
def host_for_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """pandas and NumPy stand for cuDF and CuPy, XGBoost trains on the CPU."""
    cupy = _HostForDevice("cupy")
    cupy.cuda = SimpleNamespace(Device=lambda: SimpleNamespace(synchronize=lambda: None))  # type: ignore[attr-defined]
    cudf = types.ModuleType("cudf")
    cudf.DataFrame = cudf.Series = cudf.Index = type("OfCudf", (), {})  # type: ignore[attr-defined]  # asked for by type
    cudf.read_parquet = lambda files, columns: pd.concat(  # type: ignore[attr-defined]
        [pd.read_parquet(file, columns=columns) for file in files], ignore_index=True
    )
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    monkeypatch.setitem(sys.modules, "cudf", cudf)
    monkeypatch.setattr(pd.Series, "to_cupy", pd.Series.to_numpy, raising=False)
    train = xgboost.train
    monkeypatch.setattr(xgboost, "train", lambda params, *a, **kw: train({**params, "device": "cpu"}, *a, **kw))


@pytest.mark.filterwarnings("ignore:Series.dt.weekday")  # pandas methods that cuDF lacks
@pytest.mark.usefixtures("host_for_device")
def test_the_hand_written_scripts_do_the_same_work(tmp_path: Path) -> None:
    workload.write_data(tmp_path, ROWS, 1)
    files = sorted(map(str, tmp_path.glob("*.parquet")))
    expected = churn_pandas.run(files, StageClock(), argparse.Namespace())
    assert churn_cudf.run(files, StageClock(), argparse.Namespace()) == pytest.approx(expected, abs=0.05)
    assert churn_cupy.run([], StageClock(), argparse.Namespace(rows=ROWS)) == pytest.approx(expected, abs=0.05)
    y, score = (np.random.default_rng(0).integers(0, n, 500).astype("float32") for n in (2, 7))  # many ties
    assert churn_cupy.roc_auc(y, score) == pytest.approx(roc_auc_score(y, score), rel=1e-12)
    assert churn_cupy.roc_auc(y, 0 * score) == 0.5


@pytest.mark.filterwarnings("ignore:Series.dt.weekday")
@pytest.mark.usefixtures("host_for_device")
def test_the_columns_of_the_script_without_cudf_are_the_generators() -> None:
    columns, frame = churn_cupy.generate(ROWS), customers(ROWS).to_pandas()
    for name in NUMBERS:
        np.testing.assert_array_equal(columns[name], frame[name].to_numpy("float32"))
    for name in (*workload.CATEGORIES, CITY):
        np.testing.assert_array_equal(columns[name], frame[name].cat.codes)
    np.testing.assert_array_equal(columns[TARGET] == 1, frame[TARGET] == "Yes")
    for part in PERIODS:
        np.testing.assert_array_equal(churn_cupy.calendar_part(columns[TIME], part), getattr(frame[TIME].dt, part))


def test_the_rate_of_a_training_row_excludes_its_own_fold() -> None:
    rng = np.random.default_rng(0)
    code, y, fold = rng.integers(0, 3, 200), rng.integers(0, 2, 200).astype("float32"), rng.integers(0, 5, 200)
    is_train = rng.random(200) < 0.8
    rate = rate_of_rows(code, y, is_train, fold, np)
    for row in (0, 7, 19):
        seen = is_train & (fold != fold[row]) if is_train[row] else is_train
        same = seen & (code == code[row])
        prior = y[seen].mean()
        expected = (y[same].sum() + SMOOTHING * prior) / (same.sum() + SMOOTHING)
        assert rate[row] == pytest.approx(expected, rel=1e-6)


def sample(seconds: float, auc: float = 0.8) -> dict[str, Any]:
    return {"samples": [{"total_s": seconds, "auc": auc, "stages_s": {"read": seconds}}]}


def test_the_best_time_of_each_counts_and_missed_targets_are_reported() -> None:
    ours = {"samples": [*sample(9.0)["samples"], *sample(2.0)["samples"]]}
    document = {
        "rows": 50_000_000,
        "implementations": {
            end_to_end.GPUPIPE: ours, end_to_end.BY_HAND: sample(2.2), end_to_end.POLARS: sample(8.0, auc=0.7),
        },
    }  # fmt: skip
    assert end_to_end.lines_of(document) == [
        "50,000,000 rows",
        "gpupipe, GPU: 9.00 s, then 2.00 s (ROC-AUC 0.8000; read 2.00)",
        "by hand, GPU: 2.20 s (ROC-AUC 0.8000; read 2.20)",
        "polars + XGBoost, CPU: 8.00 s (ROC-AUC 0.7000; read 8.00)",
        "gpupipe, GPU: 1.10 times as fast as by hand, GPU",
        "gpupipe, GPU: 4.00 times as fast as polars + XGBoost, CPU",
    ]
    assert end_to_end.shortfalls(document) == [
        "expected 5 times the speed of the fastest on the host, found 4.0",
        "expected 0.8 of the hand-written script's time, found 0.91",
        "the ROC-AUC of XGBoost ranges from 0.7000 to 0.8000: the workloads differ",
    ]
    assert json.dumps(document)
