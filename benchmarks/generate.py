"""Comparison of `generate` with the feature generators of AutoGluon on the same synthetic table.

    python -m benchmarks.generate [--rows N] [--repeat N] [--autogluon PYTHON] [--json FILE]

The table has 12 numbers and 8 categories; the target depends on two ratios, and on a combination of two categories.
gpupipe tries up to 2,000 formulas and 500 encoded combinations of two columns, and computes the matrix of all rows.
AutoGluon's side is `ArithmeticFeatureGenerator` with 2,000 features, and `CategoricalInteractionFeatureGenerator` with
500 followed by `OOFTargetEncodingFeatureGenerator`. It needs an interpreter in which autogluon.features is installed;
both sides run in separate processes, one after the other, on the same cores. Seconds exclude imports and the making of
the table, and are medians.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter
from typing import Any

N_NUMBERS, N_CATEGORIES = 12, 8
N_ARITHMETIC = 2000
N_CROSSES = 500
ORDER = 2

# Run by the other interpreter, in which gpupipe is not installed.
AUTOGLUON = """
import json, sys
from time import perf_counter
import pandas as pd
from autogluon.features.generators.arithmetic.preprocessor import ArithmeticFeatureGenerator
from autogluon.features.generators.cat_int import CategoricalInteractionFeatureGenerator
from autogluon.features.generators.oof_target_encoder import OOFTargetEncodingFeatureGenerator

path, n_arithmetic, n_crosses, order, repeat = sys.argv[1], *map(int, sys.argv[2:])
frame = pd.read_parquet(path)
y = frame.pop("y")
for name in frame.columns[frame.dtypes == object]:
    frame[name] = frame[name].astype("category")
numbers, categories = frame.select_dtypes("number"), frame.select_dtypes("category")
runs = []
for _ in range(repeat):
    start = perf_counter()
    made = ArithmeticFeatureGenerator(max_new_feats=n_arithmetic, max_order=order).fit_transform(numbers, y)
    middle = perf_counter()
    crossed = CategoricalInteractionFeatureGenerator(max_new_feats=n_crosses, max_order=order).fit_transform(
        categories, y
    )
    encoder = OOFTargetEncodingFeatureGenerator(target_type="binary")
    encoded = encoder.fit_transform(crossed, y)
    runs.append({"arithmetic_s": middle - start, "crosses_s": perf_counter() - middle,
                 "arithmetic": made.shape[1], "crosses": encoded.shape[1]})
    del made, crossed, encoder, encoded  # gigabytes
print(json.dumps(runs))
"""


def make_table(n_rows: int, seed: int = 0) -> Any:
    """Return the table as pyarrow.Table, with the target `y` of two classes."""
    import numpy as np
    import pyarrow as pa

    rng = np.random.default_rng(seed)
    numbers = {f"x{i}": rng.lognormal(size=n_rows) for i in range(N_NUMBERS)}
    codes = [rng.integers(0, 4 + 6 * i, n_rows) for i in range(N_CATEGORIES)]
    effects = rng.normal(size=(4, 10))
    score = (
        (numbers["x0"] / numbers["x1"] > 1) + 1.0 * (numbers["x2"] / numbers["x3"] > 2) + effects[codes[0], codes[1]]
    )
    y = (score + rng.logistic(size=n_rows) > 1).astype(np.int64)
    categories = {
        f"c{i}": pa.DictionaryArray.from_arrays(own.astype(np.int32), [f"level {j}" for j in range(4 + 6 * i)])
        for i, own in enumerate(codes)
    }
    return pa.table(numbers | categories | {"y": y})


def run_gpupipe(path: Path, repeat: int) -> list[dict[str, Any]]:
    """Return seconds and columns of each run of `generate` on a Parquet file."""
    import numpy as np
    import pyarrow.parquet as pq

    from gpupipe.backends import choose
    from gpupipe.features.ops.generate import Generate
    from gpupipe.features.program.fit import fit_features
    from gpupipe.features.program.target import Target
    from gpupipe.features.statistics.training import Statistics
    from gpupipe.table.encode import encode

    table = pq.read_table(path)
    y = table["y"].to_numpy().astype(np.float64)
    backend = choose("cpu")
    encoded = encode(table.drop_columns("y"), backend, {})
    op = Generate(arithmetic_candidates=N_ARITHMETIC, cross_candidates=N_CROSSES, groups=0)
    runs = []
    for _ in range(repeat):
        start = perf_counter()
        statistics = Statistics(encoded, backend, Target(y, 2), 0)
        features = fit_features([op], statistics, "codes")
        middle = perf_counter()
        features.transform_training(statistics.table, backend)
        (summary,) = [state for state in features.states if state["op"] == "Generate" and "tried" in state]
        runs.append(
            {
                "select_s": middle - start,
                "matrix_s": perf_counter() - middle,
                "tried": summary["tried"],
                "kept": [feature.name for feature in features.features if feature.op == "generate"],
            }
        )
    return runs


def compare(n_rows: int, repeat: int, autogluon: str | None) -> dict[str, Any]:
    """Return the runs of both sides, the median seconds, and the ratio of these."""
    import pyarrow.parquet as pq

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "table.parquet"
        pq.write_table(make_table(n_rows), path)
        own = [sys.executable, "-m", "benchmarks.generate", "--table", str(path), "--repeat", str(repeat)]
        found: dict[str, Any] = {"rows": n_rows, "gpupipe": _run(own)}
        seconds = {"gpupipe": _median(found["gpupipe"], "select_s", "matrix_s")}
        if autogluon is not None:
            limits = [str(n) for n in (N_ARITHMETIC, N_CROSSES, ORDER, repeat)]
            found["autogluon"] = _run([autogluon, "-c", AUTOGLUON, str(path), *limits])
            seconds["autogluon"] = _median(found["autogluon"], "arithmetic_s", "crosses_s")
            found["ratio"] = seconds["gpupipe"] / seconds["autogluon"]
    return found | {"seconds": seconds}


def _run(command: Sequence[str]) -> list[dict[str, Any]]:
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    runs: list[dict[str, Any]] = json.loads(done.stdout.splitlines()[-1])
    return runs


def _median(runs: Sequence[dict[str, Any]], *parts: str) -> float:
    median: float = statistics.median(sum(run[part] for part in parts) for run in runs)
    return median


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the comparison, print it, and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--autogluon", metavar="PYTHON", help="interpreter with autogluon.features; default: not run")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all runs")
    parser.add_argument("--table", type=Path, help=argparse.SUPPRESS)  # gpupipe's side, in a separate process
    given = parser.parse_args(arguments)
    if given.table is not None:
        print(json.dumps(run_gpupipe(given.table, given.repeat)))
        return 0
    found = compare(given.rows, given.repeat, given.autogluon)
    for side, seconds in found["seconds"].items():
        print(f"{side:10} {seconds:8.1f} s")
    if "ratio" in found:
        print(f"ratio      {found['ratio']:8.3f}")
    if given.json is not None:
        given.json.write_text(json.dumps(found, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
