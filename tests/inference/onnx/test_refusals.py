"""Refusals of models that ONNX cannot express, and the output of ``gpupipe export --format onnx``."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pandas as pd
import pytest

import gpupipe as gp
from gpupipe.cli import main
from gpupipe.inference.onnx import export, runtimes

ROWS = 80


def run(folder: Path, features: Any, model: str = "logistic_regression", **more: Any) -> Path:
    """Return the run directory of a small model."""
    rng = np.random.default_rng(1)
    frame = pd.DataFrame(
        {
            "usage": rng.exponential(5, ROWS),
            "city": rng.choice(["Rome", "Oslo", "Bonn"], ROWS),
            "note": [f"call {i % 7} back" for i in range(ROWS)],
            "left": rng.choice(["no", "yes"], ROWS),
        }
    )
    pipeline = gp.Pipeline(
        frame, target="left", features=features, models=[model], schema={"note": "text"},
        report={"enabled": False}, evaluate={"importance": False}, **more,
    )  # fmt: skip
    return pipeline.run(folder / "run", quiet=True).path


@pytest.fixture(scope="module")
def usual(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return run(tmp_path_factory.mktemp("usual"), [{"encode": ["city"]}], data={"usage": {"range": [0, 1e9]}})


def test_everything_that_cannot_be_expressed_is_named_at_once(tmp_path: Path) -> None:
    features = [{"text_counts": "note"}, {"hash_bucket": {"columns": ["city"], "buckets": 4}}]
    model = gp.load_model(run(tmp_path, features, "knn"), "cpu")
    with pytest.raises(gp.ConfigError) as refused:
        model.to_onnx(tmp_path / "model.onnx")
    for name in ("text_counts of note, which reads texts", "hash_bucket of city", "KNeighborsClassifier"):
        assert name in str(refused.value)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run"]


def test_the_command_writes_a_valid_file_with_its_description(
    usual: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "model.onnx"
    assert main(["export", str(usual), "--format", "onnx", "-o", str(path)]) == 0
    said = capsys.readouterr().err
    assert "ONNX Runtime" in said and "onnx.reference" in said and "not included the rules of data:" in said
    file = onnx.load(path)
    onnx.checker.check_model(file, full_check=True)
    described = {each.key: each.value for each in file.metadata_props}
    inputs = {each["name"]: each for each in json.loads(described["gpupipe.inputs"])}
    assert inputs["city"] == {"name": "city", "kind": "categorical", "type": "string", "missing": "", "blanks": "strip"}
    assert inputs["usage"]["type"] == "float64" and inputs["usage"]["missing"] == "NaN"
    assert json.loads(described["gpupipe.outputs"])[1]["columns"] == ["no", "yes"]
    assert described["gpupipe.source"] == gp.load_model(usual).manifest["manifest_sha256"]


@pytest.mark.parametrize("output", ["model", "model/manifest.json"])
def test_a_file_does_not_replace_a_part_of_the_model(usual: Path, output: str) -> None:
    assert main(["export", str(usual), "--format", "onnx", "-o", str(usual / output), "--quiet"]) == 2
    assert gp.load_model(usual).verify().passed


def test_a_missing_library_is_named_with_its_extra(usual: Path, tmp_path: Path, monkeypatch: Any) -> None:
    real = importlib.util.find_spec
    monkeypatch.setattr(export, "find_spec", lambda name: None if name == "onnxruntime" else real(name))
    with pytest.raises(gp.ConfigError) as refused:
        gp.load_model(usual).to_onnx(tmp_path / "model.onnx")
    assert "onnxruntime" in refused.value.what and "gpupipe[onnx]" in refused.value.fix


def test_a_runtime_that_computes_something_else_prevents_the_file(
    usual: Path, tmp_path: Path, monkeypatch: Any
) -> None:
    def run_wrongly(model: Any, feeds: Any) -> Any:
        found = runtimes.run_onnx_runtime(model, feeds)
        return found | {"probabilities": found["probabilities"] + 2e-5}

    monkeypatch.setattr(export, "run_onnx_runtime", run_wrongly)
    with pytest.raises(gp.ArtifactError, match="2e-05"):  # exit code 5: the model may be malicious
        gp.load_model(usual).to_onnx(tmp_path / "model.onnx")
    assert list(tmp_path.iterdir()) == []


def test_columns_may_have_the_names_of_outputs_and_nodes(tmp_path: Path) -> None:
    frame = pd.DataFrame({"label": range(60), "constant_1": [1.5, 2.5] * 30, "y": [0, 1, 1] * 20})
    pipeline = gp.Pipeline(frame, target="y", models=["logistic_regression"], report={"enabled": False})
    found = gp.load_model(pipeline.run(tmp_path / "run", quiet=True).path).to_onnx(tmp_path / "model.onnx")
    assert [each.name for each in found.outputs] == ["label_", "probabilities"]


def test_digits_that_move_rows_are_refused_with_their_columns_and_ops(tmp_path: Path, monkeypatch: Any) -> None:
    def run_with_another_sine(model: Any, feeds: Any) -> Any:
        found = runtimes.run_onnx_runtime(model, feeds)
        matrix = next(name for name in found if found[name].ndim == 2 and name != "probabilities")
        features = found[matrix].copy()
        features[:, :2] = np.nextafter(features[:, :2], np.float32(9))
        is_other = ((features != found[matrix]) & ~np.isnan(features)).any(axis=1, keepdims=True)
        probabilities = np.where(is_other, found["probabilities"][:, ::-1], found["probabilities"])
        return found | {matrix: features, "probabilities": probabilities}

    features = [{"cyclic": {"columns": ["usage"], "period": 7}}, {"drop": ["note"]}]
    monkeypatch.setattr(export, "run_onnx_runtime", run_with_another_sine)
    with pytest.raises(gp.ConfigError) as refused:
        gp.load_model(run(tmp_path, features, "random_forest")).to_onnx(tmp_path / "model.onnx")
    assert "(cyclic)" in refused.value.what and "gpupipe serve" in refused.value.fix
    assert not (tmp_path / "model.onnx").exists()
