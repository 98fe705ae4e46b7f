"""Memory costs of the steps of a run: the measured constants of `gpupipe.pipeline.plan.run_plan`.

Measured on 2026-11-21 on a Linux machine (glibc) with 2 threads, Python 3.11, NumPy 2.4, Arrow 26, scikit-learn 1.9,
XGBoost 3.2 and PyTorch 2.13: each figure in a process of its own, as the rise of VmHWM after it had been reset.

- Reading: the churn table as Parquet and as CSV, 200 thousand to a million rows.
- Training: matrices of 100 to 400 thousand rows by 30 and 60 columns (neighbours: 20 thousand), after a training on
  2,000 rows that had loaded the libraries.
- Networks: 40 to 400 thousand rows by 30 and 60 columns, none, some or all of them categories, batches of 1,024 to
  16,384 rows.

`tests/pipeline/test_plan.py` compares what they predict with the peak of a real process.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gpupipe.features.statistics.row_blocks import ROWS_PER_BLOCK
from gpupipe.models.neural.architecture import Architecture
from gpupipe.units import MIB

BASE = 146 * MIB  # Python, gpupipe, NumPy and Arrow, when the first byte is read
LIBRARIES = 147 * MIB  # scikit-learn with SciPy and pandas, when the first model is trained
DEVICE_LIBRARIES = 620 * MIB  # cuDF, CuPy, cuML 26.10 on the host, imported without a GPU; their work is not counted
REPORT = 45 * MIB  # the drawing libraries

# Reading holds the file, which is mapped, the Arrow table so many times, the encoded table, and this much beside.
READ_BESIDE = 30 * MIB
READ_FACTOR = {"csv": 4.0, "jsonl": 4.0}
READ_FACTOR_BINARY = 1.1  # Parquet; ORC, Arrow files and the generators are taken to be alike
TEXT_FACTOR = 6.0  # of a column of texts, most of them unlike all others: levels are made, cleaned and given up
JSON_PART = 27  # of a part of JSON lines on a device, by the shapes of what is made of its bytes; without cuDF's own
CSV_COMPACT = 9 / 8  # of the Arrow table: what a device keeps of the chunks of CSV, a number being 8 bytes and a flag
DRAWN_ROW = 300  # of a block of customers that a device generates, by its shapes: what is drawn for all their columns

# Derived columns: the sources stay in memory as they were read, and keys are sorted; four columns of one key took so
# much of each row.
DERIVED_ROW = 300
# On a device by their shapes, not measured: an event sorted, its column as sums, a tree and a table of hashes; a part
# of a key of a row, as it was read; and a cell that was derived, alone and in the table.
DERIVED_EVENT, DERIVED_KEY, DERIVED_CELL = 160, 16, 8
EVALUATE_ROW = 76  # codes of target and answer, sorted scores, and what is counted along them
EVALUATE_CLASS = 16  # of a row too, for each class beyond the second

TORCH = 262 * MIB  # PyTorch with its optimizers, for the CPU, when the first network is trained
EXPORT_NETWORK = 98 * MIB  # the packages of ONNX, and the translation
EXPORT_FACTOR = 2.3  # of a forest: its trees are copied, and packed in memory

DEVICE_CONTEXT = 512 * MIB  # an allowance for what the driver and the libraries keep on the device; not measured

PARTITION_ROWS = 2 * ROWS_PER_BLOCK  # about those of a partition on the disk
PASS_CELL, PASS_ROW = 4, 16  # of a linear model that passes over partitions: one of them, and targets as codes

PREDICT_CELL = 8  # a block of float64 rows
PREDICT_ROWS = 131_072


@dataclass(frozen=True)
class TrainingCosts:
    """What training takes beside the matrix.

    Attributes
    ----------
    cell, row : float
        Bytes for each cell of the matrix and for each row.
    tree_row : float
        For each row and tree.
    """

    cell: float
    row: float = 0.0
    tree_row: float = 0.0


TRAINING: dict[str, TrainingCosts] = {
    "LogisticRegression": TrainingCosts(16.0, 42.0),  # by newton-cholesky: two float64 matrices
    "LinearRegression": TrainingCosts(16.0, 15.0),
    "Ridge": TrainingCosts(8.0, 6.0),
    "Lasso": TrainingCosts(8.0, 13.0),
    "ElasticNet": TrainingCosts(8.0, 13.0),
    "HistGradientBoostingClassifier": TrainingCosts(10.9, 76.0),
    "HistGradientBoostingRegressor": TrainingCosts(10.9, 76.0),
    "XGBClassifier": TrainingCosts(6.5, 22.0),
    "XGBRegressor": TrainingCosts(6.5, 22.0),
    "RandomForestClassifier": TrainingCosts(4.0, 31.0, 27.0),  # trees grown to the end on a noisy target
    "RandomForestRegressor": TrainingCosts(4.0, 31.0, 27.0),
    "GaussianNB": TrainingCosts(4.0, 9.0),
    "LinearSVC": TrainingCosts(24.0, 160.0),
    "CalibratedClassifierCV": TrainingCosts(24.0, 160.0),
    "KNeighborsClassifier": TrainingCosts(4.0),
    "KNeighborsRegressor": TrainingCosts(4.0),
    "KMeans": TrainingCosts(8.0),
    "PCA": TrainingCosts(0.0),
    "OwnEstimator": TrainingCosts(12.0),  # not measured: the matrix by rows, and once more in float64
}
LBFGS = TrainingCosts(4.0, 20.0)  # logistic regression by another solver than Newton's; saga is alike
NETWORK_ROW = 32  # target, order, and which rows are held out
NETWORK_WEIGHT = 28  # a weight, its gradient, two moments, the best so far, its successor and what is made of it
NODE = 80  # bytes of a tree's node
DEEP = 40  # levels that no tree fills


def training_bytes(name: str, params: Mapping[str, Any], n_rows: int, n_columns: int) -> int:
    """Return the bytes that training takes on the host beside the matrix.

    Parameters
    ----------
    name : str
        Class name of scikit-learn or XGBoost.
    params : mapping
        The keyword arguments for it.
    n_rows, n_columns : int
        Shape of the matrix.
    """
    cost = TRAINING[name]
    if name == "LogisticRegression" and params.get("solver") != "newton-cholesky":
        cost = LBFGS
    return int(cost.cell * n_rows * n_columns + cost.row * n_rows) + model_bytes(name, params, n_rows)


def model_bytes(name: str, params: Mapping[str, Any], n_rows: int) -> int:
    """Return the bytes that a trained model keeps, where they grow with the rows: those of a forest."""
    tree, depth = TRAINING[name].tree_row * n_rows, params.get("max_depth")
    if depth is not None and depth < DEEP:
        tree = min(tree, float(NODE << (depth + 1)))
    return int(tree * float(params.get("n_estimators", 1)))


def network_bytes(architecture: Architecture, n_rows: int, batch: int) -> int:
    """Return the bytes that training a network takes beside the matrix, in one process.

    That is its rows once more, row by row, what a batch leaves for the way back through the network, and the weights
    with their gradients, their moments and the best of them.

    Parameters
    ----------
    architecture : Architecture
    n_rows : int
        Of the matrix: those to fit to, and those held out of them.
    batch : int
        Rows that go through the network at once.
    """
    a, tokens = architecture, architecture.n_tokens + 1
    embedded = 2.5 * a.n_numbers * a.n_bins + 4 * tokens * a.embedding_size
    if a.kind == "ft_transformer":  # of the last block one token alone goes on
        block = tokens * (10.0 * a.embedding_size + 6.0 * a.hidden) + 3.0 * a.heads * tokens**2
        body = (a.depth - 1) * block + 4.0 * tokens * a.embedding_size
    else:
        body = a.depth * (4.0 * a.width + 2.5 * a.hidden)
    weights = (a.n_numbers * a.n_bins + sum(a.cardinalities)) * a.embedding_size + tokens * a.embedding_size * a.width
    rows = n_rows * (4 * (a.n_tokens + len(a.cardinalities)) + NETWORK_ROW)
    return int(rows + 4 * batch * (embedded + body)) + NETWORK_WEIGHT * weights


def device_training_bytes(dtype: str, n_rows: int, n_columns: int) -> int:
    """Return the bytes that training takes on a device beside the float32 matrix, by shapes alone; not measured.

    A matrix in another dtype is a copy; one more is allowed for what the algorithm works on.
    """
    size = 8 if dtype == "float64" else 4
    return n_rows * n_columns * (2 * size if size == 8 else size)


def read_bytes(file_format: str, n_file: int, n_arrow: int, n_texts: int, n_encoded: int) -> int:
    """Return the peak of reading and encoding on the host.

    Parameters
    ----------
    file_format : str
        As in `gpupipe.io.formats.registry.FORMATS`; "" for a generator.
    n_file, n_arrow, n_texts, n_encoded : int
        Bytes of the files, of the table as Arrow holds it, of its columns of free text, and of the encoded table.
    """
    if file_format in READ_FACTOR:
        return int(max(n_file, n_encoded) + READ_FACTOR[file_format] * n_arrow)
    held = n_file + READ_FACTOR_BINARY * n_arrow + n_encoded + TEXT_FACTOR * n_texts
    return int(held) + READ_BESIDE
