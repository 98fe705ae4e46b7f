"""The prediction of a row has the same bits in batches of any size, whatever kernels BLAS uses."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

from gpupipe.models.fitted import row_blocks
from gpupipe_kernels.rows import column_sums
from tests.models.fitted.rows.batch_sweep import sweep

ROOT = Path(__file__).parents[4]
# Kernels with which neighbors, PCA and linear SVC differed, while their sums were those of BLAS.
KERNELS = {"aarch64": "NEOVERSEN1"}.get(platform.machine(), "Haswell")


def test_every_model_predicts_a_row_the_same_in_batches_of_any_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_blocks, "MIN_BLOCK_ROWS", 300)  # so that the batches span several blocks
    monkeypatch.setattr(column_sums, "BLOCK_ROWS", 200)
    found = sweep()
    assert found["differences"] == {}
    assert len(found["models"]) > 40


def test_so_they_do_with_other_kernels_of_blas() -> None:
    command = [sys.executable, "-W", "ignore", "-m", "tests.models.fitted.rows.batch_sweep"]
    child = subprocess.run(
        command, cwd=ROOT, env={**os.environ, "OPENBLAS_CORETYPE": KERNELS}, capture_output=True, text=True, check=True
    )
    found = json.loads(child.stdout)
    if KERNELS.lower() not in map(str.lower, found["kernels"]):
        pytest.skip(f"BLAS has no kernels for {KERNELS}, or this processor cannot run them: {found['kernels']}")
    assert found["differences"] == {}
