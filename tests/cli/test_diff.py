"""Tests of ``gpupipe diff``: screen, document, page, conditions and exit codes."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from gpupipe.config import parse_config
from gpupipe.pipeline.run import run_pipeline


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a table of a semicolon CSV, and the runs of two models."""
    path, random = tmp_path_factory.mktemp("diff"), np.random.default_rng(0)
    frame = pd.DataFrame({"id": [f"{i:03d}" for i in range(200)], "age": random.integers(18, 80, 200)})
    frame["plan"] = random.choice(["a", "b"], 200)
    frame["left"] = np.where(frame["age"] + 20 * (frame["plan"] == "a") + random.normal(0, 9, 200) > 60, "yes", "no")
    frame.to_csv(path / "t.csv", index=False, sep=";")
    common = {"report": {"enabled": False}, "device": "cpu", "evaluate": {"importance": False}}
    source = {"path": str(path / "t.csv"), "id": "id", "target": "left", "csv": {"delimiter": ";"}}
    for name, model in {"old": {"xgboost": {"n_estimators": 3}}, "new": "logistic_regression"}.items():
        run_pipeline(parse_config({"source": source, "models": [model], **common}), path / name)
    return path


def test_the_screen_the_document_and_the_page(gpupipe_process, folder: Path, tmp_path: Path) -> None:
    options = ["--by", "plan", "--rows", 3, "-o", tmp_path / "d.json", "--html", tmp_path / "d.html"]
    done = gpupipe_process("diff", "old", "new", "t.csv", *options, cwd=folder)
    assert done.returncode == 0, done.stderr
    document = json.loads((tmp_path / "d.json").read_text())
    assert document["exit_code"] == 0 and document["failed"] == []
    assert document["predictions"]["n_labelled"] == 200
    assert {each["level"] for each in document["predictions"]["slices"]} == {"a", "b"}
    first = document["contributions"][0]["rows"][0]
    assert f"row {first['row']} id {first['row']:03d}: {first['old']} → {first['new']}" in done.stdout
    assert document["summary"] in done.stdout and "xgboost → logistic_regression" in done.stdout
    page = (tmp_path / "d.html").read_text()
    assert document["summary"] in page and f"id {first['row']:03d}" in page
    assert {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()} == {0o600}
    again = gpupipe_process("diff", "old", "new", "t.csv", "--html", tmp_path / "d.html", cwd=folder)
    assert again.returncode == 2 and "d.html already exists" in again.stderr


@pytest.mark.parametrize(
    ("options", "code", "text"),
    [
        (["t.csv", "--fail-on", "flips>0", "--fail-on", "flips>99%"], 1, "--fail-on flips>0: "),
        (["t.csv", "--fail-on", "flips>99%", "--fail-on", "accuracy>=1"], 0, ""),
        (["t.csv", "--fail-on", "flips"], 2, "expected NAME, an operator and a number; got 'flips'"),
        (["t.csv", "--fail-on", "rmse<0"], 2, "'rmse' was not compared"),
        (["--fail-on", "flips>0"], 2, "--fail-on needs DATA"),
        (["absent.csv"], 5, "absent.csv"),
        (["t.csv", "--by", "plam"], 5, "did you mean 'plan'?"),
        ([], 0, ""),
    ],
)
def test_exit_codes(gpupipe, folder: Path, options: list[str], code: int, text: str) -> None:
    done = gpupipe("diff", "old", "new", *options, cwd=folder)
    assert done.returncode == code and text in done.stderr
    assert bool(done.stdout) == (code < 2)
    if "flips>99%" in options:
        assert "flips>99%:" not in done.stderr


def test_reader_options_apply_to_both_models(gpupipe, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "commas.csv").write_text((folder / "t.csv").read_text().replace(";", ","))
    done = gpupipe("diff", "old", "new", tmp_path / "commas.csv", "--source", "csv.delimiter=,", "--json", cwd=folder)
    assert done.returncode == 0 and json.loads(done.stdout)["predictions"]["n_rows"] == 200
