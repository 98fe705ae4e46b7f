"""Measured memory costs of the steps of a run, for `gpupipe.plan.run_plan`.

Measured in November 2026 on a Linux machine (glibc) with 2 threads, Python 3.11, NumPy 2.4, Arrow 26, scikit-learn
1.9, XGBoost 3.2, LightGBM 4.7, CatBoost 1.2.10 and PyTorch 2.13: each figure in a separate process, as the increase of
VmHWM after a reset.

- Reading: the churn table as Parquet and as CSV, 200 thousand to a million rows.
- Training: matrices of 100 to 400 thousand rows by 30 and 60 columns (neighbours: 20 thousand), after a training on
  2,000 rows that loaded the libraries.
- Networks: 40 to 400 thousand rows by 30 and 60 columns, of which none, some or all are categories, batches of 1,024
  to 16,384 rows.

`tests/pipeline/test_plan.py` compares the predictions with the peak memory of a real process.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gpupipe.features.statistics.row_blocks import ROWS_PER_BLOCK
from gpupipe.models.linear.passes import BLOCK_ROWS
from gpupipe.models.neural.architecture import Architecture
from gpupipe.models.scikit_learn.column_bins import BLOCK_BYTES
from gpupipe.units import MIB

BASE = 145 * MIB  # Python, gpupipe, NumPy and Arrow with its readers
LIBRARIES = 115 * MIB  # scikit-learn with SciPy and pandas, and a library of trees; few linear models need it
COMPILED = 115 * MIB  # Numba with LLVM, which compiles the explanations of trees in the report
DEVICE_LIBRARIES = 620 * MIB  # host memory of cuDF, CuPy and cuML 26.10 after import without a GPU
EXPORT = 35 * MIB  # what exports the model
REPORT = 15 * MIB  # what draws the report
FREED = 64 * MIB  # most freed memory that the C library keeps after a stage

# Reading needs the mapped file, a multiple of the Arrow table, the encoded table, and this constant.
READ_BESIDE = 45 * MIB
READ_FACTOR = {"csv": 4.0, "jsonl": 4.0}
READ_FACTOR_BINARY = 1.1  # Parquet; assumed for ORC, Arrow files and generators too
TEXT_FACTOR = 6.0  # of a text column with mostly distinct values: its levels are built, cleaned and discarded

# Bytes per row for derived columns, measured for four columns of one key: raw sources in memory, and sorted keys.
DERIVED_ROW = 300
# On a device, from array shapes and not measured: bytes per sorted event with its sums, tree and hash table; per raw
# key column and row; and per derived cell.
DERIVED_EVENT = 160
DERIVED_KEY = 16
DERIVED_CELL = 8
EVALUATE_ROW = 76  # bytes per row: codes of target and prediction, sorted scores, and counts
EVALUATE_CLASS = 16  # bytes per row for each class after the second

TORCH = 262 * MIB  # PyTorch for the CPU with its optimizers, loaded for the first network
EXPORT_NETWORK = 60 * MIB  # the ONNX packages, and the graph
EXPORT_FACTOR = 2.3  # of a forest: its trees are copied and packed in memory

DEVICE_CONTEXT = 512 * MIB  # allowance for the driver and libraries on the device; not measured

PARTITION_ROWS = 2 * ROWS_PER_BLOCK  # approximate rows of a partition on disk
# A linear model fitted in passes: float64 blocks and squares of the weights that a thread holds; in a partition, bytes
# of cells and of targets.
PASS_BLOCKS, PASS_SQUARES = 5, 3
PASS_CELL, PASS_ROW = 4, 16

PREDICT_CELL = 8  # bytes per cell of a float64 block
PREDICT_ROWS = 131_072


@dataclass(frozen=True)
class TrainingCosts:
    """Memory of training in addition to the matrix.

    `cell` and `row` are bytes per cell of the matrix, and per row; `block` is the most bytes of float64 copies of some
    columns; `margin` is bytes per row for each output after the first; `is_forest`: its trees grow with the rows.
    """

    cell: float
    row: float = 0.0
    block: int = 0
    margin: float = 0.0
    is_forest: bool = False


TRAINING: dict[str, TrainingCosts] = {
    "LogisticRegression": TrainingCosts(4.0, 20.0),  # lbfgs; saga is similar; newton-cholesky: `pass_bytes`
    "Ridge": TrainingCosts(8.0, 6.0),  # sag and saga; the other solvers: `pass_bytes`
    "LinearRegression": TrainingCosts(0.0),  # always in passes, as the next two
    "Lasso": TrainingCosts(0.0),
    "ElasticNet": TrainingCosts(0.0),
    "HistGradientBoostingClassifier": TrainingCosts(3.0, 76.0, block=2 * BLOCK_BYTES, margin=15.0),
    "HistGradientBoostingRegressor": TrainingCosts(3.0, 76.0, block=2 * BLOCK_BYTES),
    "XGBClassifier": TrainingCosts(6.5, 22.0, margin=13.0),
    "XGBRanker": TrainingCosts(10.5, 22.0),  # with a copy in the order of the groups
    "XGBRegressor": TrainingCosts(6.5, 22.0),
    "CatBoostClassifier": TrainingCosts(5.5, 190.0, margin=74.0),
    "CatBoostRegressor": TrainingCosts(5.5, 190.0),
    "LGBMClassifier": TrainingCosts(6.5, 24.0, margin=17.0),
    "LGBMRanker": TrainingCosts(10.5, 24.0),
    "LGBMRegressor": TrainingCosts(6.5, 24.0),
    "RandomForestClassifier": TrainingCosts(4.0, 31.0, is_forest=True),
    "RandomForestRegressor": TrainingCosts(4.0, 31.0, is_forest=True),
    "ExtraTreesClassifier": TrainingCosts(4.0, 31.0, is_forest=True),  # not measured: as a random forest
    "ExtraTreesRegressor": TrainingCosts(4.0, 31.0, is_forest=True),
    "GaussianNB": TrainingCosts(4.0, 9.0),
    "LinearSVC": TrainingCosts(24.0, 160.0),
    "CalibratedClassifierCV": TrainingCosts(24.0, 160.0),
    "KNeighborsClassifier": TrainingCosts(4.0),
    "KNeighborsRegressor": TrainingCosts(4.0),
    "KMeans": TrainingCosts(8.0),
    "PCA": TrainingCosts(0.0),
    "OwnEstimator": TrainingCosts(12.0),  # not measured: a row-major copy and a float64 copy of the matrix
    "PluginEstimator": TrainingCosts(12.0),  # as above
}
CATEGORY = {"CatBoost": 120}  # bytes per row and categorical column, by the beginning of the class name
NETWORK_ROW = 32  # bytes per row: target, order, and mask of held-out rows
NETWORK_WEIGHT = 28  # bytes per weight: value, gradient, two moments, best so far, update and temporary
# A tree of a forest, fully grown on a noisy target: bytes of a node, and of each number that it predicts. Rows of one
# class share leaves: measured with 2 to 50 classes.
NODE, NODE_VALUE = 64, 8
CLASS_NODES = 1.1
DIFFERENT_ROWS = 0.632  # share of the rows in a sample with replacement
DEEP = 40  # depth that is never full


def training_bytes(name: str, params: Mapping[str, Any], n_rows: int, n_columns: int, n_margins: int) -> int:
    """Return the bytes that training needs on the host in addition to the matrix.

    `name` is a class name in scikit-learn or XGBoost, and `params` its keyword arguments. `n_rows` and `n_columns` are
    the shape of the matrix, and `n_margins` outputs are learned together.
    """
    cost, n_cells = TRAINING[name], n_rows * n_columns
    row = cost.row + cost.margin * (n_margins - 1)
    own = int(cost.cell * n_cells + row * n_rows + min(16 * n_cells, cost.block))
    return own + model_bytes(name, params, n_rows, n_margins)


def pass_bytes(n_rows: int, n_columns: int, n_outputs: int, n_threads: int) -> int:
    """Return the bytes that a linear model needs that is trained in passes over blocks of rows."""
    block = 8 * min(n_rows, BLOCK_ROWS) * (n_columns + 1)
    square = 8 * (n_outputs * (n_columns + 1)) ** 2
    return n_threads * (PASS_BLOCKS * block + PASS_SQUARES * square)


def model_bytes(name: str, params: Mapping[str, Any], n_rows: int, n_margins: int) -> int:
    """Return the bytes of a trained model that grow with the rows: those of a forest."""
    if not TRAINING[name].is_forest:
        return 0
    n_values = 1 if name.endswith("Regressor") else max(2, n_margins)
    different = n_rows * (DIFFERENT_ROWS if params.get("bootstrap", name.startswith("Random")) else 1.0)
    leaf, depth = params.get("min_samples_leaf", 1), params.get("max_depth")
    smallest = leaf * n_rows if isinstance(leaf, float) else leaf
    nodes = 2.0 * different * min(1.0 / smallest, 1.0 if n_values == 1 else CLASS_NODES * (1.0 - n_values**-0.5))
    if depth is not None and depth < DEEP:
        nodes = min(nodes, float(2 << depth))
    if (n_leaves := params.get("max_leaf_nodes")) is not None:
        nodes = min(nodes, 2.0 * n_leaves)
    return int(nodes * (NODE + NODE_VALUE * n_values) * float(params.get("n_estimators", 1)))


def network_bytes(architecture: Architecture, n_rows: int, batch: int) -> int:
    """Return the bytes that training a network needs in addition to the matrix, in one process.

    They are a row-major copy of its rows, the activations of a batch for backpropagation, and the weights with
    gradients, moments and the best copy. `n_rows` includes rows held out; `batch` is the number of rows per batch.
    """
    a, tokens = architecture, architecture.n_tokens + 1
    embedded = 2.5 * a.n_numbers * a.encoding_size + 4 * tokens * a.embedding_size
    if a.kind == "ft_transformer":  # the last block computes one token only
        block = tokens * (10.0 * a.embedding_size + 6.0 * a.hidden) + 3.0 * a.heads * tokens**2
        body = (a.depth - 1) * block + 4.0 * tokens * a.embedding_size
    else:
        inputs = 2.0 * tokens * a.embedding_size if a.members > 1 else 0.0
        body = a.members * (a.depth * (4.0 * a.width + 2.5 * a.hidden) + inputs)
    weights = (
        a.n_numbers * a.encoding_size + sum(a.cardinalities)
    ) * a.embedding_size + tokens * a.embedding_size * a.width
    rows = n_rows * (4 * (a.n_tokens + len(a.cardinalities)) + NETWORK_ROW)
    return int(rows + 4 * batch * (embedded + body)) + NETWORK_WEIGHT * weights


def device_training_bytes(dtype: str, n_rows: int, n_columns: int) -> int:
    """Return the bytes that training needs on a device in addition to the float32 matrix, from shapes; not measured.

    A matrix in another dtype is a copy; one further copy is allowed for the algorithm.
    """
    size = 8 if dtype == "float64" else 4
    return n_rows * n_columns * (2 * size if size == 8 else size)


def read_bytes(file_format: str, n_file: int, n_arrow: int, n_texts: int, n_encoded: int) -> int:
    """Return the peak bytes of reading and encoding on the host.

    `file_format` is a key of `gpupipe.io.file_formats.FORMATS`; "" for a generator. `n_file`, `n_arrow`, `n_texts`
    and `n_encoded` are bytes of the files, of the Arrow table, of its text columns, and of the encoded table.
    """
    if file_format in READ_FACTOR:
        return int(max(n_file, n_encoded) + READ_FACTOR[file_format] * n_arrow)
    held = n_file + READ_FACTOR_BINARY * n_arrow + n_encoded + TEXT_FACTOR * n_texts
    return int(held) + READ_BESIDE
