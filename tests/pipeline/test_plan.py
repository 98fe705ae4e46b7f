"""The predictions of a plan, compared with a run."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest
from pyarrow import feather, orc
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

from gpupipe import Pipeline
from gpupipe.backends import choose, device_report, machine
from gpupipe.config import parse_config
from gpupipe.datasets.churn import customers
from gpupipe.errors import DeviceError, LimitError
from gpupipe.io.device.obstacles import READ_ON_HOST
from gpupipe.metrics.importance import BATCH_BYTES
from gpupipe.model_parts import latency
from gpupipe.models import MODELS, FitContext, fit
from gpupipe.partitions.training_memory import binned_bytes
from gpupipe.plan.costs import COMPILED, LIBRARIES, model_bytes, pass_bytes, training_bytes
from gpupipe.plan.run_plan import make_plan
from gpupipe.training.ensemble.portfolio import make_portfolio
from gpupipe.units import GIB

ROOT = Path(__file__).parents[2]
ROWS = 60_000
CHURN: dict[str, Any] = {
    "seed": 7,
    "source": {"generate": "churn", "rows": ROWS, "target": "Churn", "positive": "Yes", "drop": ["customerID"]},
    "split": {"test_size": 0.25, "stratify": True},
    "features": [{"impute": "@numeric"}, {"encode": ["@categorical", "!City"]}, {"target_encode": "City"}],
    "models": ["logistic_regression", {"xgboost": {"n_estimators": 5}}],
    "report": {"enabled": False},
}


def churn(**changes):
    """Return the churn configuration with some sections changed."""
    return parse_config(CHURN | changes)


def of_file(path: Path, **changes):
    """Return the churn configuration on a file."""
    source = {"path": str(path), "target": "Churn", "positive": "Yes", "drop": ["customerID"], **changes}
    return parse_config(CHURN | {"source": source})


@pytest.fixture(scope="module")
def table() -> pa.Table:
    return customers(ROWS, 7, None)


def plan_of(config, **options):
    plan = make_plan(config, **options)
    return plan, {stage.name: stage for stage in plan.stages}


CASES: dict[str, dict[str, Any]] = {
    "holdout": {"models": ["logistic_regression"], "report": {"enabled": True, "plots": False}},
    "validation": {},
    "folds": {"split": {"cv": 3}},
    "histories": {
        "features": [
            {"lag": {"key": "City", "time": "signup_ts", "columns": "MonthlyCharges", "periods": [1]}},
            {"impute": "@numeric"},
        ],
        "models": ["logistic_regression"],
    },
    "ensemble": {"models": [{"best": {"models": ["logistic_regression"], "folds": 2}}]},
    "ensemble on all rows": {
        "split": {"cv": 2},
        "models": [{"best": {"models": ["logistic_regression"], "out_of_fold": True}}],
    },
    "latency": {"evaluate": {"importance": False, "max_latency": "1h"}},
}


@pytest.mark.parametrize("case", CASES)
def test_a_plan_and_a_run_take_the_same_steps_in_the_same_order(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(latency, "MOST_CALLS", 1)
    source = CHURN["source"] | {"rows": 3000}
    config = churn(**{"source": source, "evaluate": {"importance": False}, **CASES[case]})
    run, plan = Pipeline(config).run(tmp_path / "run"), make_plan(config)
    planned = [stage.name.replace("each of 3 folds", "fold 1 of 3") for stage in plan.stages]
    ran = [stage["name"] for stage in run.plan()]
    assert [_without_champion(name) for name in ran if not name.startswith(("fold 2", "fold 3"))] == [
        _without_champion(name) for name in planned
    ]


def _without_champion(name: str) -> str:
    """Return the name of a stage without the model that is trained again: a plan does not know which one it is."""
    return re.sub(r"^(refit: \w+) .*", r"\1", name)


def test_the_stages_have_the_rows_and_notes_of_the_run(tmp_path):
    run = Pipeline(churn()).run(tmp_path / "run")
    plan, stages = plan_of(churn())
    ran = {stage["name"]: stage for stage in run.plan()}
    for name in ("read", "split", "features", "train xgboost", "predict xgboost", "train logistic_regression"):
        assert stages[name].rows == ran[name]["rows"], name
        assert stages[name].device == ran[name]["device"] == "cpu"
    columns = [note for note in ran["features"]["notes"] if "columns for" in note]
    assert list(stages["features"].notes) == columns
    assert set(stages["read"].__dict__) - {"parts"} <= set(ran["read"])
    assert plan.n_rows == ROWS and plan.is_exact and plan.error is None


def peak_of_a_run(folder: Path, document: dict) -> tuple[int, int]:
    """Return the predicted peak of a run, and that of its process."""
    path, out = folder / "config.json", folder / "run"
    path.write_text(json.dumps(document))
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'kernels'}"}
    command = [sys.executable, "-m", "gpupipe", "run", str(path), "--quiet", "--device", "cpu", "--output", str(out)]
    subprocess.run(command, check=True, env=environment, timeout=300)
    real = max(stage["peak_host_bytes"] for stage in json.loads((out / "timeline.json").read_text())["stages"])
    return Pipeline.from_yaml(path, device="cpu").plan().host_bytes, real


@pytest.mark.nightly  # by day, estimates are compared with what they add up
@pytest.mark.parametrize(("rows", "models"), [(400_000, ["xgboost"]), (20_000, [{"tabm": {"epochs": 1}}])])
def test_the_peak_is_near_that_of_a_real_process(rows, models, tmp_path):
    source = {**CHURN["source"], "rows": rows, "cache": False}
    predicted, real = peak_of_a_run(tmp_path, {**CHURN, "source": source, "models": models})
    assert 0.75 < predicted / real < 1.25, (predicted / GIB, real / GIB)


@pytest.mark.parametrize("ending", ["parquet", "orc", "arrow"])
def test_rows_are_counted_in_footers(ending, table, tmp_path):
    write = {"parquet": pq.write_table, "orc": lambda t, p: orc.write_table(t, str(p)), "arrow": feather.write_feather}
    texts = [field.name for field in table.schema if pa.types.is_dictionary(field.type)]
    plain = table.cast(pa.schema([(f.name, pa.string() if f.name in texts else f.type) for f in table.schema]))
    for part in range(2):
        write[ending](plain.slice(part * ROWS // 2, ROWS // 2), tmp_path / f"{part}.{ending}")
    plan, _ = plan_of(of_file(tmp_path))
    assert plan.n_rows == ROWS and plan.is_exact


@pytest.mark.parametrize("ending", ["csv", "csv.gz"])
def test_rows_of_lines_are_estimated_by_their_size(ending, table, tmp_path):
    path = tmp_path / f"churn.{ending}"
    with pa.CompressedOutputStream(str(path), "gzip") if ending.endswith("gz") else pa.OSFile(str(path), "wb") as sink:
        pa_csv.write_csv(table, sink)
    plan, stages = plan_of(of_file(path))
    assert plan.n_rows == pytest.approx(ROWS, rel=0.02 if ending == "csv" else 0.5)
    assert not plan.is_exact and "rows estimated from file sizes" in " ".join(stages["read"].notes)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_a_table_in_another_encoding_is_sampled_too(encoding, table, tmp_path):
    path = tmp_path / "churn.csv"
    table.to_pandas().to_csv(path, index=False, encoding=encoding)
    plan, _ = plan_of(of_file(path, csv={"encoding": encoding}))
    assert plan.n_rows == pytest.approx(ROWS, rel=0.02)


def test_a_table_that_is_in_the_cache_is_not_read_again(table, tmp_path):
    pq.write_table(table, tmp_path / "churn.parquet")
    config = of_file(tmp_path / "churn.parquet", cache=str(tmp_path / "cache"))
    read = plan_of(config)[1]["read"]
    Pipeline(config).run(tmp_path / "run")
    again = plan_of(config)[1]["read"]
    assert "encoded table found in the cache" in again.notes
    assert again.peak_host_bytes < read.peak_host_bytes


def test_a_filter_counts_by_the_share_that_passes(table, tmp_path):
    pq.write_table(table, tmp_path / "churn.parquet")
    kept = sum(tenure > 24 for tenure in table.column("tenure").to_pylist() if tenure is not None)
    plan, _ = plan_of(of_file(tmp_path / "churn.parquet", where="tenure > 24"))
    assert plan.n_rows == pytest.approx(kept, rel=0.03) and not plan.is_exact


def test_a_file_that_begins_with_one_class_is_sampled_throughout(table, tmp_path):
    order = pc.sort_indices(table.column("Churn").cast(pa.string()))
    pq.write_table(table.take(order), tmp_path / "sorted.parquet", row_group_size=5_000)
    plan, _ = plan_of(of_file(tmp_path / "sorted.parquet"))
    assert plan.n_rows == ROWS


def test_folds_are_one_entry_that_holds_what_the_others_left():
    _, stages = plan_of(churn(split={"cv": 5}))
    assert stages["each of 5 folds: train xgboost"].rows == ROWS * 4 // 5
    assert stages["refit: features"].rows == ROWS


def test_an_assumed_gpu_reports_fallbacks_and_that_forbid_would_refuse_them(table, tmp_path):
    pq.write_table(table, tmp_path / "churn.parquet")
    config = of_file(tmp_path / "churn.parquet")
    config = config.model_copy(update={"models": churn(models=["hist_gradient_boosting", "xgboost"]).models})
    plan, stages = plan_of(config, assume_gpu=16 * GIB)
    assert plan.device_limit == 16 * GIB and plan.error is None
    assert stages["read"].device == "gpu" and stages["train xgboost"].device == "gpu"
    trained = stages["train hist_gradient_boosting"]
    assert trained.device == "cpu" and "cuML has no histogram gradient boosting" in trained.reason
    assert "fallback: forbid would make this an error" in trained.notes
    assert stages["features"].peak_device_bytes > 0


def test_an_assumed_gpu_leaves_text_files_to_the_host_which_is_not_a_fallback(table, tmp_path):
    table.to_pandas().to_csv(tmp_path / "churn.csv", index=False)
    config = of_file(tmp_path / "churn.csv").model_copy(update={"fallback": "forbid"})
    plan, stages = plan_of(config, assume_gpu=16 * GIB)
    assert plan.error is None
    assert (stages["read"].device, stages["read"].reason) == ("cpu", READ_ON_HOST)
    assert stages["read"].peak_device_bytes > 0  # the encoded table
    assert stages["features"].device == "gpu"


NETWORKS = ["mlp", "tabm", "ft_transformer"]


def test_networks_are_planned_and_pytorch_is_not_imported(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps({**CHURN, "models": NETWORKS}))
    code = (
        "import sys, gpupipe; plan = gpupipe.Pipeline.from_yaml(sys.argv[1], device='cpu').plan();"
        "assert 'torch' not in sys.modules; print(*(stage.name for stage in plan.stages), sep='\\n')"
    )
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'kernels'}"}
    command = [sys.executable, "-c", code, str(tmp_path / "config.json")]
    stages = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout.splitlines()
    assert [name for name in stages if name.startswith("train")] == [f"train {name}" for name in NETWORKS]


def test_a_network_takes_more_with_larger_batches_and_is_trained_by_pytorch_on_an_assumed_gpu():
    def device_bytes(batch):
        _, stages = plan_of(churn(models=[{"tabm": {"batch_size": batch}}]), assume_gpu=16 * GIB)
        trained, predicted = stages["train tabm"], stages["predict tabm"]
        assert trained.device == predicted.device == "gpu"
        assert "refuse" not in " ".join(trained.notes)
        return trained.peak_device_bytes

    assert device_bytes(8192) > device_bytes(1024) + 50 * 2**20


def test_an_ensemble_is_planned_with_the_trainings_of_its_portfolio_and_its_time_limit():
    best = {"models": ["logistic_regression", "xgboost"], "time_limit": "10min"}
    n_models = len(make_portfolio("binary", choose("cpu"), best["models"]))
    _, stages = plan_of(churn(models=[{"best": best}, "gaussian_nb"]))
    assert stages["train best"].notes[0] == (
        f"best: at most {n_models} models × 8 folds = {8 * n_models} trainings, within 4 min 45 s in each of 2 "
        "training rounds: 10 min 00 s less 30.00 s for explanation, export and report"
    )
    _, single = plan_of(churn(models=["xgboost", "gaussian_nb"]))
    assert stages["train best"].peak_host_bytes > single["train xgboost"].peak_host_bytes


def test_an_ensemble_on_an_assumed_gpu_trains_one_fold_at_a_time():
    _, stages = plan_of(churn(models=[{"best": {"models": ["xgboost"]}}]), assume_gpu=16 * GIB)
    _, single = plan_of(churn(models=["xgboost"]), assume_gpu=16 * GIB)
    _, mixed = plan_of(churn(models=[{"best": {"models": ["xgboost", "lightgbm"]}}]), assume_gpu=16 * GIB)
    assert mixed["train best"].peak_device_bytes == stages["train best"].peak_device_bytes  # LightGBM is for the host
    assert stages["train best"].device == "gpu"
    assert single["train xgboost"].peak_device_bytes < stages["train best"].peak_device_bytes < 2 * GIB


def test_least_squares_on_a_gpu_takes_blocks_of_its_matrix_and_no_copy():
    source = {"generate": "churn", "rows": 50_000_000, "target": "MonthlyCharges", "drop": ["customerID"]}
    _, stages = plan_of(churn(source=source, models=["linear_regression", "ridge"]), assume_gpu=80 * GIB)
    least_squares, ridge = stages["train linear_regression"], stages["train ridge"]
    assert least_squares.device == ridge.device == "gpu"
    matrix = 50_000_000 * 4 * 40  # at least
    assert ridge.peak_device_bytes - least_squares.peak_device_bytes > 3 * matrix  # two copies of it in float64


def test_a_forbidden_fallback_does_not_refuse_networks():
    plan, _ = plan_of(churn(models=NETWORKS, fallback="forbid"), assume_gpu=16 * GIB)
    assert plan.error is None


def test_a_forbidden_fallback_is_the_error_of_the_plan():
    config = churn(models=["hist_gradient_boosting"], fallback="forbid")
    plan, stages = plan_of(config, assume_gpu=16 * GIB)
    assert isinstance(plan.error, DeviceError) and plan.error.exit_code == 4
    assert "use the model xgboost" in str(plan.error)
    assert "fallback: forbid makes this an error" in stages["train hist_gradient_boosting"].notes


def test_missing_values_that_a_forest_on_the_gpu_does_not_take_are_seen_in_the_sample(table, tmp_path):
    config = churn(models=["random_forest"], features=[{"encode": "@categorical"}])
    _, stages = plan_of(config, assume_gpu=16 * GIB)
    assert "takes no missing values" in stages["train random_forest"].reason


def test_generated_rows_are_moved_to_an_assumed_gpu():
    small, large = (
        plan_of(churn(source={**CHURN["source"], "rows": n}), assume_gpu=64 * GIB)[1]["read"]
        for n in (2_000_000, 22_000_000)
    )
    assert small.device == "gpu" and small.reason == "assumed GPU with 64.00 GiB"
    a_row = (large.peak_host_bytes - small.peak_host_bytes) / 20_000_000
    assert 100 < a_row < 150  # its columns in Arrow
    a_row = (large.peak_device_bytes - small.peak_device_bytes) / 20_000_000
    assert 120 < a_row < 250  # its columns as they are moved, and the encoded ones


def test_a_gpu_that_is_too_small_is_an_error_with_a_fix():
    plan, _ = plan_of(churn(source={**CHURN["source"], "rows": 50_000_000}), assume_gpu=4 * GIB)
    assert isinstance(plan.error, LimitError) and plan.error.exit_code == 3
    message = str(plan.error)
    assert "GiB of the GPU, which has 4.00" in message and "use about" in message


def test_a_table_too_large_for_the_host_is_an_error():
    plan, _ = plan_of(churn(source={**CHURN["source"], "rows": 2_000_000_000}, device="cpu"))
    assert isinstance(plan.error, LimitError)
    assert "of the host, which has" in str(plan.error)


@pytest.mark.skipif(device_report().gpu.usable, reason="this machine has a GPU")
def test_a_gpu_that_is_demanded_and_not_there_is_refused():
    with pytest.raises(DeviceError, match="the GPU cannot be used"):
        make_plan(churn(device="gpu"))


def test_every_estimator_has_a_cost():
    from gpupipe.backends.cpu.estimators import ESTIMATORS

    assert all(training_bytes(name, {}, 1000, 10, 1) >= 0 for name in ESTIMATORS)


@pytest.mark.parametrize("n_classes", [0, 2, 12])
@pytest.mark.parametrize("params", [{}, {"min_samples_leaf": 5}, {"max_depth": 6}, {"bootstrap": False}], ids=str)
def test_the_nodes_of_a_forest_are_predicted(n_classes: int, params: dict[str, Any]) -> None:
    n_rows, rng = 5_000, np.random.default_rng(0)
    X = rng.normal(size=(n_rows, 5)).astype(np.float32)
    y = rng.integers(0, n_classes, n_rows) if n_classes else rng.normal(size=n_rows)
    kind = RandomForestClassifier if n_classes else RandomForestRegressor
    fitted = kind(n_estimators=2, n_jobs=2, random_state=0, **params).fit(X, y)
    states = [tree.tree_.__getstate__() for tree in fitted.estimators_]
    real = sum(state["nodes"].nbytes + state["values"].nbytes for state in states)
    predicted = model_bytes(kind.__name__, {"n_estimators": 2, **params}, n_rows, max(1, n_classes))
    assert 0.9 < predicted / real < 2.0, (predicted, real)


def test_each_class_after_the_second_has_its_gradients() -> None:
    boosted = ("HistGradientBoostingClassifier", "XGBClassifier", "CatBoostClassifier", "LGBMClassifier")
    for name in boosted:
        two, twelve = (training_bytes(name, {}, 1_000_000, 10, n) for n in (1, 12))
        assert twelve - two >= 11 * 1_000_000 * 8  # gradient and Hessian in float32, at least
    two, twelve = (binned_bytes(1_000_000, 10, n, 1 << 20)[0] for n in (1, 12))
    assert twelve - two >= 11 * 1_000_000 * 12  # and the score, in XGBoost


def test_models_need_their_libraries_and_explanations_batches_for_each_thread():
    def peaks(model):
        return {
            name.split(" ")[0]: stage.peak_host_bytes
            for name, stage in plan_of(churn(models=[model], report={}))[1].items()
        }

    passes, library, trees = map(peaks, ["logistic_regression", {"logistic_regression": {"solver": "saga"}}, "xgboost"])
    assert library["evaluate"] - passes["evaluate"] > 0.8 * LIBRARIES
    assert passes["explain"] - passes["evaluate"] > 0.95 * machine.n_threads() * BATCH_BYTES
    assert trees["explain"] - trees["evaluate"] > COMPILED > library["explain"] - library["evaluate"]


def test_the_training_matrix_is_held_until_its_last_model_is_trained():
    _, stages = plan_of(churn(models=["logistic_regression", {"logistic_regression": {"C": 2.0}, "as": "again"}]))
    first, last = (stages[f"predict {label}"].peak_host_bytes for label in ("logistic_regression", "again"))
    assert first - last > 4 * 0.5 * ROWS * 20


@pytest.mark.parametrize("name", ["logistic_regression", "linear_regression", "ridge"])
def test_a_linear_model_needs_blocks_of_rows_and_no_copy_of_its_matrix(name: str) -> None:
    rng = np.random.default_rng(0)
    X = np.asfortranarray(rng.normal(size=(120_000, 30)), np.float32)
    y = (X[:, 0] > 0).astype(np.int64) if name == "logistic_regression" else X[:, 0].astype(np.float64)
    task: Any = "binary" if name == "logistic_regression" else "regression"
    model, context = MODELS.get(name)(), FitContext(choose("cpu"), task, 0, 2)
    fit(model, X[:100], y[:100], context)  # imports
    tracemalloc.start()
    try:
        fit(model, X, y, context, n_threads=2)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    expected = pass_bytes(120_000, 30, n_outputs=1, n_threads=2)
    assert 0.2 * expected < peak < 1.1 * expected < X.nbytes
