"""Tests of models in earlier formats, stored as fixtures: they load, give the recorded predictions and verify."""

from __future__ import annotations

import tarfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from gpupipe import load_model
from gpupipe.artifact import ArtifactReader
from gpupipe.cli import main

FORMAT_1 = Path(__file__).parent / "fixtures" / "format_1"
"""A logistic regression on one-hot levels, target means, and the orders of a further table, exported by gpupipe 0.1.0;
rows of its tables; and what 0.1.0 predicted for them."""
OLD_MODELS = Path(__file__).parents[1] / "old_models"
"""Models of earlier commits by `tools.old_models`: an archive for each commit, and the rows that they predicted."""
WITHOUT_RECORDED_ROWS = "b770d198"
"""The commit whose models have none."""
WITHOUT_NULL_COORDINATES = ("9ff24baa", "f7f75e1f")
"""Commits with a distance and a bearing for latitudes such as 16,777,217, which are null today."""


@pytest.mark.parametrize("untrusted", [False, True])
def test_a_model_of_format_1_gives_the_recorded_predictions(untrusted: bool) -> None:
    recorded = [float(line) for line in (FORMAT_1 / "predictions.csv").read_text().split()[1:]]
    model = load_model(FORMAT_1 / "model", untrusted=untrusted)
    found = model.predict_proba(str(FORMAT_1 / "customers.csv"), {"orders": str(FORMAT_1 / "orders.csv")})
    np.testing.assert_allclose(found[:, 1], recorded, rtol=1e-12)


def test_a_model_of_format_1_verifies() -> None:
    assert ArtifactReader(FORMAT_1 / "model").manifest["format_version"] == 1
    assert main(["verify", str(FORMAT_1 / "model"), "--device", "cpu"]) == 0


@pytest.mark.parametrize("archive", sorted(OLD_MODELS.glob("*.tar.xz")), ids=lambda path: path.name.partition(".")[0])
def test_models_of_earlier_commits_verify_and_give_the_recorded_predictions(
    archive: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with tarfile.open(archive) as packed:
        packed.extractall(tmp_path, filter="data")
    for folder in sorted(tmp_path.iterdir()):
        model, scores = str(folder / "model"), folder / "scores.csv"
        tables = load_model(model).manifest["reading"]["events"]["tables"]
        sales = ["--table", f"sales={OLD_MODELS / 'sales.csv'}"] if tables else []
        assert main(["predict", model, str(OLD_MODELS / "rows.csv"), *sales, "-o", str(scores)]) == 0, folder.name
        pd.testing.assert_frame_equal(
            pd.read_csv(scores), pd.read_csv(folder / "predictions.csv"), rtol=1e-5, obj=folder.name
        )
        code = main(["verify", model, "--device", "cpu"])
        found = capsys.readouterr()
        if archive.name.startswith(WITHOUT_RECORDED_ROWS):
            assert code == 5 and "run its configuration again with this version of gpupipe" in found.err
        elif folder.name == "ops" and archive.name.startswith(WITHOUT_NULL_COORDINATES):
            differing = {line.split()[2] for line in found.out.splitlines() if line.startswith("DIFFERS")}
            assert code == 5 and differing <= {"distance_km:", "bearing:"}
        else:
            assert code == 0, f"{folder.name}: {found.err}"
