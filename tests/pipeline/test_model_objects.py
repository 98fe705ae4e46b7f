"""Tests of models as Python objects: importances, representations, pickles."""

from __future__ import annotations

import dataclasses
import json
import pickle
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from gpupipe.config import load_config, parse_config
from gpupipe.datasets.churn import customers
from gpupipe.errors import ArtifactError
from gpupipe.inference.model import Model, load_model
from gpupipe.metrics.calibration import Calibration
from gpupipe.model_parts.goal import Goal
from gpupipe.pipeline.api.pipeline import Pipeline
from gpupipe.pipeline.api.transformer import FeatureProgram
from gpupipe.pipeline.result import Run
from gpupipe.pipeline.run import run_pipeline


@pytest.fixture(scope="module")
def model(churn_run: Run) -> Model:
    return load_model(churn_run.path)


@pytest.fixture(scope="module")
def rows() -> pd.DataFrame:
    return customers(3000, 7).to_pandas().head(50)


def test_importances_equal_those_of_the_report(churn_run: Run, model: Model) -> None:
    found = model.importances
    assert found.attrs["metric"] == "roc_auc"
    assert list(found.columns) == ["column", "importance", "std"]
    assert found["importance"].is_monotonic_decreasing and set(found["column"]) == set(model.inputs)
    report = (churn_run.path / "report.html").read_text()
    first = found.iloc[0]
    assert first["column"] in report and first["importance"] > 0.01
    assert json.loads((churn_run.path / "model" / "manifest.json").read_text())["importances"]["metric"] == "roc_auc"


def test_importances_of_a_model_without_any_raise_an_error(churn_run: Run, tmp_path: Path) -> None:
    config = load_config(churn_run.path / "config.yaml", ["models=[gaussian_nb]", "evaluate.importance=false"])
    model = run_pipeline(config, tmp_path / "run").model
    with pytest.raises(ArtifactError, match=r"(?s)no recorded importances.*evaluate.importance"):
        _ = model.importances


def test_a_pickle_gives_the_same_predictions_in_another_process_without_the_directory(
    model: Model, rows: pd.DataFrame, tmp_path: Path
) -> None:
    copy = tmp_path / "model"
    copy.mkdir()
    for path in model.folder.iterdir():
        (copy / path.name).write_bytes(path.read_bytes())
    (tmp_path / "model.pickle").write_bytes(pickle.dumps(load_model(copy)))
    for path in copy.iterdir():
        path.unlink()
    rows.to_parquet(tmp_path / "rows.parquet")
    code = (
        "import pickle, sys\n"
        "folder = sys.argv[1]\n"
        "model = pickle.load(open(folder + '/model.pickle', 'rb'))\n"
        "assert model.verify().passed\n"
        "again = pickle.loads(pickle.dumps(model))\n"
        "print(*again.predict_proba(folder + '/rows.parquet')[:, 1].tolist(), again.folder)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=True)
    *found, folder = done.stdout.split()
    np.testing.assert_array_equal([float(value) for value in found], model.predict_proba(rows)[:, 1])
    assert not Path(folder).exists()


def test_a_model_whose_directory_has_changed_cannot_be_pickled(churn_run: Run, tmp_path: Path) -> None:
    config = load_config(churn_run.path / "config.yaml", ["models=[gaussian_nb]", "report.enabled=false"])
    model = run_pipeline(config, tmp_path / "run").model
    run_pipeline(config.model_copy(update={"seed": 5}), tmp_path / "run")
    with pytest.raises(ArtifactError, match="changed since it was loaded"):
        pickle.dumps(model)


def reachable(value: Any, path: str, seen: set[int], depth: int = 0) -> Iterator[tuple[str, Any]]:
    """Yield every gpupipe object that is reachable through attributes, lists and mappings."""
    if id(value) in seen or depth > 5:
        return
    seen.add(id(value))
    if isinstance(value, list | tuple):
        for i, item in enumerate(value[:3]):
            yield from reachable(item, f"{path}[{i}]", seen, depth + 1)
    elif isinstance(value, dict):
        for key, item in list(value.items())[:3]:
            yield from reachable(item, f"{path}[{key!r}]", seen, depth + 1)
    elif type(value).__module__.startswith("gpupipe"):
        yield path, value
        names = {field.name for field in dataclasses.fields(value)} if dataclasses.is_dataclass(value) else set()
        for name in sorted({name for name in {*names, *getattr(value, "__dict__", {})} if not name.startswith("_")}):
            yield from reachable(getattr(value, name), f"{path}.{name}", seen, depth + 1)


def test_representations_are_short(churn_run: Run, model: Model, rows: pd.DataFrame) -> None:
    """The table has a column with a thousand levels, which must not be printed."""
    wide = pd.DataFrame({"city": [f"city {i:04}" for i in range(1000)] * 2, "x": np.arange(2000.0)})
    program = FeatureProgram(schema={"city": "categorical"}).fit(wide)
    pipe = Pipeline(load_config(churn_run.path / "config.yaml"))
    model.predict(rows)
    roots = {
        "model": model, "report": model.last_prediction_report, "verification": model.verify(), "program": program,
        "pipeline": pipe, "plan": pipe.plan(), "batch": pipe.tensors()[0], "run": churn_run,
    }  # fmt: skip
    seen: set[int] = set()
    found = {path: len(repr(each)) for name, root in roots.items() for path, each in reachable(root, name, seen)}
    assert len(found) > 60
    many = tuple(map(str, range(1000)))
    found["a goal of many labels"] = len(repr(Goal("multiclass", "kind", many)))
    found["an isotonic calibration"] = len(repr(Calibration("isotonic", x=tuple(range(1000)), y=tuple(range(1000)))))
    assert {path: length for path, length in found.items() if length > 500} == {}


@pytest.mark.filterwarnings("ignore::gpupipe.PredictionWarning")
def test_a_notebook_shows_a_model_and_a_report_as_tables(model: Model, rows: pd.DataFrame) -> None:
    text = model._repr_html_()
    assert "<td>Contract</td><td>categorical" in text and "binary, labels No, Yes" in text and len(text) < 6_000
    model.predict(rows.astype({"Region": object}).assign(Region=["<b>", *rows["Region"].astype(object)[1:]]))
    assert model.last_prediction_report is not None
    report = model.last_prediction_report._repr_html_()
    assert "<td>Region</td>" in report and "<b>" not in report.replace("<b>column", "")


def test_inputs_of_derived_columns_are_reported_and_ranked(tmp_path: Path) -> None:
    """The 8 hashes of a note are shuffled together, as one input column."""
    rng, n = np.random.default_rng(0), 300
    x = rng.normal(size=n)
    rows = pd.DataFrame(
        {
            "note": [f"{'good' if value > 0 else 'bad'} {i}" for i, value in enumerate(x)],
            "card": rng.integers(0, 20, n).astype(str),
            "at": pd.Timestamp("2024-01-01") + pd.to_timedelta(np.arange(n), unit="h"),
            "x": x + rng.normal(size=n),
            "y": np.where(x > 0, "yes", "no"),
        }
    )
    rows.to_parquet(tmp_path / "rows.parquet")
    settings = {
        "source": {"path": str(tmp_path / "rows.parquet"), "target": "y", "schema": {"note": "text"}},
        "features": [
            {"text_hash": {"columns": "note", "buckets": 8}},
            {"lag": {"key": "card", "time": "at", "columns": "x"}},
        ],
        "models": ["logistic_regression"],
        "report": {"enabled": False},
    }
    model = run_pipeline(parse_config(settings), tmp_path / "run").model
    assert set(model.importances["column"]) == {"note", "x", "at"}
    assert model.importances["column"][0] == "note"
    notes: list[Any] = [None, None, *rows["note"][2:]]
    model.predict(rows.assign(note=notes))
    assert model.last_prediction_report is not None
    nulls = {column.name: (column.kind, column.n_null) for column in model.last_prediction_report.columns}
    assert nulls["note"] == ("raw", 2) and nulls["card"] == ("raw", 0) and set(nulls) == set(model.inputs)
