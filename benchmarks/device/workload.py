"""Workload of the end-to-end comparison, and the report of an implementation.

20 columns of generated customers are read from a folder of Parquet files and turned into 23 float32 columns: 6 numbers,
median-imputed and scaled, 2 of them after a logarithm; 12 categories as codes; the out-of-fold churn rate of the city;
cyclic hour and weekday. XGBoost is trained on 80 % of the rows and evaluated on the other 20 %. All statistics come
from the training rows.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

from benchmarks.churn import CITY, FOLDS, NUMBERS, PERIODS, SKEWED, SMOOTHING, TARGET, TEST_SHARE, TIME
from gpupipe.bench.clock import StageClock

CATEGORIES = (
    "gender", "Partner", "Dependents", "PaperlessBilling", "MultipleLines", "InternetService", "OnlineSecurity",
    "TechSupport", "StreamingTV", "Contract", "PaymentMethod", "Region",
)  # fmt: skip
COLUMNS = (*NUMBERS, *CATEGORIES, CITY, TIME)
N_FEATURES = len(NUMBERS) + len(CATEGORIES) + 1 + 4
N_TREES = 100
BOOSTING = {"objective": "binary:logistic", "max_depth": 6, "learning_rate": 0.1, "tree_method": "hist"}
FEATURE_TYPES = ["q"] * (N_FEATURES - len(CATEGORIES)) + ["c"] * len(CATEGORIES)  # numbers before categories
FILE_ROWS = 4_000_000

XGBOOST = f"xgboost: {{defaults: library, n_estimators: {N_TREES}, max_depth: 6, learning_rate: 0.1}}"
CONFIG = f"""\
name: churn_on_a_gpu
source:
  {{source}}
  columns: [{", ".join((*COLUMNS, TARGET))}]
  target: {TARGET}
  positive: "Yes"
  cache: false
split: {{{{test_size: {TEST_SHARE}, stratify: true}}}}
features:
  - impute: {{{{columns: [{", ".join(NUMBERS)}], strategy: median}}}}
  - log1p: [{", ".join(SKEWED)}]
  - standardize: [{", ".join(NUMBERS)}]
  - target_encode: {{{{columns: [{CITY}], folds: {FOLDS}, smoothing: {SMOOTHING:.0f}}}}}
  - cyclic: {{{{columns: [{TIME}], parts: [{", ".join(PERIODS)}]}}}}
  - encode: [{", ".join(CATEGORIES)}]
models:
  - {{model}}
evaluate: {{{{metrics: [roc_auc]}}}}
report: {{{{enabled: false}}}}
"""


def write_config(folder: Path, source: str, model: str = XGBOOST) -> Path:
    """Write gpupipe's configuration of the workload for a `source` and a `model`, and return its path."""
    path = folder / "churn_on_a_gpu.yaml"
    path.write_text(CONFIG.format(source=source, model=model), encoding="utf8")
    return path


def read_source(data: Path) -> str:
    """Return the part of a configuration that reads the files in `data`."""
    return f'path: "{data}/*.parquet"'


def generated_source(n_rows: int) -> str:
    """Return the part of a configuration that generates `n_rows` customers."""
    return f"generate: churn\n  rows: {n_rows}"


def write_data(folder: Path, n_rows: int, n_processes: int) -> None:
    """Write `n_rows` customers as Parquet files of up to `FILE_ROWS` rows each, several at a time."""
    folder.mkdir(parents=True, exist_ok=True)
    starts = range(0, n_rows, FILE_ROWS)
    jobs = [(str(folder / f"{i:04d}.parquet"), start, min(FILE_ROWS, n_rows - start)) for i, start in enumerate(starts)]
    # Spawned, because the caller may use a device, whose context does not survive a fork.
    with ProcessPoolExecutor(min(n_processes, len(jobs)), get_context("spawn")) as pool:
        list(pool.map(_write_file, jobs))


def _write_file(job: tuple[str, int, int]) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    from gpupipe.datasets.churn import customer_batches

    path, start, n_rows = job
    columns = [*COLUMNS, TARGET]
    plain = {TIME: pa.timestamp("us")} | dict.fromkeys((*CATEGORIES, CITY, TARGET), pa.string())
    writer = None
    for batch in customer_batches(n_rows, columns=columns, start=start):
        table = pa.Table.from_batches([batch])
        schema = pa.schema([(field.name, plain.get(field.name, field.type)) for field in table.schema])
        writer = writer or pq.ParquetWriter(path, schema)
        writer.write_table(table.cast(schema))
    if writer is not None:
        writer.close()


RunWorkload = Callable[[list[str], StageClock, argparse.Namespace], float]


def report(run: RunWorkload) -> None:
    """Call `run` as often as the command line requests, and write ``{"samples": [...]}`` after each call.

    Parameters
    ----------
    run : callable
        ``(files, clock, options) -> ROC-AUC of the test rows``.
    """
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=Path, help="folder of Parquet or CSV files")
    parser.add_argument("--rows", type=int, help="rows to generate, if no files are read")
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--json", type=Path, required=True)
    options = parser.parse_args()
    files = sorted(map(str, options.data.iterdir())) if options.data else []
    samples = []
    for _ in range(options.repeat):
        clock = StageClock()
        auc = run(files, clock, options)
        samples.append({"stages_s": clock.wall, "total_s": sum(clock.wall.values()), "auc": auc})
        options.json.write_text(json.dumps({"samples": samples}), encoding="utf8")
