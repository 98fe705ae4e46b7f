"""Tests of models in earlier formats, stored as fixtures: they load, give the recorded predictions and verify."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from gpupipe import load_model
from gpupipe.artifact import ArtifactReader
from gpupipe.cli import main

FORMAT_1 = Path(__file__).parent / "fixtures" / "format_1"
"""A logistic regression on one-hot levels, target means, and the orders of a further table, exported by gpupipe 0.1.0;
rows of its tables; and what 0.1.0 predicted for them."""


@pytest.mark.parametrize("untrusted", [False, True])
def test_a_model_of_format_1_gives_the_recorded_predictions(untrusted: bool) -> None:
    recorded = [float(line) for line in (FORMAT_1 / "predictions.csv").read_text().split()[1:]]
    model = load_model(FORMAT_1 / "model", untrusted=untrusted)
    found = model.predict_proba(str(FORMAT_1 / "customers.csv"), {"orders": str(FORMAT_1 / "orders.csv")})
    np.testing.assert_allclose(found[:, 1], recorded, rtol=1e-12)


def test_a_model_of_format_1_verifies() -> None:
    assert ArtifactReader(FORMAT_1 / "model").manifest["format_version"] == 1
    assert main(["verify", str(FORMAT_1 / "model"), "--device", "cpu"]) == 0
