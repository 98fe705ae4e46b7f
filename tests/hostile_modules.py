"""Modules in a working directory that gpupipe's processes must not import."""

from __future__ import annotations

from pathlib import Path

NAMES = (
    "dask", "distributed", "gpupipe", "gpupipe_kernels", "joblib", "json", "multiprocessing", "numba", "numpy",
    "pandas", "pyarrow", "sklearn", "socket", "torch", "xgboost",
)  # fmt: skip


def write_hostile_modules(folder: Path) -> None:
    """Write modules that note in `folder` that they were imported, and fail."""
    for name in NAMES:
        note = folder / f"{name}.imported"
        (folder / f"{name}.py").write_text(f"open({str(note)!r}, 'w').close()\nraise ImportError('hostile')\n")


def imported_modules(folder: Path) -> list[str]:
    """Return which of them were imported."""
    return sorted(path.stem for path in folder.glob("*.imported"))
