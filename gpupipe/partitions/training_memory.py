"""Memory of the driver for training on partitions; the plan of a run uses it too."""

from __future__ import annotations

WITH_COPIES = 3.0  # scikit-learn's solvers hold the matrix in float64 beside the float32 one
SHARE = 0.8  # of the memory that is free
# Of XGBoost that is shown one partition at a time, measured with XGBoost 3.2, 2 threads.
BINS_CELL = 6.2  # bins, by rows and by columns
BINS_ROW = 64  # gradients, scores, labels, the node that a row is in; all there is where bins are in files


def gathered_bytes(n_rows: int, n_columns: int) -> int:
    """Return the memory of a matrix in the driver, with the copies that training makes of it."""
    return int(4 * n_rows * n_columns * WITH_COPIES)


def binned_bytes(n_rows: int, n_columns: int, available: int) -> tuple[int, bool]:
    """Return what XGBoost takes that is shown one partition at a time, and whether it keeps its bins in files.

    Parameters
    ----------
    n_rows, n_columns : int
    available : int
        Bytes of memory that are free.
    """
    rows, bins = BINS_ROW * n_rows, int(BINS_CELL * n_rows * n_columns)
    in_files = rows + bins > SHARE * available
    return (rows if in_files else rows + bins), in_files
