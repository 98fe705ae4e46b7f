"""A model directory is read by a process without pyarrow, pandas and the training libraries."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from typing import Any

import pandas as pd
import pytest

from gpupipe.config import parse_config
from gpupipe.pipeline.result import Run
from gpupipe.pipeline.run import run_pipeline

# The packages that docker/serve.Dockerfile does not install.
ABSENT = (
    "pyarrow", "pandas", "sklearn", "skops", "scipy", "joblib", "numba", "matplotlib", "xgboost", "dask", "torch",
    "fsspec", "jinja2",
)  # fmt: skip
HIDE = f"""
import sys

class WithoutThem:
    def __init__(self, finder): self.finder = finder
    def __getattr__(self, name): return getattr(self.finder, name)
    def find_spec(self, name, path=None, target=None):
        return None if name.partition(".")[0] in {ABSENT} else self.finder.find_spec(name, path, target)

sys.meta_path[:] = map(WithoutThem, sys.meta_path)
"""
READ = """
import json
from gpupipe.artifact import ArtifactReader
from gpupipe.models import FittedModel, Prediction
from gpupipe.model_parts.feature_files import read_features
from gpupipe.model_parts.folder import model_folder
from gpupipe.model_parts.part_checks import check_agreement, read_decision, read_goal
from gpupipe.model_parts.user_code import read_kernels
from gpupipe.rules.model_rules import ServedRules

reader = ArtifactReader(model_folder(sys.argv[1]))
features = read_features(reader, read_kernels(reader, allow_code=False))
goal = read_goal(reader.manifest)
decision = read_decision(reader.manifest["decision"], goal)
rules = tuple(map(ServedRules.from_json, reader.manifest["data"]))
print(json.dumps([str(part) for part in (features.schema, features.features, features.program, goal, decision, rules)]))
"""
PREDICT = """
import json
from gpupipe import load_scorer

scorer = load_scorer(sys.argv[1])
print(json.dumps([scorer.engine, scorer.predict_proba(json.loads(sys.argv[2])).tolist()]))
"""

EXPLAIN = """
import json
from gpupipe import ConfigError, load_scorer

try:
    found = load_scorer(sys.argv[1]).explain(json.loads(sys.argv[2]))
    print(json.dumps([found.columns, found.values.tolist(), found.base]))
except ConfigError as error:
    print(json.dumps(error.fix))
"""

DRIFT = """
import json
import numpy as np
from gpupipe.inference.drift.row_cell_counter import PredictedRows
from gpupipe.serve.served_model import ServedModel

model, rows = ServedModel.load(sys.argv[1]), json.loads(sys.argv[2])
reference, cells = model.reference, model.scorer.encode(rows)
outputs = model.columns(model.scorer.predict_cells(cells))
counts = np.zeros(reference.counter.n_cells, np.int64)
scores = [outputs[i] for i in reference.counter.positions]
for _ in reference.counter.count_steps(PredictedRows(cells.records, scores, rows), counts): pass
steps = reference.report_steps(len(rows), counts)
try:
    while True: next(steps)
except StopIteration as done:
    print(json.dumps(done.value.to_json()))
"""


def execute(script: str, *arguments: str) -> Any:
    """Return what a script prints as JSON, in a process without the absent packages."""
    command = [sys.executable, "-c", HIDE + script, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.stderr == ""
    return json.loads(done.stdout)


@pytest.fixture(scope="module", params=["logistic_regression", "xgboost"])
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Return a run whose model has rules, and columns of every kind."""
    settings = {
        "source": {
            "generate": "churn",
            "rows": 600,
            "target": "Churn",
            "drop": ["customerID"],
            "schema": {"City": "categorical"},
        },
        "data": {"tenure": {"range": [0, 72]}, "Contract": {"set": ["Month-to-month", "One year", "Two year"]}},
        "split": {"test_size": 0.25},
        "features": [{"hash_bucket": {"columns": "City", "buckets": 8}}, {"datetime_parts": "signup_ts"}],
        "models": [request.param],
        "evaluate": {"calibrate": "sigmoid", "intervals": 0.9},
        "report": {"plots": False},
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            "gpupipe.model_parts.decision.LARGEST_LOSS", float("inf")
        )  # a calibration that does not help is kept
        return run_pipeline(parse_config({"name": "rules", **settings}), tmp_path_factory.mktemp("serving") / "run")


def test_a_model_directory_is_read_without_the_libraries_of_training(run: Run) -> None:
    model, features = run.model, run.model.features
    expected = (features.schema, features.features, features.program, model.goal, model.decision, model.rules)
    assert model.rules and model.decision.calibration is not None
    assert execute(READ, str(run.path)) == [str(part) for part in expected]


def test_rows_are_predicted_without_the_libraries_of_training(run: Run) -> None:
    rows = [{name: None for name in run.model.inputs} | {"tenure": 12, "City": "Nowhere"}, {}]
    rows[1] = rows[0] | {"MonthlyCharges": 70.5, "Contract": "One year", "signup_ts": "2021-03-04T05:06:07"}
    engine, probability = execute(PREDICT, str(run.path), json.dumps(rows))
    frame = pd.DataFrame(rows).astype({"signup_ts": "datetime64[us]"})
    assert engine == "numpy"
    assert probability == replace(run.model, warns=False).predict_proba(frame).tolist()


def test_rows_are_compared_without_the_libraries_of_training(run: Run) -> None:
    rows = [{name: None for name in run.model.inputs} | {"tenure": i % 5, "City": f"town {i % 7}"} for i in range(90)]
    frame = pd.DataFrame(rows).astype({"signup_ts": "datetime64[us]"})
    found, expected = execute(DRIFT, str(run.path), json.dumps(rows)), run.model.drift(frame).to_json()
    del found["reference_model"], expected["reference_model"]  # a server describes its model elsewhere
    assert found == json.loads(json.dumps(expected))


def test_rows_are_explained_without_the_libraries_of_training(run: Run) -> None:
    """Linear models are; trees need Numba, and that is the message."""
    rows = [{name: None for name in run.model.inputs} | {"tenure": 12, "Contract": "One year"}]
    found = execute(EXPLAIN, str(run.path), json.dumps(rows))
    if run.model.estimator.library == "xgboost":
        assert found == "pip install numba"
        return
    frame = pd.DataFrame(rows).astype({"signup_ts": "datetime64[us]"})
    expected = run.model.explain(frame)
    assert found == [list(expected.columns), expected.values.tolist(), expected.base]
