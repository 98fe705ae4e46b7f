"""Exported ensembles: verified, pickled, served and resumed like the models of one library."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import gpupipe as gp
from gpupipe.artifact import ArtifactReader
from gpupipe.backends import choose
from gpupipe.config import parse_config
from gpupipe.datasets.churn import customers
from gpupipe.features.program.fitted import FittedFeatures
from gpupipe.model_parts.decision import Decision
from gpupipe.models import FitContext
from gpupipe.models.composites.ensemble import FittedEnsemble
from gpupipe.pipeline.records.export import export_model
from gpupipe.pipeline.records.trial_rows import make_trial_rows
from gpupipe.report.search_record import SearchRecord, TriedModel
from gpupipe.timeline.timeline import Timeline
from gpupipe.training.checkpoints.contents import (
    read_fitted_features,
    read_model,
    write_fitted_features,
    write_model,
)
from gpupipe.training.checkpoints.keys import CheckpointKey
from gpupipe.training.fit import TrainedModel, fit_view
from gpupipe.training.job import Job
from gpupipe.training.preparation.preparation import open_job
from tests.models.composites.ensembles import ensemble_of, fit_member

CONFIG: dict[str, Any] = {
    "name": "ensemble",
    "source": {"generate": "churn", "rows": 600, "target": "Churn", "drop": ["customerID", "City"]},
    "features": [{"datetime_parts": "signup_ts"}, {"target_encode": {"columns": "Contract", "folds": 3}}],
    "models": ["xgboost"],
}
READ = ("tenure", "MonthlyCharges", "Contract", "signup_ts")  # inputs of the members


@dataclass(frozen=True)
class Exported:
    """An ensemble, as it was trained and as it was exported."""

    job: Job
    trained: TrainedModel
    X: Any
    folder: Path

    @property
    def features(self) -> FittedFeatures:
        return self.trained.features


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Exported]:
    """An ensemble of boosted trees and linear models that read few columns of the combined view."""
    config = parse_config(CONFIG)
    job = open_job(config, choose("cpu"), Timeline([]))
    rows = job.rows(np.ones(job.table.n_rows, bool))
    features, X = fit_view(rows, "combined", config.features, job.backend)
    context = FitContext(job.backend, "binary", 1, 2, features.categorical, features.names, views=features.views)

    def columns(view: Any) -> list[int]:
        return [c for c in features.views[view] if set(features.features[c].inputs) <= set(READ)]

    members = [
        fit_member("trees", "xgboost", 0.7, columns("codes"), (X, rows.y), context, 3, n_estimators=8),
        fit_member("linear", "logistic_regression", 0.3, columns("dense"), (X, rows.y), context, 3),
    ]
    search = SearchRecord("ensemble", "roc_auc", (TriedModel("trees", "xgboost", {"max_depth": 6}, float("nan")),))
    trained = TrainedModel(config.models[0], features, ensemble_of(members, context), 2.5, search)
    folder = tmp_path_factory.mktemp("ensemble") / "model"
    trial = make_trial_rows(job, trained.drop_unread_features().features)
    verified = export_model(folder, trained, job, Decision(), {}, trial)
    assert verified is not None and verified.passed
    yield Exported(job, trained, X, folder)


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    return customers(40, seed=9).to_pandas()


def test_an_exported_ensemble_reads_only_the_columns_of_its_members(exported: Exported) -> None:
    model = gp.load_model(exported.folder)
    ensemble = exported.trained.model
    assert isinstance(ensemble, FittedEnsemble) and isinstance(model.estimator, FittedEnsemble)
    assert set(model.inputs) == set(READ)
    assert set(model.manifest["lineage"]) == {exported.features.names[c] for c in ensemble.columns_read()}
    assert set(model.features.training.columns) == set(READ)  # type: ignore[union-attr]
    assert len(model.feature_names) < len(exported.features.names)
    assert model.verify().passed
    assert model.estimator.weights() == {"trees": 0.7, "linear": 0.3}


def test_served_rows_have_the_predictions_of_the_trained_ensemble(exported: Exported, frame: pd.DataFrame) -> None:
    model = gp.load_model(exported.folder)
    backend = exported.job.backend
    table = exported.features.encode(pa.Table.from_pandas(frame), backend)
    X = exported.features.transform(table, backend)
    expected = exported.trained.model.predict(X).probability
    rows = frame[list(READ)]
    dicts: Any = rows.to_dict("records")
    assert expected is not None
    np.testing.assert_array_equal(model.predict_proba(rows)[:, 1], expected)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).predict_proba(rows)[:, 1], expected)
    for engine in ("numpy", "numba"):
        scorer = model.scorer(engine)
        np.testing.assert_array_equal(scorer.predict_proba(dicts)[:, 1], expected)
        np.testing.assert_array_equal(scorer.predict_proba(dicts[3])[1], expected[3])
    with gp.load_model(exported.folder, untrusted=True) as untrusted:
        np.testing.assert_array_equal(untrusted.predict_proba(rows)[:, 1], expected)


SCORE = """
import json, sys
import gpupipe as gp
scorer = gp.load_scorer(sys.argv[1], engine="numpy")
found = scorer.predict_proba(json.loads(sys.argv[2])).tolist()
imported = {"pyarrow", "pandas", "sklearn", "skops", "xgboost", "torch", "onnxruntime", "numba"} & set(sys.modules)
print(json.dumps([scorer.estimator_name, found, sorted(imported)]))
"""


def test_a_scorer_imports_no_library_for_trees_and_linear_models(exported: Exported, frame: pd.DataFrame) -> None:
    rows = frame[list(READ)].assign(signup_ts=frame["signup_ts"].astype(str)).head(3)
    command = [sys.executable, "-c", SCORE, str(exported.folder), rows.to_json(orient="records")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    name, found, imported = json.loads(done.stdout)
    assert (name, imported) == ("ensemble of trees in NumPy (3), dot product in NumPy (3)", [])
    assert found == gp.load_model(exported.folder).predict_proba(frame.head(3)).tolist()


def test_an_ensemble_is_resumed_from_its_checkpoint(exported: Exported, tmp_path: Path) -> None:
    backend, trained = exported.job.backend, exported.trained
    key = CheckpointKey().of("features", the_view="combined")
    write_fitted_features(tmp_path / "features", key, trained.features, backend)
    features = read_fitted_features(ArtifactReader(tmp_path / "features"), None, backend)
    assert features.views == trained.features.views
    predictions = {"test": trained.model.predict(exported.X)}
    write_model(tmp_path / "model", key, trained, predictions, backend)
    found = read_model(ArtifactReader(tmp_path / "model"))
    np.testing.assert_array_equal(found.model.predict(exported.X).probability, predictions["test"].probability)
    assert found.search is not None and found.search.tried[0] == replace(trained.search.tried[0], score=None)  # type: ignore[union-attr]
    assert (found.model.feature_names, found.seconds) == (trained.model.feature_names, 2.5)
