"""Versions of the libraries that results may depend on."""

from __future__ import annotations

from functools import cache
from importlib.metadata import PackageNotFoundError, version

LIBRARIES = (
    "numpy", "pandas", "pyarrow", "scikit-learn", "xgboost", "xgboost-cpu", "lightgbm", "catboost",
    "torch", "safetensors", "onnx", "onnxruntime",
    "cudf-cu12", "cudf-cu13", "cuml-cu12", "cuml-cu13", "cupy-cuda12x", "cupy-cuda13x", "xgboost-cu12", "xgboost-cu13",
)  # fmt: skip


def libraries() -> dict[str, str]:
    """Return the versions of the installed libraries that affect a model, by name."""
    return dict(_versions())


@cache  # each version is parsed from a file, and a run asks five times
def _versions() -> tuple[tuple[str, str], ...]:
    """Return name and version of each installed library of `LIBRARIES`."""
    found = []
    for name in LIBRARIES:
        try:
            found.append((name, version(name)))
        except PackageNotFoundError:
            continue
    return tuple(found)
