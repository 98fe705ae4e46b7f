"""Memory of the driver for training on partitions; the plan of a run uses it too."""

from __future__ import annotations

WITH_COPIES = 3.0  # scikit-learn's solvers hold a float64 copy of the float32 matrix
SHARE = 0.8  # fraction of free memory
# XGBoost with one partition at a time, measured with XGBoost 3.2 and 2 threads.
BINS_CELL = 6.2  # bins, by rows and by columns
BINS_ROW = 48  # labels, nodes of rows, and the gradients and score of one margin; the total if bins are in files
BINS_MARGIN = 13  # gradients and score of each further margin


def gathered_bytes(n_rows: int, n_columns: int) -> int:
    """Return the memory of a matrix in the driver, with the copies that training makes of it."""
    return int(4 * n_rows * n_columns * WITH_COPIES)


def binned_bytes(n_rows: int, n_columns: int, n_margins: int, available: int) -> tuple[int, bool]:
    """Return the memory of XGBoost with one partition at a time, and whether it keeps bins in files.

    `n_margins` is the number of sums of trees, one for each of more than two classes, and `available` the free memory
    in bytes.
    """
    rows, bins = (BINS_ROW + BINS_MARGIN * (n_margins - 1)) * n_rows, int(BINS_CELL * n_rows * n_columns)
    in_files = rows + bins > SHARE * available
    return (rows if in_files else rows + bins), in_files
