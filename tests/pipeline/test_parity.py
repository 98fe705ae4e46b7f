"""Tests of the parity record: written on export, and replayed by `gpupipe.Model.verify`."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gpupipe.artifact import ArtifactReader, ArtifactWriter
from gpupipe.artifact.manifest import OWN_KEYS
from gpupipe.backends import choose
from gpupipe.backends.base import Backend
from gpupipe.config import ModelEntry, load_config
from gpupipe.errors import ArtifactError, ConfigError, GpupipeError
from gpupipe.features.program.fitted import Feature, FittedFeatures
from gpupipe.inference.copy import copy_model
from gpupipe.inference.model import load_model
from gpupipe.inference.parity.check import TOLERANCE, compare_columns, compare_predictions
from gpupipe.inference.parity.files import read_record
from gpupipe.inference.parity.record import ParityRecord
from gpupipe.inference.parity.replay import has_same_bits
from gpupipe.models import Prediction
from gpupipe.models.linear.fitted import FittedLinear
from gpupipe.pipeline.records.export import export_model
from gpupipe.pipeline.records.trial_rows import make_trial_rows
from gpupipe.pipeline.result import Run
from gpupipe.pipeline.run import run_pipeline
from gpupipe.table.blocks import Table
from gpupipe.timeline.timeline import Timeline
from gpupipe.training.job import Job
from gpupipe.training.preparation.preparation import folds_of, open_job
from gpupipe.training.selection.leaderboard import LeaderboardResult
from gpupipe.training.selection.selection import make_selection
from gpupipe.training.steps import EvaluationStep, TrainingRound
from gpupipe.typing import Array
from tests.nightly import nightly_unless

CONFIGS = Path(__file__).parents[2] / "configs"
PARITY = {"parity.json", "parity_rows.json", "parity.npz"}
TASKS = {
    "a forest of three classes": (
        "source: {generate: churn, rows: 900, target: Contract, drop: [customerID, Churn]}\n"
        "models: [random_forest: {n_estimators: 8}]\n"
    ),
    "a number": (
        "source: {generate: churn, rows: 900, target: DataUsageGB, drop: [customerID], schema: {City: categorical}}\n"
        "features: [{target_encode: City}, {cyclic: {columns: signup_ts, parts: [hour, month]}}]\n"
        "models: [lasso]\n"
    ),
    "clusters": "source: {generate: churn, rows: 900, drop: [customerID, City]}\nmodels: [kmeans: {n_clusters: 3}]\n",
    "an embedding": "source: {generate: churn, rows: 900, drop: [customerID, City]}\nmodels: [pca]\n",
    "calibrated neighbours": (
        "source: {generate: churn, rows: 900, target: Churn, positive: 'Yes', drop: [customerID]}\n"
        "models: [knn]\nevaluate: {calibrate: sigmoid}\n"
    ),
}
HISTORY = """\
source: {{path: {folder}/rows.parquet, target: late}}
tables: {{visits: {{path: {folder}/visits.parquet, on: who, cardinality: one_to_many}}}}
features:
  - lag: {{key: who, time: at, columns: amount}}
  - aggregate: {{table: visits, time: at, as_of: at, columns: {{length: [mean], shop: [last]}}}}
  - text_counts: {{columns: note, counts: [words]}}
models: [logistic_regression]
report: {{enabled: false}}
"""


def run(folder: Path, text: str) -> Run:
    path = folder / "config.yaml"
    path.write_text(text + ("" if "report:" in text else "report: {enabled: false}\n"))
    return run_pipeline(load_config(path), folder / "run")


def document(model: Path) -> dict:
    return json.loads((model / "parity.json").read_text())


def recorded(run: Path) -> ParityRecord:
    return read_record(ArtifactReader(run / "model"), ())


def rewrite_parts(model: Path, folder: Path, change: Callable[[ArtifactReader, ArtifactWriter], set[str]]) -> Path:
    """Return a copy of a model, with valid hashes, in which `change` rewrote some parts."""
    reader, writer = ArtifactReader(model), ArtifactWriter(folder)
    changed = change(reader, writer)
    for name in reader.names():
        if name not in changed:
            writer.file(name).write_bytes(reader.read(name))
    writer.finish({key: value for key, value in reader.manifest.items() if key not in OWN_KEYS})
    return folder


@pytest.mark.data
@pytest.mark.parametrize(
    ("name", "model"),
    nightly_unless(
        lambda name, model: (name, model) != ("telco", "xgboost"),
        [("telco", "xgboost"), ("telco", "logistic_regression"), ("bike_sharing", "xgboost")],
    ),
)
def test_models_of_public_tables_verify_and_their_record_is_small(
    data_dir: Path, tmp_path: Path, name: str, model: str
) -> None:
    changes = ["split={test_size: 0.2}", f"models=[{model}]", "report.enabled=false"]
    done = run_pipeline(load_config(CONFIGS / f"{name}.yaml", changes), tmp_path / "run")
    found = done.model.verify()
    assert found.passed and found.predictions.label_flips == 0
    assert found.columns and all(column.absolute == 0.0 for column in found.columns)  # on the same machine
    assert found.metrics and all(now == pytest.approx(then, abs=1e-9) for then, now in found.metrics.values())
    model_folder = done.path / "model"
    assert sum((model_folder / part).stat().st_size for part in PARITY) < 150_000
    assert set(ArtifactReader(model_folder).names()) >= PARITY


@pytest.mark.parametrize("text", TASKS.values(), ids=TASKS.keys())
def test_models_of_every_task_verify(tmp_path: Path, text: str) -> None:
    found = run(tmp_path, text).model.verify()
    assert found.passed and found.predictions.rows > 128  # rows of the run, and generated rows
    assert found.estimator.largest < 1e-9


def test_the_recorded_rows_have_every_limit_of_every_column(churn_run: Run) -> None:
    trial = recorded(churn_run.path).trial
    inputs = trial.inputs.to_pandas()
    assert set(inputs) == set(churn_run.model.inputs)
    made = trial.rows < 0
    assert (~made).sum() == 128
    limits = np.finfo(np.float32).max, np.finfo(np.float64).max, np.inf, -np.inf, 0.0
    for name in ("tenure", "MonthlyCharges", "Age"):
        values = inputs.loc[made, name]
        assert values.isna().any() and all((values == limit).any() for limit in limits)
        assert np.signbit(values[values == 0.0]).any()
    for name in ("Contract", "City"):
        values = inputs.loc[made, name]
        assert values.isna().any() and {"", "  "} <= set(values) and values.str.contains("never seen", na=False).any()
    assert set(inputs.loc[~made, "Contract"]) <= set(inputs.loc[made, "Contract"])
    assert "all null" in trial.cases and inputs[made].isna().all(axis=1).any()


def test_recorded_rows_of_the_run_equal_rows_of_its_input(churn_run: Run) -> None:
    from gpupipe.datasets.churn import customers

    source = customers(3000, 7).to_pandas()
    trial = recorded(churn_run.path).trial
    of_the_run = trial.rows >= 0
    inputs = trial.inputs.filter(pa.array(of_the_run)).to_pandas()
    same = source.loc[trial.rows[of_the_run]].reset_index(drop=True)
    for name in ("tenure", "MonthlyCharges"):
        np.testing.assert_allclose(inputs[name], same[name], rtol=1e-7)
    for name in ("Contract", "City", "signup_ts"):
        assert inputs[name].equals(same[name].astype(inputs[name].dtype)), name
    assert (trial.target[of_the_run] == (same["Churn"] == "Yes")).all()


def test_parity_json_has_the_device_the_tolerance_and_the_result(churn_run: Run) -> None:
    recorded_on = document(churn_run.path / "model")
    assert recorded_on["trained_on"]["device"] == "cpu" and recorded_on["trained_on"]["interpreter"] in (
        "numpy",
        "numba",
    )
    assert "numpy" in recorded_on["trained_on"]["libraries"] and recorded_on["tolerance"] == TOLERANCE
    assert recorded_on["replayed"]["passed"] and recorded_on["replayed"]["problems"] == []
    assert set(recorded_on["replayed"]["columns"]) == set(churn_run.model.features.names)
    assert recorded_on["replayed"]["metrics"]["roc_auc"]["difference"] < 1e-9


def test_derived_columns_are_replayed_from_their_values_and_listed_as_not_covered(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    n = 300
    at = pa.array(np.sort(rng.integers(0, 10**9, n)) * 10**6, pa.timestamp("us"))
    who = pa.array(rng.integers(0, 40, n))
    note = pa.array([f"{'word ' * int(k)}{i} x" for i, k in enumerate(rng.integers(0, 9, n))])
    rows = {"who": who, "at": at, "amount": rng.random(n), "note": note, "late": rng.integers(0, 2, n)}
    pq.write_table(pa.table(rows), tmp_path / "rows.parquet")
    shops = pa.array(rng.choice(["north", "south", "west"], n))
    pq.write_table(
        pa.table({"who": who, "at": at, "length": rng.random(n), "shop": shops}), tmp_path / "visits.parquet"
    )
    done = run(tmp_path, HISTORY.format(folder=tmp_path))
    found = done.model.verify()
    assert found.passed and found.predictions.rows > 128
    derived = [column.name for column in done.model.features.schema if column.derived]
    assert len(derived) >= 4
    (text,) = [text for text in found.not_covered if text.startswith("derivation of ")]
    assert all(name in text for name in derived)


def test_a_custom_kernel_is_replayed_from_its_source(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "import gpupipe as gp\n\n@gp.kernel\ndef loyalty(tenure, charges):\n    return tenure / (1.0 + charges)\n"
    )
    source = "source: {generate: churn, rows: 800, target: Churn, positive: 'Yes', drop: [customerID]}\n"
    ops = "features: [{kernel: {use: 'mine.py:loyalty', inputs: [tenure, MonthlyCharges]}}]\n"
    done = run(tmp_path, source + ops + "models: [gaussian_nb]\n")
    with pytest.raises(ArtifactError, match="Python code"):
        load_model(done.path)
    assert load_model(done.path, allow_code=True).verify().passed


def test_a_changed_cell_of_a_lookup_table_is_found_and_its_column_named(churn_run: Run, tmp_path: Path) -> None:
    model = load_model(churn_run.path)
    column = model.features.names.index("City_target")
    rate = recorded(churn_run.path).X[0, column]

    def change(reader: ArtifactReader, writer: ArtifactWriter) -> set[str]:
        arrays = reader.arrays("program.npz")
        (cells,) = np.nonzero(arrays["luts"] == rate)
        arrays["luts"] = arrays["luts"].copy()
        arrays["luts"][cells] += np.float32(0.01)
        writer.arrays("program.npz", arrays)
        return {"program.npz"}

    found = load_model(rewrite_parts(churn_run.path / "model", tmp_path / "model", change)).verify()
    assert not found.passed
    assert found.worst.name == "City_target" and found.worst.outside >= 1
    assert "City_target" in found.problems[0] and "City=" in found.problems[0]
    assert found.estimator.passed  # the estimator is unchanged
    with pytest.raises(ArtifactError, match="City_target"):
        copy_model(tmp_path / "model", tmp_path / "copy")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model"]


def test_a_coefficient_with_the_wrong_sign_is_found_by_its_predictions(churn_run: Run, tmp_path: Path) -> None:
    changes = ["models=[logistic_regression]", "report.enabled=false"]
    done = run_pipeline(load_config(churn_run.path / "config.yaml", changes), tmp_path / "run")

    def change(reader: ArtifactReader, writer: ArtifactWriter) -> set[str]:
        arrays = reader.arrays("estimator.npz")
        arrays["coef"] = np.where(np.arange(arrays["coef"].size) == 1, -arrays["coef"], arrays["coef"])
        writer.arrays("estimator.npz", arrays)
        return {"estimator.npz"}

    found = load_model(rewrite_parts(done.path / "model", tmp_path / "model", change)).verify()
    assert not found.passed and not found.estimator.passed
    assert all(column.outside == 0 for column in found.columns)
    assert found.problems[0].startswith("estimator")


def test_a_model_without_a_record_cannot_be_verified_but_predicts(churn_run: Run, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    reader, writer = ArtifactReader(churn_run.path / "model"), ArtifactWriter(folder)
    for name in reader.names():
        if not name.startswith("parity"):
            writer.file(name).write_bytes(reader.read(name))
    writer.finish({key: value for key, value in reader.manifest.items() if key not in OWN_KEYS})
    model = load_model(folder)
    with pytest.raises(ArtifactError, match="no recorded rows"):
        model.verify()
    with pytest.raises(ArtifactError, match="no recorded rows"):
        copy_model(folder, tmp_path / "copy")
    assert not (tmp_path / "copy").exists()


def test_a_malformed_record_is_rejected(churn_run: Run, tmp_path: Path) -> None:
    def change(reader: ArtifactReader, writer: ArtifactWriter) -> set[str]:
        values = reader.json("parity.json")
        writer.json("parity.json", {**values, "tolerance": {"all": 1.0}})
        return {"parity.json"}

    with pytest.raises(ArtifactError, match=r"parity\.json is invalid: tolerance\.ids: expected an object"):
        load_model(rewrite_parts(churn_run.path / "model", tmp_path / "model", change)).verify()


def test_verify_detects_corruption_after_loading(churn_run: Run, tmp_path: Path) -> None:
    shutil.copytree(churn_run.path / "model", tmp_path / "model")
    model = load_model(tmp_path / "model")
    path = tmp_path / "model" / "parity.npz"
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    with pytest.raises(ArtifactError, match=r"parity\.npz"):
        model.verify()


@dataclass(frozen=True)
class Leaning(FittedLinear):
    """Predictions that differ from those of the saved coefficients."""

    def predict(self, X: Array) -> Prediction:
        prediction = super().predict(X)
        assert prediction.probability is not None
        return replace(prediction, probability=prediction.probability * 0.999)


@dataclass(frozen=True)
class Shifted(FittedFeatures):
    """Features whose third column differs from that of the saved program."""

    def transform(self, table: Table, backend: Backend) -> Array:
        X = super().transform(table, backend)
        X[:, 2] += 0.01
        return X


def without_choice(job: Job, entries: Sequence[ModelEntry]) -> LeaderboardResult:
    """Return a leaderboard of models that are trained once."""
    selection = make_selection(job, entries, folds_of(job))
    training = selection.open_round(TrainingRound())
    training.fit_features()
    for entry in entries:
        training.train(entry)
        training.predict(entry)
    selection.add(training.candidates)
    selection.evaluate(EvaluationStep())
    return selection.result()


@pytest.mark.parametrize("part", ["features", "model"])
def test_a_model_that_differs_from_the_trained_one_is_not_exported(churn_run: Run, tmp_path: Path, part: str) -> None:
    config = load_config(churn_run.path / "config.yaml", ["models=[logistic_regression]", "evaluate.threshold=0.5"])
    job = open_job(config, choose("cpu"), Timeline())
    outcome = without_choice(job, config.models)
    trained, trial = outcome.champion, make_trial_rows(job, outcome.champion.features)
    if part == "model":
        trained, words = replace(trained, model=Leaning(**vars(trained.model))), "estimator"
    else:
        trained, words = replace(trained, features=Shifted(**vars(trained.features))), trained.features.names[2]
    with pytest.raises(GpupipeError, match=words) as caught:
        export_model(tmp_path / "model", trained, job, outcome.decision, {}, trial)
    assert caught.value.exit_code == 1 and "tenure=" in str(caught.value)
    export_model(tmp_path / "right", outcome.champion, job, outcome.decision, {}, trial)


def test_a_copy_verifies_and_does_not_replace_other_folders(churn_run: Run, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for name in ("new", "empty"):
        assert copy_model(churn_run.path, tmp_path / name).passed
        for path in (churn_run.path / "model").iterdir():
            assert (tmp_path / name / path.name).read_bytes() == path.read_bytes()
    for taken in (tmp_path / "new", churn_run.path):
        with pytest.raises(ConfigError, match="it is not empty"):
            copy_model(churn_run.path, taken)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["empty", "new"]


def test_a_record_of_a_device_is_replayed_on_the_host() -> None:
    checks = Path(__file__).with_name("parity_checks.py")
    environment = {**os.environ, "NUMBA_ENABLE_CUDASIM": "1", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", str(checks)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]


def column(here: list[float], recorded: list[float], n_codes: int = 0):
    one, other = (np.array(values, np.float32)[:, None] for values in (here, recorded))
    feature = Feature("x", ("x",), "op", n_codes)
    return compare_columns(one, other, np.ones(len(here), bool), [feature], TOLERANCE)[0]


def test_features_are_predicted_once_only_if_all_their_bits_are_equal() -> None:
    X = np.array([[1.0, np.nan], [0.0, 2.0]], np.float32)
    assert has_same_bits(X, np.asfortranarray(X.copy()))
    other = X.copy()
    other[1, 0] = -0.0  # equal as a number
    assert not has_same_bits(X, other)
    assert not has_same_bits(X, np.nextafter(X, np.float32(3.0)))
    assert not has_same_bits(X, X[:, :1])


def test_a_value_missing_on_one_side_is_infinitely_different_and_on_both_sides_equal() -> None:
    nan, inf = np.nan, np.inf
    assert column([1, nan, inf], [1, nan, inf]).outside == 0
    for here, recorded in ((nan, 1.0), (1.0, nan), (inf, 1.0), (1.0, inf), (-inf, inf), (nan, inf)):
        found = column([1, here], [1, recorded])
        assert (found.outside, found.absolute, found.worst) == (1, inf, 1)


def test_ids_must_be_equal_and_numbers_close() -> None:
    a_step = float(np.nextafter(np.float32(4), np.float32(5)))
    assert column([0, a_step], [0, 4], n_codes=9).outside == 1
    assert column([0, a_step], [0, 4]).outside == 0
    assert column([0, 4.001], [0, 4]).outside == 1
    assert column([1e-4, 1000], [0, 1000]).outside == 0  # rounding of a difference of numbers of this size
    assert column([1e-4, 1], [0, 1]).outside == 1


def test_a_row_with_another_label_is_outside_the_tolerance() -> None:
    numbers, labels = np.full((200, 1), 0.5), np.zeros(200, np.int32)
    other = labels.copy()
    other[:3] = 1
    found = compare_predictions(numbers, numbers, other, labels, TOLERANCE["estimator"])
    assert (found.label_flips, found.outside, found.allowed, found.passed) == (3, 3, 2, False)
    assert compare_predictions(numbers, numbers, labels, labels, TOLERANCE["estimator"]).passed
    assert compare_predictions(numbers[:0], numbers[:0], labels[:0], labels[:0], TOLERANCE["estimator"]).passed
