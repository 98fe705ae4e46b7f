"""Small real tables from scikit-learn, as column-major float32 matrices."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from gpupipe.backends.cpu.backend import CpuBackend
from gpupipe.models import FitContext


@dataclass(frozen=True)
class Data:
    """Training and test rows of one task."""

    X: Any
    y: Any
    X_test: Any
    y_test: Any
    context: FitContext


@pytest.fixture(scope="session")
def backend() -> CpuBackend:
    return CpuBackend()


@pytest.fixture(scope="session")
def tables(backend: CpuBackend) -> dict[str, Data]:
    """One table for each task: breast cancer, wine, diabetes; wine without its target for the others."""
    from sklearn.datasets import load_breast_cancer, load_diabetes, load_wine

    sources = {
        "binary": load_breast_cancer(),
        "multiclass": load_wine(),
        "regression": load_diabetes(),
        "quantile": load_diabetes(),
        "ranking": load_diabetes(),
        "clustering": load_wine(),
        "embedding": load_wine(),
    }
    return {task: _data(task, source, backend) for task, source in sources.items()}


def _data(task: str, source: Any, backend: CpuBackend) -> Data:
    rows = np.random.default_rng(1).permutation(len(source.data))
    X = source.data[rows]
    X = np.asfortranarray((X - X.mean(axis=0)) / X.std(axis=0), dtype=np.float32)
    y = source.target[rows].astype(np.float64)
    half = len(X) * 2 // 3
    groups = None
    if task == "ranking":
        y, groups = np.digitize(y, np.quantile(y, [0.5, 0.8])).astype(np.float64), np.arange(half) % 20
    names = [name.replace(" ", "_") for name in source.feature_names]
    n_classes = {"binary": 2, "multiclass": 3}.get(task, 0)
    quantiles = (0.1, 0.5, 0.8) if task == "quantile" else ()
    context = FitContext(backend, task, 7, n_classes, {}, names, groups=groups, quantiles=quantiles)  # type: ignore[arg-type]
    first, rest = np.asfortranarray(X[:half]), np.asfortranarray(X[half:])
    if task in ("clustering", "embedding"):
        return Data(first, None, rest, None, context)
    return Data(first, y[:half], rest, y[half:], context)
