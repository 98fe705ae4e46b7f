"""Tests of ``gpupipe verify`` and ``gpupipe export`` in fresh processes."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from gpupipe.artifact import ArtifactReader, ArtifactWriter
from gpupipe.artifact.manifest import OWN_KEYS, render
from gpupipe.backends import device_report
from gpupipe.config import load_config
from gpupipe.pipeline.run import run_pipeline

ROOT = Path(__file__).parents[2]
CONFIG = """\
source: {generate: churn, rows: 800, target: Churn, positive: "Yes", drop: [customerID]}
features:
  - impute: {columns: "@numeric", indicator: true}
models: [xgboost: {n_estimators: 10}]
report: {enabled: false}
"""


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the run directory of a small model."""
    return run(tmp_path_factory.mktemp("trained"), CONFIG)


def run(folder: Path, text: str) -> Path:
    (folder / "config.yaml").write_text(text)
    return run_pipeline(load_config(folder / "config.yaml"), folder / "run").path


def test_a_fresh_process_verifies_a_model_given_its_path_only(trained: Path, tmp_path: Path) -> None:
    environment = {"PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'kernels'}", "HOME": str(tmp_path)}
    command = [sys.executable, "-m", "gpupipe", "verify", str(trained)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=tmp_path, timeout=120)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[-1] == "as recorded" and len(lines) < 24
    assert lines[-2].startswith("origin       not checked: ")
    for word in ("device       cpu (", "0 outside the tolerance", "0 label flips", "roc_auc", "worst"):
        assert word in done.stdout


def test_json_output_has_each_column_and_the_exit_code(gpupipe, trained: Path) -> None:
    done = gpupipe("verify", trained / "model", "--device", "cpu", "--json")
    said = json.loads(done.stdout)
    assert done.returncode == said["exit_code"] == 0 and said["passed"]
    assert said["origin"].startswith("not checked: hashes and recorded rows show damage")
    assert said["columns"]["tenure"] == {"kind": "numbers", "absolute": 0.0, "relative": 0.0, "rows_outside": 0}
    assert said["predictions"]["label_flips"] == 0 and said["predictions"]["passed"]


def test_a_changed_part_with_a_valid_hash_exits_with_5_and_names_the_column(
    gpupipe, trained: Path, tmp_path: Path
) -> None:
    reader, writer = ArtifactReader(trained / "model"), ArtifactWriter(tmp_path / "model")
    for name in reader.names():
        if name == "program.npz":
            arrays = reader.arrays(name)
            writer.arrays(name, arrays | {"params": arrays["params"] + 0.5})
        else:
            writer.file(name).write_bytes(reader.read(name))
    writer.finish({key: value for key, value in reader.manifest.items() if key not in OWN_KEYS})
    done = gpupipe("verify", tmp_path / "model")
    assert done.returncode == 5 and done.stdout.splitlines()[-1] == "not as recorded"
    assert "DIFFERS      feature " in done.stdout and "MonthlyCharges=" in done.stdout


def test_a_flipped_byte_exits_with_5_and_names_the_file(gpupipe, trained: Path, tmp_path: Path) -> None:
    shutil.copytree(trained / "model", tmp_path / "copy")
    path = tmp_path / "copy" / "estimator.ubj"
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    done = gpupipe("verify", tmp_path / "copy")
    assert done.returncode == 5 and "estimator.ubj was altered" in done.stderr


@pytest.mark.parametrize(
    "command",
    [
        ("predict", "model", "rows.csv", "-o", "out.csv"), ("explain", "model", "rows.csv", "-o", "out.csv"),
        ("drift", "model", "rows.csv"), ("verify", "model"), ("verify", "model", "--untrusted"),
        ("serve", "model", "--port", "0"), ("export", "model", "-o", "copy"),
        ("export", "model", "--format", "onnx", "-o", "model.onnx"), ("compare", "run", "run"),
        ("export", "model", "--format", "sql", "--dialect", "sqlite", "-o", "model.sql"),
    ],
    ids=" ".join,
)  # fmt: skip
def test_every_command_refuses_a_malformed_manifest_with_5(
    command: tuple[str, ...], gpupipe, trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(trained, tmp_path / "run")
    path = tmp_path / "run" / "model" / "manifest.json"
    path.write_bytes(render(json.loads(path.read_text()) | {"model": ["text"]}))
    (tmp_path / "model").symlink_to("run")
    (tmp_path / "rows.csv").write_text("tenure\n1\n")
    before = sorted(tmp_path.iterdir())
    monkeypatch.chdir(tmp_path)
    done = gpupipe(*command)
    assert done.returncode == 5, done.stderr
    assert "manifest.json is invalid: model: expected an object; found a list with 1 entries" in done.stderr
    assert sorted(tmp_path.iterdir()) == before


def test_a_missing_gpu_exits_with_4(gpupipe, trained: Path) -> None:
    if not device_report().gpu_obstacle:
        pytest.skip("this machine has a GPU that can be used")
    assert gpupipe("verify", trained, "--device", "gpu").returncode == 4


def test_export_makes_a_model_that_verifies_and_does_not_replace_other_folders(
    gpupipe, trained: Path, tmp_path: Path
) -> None:
    done = gpupipe("export", trained, "-o", tmp_path / "served")
    assert done.returncode == 0 and done.stderr.splitlines()[-1] == "as recorded"
    assert sorted(p.name for p in (tmp_path / "served").iterdir()) == sorted(
        p.name for p in (trained / "model").iterdir()
    )
    again = gpupipe("export", trained, "-o", tmp_path / "served")
    assert again.returncode == 2 and "it is not empty" in again.stderr


def test_code_in_a_model_needs_permission(gpupipe, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("import gpupipe as gp\n\n@gp.kernel\ndef twice(a):\n    return a + a\n")
    ops = 'features:\n  - kernel: {use: "mine.py:twice", inputs: [tenure]}\nmodels: [gaussian_nb]\n'
    model = run(tmp_path, CONFIG.partition("features:")[0] + ops + "report: {enabled: false}\n")
    refused = gpupipe("verify", model)
    assert refused.returncode == 5 and "--allow-code" in refused.stderr
    assert gpupipe("verify", model, "--allow-code").returncode == 0
