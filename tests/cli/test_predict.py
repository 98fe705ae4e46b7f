"""Tests of ``gpupipe predict``: options, summary, and messages for users with a model but no YAML."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest

from gpupipe.config import load_config
from gpupipe.pipeline.run import run_pipeline

CONFIG = """\
source: {path: t.csv, target: y, id: id}
models: [gaussian_nb]
report: {enabled: false}
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("predict")
    rows = [f"{i:03d},{i % 50},{'ab'[i % 2]},{'yes' if i % 50 > 25 else 'no'}" for i in range(200)]
    (folder / "t.csv").write_text("\n".join(["id,age,plan,y", *rows]))
    (folder / "c.yaml").write_text(CONFIG)
    return run_pipeline(load_config(folder / "c.yaml"), folder / "runs" / "first").path


def test_some_rows_are_scored_without_the_libraries_and_settings_of_training(gpupipe_process, tmp_path: Path) -> None:
    rows = [f"{i % 50},{'ab'[i % 2]},{'yes' if i % 50 > 25 else 'no'}" for i in range(200)]
    (tmp_path / "t.csv").write_text("\n".join(["age,plan,y", *rows]))
    (tmp_path / "c.yaml").write_text(
        "source: {path: t.csv, target: y}\nmodels: [{xgboost: {n_estimators: 3}}]\nreport: {enabled: false}\n"
    )
    model = run_pipeline(load_config(tmp_path / "c.yaml"), tmp_path / "run").path
    done = gpupipe_process("predict", model, "t.csv", "-o", "s.csv", python=("-X", "importtime"), cwd=tmp_path)
    assert done.returncode == 0 and (tmp_path / "s.csv").read_text().count("\n") == 201
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines() if "|" in line}
    libraries = {"dask", "jinja2", "joblib", "matplotlib", "numba", "scipy", "sklearn", "torch", "xgboost", "yaml"}
    ours = {
        "gpupipe.config",
        "gpupipe.features.ops.auto",
        "gpupipe.models.linear.settings",
        "gpupipe.inference.parity.replay",
    }
    assert "gpupipe.models.xgboost.fitted" in imported and not imported & (libraries | ours)


def test_a_file_in_another_dialect_is_scored_and_its_bad_rows_rejected(gpupipe, run: Path, tmp_path: Path) -> None:
    (tmp_path / "new.txt").write_bytes("id::age\n".replace("::", "~").encode())
    text = "id~age~plan~Straße\n001~30~a~x\n002~old~b~é\n003~5\n"
    (tmp_path / "new.txt").write_bytes(text.encode("latin-1"))
    reader = ["--source", "format=csv", "--source", "csv.delimiter=~", "--source", "csv.encoding=latin-1"]
    command = ["predict", run, "new.txt", "-o", "s.csv", "--keep", "Str*", "--on-error", "reject", "--json", *reader]
    done = gpupipe(*command, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    lines = done.stderr.splitlines()
    assert lines[-2:] == ["2 rejected rows written to s.rejected.csv", "1 scored row written to s.csv"]
    summary = json.loads(done.stdout)
    assert (summary["rows"], summary["ids"], summary["kept"]) == (1, ["id"], ["Straße"])
    assert summary["rejected"] == {
        "rows": 2,
        "file": "s.rejected.csv",
        "reasons": {"another number of fields": 1, "age: expected a number": 1},
    }
    found = pd.read_csv(tmp_path / "s.csv", dtype=str)
    assert list(found)[:4] == ["row", "id", "Straße", "prediction"] and found["id"][0] == "001"
    raw = pd.read_csv(tmp_path / "s.rejected.csv")["raw"].tolist()
    assert raw == ["002~old~b~é", "003~5"]


@pytest.mark.parametrize(
    ("name", "text", "options", "code", "words"),
    [
        ("new.csv", b"id,age\n1,2\n", [], 5, ["the model needs a column that is not in the data: plan"]),
        ("new.csv", b"id,age,plan\n1,2\n", [], 5, ["line 2: expected 3 fields, found 2", "--on-error reject"]),
        ("new.csv", b"id,age,plan\n1,2,\xfc\n", [], 5, ["the text is not utf8", "--source csv.encoding=latin-1"]),
        ("new.txt", b"id,age,plan\n1,2,a\n", [], 5, ["format cannot be determined", "--source format=csv"]),
        ("new.csv", b"id;age;plan\n", ["--source", "csv.delimeter=;"], 2, ["Usage error", "'csv.delimiter'"]),
        ("new.csv", b"id,age,plan\n1,2,a\n", ["--as-of", "soon"], 2, ["--as-of", "'soon'"]),
        ("new.csv", b"id,age,plan\n1,2,a\n", ["--on-error", "null", "--cluster", "local"], 2, ["with --cluster"]),
        ("new.csv", b"id,age,plan\n1,2,a\n", ["--id", "id", "--no-id"], 2, ["--no-id cannot be combined with --id"]),
    ],
)  # fmt: skip
def test_messages_name_options_and_not_settings_of_a_configuration(
    gpupipe, run: Path, tmp_path: Path, name: str, text: bytes, options: list[str], code: int, words: list[str]
) -> None:
    (tmp_path / name).write_bytes(text)
    done = gpupipe("predict", run, name, "-o", "s.csv", *options, cwd=tmp_path)
    assert done.returncode == code, done.stderr
    for word in words:
        assert word in done.stderr
    for setting in ("csv: {", "source.format", "schema", "configuration", "Traceback"):
        assert setting not in done.stderr


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("runs", "name a run directory, such as {run}"),
        ("runs/frist", "did you mean 'first'?"),
        ("c.yaml", "found a configuration"),
        (".", "the directory has no model"),
    ],
)
def test_errors_for_paths_without_a_model_describe_the_path(gpupipe, run: Path, path: str, says: str) -> None:
    root = run.parents[1]
    done = gpupipe("predict", root / path, "t.csv", "-o", "s.csv", cwd=root)
    assert done.returncode == 5 and says.format(run=run) in done.stderr


def test_links_out_of_the_folder_to_score_are_refused_unless_the_option_allows_them(gpupipe, run, tmp_path) -> None:
    for name in ("rows/a.csv", "private/x.csv"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text("id,age,plan\n001,30,a\n")
    (tmp_path / "rows/linked.csv").symlink_to("../private/x.csv")
    refused = gpupipe("predict", run, "rows", "-o", "s.csv", cwd=tmp_path)
    assert (refused.returncode, "set --source outside_files=true" in refused.stderr) == (5, True)
    allowed = gpupipe("predict", run, "rows", "-o", "s.csv", "--source", "outside_files=true", cwd=tmp_path)
    assert (allowed.returncode, len(pd.read_csv(tmp_path / "s.csv"))) == (0, 2)
