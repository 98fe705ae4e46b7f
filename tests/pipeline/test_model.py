"""Tests of `gpupipe.Model`: the same predictions as in the run, and errors for invalid input."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gpupipe.config import load_config
from gpupipe.datasets.churn import customers
from gpupipe.errors import ArtifactError, SchemaError
from gpupipe.inference.model import load_model
from gpupipe.pipeline.result import Run
from gpupipe.pipeline.run import run_pipeline

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def rows() -> pd.DataFrame:
    """Return the customers that the run was trained on."""
    return customers(3000, 7).to_pandas()


def test_predictions_equal_those_of_the_run(churn_run: Run, rows: pd.DataFrame) -> None:
    predictions = pd.read_parquet(churn_run.path / "predictions.parquet")
    model = load_model(churn_run.path)
    probability = model.predict_proba(rows)[predictions["row"], 1]
    np.testing.assert_allclose(probability, predictions["probability_Yes"], atol=1e-7)
    assert (model.predict(rows)[predictions["row"]] == predictions["prediction"]).all()


def test_frames_arrow_tables_and_files_give_the_same_predictions(
    churn_run: Run, rows: pd.DataFrame, tmp_path: Path
) -> None:
    model = load_model(churn_run.path / "model")
    expected = model.predict_proba(rows.head(200))
    arrow = pa.Table.from_pandas(rows.head(200), preserve_index=False)
    pq.write_table(arrow, tmp_path / "rows.parquet")
    rows.head(200).to_csv(tmp_path / "rows.csv", index=False)
    for data in (arrow, tmp_path / "rows.parquet", str(tmp_path / "rows.csv"), rows.head(200).astype(object)):
        np.testing.assert_allclose(model.predict_proba(data), expected, atol=1e-7)


def test_order_and_number_of_columns_do_not_matter(churn_run: Run, rows: pd.DataFrame) -> None:
    model = load_model(churn_run.path)
    mixed = rows[sorted(rows.columns, reverse=True)].assign(surplus=1).drop(columns=["Churn", "customerID"])
    np.testing.assert_array_equal(model.predict_proba(mixed), model.predict_proba(rows))


def test_unseen_levels_and_nulls_are_scored(churn_run: Run, rows: pd.DataFrame) -> None:
    odd = rows.head(3).astype({"City": object, "Contract": object}).copy()
    odd.loc[0, "City"], odd.loc[1, "Contract"], odd.loc[2, "MonthlyCharges"] = "Atlantis", None, None
    assert np.isfinite(load_model(churn_run.path).predict_proba(odd)).all()


def test_an_empty_table_has_no_predictions(churn_run: Run, rows: pd.DataFrame) -> None:
    assert len(load_model(churn_run.path).predict(rows.head(0))) == 0


def test_a_missing_column_is_named(churn_run: Run, rows: pd.DataFrame) -> None:
    with pytest.raises(SchemaError, match="Contract"):
        load_model(churn_run.path).predict(rows.drop(columns="Contract"))


def test_the_error_for_a_word_in_a_numeric_column_names_the_row(churn_run: Run, rows: pd.DataFrame) -> None:
    bad = rows.head(20).astype({"tenure": str}).copy()
    bad.loc[4, "tenure"] = "many"
    with pytest.raises(SchemaError, match=r"(?s)tenure.*'many'.*data row 4"):
        load_model(churn_run.path).predict(bad)


@pytest.mark.parametrize("part", ["program.npz", "levels.json", "schema.json", "manifest.json", "features.json"])
def test_the_error_for_a_flipped_byte_names_the_file(churn_run: Run, tmp_path: Path, part: str) -> None:
    folder = tmp_path / "model"
    shutil.copytree(churn_run.path / "model", folder)
    content = bytearray((folder / part).read_bytes())
    content[len(content) // 2] ^= 1
    (folder / part).write_bytes(content)
    with pytest.raises(ArtifactError, match=part):
        load_model(folder)


def test_an_altered_program_with_a_valid_hash_cannot_read_other_memory(churn_run: Run, tmp_path: Path) -> None:
    from gpupipe.artifact import ArtifactReader, ArtifactWriter

    reader = ArtifactReader(churn_run.path / "model")
    arrays = reader.arrays("program.npz")
    arrays["instructions"] = arrays["instructions"].copy()
    arrays["instructions"][0, 3] = 10_000
    writer = ArtifactWriter(tmp_path / "model")
    for name in reader.names():
        if name == "program.npz":
            writer.arrays(name, arrays)
        else:
            writer.file(name).write_bytes(reader.read(name))
    own = {"format", "format_version", "created", "gpupipe", "libraries", "files", "manifest_sha256"}
    writer.finish({k: v for k, v in reader.manifest.items() if k not in own})
    with pytest.raises(ArtifactError, match="the feature program is invalid"):
        load_model(tmp_path / "model")


def test_an_xgboost_model_needs_no_scikit_learn(churn_run: Run, tmp_path: Path) -> None:
    config = load_config(churn_run.path / "config.yaml", ["models=[xgboost: {n_estimators: 10}]"])
    run = run_pipeline(config, tmp_path / "run")
    customers(40, 9).to_pandas().to_csv(tmp_path / "new.csv", index=False)
    code = (
        "import sys\n"
        "sys.modules['sklearn'] = None\n"
        "import gpupipe as gp\n"
        f"model = gp.load_model({str(run.path)!r})\n"
        f"print(len(model.predict({str(tmp_path / 'new.csv')!r})))\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "kernels")])}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
    assert done.stdout.strip() == "40", done.stderr


def test_lineage_maps_each_feature_to_its_inputs(churn_run: Run) -> None:
    manifest = json.loads((churn_run.path / "model" / "manifest.json").read_text())
    assert manifest["lineage"]["City_target"] == ["City"]
    assert set(manifest["inputs"]) >= {column for columns in manifest["lineage"].values() for column in columns}
