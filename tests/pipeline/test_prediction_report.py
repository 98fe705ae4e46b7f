"""Tests of prediction reports: nulls, unseen levels and values outside the training range."""

from __future__ import annotations

import json
import re
import threading
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from scipy.stats import binom

from gpupipe.artifact import ArtifactReader, ArtifactWriter
from gpupipe.datasets.churn import customers
from gpupipe.errors import ArtifactError
from gpupipe.inference.model import Model, load_model
from gpupipe.inference.prediction.prediction_report import UNLIKELY, ColumnReport
from gpupipe.inference.scoring.local import score
from gpupipe.pipeline.api.transformer import FeatureProgram
from gpupipe.pipeline.result import Run
from gpupipe.user_warnings import PredictionWarning

OWN_KEYS = {"format", "format_version", "created", "gpupipe", "libraries", "files", "manifest_sha256"}


@pytest.fixture
def model(churn_run: Run) -> Model:
    return load_model(churn_run.path)


@pytest.fixture(scope="module")
def odd() -> pd.DataFrame:
    """Return customers that are not in the training table, some with unusual values."""
    frame = customers(500, 99).to_pandas().astype({"Contract": object, "City": object, "Partner": object})
    frame.loc[:99, "Contract"] = "weekly"
    frame.loc[100:109, "Partner"] = None
    frame.loc[200:249, "MonthlyCharges"] = 1e5
    frame.loc[250:259, "MonthlyCharges"] = -1.0
    frame.loc[300:319, "signup_ts"] = pd.Timestamp("2039-05-01")
    frame.loc[320:323, "signup_ts"] = pd.NaT
    frame.loc[400:409, "Age"] = np.inf
    return frame


@pytest.mark.filterwarnings("ignore::gpupipe.PredictionWarning")
def test_the_counts_equal_those_of_pandas(churn_run: Run, model: Model, odd: pd.DataFrame) -> None:
    """The training rows are the rows of the table without a prediction of the run, which has the test rows."""
    everything = customers(3000, 7).to_pandas()
    training = everything.drop(index=pd.read_parquet(churn_run.path / "predictions.parquet")["row"])
    model.predict(odd)
    report = model.last_prediction_report
    assert report is not None and report.n_rows == 500
    assert [column.name for column in report.columns] == list(model.inputs)
    for column in report.columns:
        values, known = odd[column.name].replace(np.inf, np.nan), training[column.name]
        assert column.n_null == values.isna().sum(), column.name
        assert column.null_share == pytest.approx(known.isna().mean()), column.name
        if column.kind == "categorical":
            assert column.unseen_share == pytest.approx((known.value_counts() == 1).sum() / len(known)), column.name
            unseen = values.dropna()[~values.dropna().isin(set(known.dropna()))]
            assert column.n_unseen == len(unseen), column.name
            assert set(column.unseen_levels) <= set(unseen)
        else:
            numbers = (
                known.dropna() if column.kind == "numeric" else known.dropna().astype("datetime64[us]").astype(int)
            )
            assert (column.low, column.high) == (numbers.min(), numbers.max()), column.name
            assert column.n_below == (values < known.min()).sum(), column.name
            assert column.n_above == (values > known.max()).sum(), column.name
    assert json.loads(json.dumps(report.to_json()))["n_rows"] == 500
    assert len(repr(report)) < 300 and "weekly" not in repr(report)


@pytest.mark.filterwarnings("ignore::gpupipe.PredictionWarning")
def test_batches_and_parts_are_counted_together(
    model: Model, odd: pd.DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    model.predict(odd)
    whole = model.last_prediction_report
    monkeypatch.setattr("gpupipe.inference.prediction.batches.BATCH_ROWS", 64)
    model.predict(odd)
    assert model.last_prediction_report == whole


@pytest.mark.filterwarnings("ignore::gpupipe.PredictionWarning")
def test_each_thread_has_its_own_report(model: Model, odd: pd.DataFrame) -> None:
    model.predict(odd)
    elsewhere: list[Any] = [model.last_prediction_report]

    def predict() -> None:
        elsewhere.append(model.last_prediction_report)
        model.predict(odd.tail(7))
        elsewhere.append(model.last_prediction_report)

    thread = threading.Thread(target=predict)
    thread.start()
    thread.join()
    before, first, second = elsewhere
    assert first is None and second.n_rows == 7 and model.last_prediction_report is before


def test_a_column_of_unseen_levels_warns_at_the_line_that_predicts(model: Model, odd: pd.DataFrame) -> None:
    strange = odd.assign(Contract="weekly", tenure=None, MonthlyCharges=odd["MonthlyCharges"].abs() + 1e6)
    with pytest.warns(PredictionWarning) as caught:
        model.predict(strange)
    assert model.last_prediction_report is not None
    assert {warning.filename for warning in caught} == {__file__}
    assert [str(warning.message) for warning in caught] == list(model.last_prediction_report.warnings)
    assert model.last_prediction_report.warnings[:3] == model.last_prediction_report.alarms
    assert [text.split(":")[0] for text in model.last_prediction_report.alarms] == [
        "column 'tenure'", "column 'MonthlyCharges'", "column 'Contract'",
    ]  # fmt: skip
    with pytest.warns(PredictionWarning, match="weekly") as caught:
        model.transform(odd.iloc[0].to_dict())
    assert {warning.filename for warning in caught} == {__file__}


def test_a_property_that_is_common_in_training_raises_no_alarm(model: Model, odd: pd.DataFrame) -> None:
    """Many cities occur once in training, so unseen cities are expected; there are only three contracts."""
    row = odd.iloc[450].to_dict() | {"Age": None, "City": "Atlantis"}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.predict(row)
        with pytest.raises(PredictionWarning, match=r"'tenure': every row is null \(0\.0% in training\)"):
            model.predict(row | {"tenure": None})
        with pytest.raises(PredictionWarning, match=r"every level is unseen in training \(found 'weekly'\)"):
            model.predict(row | {"Contract": "weekly"})
        with pytest.raises(PredictionWarning, match="'City'"):
            model.predict([row | {"Age": 40.0}] * 20)


def test_levels_that_some_rows_have_warn_once_if_training_does_not_lead_to_expect_them(
    model: Model, odd: pd.DataFrame
) -> None:
    """Some cities of the training rows occur once; no row has another contract."""
    with pytest.warns(PredictionWarning) as caught:
        model.predict(odd.drop(columns="City").assign(City=odd["City"].iloc[0]))
    ((text, file),) = [(str(warning.message), warning.filename) for warning in caught]
    assert text == "Contract: 100 of 500 rows have a level unseen in training (found 'weekly')"
    assert file == __file__


@pytest.mark.parametrize("share", [0.0, 0.02, 0.3, 0.9])
@pytest.mark.parametrize("n_rows", [1, 20, 400])
def test_unseen_levels_are_surprising_by_a_bound_of_the_binomial_distribution(share: float, n_rows: int) -> None:
    for n_unseen in range(1, n_rows + 1):
        column = ColumnReport("c", "categorical", 0, n_unseen, unseen_share=share)
        exact = binom.sf(n_unseen - 1, n_rows, share)  # the probability of this number or more, by SciPy
        if column.has_surprising_levels(n_rows):
            assert exact < UNLIKELY
        else:
            assert exact > UNLIKELY / 40  # the bound is at most this far from the probability here


def test_batch_scoring_prints_the_report_instead_of_warning(churn_run: Run, odd: pd.DataFrame, tmp_path: Path) -> None:
    odd.to_parquet(tmp_path / "new.parquet")
    lines = score(churn_run.path, str(tmp_path / "new.parquet"), tmp_path / "out.csv").lines()
    assert "Contract: 100 of 500 rows have a level unseen in training (found 'weekly')" in lines
    (charges,) = [line for line in lines if line.startswith("MonthlyCharges: ")]
    assert re.search(
        r": 6\d of 500 rows are outside the training range \[[\d.]+, [\d.]+\]: 1\d below, 5\d above$", charges
    )
    assert any(line.startswith("nulls: ") and "Partner 2.0% (training 0.0%)" in line for line in lines)


def test_ranges_of_a_feature_program_equal_those_of_its_rows() -> None:
    frame = pa.table({"x": [3.5, None, -1.25], "empty": pa.array([None] * 3, pa.float64()), "when": [9, 1, 5]})
    summary = FeatureProgram(schema={"when": "float"}).fit(frame).fitted_.training
    assert summary is not None and summary.n_rows == 3
    found = {name: (column.n_null, column.low, column.high) for name, column in summary.columns.items()}
    assert found["x"] == (1, -1.25, 3.5) and found["when"] == (0, 1.0, 9.0)
    assert found.get("empty", (3, None, None)) == (3, None, None)


def rewritten(folder: Path, to: Path, change: Any, manifest: dict[str, Any] | None = None) -> Path:
    """Return a copy of a model, with valid hashes, and another or no summary of its training rows."""
    reader, writer = ArtifactReader(folder), ArtifactWriter(to)
    for name in reader.names():
        if name != "training_summary.json":
            writer.file(name).write_bytes(reader.read(name))
        elif change is not None:
            document = reader.json(name)
            change(document)
            writer.json(name, document)
    writer.finish({k: v for k, v in reader.manifest.items() if k not in OWN_KEYS} | (manifest or {}))
    return to


def test_a_model_of_an_earlier_version_counts_nulls_and_levels(
    churn_run: Run, odd: pd.DataFrame, tmp_path: Path
) -> None:
    model = load_model(rewritten(churn_run.path / "model", tmp_path / "model", None))
    model.predict(odd)
    assert model.last_prediction_report is not None
    columns = {column.name: column for column in model.last_prediction_report.columns}
    assert columns["Contract"].n_unseen == 100 and columns["Partner"].n_null == 10
    assert columns["MonthlyCharges"].n_above is None and columns["MonthlyCharges"].low is None


@pytest.mark.parametrize(
    "change",
    [
        lambda d: d.update(rows=-1),
        lambda d: d.update(rows="many"),
        lambda d: d.pop("columns"),
        lambda d: d["columns"]["tenure"].update(nulls=10**9),
        lambda d: d["columns"]["City"].update(singletons=1.5),
        lambda d: d["columns"]["tenure"].update(low="0"),
        lambda d: d["columns"]["tenure"].update(low=1e300, high=0.0),
        lambda d: d["columns"].update(tenure=3),
    ],
)
def test_an_invalid_training_summary_is_rejected(churn_run: Run, tmp_path: Path, change: Any) -> None:
    with pytest.raises(ArtifactError, match=r"cannot read the model|training_summary\.json is invalid: "):
        load_model(rewritten(churn_run.path / "model", tmp_path / "model", change))


@pytest.mark.parametrize(
    "importances",
    [
        {"metric": "roc_auc"},
        {"metric": 3, "columns": []},
        {"metric": "f1", "columns": {}},
        {"metric": "f1", "columns": [{"column": "a", "importance": 1}]},
        {"metric": "f1", "columns": [{"column": "a", "importance": "1", "std": 2}]},
        [],
    ],
)
def test_invalid_importances_are_rejected(churn_run: Run, tmp_path: Path, importances: Any) -> None:
    folder = rewritten(churn_run.path / "model", tmp_path / "model", lambda d: None, {"importances": importances})
    with pytest.raises(ArtifactError, match=r"manifest\.json is invalid: importances"):
        load_model(folder)


def test_a_model_without_warnings_has_a_report(model: Model, odd: pd.DataFrame) -> None:
    quiet = replace(model, warns=False)
    quiet.predict(odd.assign(Contract="weekly"))
    assert quiet.last_prediction_report is not None
    assert len(quiet.last_prediction_report.alarms) == 1
