"""Runs: output files, scores and errors."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.metrics import f1_score, r2_score, roc_auc_score
from sklearn.model_selection import KFold, StratifiedKFold, cross_val_score

from gpupipe.config import load_config
from gpupipe.errors import ConfigError, DataError, DeviceError, SchemaError
from gpupipe.pipeline.result import Run, load_run
from gpupipe.pipeline.run import run_pipeline
from gpupipe.random_streams import derive_seed


def test_the_run_directory_contains_every_documented_file(churn_run: Run) -> None:
    found = {path.name for path in churn_run.path.iterdir()}
    promised = {"config.yaml", "metrics.json", "report.html", "timeline.json", "model", "predictions.parquet"}
    assert found == promised | {"log.jsonl", "run.json"}


def test_metrics_match_the_written_predictions(churn_run: Run) -> None:
    predictions = pd.read_parquet(churn_run.path / "predictions.parquet")
    document = json.loads((churn_run.path / "metrics.json").read_text())
    best = document["models"][document["best"]]
    truth = predictions["target"] == "Yes"
    assert best["roc_auc"] == pytest.approx(roc_auc_score(truth, predictions["probability_Yes"]))
    assert best["f1"] == pytest.approx(f1_score(truth, predictions["prediction"] == "Yes"))
    assert set(document["models"]) == {"logistic_regression", "hist_gradient_boosting"}
    assert best["roc_auc"] > 0.75


def test_the_leaderboard_is_a_frame_of_metrics_json(churn_run: Run) -> None:
    document = json.loads((churn_run.path / "metrics.json").read_text())
    for run in (churn_run, load_run(churn_run.path)):
        frame = run.leaderboard.set_index("model")
        assert list(frame.index) == [entry.label for entry in run.candidates] == list(document["models"])
        for name, metrics in document["models"].items():
            validation = {f"validation_{metric}": value for metric, value in document["validation"][name].items()}
            assert frame.loc[name].to_dict() == metrics | validation
        assert run.metrics == frame[list(run.metrics)].iloc[0].to_dict()


def test_the_best_on_validation_is_the_one_that_is_exported(churn_run: Run) -> None:
    document = json.loads((churn_run.path / "metrics.json").read_text())
    validation = {name: values["roc_auc"] for name, values in document["validation"].items()}
    assert document["best"] == max(validation, key=lambda name: validation[name])
    manifest = json.loads((churn_run.path / "model" / "manifest.json").read_text())
    assert manifest["model"]["name"] == document["best"]


def test_the_test_rows_are_an_exact_stratified_quarter(churn_run: Run) -> None:
    predictions = pd.read_parquet(churn_run.path / "predictions.parquet")
    assert len(predictions) == 750
    assert predictions["row"].is_monotonic_increasing and predictions["row"].is_unique


def test_every_stage_records_its_device_and_the_reason(churn_run: Run) -> None:
    stages = json.loads((churn_run.path / "timeline.json").read_text())["stages"]
    assert {"read", "split", "features", "evaluate", "export"} <= {stage["name"] for stage in stages}
    assert all(stage["device"] == "cpu" and stage["reason"] for stage in stages)
    features = next(stage for stage in stages if stage["name"] == "features")
    assert features["interpreter"] in ("numpy", "numba") and features["rows"] == 3000


def test_the_saved_configuration_runs_to_the_same_figures(churn_run: Run, tmp_path: Path) -> None:
    again = run_pipeline(load_config(churn_run.path / "config.yaml"), tmp_path / "again")
    assert again.document == churn_run.document


def test_the_same_seed_gives_the_same_bytes(churn_run: Run, tmp_path: Path) -> None:
    again = run_pipeline(churn_run.config, tmp_path / "again")
    for name in ("metrics.json", "predictions.parquet", "model/program.npz", "model/levels.json"):
        assert (again.path / name).read_bytes() == (churn_run.path / name).read_bytes(), name


def test_a_run_directory_that_is_a_run_is_replaced_and_anything_else_is_not(churn_run: Run, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("precious")
    with pytest.raises(ConfigError, match=r"no valid run\.json"):
        run_pipeline(churn_run.config, tmp_path / "mine")
    assert (tmp_path / "mine" / "thesis.txt").read_text() == "precious"


def test_folds_match_scikit_learn(write, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.normal(size=600), "b": rng.normal(size=600)})
    frame["y"] = 3 * frame["a"] + frame["b"] ** 2 + rng.normal(size=600)
    frame.to_csv(tmp_path / "t.csv", index=False)
    path = write(
        f"source: {{path: '{tmp_path}/t.csv', target: y}}\nsplit: {{cv: 4, shuffle: true, seed: 0}}\n"
        "models: [hist_gradient_boosting: {defaults: library, max_iter: 30}]\n"
        "evaluate: {metrics: [r2]}\nreport: {enabled: false}\n"
    )
    run = run_pipeline(load_config(path), tmp_path / "run")
    # Same rows and library, except interactions: only equal folds give scores this close.
    model = HistGradientBoostingRegressor(max_iter=30, random_state=derive_seed(0, "model"))
    X = frame[["a", "b"]].to_numpy(np.float32)
    folds = KFold(4, shuffle=True, random_state=derive_seed(0, "folds"))
    expected = cross_val_score(model, X, frame["y"], cv=folds, scoring="r2")
    assert run.metrics["r2"] == pytest.approx(expected.mean(), abs=2e-3)
    assert run.metrics["r2_std"] == pytest.approx(expected.std(), abs=2e-3)
    predictions = pd.read_parquet(run.path / "predictions.parquet")
    test_of_first = next(folds.split(X))[1]
    assert predictions.loc[predictions["fold"] == 1, "row"].tolist() == sorted(test_of_first)
    by_fold = predictions.groupby("fold")[["target", "prediction"]].apply(
        lambda g: r2_score(g["target"], g["prediction"])
    )
    assert run.metrics["r2"] == pytest.approx(by_fold.mean())


def test_stratified_folds_match_scikit_learn(write, tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({"x": rng.normal(size=300), "y": rng.choice(["n", "p"], 300, p=[0.8, 0.2])})
    frame.to_csv(tmp_path / "t.csv", index=False)
    path = write(
        f"source: {{path: '{tmp_path}/t.csv', target: y}}\nsplit: {{cv: 3, stratify: true, seed: 0}}\n"
        "models: [gaussian_nb]\nreport: {enabled: false}\n"
    )
    run = run_pipeline(load_config(path), tmp_path / "run")
    predictions = pd.read_parquet(run.path / "predictions.parquet").sort_values("row")
    folds = StratifiedKFold(3, shuffle=True, random_state=derive_seed(0, "folds")).split(frame[["x"]], frame["y"])
    for i, (_, test) in enumerate(folds, start=1):
        assert predictions["row"].to_numpy()[predictions["fold"] == i].tolist() == sorted(test)


def test_rows_without_a_target_are_dropped_and_counted(write, tmp_path: Path) -> None:
    frame = pd.DataFrame({"x": np.arange(100.0), "y": [1.0, 2.0, None, 4.0] * 25})
    frame.to_parquet(tmp_path / "t.parquet")
    path = write(f"source: {{path: '{tmp_path}/t.parquet', target: y}}\nmodels: [ridge]\nreport: {{enabled: false}}\n")
    run = run_pipeline(load_config(path), tmp_path / "run")
    assert "25 rows without a target were dropped" in (run.path / "log.jsonl").read_text()
    rows = pd.read_parquet(run.path / "predictions.parquet")["row"]
    assert not (rows % 4 == 2).any()


@pytest.mark.parametrize(
    ("models", "task", "metric"),
    [
        ("[kmeans: {n_clusters: 3}]", "clustering", "silhouette"),
        ("[pca: {n_components: 2}]", "embedding", "reconstruction_r2"),
    ],
)
def test_without_a_target_it_clusters_or_embeds(write, tmp_path: Path, models: str, task: str, metric: str) -> None:
    path = write(
        "source: {generate: churn, rows: 500, drop: [customerID, Churn]}\n"
        f"models: {models}\nreport: {{plots: false}}\n"
    )
    run = run_pipeline(load_config(path), tmp_path / "run")
    assert run.goal.task == task and np.isfinite(run.metrics[metric])
    assert len(run.model.predict(pd.read_parquet(_churn_file(tmp_path)))) == 50


def _churn_file(folder: Path) -> Path:
    from gpupipe.datasets.churn import write

    write(folder / "new.parquet", 50, 1)
    return folder / "new.parquet"


@pytest.mark.parametrize("seed", range(2))
def test_a_multiclass_target_has_a_probability_for_each_class(write, tmp_path: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=400)
    frame = pd.DataFrame({"x": x, "y": np.where(x < -0.5, "low", np.where(x < 0.5, "mid", "top"))})
    frame.to_csv(tmp_path / "t.csv", index=False)
    path = write(f"source: {{path: '{tmp_path}/t.csv', target: y}}\nmodels: [random_forest: {{n_estimators: 20}}]\n")
    run = run_pipeline(load_config(path), tmp_path / "run")
    assert run.metrics["accuracy"] > 0.9
    probability = run.model.predict_proba(frame)
    assert probability.shape == (400, 3)
    np.testing.assert_allclose(probability.sum(axis=1), 1.0, atol=1e-6)
    assert set(run.model.predict(frame)) == {"low", "mid", "top"}


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ("device=gpu", DeviceError, "GPU"),
        ("source.target=Chrun", SchemaError, "Churn"),
        ("source.positive=Maybe", ConfigError, "Maybe"),
        ("models=[ridge]", ConfigError, "cannot learn this task"),
        ("features=[standardize: City]", ConfigError, "City"),
        ("features=[one_hot: Contrakt]", ConfigError, "Contract"),
        ("split.group=missing", SchemaError, "missing"),
        ("evaluate.metrics=[r2]", ConfigError, "r2"),
    ],
)
def test_unsupported_settings_are_refused_by_name_and_leave_no_files(
    churn_run: Run, tmp_path: Path, change: str, error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        run_pipeline(load_config(churn_run.path / "config.yaml", [change]), tmp_path / "run")
    assert not (tmp_path / "run").exists()
    assert not list(tmp_path.iterdir())


def test_a_target_with_one_value_is_nothing_to_learn(write, tmp_path: Path) -> None:
    pd.DataFrame({"x": [1.0, 2.0, 3.0] * 10, "y": ["only"] * 30}).to_csv(tmp_path / "t.csv", index=False)
    path = write(f"source: {{path: '{tmp_path}/t.csv', target: y}}\n")
    with pytest.raises(DataError, match="only"):
        run_pipeline(load_config(path), tmp_path / "run")


def test_no_file_of_the_model_is_a_pickle(churn_run: Run) -> None:
    import pickle

    for path in (churn_run.path / "model").iterdir():
        with pytest.raises(Exception), path.open("rb") as file:  # noqa: B017  (whatever it is, it is not an object)
            pickle.load(file)
        if zipfile.is_zipfile(path):
            names = zipfile.ZipFile(path).namelist()
            assert not [name for name in names if name.endswith((".pkl", ".pickle"))], path


def test_the_report_names_every_model_and_loads_nothing(churn_run: Run) -> None:
    page = (churn_run.path / "report.html").read_text()
    assert "logistic_regression" in page and "hist_gradient_boosting" in page
    assert "http://" not in page.replace("http://www.w3.org", "") and "<script" not in page
