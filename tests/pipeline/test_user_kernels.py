"""Tests of custom kernels in models: stored source text, and errors on loading."""

from __future__ import annotations

import json
import os
import pickle
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import gpupipe as gp
from gpupipe.artifact import ArtifactReader, ArtifactWriter
from gpupipe.config import load_config, parse_config
from gpupipe.datasets.churn import write
from gpupipe.errors import ArtifactError, ConfigError
from gpupipe.pipeline.result import Run
from gpupipe.pipeline.run import run_pipeline

ROOT = Path(__file__).parents[2]
KERNELS = '''\
"""Features that YAML cannot say."""

import math
import sys

import gpupipe as gp

FLOOR = math.log(3.0)
print("the user's file runs", file=sys.stderr)


def clamp(x):
    return max(x, FLOOR)


@gp.kernel(out="float32", nulls="propagate")
def loyalty(tenure, charges):
    """How long, for how much."""
    return clamp(tenure) / (1.0 + charges)


@gp.kernel(out="bool", nulls="pass")
def has_total(total):
    return not math.isnan(total)
'''
CONFIG = """\
name: mine
source: {generate: churn, rows: 1500, target: Churn, positive: "Yes", drop: [customerID]}
features:
  - kernel: {use: "my_kernels.py:loyalty", inputs: [tenure, MonthlyCharges]}
  - kernel: {use: "my_kernels.py:has_total", inputs: [TotalCharges], as: known}
  - kernel: {use: "my_kernels.py:loyalty", inputs: [known, tenure], as: other}
models: [logistic_regression]
report: {enabled: false}
"""
BONUS = 5.0


@gp.kernel
def bonus(tenure):
    return tenure + BONUS


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Return a finished run whose file of kernels was deleted."""
    folder = tmp_path_factory.mktemp("kernels")
    (folder / "my_kernels.py").write_text(KERNELS)
    (folder / "config.yaml").write_text(CONFIG)
    run = run_pipeline(load_config(folder / "config.yaml"), folder / "run")
    (folder / "my_kernels.py").unlink()
    return run


@pytest.fixture
def customers(trained: Run, tmp_path: Path) -> Path:
    """Return a table like that of the run, with nulls."""
    write(tmp_path / "new.parquet", 400, 11)
    return tmp_path / "new.parquet"


def altered(model: Path, to: Path, parts: dict[str, bytes], **manifest: object) -> Path:
    """Rewrite parts of a model, with valid hashes."""
    reader = ArtifactReader(model)
    writer = ArtifactWriter(to)
    for name in reader.names():
        writer.file(name).write_bytes(parts.get(name, reader.read(name)))
    own = {"format", "format_version", "created", "gpupipe", "libraries", "files", "manifest_sha256"}
    writer.finish({k: v for k, v in reader.manifest.items() if k not in own} | manifest)
    return to


def test_the_model_has_the_source_of_each_kernel_once_and_no_other_code_of_the_file(trained: Run) -> None:
    manifest = json.loads((trained.path / "model" / "manifest.json").read_text())
    first, second = manifest["kernels"]
    assert {**first, "sha256": ""} == {
        "name": "loyalty",
        "file": "kernel_1_loyalty.py",
        "inputs": ["tenure", "charges"],
        "out": "float32",
        "nulls": "propagate",
        "sha256": "",
    }
    assert second["name"] == "has_total" and second["out"] == "bool" and second["nulls"] == "pass"
    assert first["sha256"] == manifest["files"]["kernel_1_loyalty.py"]["sha256"]
    text = (trained.path / "model" / "kernel_1_loyalty.py").read_text()
    assert "FLOOR = 1.0986122886681098\n" in text and "max(x, FLOOR)" in text
    assert "print" not in text and "has_total" not in text
    assert manifest["lineage"]["other"] == ["TotalCharges", "tenure"]


def test_loading_fails_unless_code_is_allowed(trained: Run) -> None:
    with pytest.raises(ArtifactError, match=r"kernel_1_loyalty\.py \(sha256 [0-9a-f]{64}\), kernel_2_has") as caught:
        gp.load_model(trained.path)
    assert "allow_code=True" in caught.value.fix and "--allow-code" in caught.value.fix
    with pytest.raises(ArtifactError, match="contains Python code"):
        _ = trained.model  # the same rule applies to the run itself
    assert gp.load_model(trained.path, allow_code=True).goal.labels == trained.goal.labels


def test_the_loaded_model_gives_the_predictions_of_the_run(trained: Run, tmp_path: Path) -> None:
    write(tmp_path / "all.parquet", 1500, trained.config.source.seed)
    of_the_run = pd.read_parquet(trained.path / "predictions.parquet")
    model = pickle.loads(pickle.dumps(gp.load_model(trained.path, allow_code=True)))  # unpickling runs code anyway
    got = model.predict_proba(tmp_path / "all.parquet")
    np.testing.assert_array_equal(got[of_the_run["row"], 1], of_the_run["probability_Yes"])


def test_a_fresh_process_predicts_the_same_and_runs_nothing_of_the_file(trained: Run, customers: Path) -> None:
    here = gp.load_model(trained.path, allow_code=True).predict_proba(customers)
    code = (
        "import sys, numpy as np, gpupipe as gp\n"
        "np.save(sys.argv[3], gp.load_model(sys.argv[1], allow_code=True).predict_proba(sys.argv[2]))\n"
    )
    out = customers.with_name("there.npy")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "kernels")])}
    command = [sys.executable, "-c", code, str(trained.path), str(customers), str(out)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=customers.parent)
    assert done.returncode == 0 and done.stderr == ""
    np.testing.assert_array_equal(np.load(out), here)


def test_features_equal_those_of_pandas(trained: Run, customers: Path) -> None:
    model = gp.load_model(trained.path, allow_code=True)
    frame = pd.read_parquet(customers)
    X = model.transform(frame, as_frame=True)
    loyalty = frame["tenure"].clip(lower=np.log(3.0)) / (1 + frame["MonthlyCharges"])
    filled = loyalty.isna()
    correlation = np.corrcoef(X["loyalty"][~filled], loyalty[~filled])[0, 1]
    assert filled.any() and correlation == pytest.approx(1, abs=1e-6)  # equal up to scaling
    assert X["known"].nunique() == 2 and (X["known"] == X["known"].max()).equals(frame["TotalCharges"].notna())


def test_an_altered_byte_is_detected_whether_code_is_allowed_or_not(trained: Run, tmp_path: Path) -> None:
    shutil.copytree(trained.path / "model", tmp_path / "model")
    path = tmp_path / "model" / "kernel_1_loyalty.py"
    path.write_text(path.read_text().replace("1.0 +", "2.0 +"))
    for allow in (False, True):
        with pytest.raises(ArtifactError, match=r"kernel_1_loyalty\.py was altered or corrupted"):
            gp.load_model(tmp_path / "model", allow_code=allow)


HOSTILE = b"""import os
os.environ["OWNED"] = "yes"
import gpupipe


@gpupipe.kernel(out="float32", nulls="propagate")
def loyalty(tenure, charges):
    return tenure
"""


def test_a_source_that_does_more_than_define_functions_is_rejected_with_a_valid_hash(trained, tmp_path) -> None:
    model = altered(trained.path / "model", tmp_path / "model", {"kernel_1_loyalty.py": HOSTILE})
    with pytest.raises(ArtifactError, match="expected only imports, numbers and functions"):
        gp.load_model(model, allow_code=True)
    assert "OWNED" not in os.environ


def test_kernels_and_manifest_must_agree(trained: Run, tmp_path: Path) -> None:
    entries = ArtifactReader(trained.path / "model").manifest["kernels"]
    wrong = [{**entries[0], "nulls": "pass"}, entries[1]]
    model = altered(trained.path / "model", tmp_path / "one", {}, kernels=wrong)
    with pytest.raises(ArtifactError, match="does not match the kernel described in the manifest"):
        gp.load_model(model, allow_code=True)
    model = altered(trained.path / "model", tmp_path / "two", {}, kernels=[])
    with pytest.raises(ArtifactError, match="CALL refers to kernel 0"):
        gp.load_model(model)
    model = altered(trained.path / "model", tmp_path / "three", {}, kernels=[{"name": "loyalty"}])
    with pytest.raises(ArtifactError, match=r"kernels\[0\]\.file: expected text; the entry is missing"):
        gp.load_model(model, allow_code=True)


def test_a_model_without_kernels_needs_no_permission(tmp_path: Path) -> None:
    settings = {"source": {"generate": "churn", "rows": 300, "target": "Churn"}, "models": ["gaussian_nb"]}
    run = gp.Pipeline(parse_config({**settings, "report": {"enabled": False}})).run(tmp_path / "run")
    assert json.loads((tmp_path / "run/model/manifest.json").read_text())["kernels"] == []
    assert run.model.goal.labels == run.goal.labels


def test_a_kernel_given_in_python_runs_and_is_noted_in_the_configuration(tmp_path: Path) -> None:
    settings = {
        "source": {"generate": "churn", "rows": 300, "target": "Churn", "drop": ["customerID"]},
        "features": [{"kernel": {"use": bonus, "inputs": ["tenure"]}}],
        "models": ["gaussian_nb"],
        "report": {"enabled": False},
    }
    run = gp.Pipeline(parse_config(settings)).run(tmp_path / "run")
    assert f"use: python object bonus, sha256 {bonus.sha256}" in (run.path / "config.yaml").read_text()
    with pytest.raises(ConfigError, match="this kernel was passed as a Python object; use a file"):
        load_config(run.path / "config.yaml")
    text = run.path / "model" / "kernel_1_bonus.py"
    assert "BONUS = 5.0" in text.read_text()
    again = load_config(run.path / "config.yaml", [f"features[0].kernel.use={text}:bonus"])
    other = run_pipeline(again, tmp_path / "again")
    assert (other.path / "model" / "kernel_1_bonus.py").read_text() == text.read_text()
    assert other.document == run.document
