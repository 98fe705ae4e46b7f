"""Memory that a search needs next to the matrix of its training rows."""

from __future__ import annotations

from gpupipe.config import ModelEntry
from gpupipe.units import format_duration

MATRIX_CELL = 4  # float32
BINNED_CELL = 1  # a bin of XGBoost
SLICES_SHARE = 4  # the rows of all folds are kept if they need at most a quarter of the free memory


def keeps_slices(matrix_bytes: int, n_folds: int, free_bytes: int) -> bool:
    """Return whether the rows of all folds stay in memory; otherwise each training copies its own."""
    return matrix_bytes * n_folds * SLICES_SHARE <= free_bytes


def tuning_bytes(entry: ModelEntry, n_rows: int, n_columns: int, free_bytes: int) -> int:
    """Return the bytes of the folds of a search; 0 without ``tune``. XGBoost's are bins, those of others numbers."""
    if entry.tune is None:
        return 0
    n_folds, matrix = entry.tune.folds, MATRIX_CELL * n_rows * n_columns
    if entry.name == "xgboost":
        return matrix + BINNED_CELL * n_folds * n_rows * n_columns
    return matrix * n_folds if keeps_slices(matrix, n_folds, free_bytes) else matrix


def tuning_notes(entry: ModelEntry) -> list[str]:
    """Return the note of a plan about the search of an entry; none without ``tune``."""
    if entry.tune is None:
        return []
    n_trials = entry.tune.trials
    n_folds = entry.tune.folds
    limit = entry.tune.time_limit
    within = f" within {format_duration(limit)}" if limit is not None else ""
    return [
        f"tune: at most {n_trials} trials × {n_folds} folds = {n_trials * n_folds} trainings{within}, then the model"
    ]
