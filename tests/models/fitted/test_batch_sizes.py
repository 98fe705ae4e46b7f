"""The prediction of a row has the same bits in batches of any size, whatever kernels BLAS uses."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from gpupipe.models.fitted import row_blocks
from gpupipe.models.scikit_learn.fitted import FittedSklearn
from gpupipe_kernels.rows import column_sums
from tests.models.fitted.batch_sweep import LAYOUTS, SIZES, sweep, table

ROOT = Path(__file__).parents[3]
# Kernels with which neighbors, PCA and linear SVC differed, while their sums were those of BLAS.
KERNELS = {"aarch64": "NEOVERSEN1"}.get(platform.machine(), "Haswell")


def test_every_model_predicts_a_row_the_same_in_batches_of_any_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_blocks, "MIN_BLOCK_ROWS", 300)  # so that the batches span several blocks
    monkeypatch.setattr(column_sums, "BLOCK_ROWS", 200)
    found = sweep()
    assert found["differences"] == {}
    assert len(found["models"]) > 40


@pytest.mark.nightly
def test_so_they_do_with_other_kernels_of_blas() -> None:
    command = [sys.executable, "-W", "ignore", "-m", "tests.models.fitted.batch_sweep"]
    child = subprocess.run(
        command, cwd=ROOT, env={**os.environ, "OPENBLAS_CORETYPE": KERNELS}, capture_output=True, text=True, check=True
    )
    found = json.loads(child.stdout)
    if KERNELS.lower() not in map(str.lower, found["kernels"]):
        pytest.skip(f"BLAS has no kernels for {KERNELS}, or this processor cannot run them: {found['kernels']}")
    assert found["differences"] == {}


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_row_of_an_estimator_of_a_user_is_the_same_up_to_rounding() -> None:
    """Its own code calls BLAS."""
    X, y, _ = table("binary")
    scaled = make_pipeline(StandardScaler(), MLPClassifier((16,), max_iter=5, random_state=0))
    model = FittedSklearn(scaled.fit(X, y), "binary", (), 2, (0, 1))
    expected = model.predict(X).output
    for size, (start, _) in product(SIZES, LAYOUTS):
        rows = X[start : start + size]
        for predict in (model.predict, model.row_estimator("numpy")):
            np.testing.assert_allclose(predict(rows).output, expected[start : start + size], atol=2e-6)
