"""Time and memory of explanations, compared with the Shapley values of the libraries themselves.

    python -m benchmarks.explain [--rows N] [--peer-rows N] [--repeats N] [--threads N] [--python PYTHON] [--json FILE]

A synthetic table of 57 columns, 7 of them categories, 5 % of the numbers missing. Each measurement is a separate
process with the same number of threads, and those that are compared take turns on `--peer-rows`: a model of XGBoost
(150 trees, depth 6) with its own ``pred_contribs``, which `--python` runs with another version of XGBoost as well; one
of LightGBM with its own ``pred_contrib``; on request scikit-learn's forests and boosting with the package shap. Then
all `--rows` are explained by the model of XGBoost, once, for their time and memory.

``model.explain``  a frame: encoding, features, Shapley values, folding to input columns
``explainer``      the same without encoding and features: the matrix is in memory, as it is for the libraries
``gpupipe explain``  a Parquet file to a Parquet file

The exit code is 1 if the values differ from those of the library by more than 0.001.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

N_NUMBERS = 50
N_CATEGORIES = 7
N_LEVELS = 12
TRAINING_ROWS = 100_000
WARM_UP_ROWS = 2_000
KEPT_ROWS = 2_000
N_SINGLE = 200
TOLERANCE = 1e-3
PEER = Path(__file__).parent / "peers" / "xgboost_contributions.py"
Opened = tuple[Callable[[int], Any], Callable[[int], Any] | None]
MODELS: Mapping[str, Mapping[str, Any]] = {
    "xgboost": {"n_estimators": 150, "max_depth": 6},
    "lightgbm": {"n_estimators": 150, "num_leaves": 31},
    "random_forest": {"n_estimators": 100, "max_depth": 10},
    "hist_gradient_boosting": {"max_iter": 150, "max_leaf_nodes": 31},
}


def make_table(n_rows: int, seed: int, n_categories: int = N_CATEGORIES) -> Any:
    """Return a frame of numbers and categories with a binary target that depends on a third of them."""
    import numpy as np
    import pandas as pd

    rng = np.random.default_rng(seed)
    numbers = rng.normal(size=(N_NUMBERS, n_rows)).astype(np.float32)
    codes = rng.integers(0, N_LEVELS, (N_CATEGORIES, n_rows))
    score = numbers[0] * numbers[1] + np.abs(numbers[2]) + numbers[3:15].sum(axis=0) / 3 + (codes[:3] % 3).sum(axis=0)
    numbers[rng.random(numbers.shape) < 0.05] = np.nan
    frame = pd.DataFrame(numbers.T, columns=[f"n{i}" for i in range(N_NUMBERS)])
    for i in range(n_categories):
        frame[f"c{i}"] = pd.Categorical(np.array([f"level {k}" for k in range(N_LEVELS)])[codes[i]])
    frame["y"] = np.where(score + rng.normal(size=n_rows) > np.median(score), "yes", "no")
    return frame


def prepare(folder: Path, name: str, n_rows: int, n_compared: int) -> None:
    """Train a model; write it, its matrix of `n_rows` new rows, these rows and the first `n_compared` of them."""
    import numpy as np

    import gpupipe as gp

    # The package shap does not read scikit-learn's native categories.
    n_categories = 0 if name == "hist_gradient_boosting" else N_CATEGORIES
    pipeline = gp.Pipeline(
        make_table(TRAINING_ROWS, 0, n_categories),
        target="y",
        device="cpu",
        models=[{name: {"defaults": "library", **MODELS[name]}}],
        evaluate={"importance": False},
        report={"enabled": False},
    )
    model = pipeline.run(folder / "run", quiet=True).model
    rows = make_table(n_rows, 1, n_categories).drop(columns="y")
    rows.to_parquet(folder / "rows.parquet", index=False)
    for n in {WARM_UP_ROWS, n_compared, n_rows}:
        rows.head(n).to_parquet(folder / f"rows-{n}.parquet", index=False, row_group_size=100_000)
    np.save(folder / "X.npy", model.transform(rows))
    if name == "xgboost":
        model.estimator.with_library().estimator.save_model(folder / "model.ubj")


def open_explain(folder: Path, n_rows: int) -> Opened:
    """Return functions of a number of rows, and of the position of one row, to contributions."""
    import pandas as pd

    import gpupipe as gp

    model = gp.load_model(folder / "run", "cpu")
    frame = pd.read_parquet(folder / "rows.parquet").head(n_rows)
    records = frame.head(N_SINGLE).to_dict("records")
    return lambda n: model.explain(frame.head(n)).values, lambda i: model.explain(records[i])


def open_explainer(folder: Path, n_rows: int) -> Opened:
    """As `open_explain`, from rows of the matrix."""
    import numpy as np

    import gpupipe as gp

    explainer, X = gp.load_model(folder / "run", "cpu").explainer, np.load(folder / "X.npy")[:n_rows]
    return lambda n: explainer.explain(X[:n]).values, lambda i: explainer.explain(X[i : i + 1])


def open_files(folder: Path, n_rows: int) -> Opened:
    """As `open_explain`, from a file to a file."""
    import pyarrow.parquet as pq

    from gpupipe.inference.scoring.explained_files import explain_file
    from gpupipe.inference.scoring.scoring_settings import ScoringSettings

    columns = pq.read_schema(folder / "rows.parquet").names

    def explain(n: int) -> Any:
        out = folder / f"out-{n}.parquet"
        explain_file(folder / "run", str(folder / f"rows-{n}.parquet"), out, ScoringSettings(device="cpu"))
        first = next(pq.ParquetFile(out).iter_batches(KEPT_ROWS, columns=[f"contribution_{name}" for name in columns]))
        return first.to_pandas().to_numpy()

    return explain, None


def open_library(folder: Path, n_rows: int) -> Opened:
    """As `open_explainer`, by LightGBM or by the package shap."""
    import numpy as np

    import gpupipe as gp

    X = np.load(folder / "X.npy")[:n_rows]
    fitted = gp.load_model(folder / "run", "cpu").estimator
    if fitted.library == "lightgbm":
        import lightgbm

        (path,) = (folder / "run" / "model").glob("estimator.*")
        booster = lightgbm.Booster(model_file=path)
        threads = int(os.environ["OMP_NUM_THREADS"])

        def call(rows: Any) -> Any:
            return np.asarray(booster.predict(rows, pred_contrib=True, num_threads=threads))[:, :-1]

    else:
        import shap

        explainer = shap.TreeExplainer(fitted.estimator)

        def call(rows: Any) -> Any:
            found = np.asarray(explainer.shap_values(rows, check_additivity=False))
            return found[..., 1] if found.ndim == 3 else found

    return lambda n: call(X[:n]), lambda i: call(X[i : i + 1])


GPUPIPE = {"model.explain": open_explain, "explainer": open_explainer, "gpupipe explain": open_files}
OPENERS = {**GPUPIPE, "library": open_library}


def measure(contender: str, folder: Path, n_rows: int) -> dict[str, Any]:
    """Return seconds, microseconds of one row, and memory of one contender; write the values of the first rows."""
    import numpy as np

    started = time.perf_counter()
    explain, explain_one = OPENERS[contender](folder, n_rows)
    explain(WARM_UP_ROWS)
    open_seconds = time.perf_counter() - started
    before = peak_mib()
    started = time.perf_counter()
    values = explain(n_rows)
    seconds = time.perf_counter() - started
    peak = peak_mib()
    single = []
    for i in range(N_SINGLE if explain_one is not None else 0):
        at = time.perf_counter()
        explain_one(i)  # type: ignore[misc]
        single.append(time.perf_counter() - at)
    np.save(folder / f"{contender}.npy", values[:KEPT_ROWS])
    return {
        "seconds": seconds, "open_seconds": open_seconds,
        "one_row_us": 1e6 * statistics.median(single) if single else None, "before_mib": before, "peak_mib": peak,
    }  # fmt: skip


def peak_mib() -> float:
    """Return the peak memory of this process in MiB; that of `resource.getrusage` includes the parent's."""
    (line,) = (line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) / 1024


def run_child(command: Sequence[str], n_threads: int) -> dict[str, Any]:
    """Return the JSON object that a measuring process prints, and the load of the machine when it started."""
    environment = {**os.environ, "OMP_NUM_THREADS": str(n_threads), "GPUPIPE_THREADS": str(n_threads)}
    load = os.getloadavg()[0]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    if done.returncode:
        raise SystemExit(done.stderr)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return {**found, "load": round(load, 1)}


def compare(folder: Path, name: str, n_rows: int, arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """Return the record of each round of all contenders, which take turns."""
    ours = gpupipe_commands(folder, n_rows)
    size = [str(folder), str(n_rows)]
    commands = dict(ours)
    if name == "xgboost":
        for python in dict.fromkeys([sys.executable, *arguments.python]):
            commands[python] = [python, str(PEER), *size, str(arguments.threads)]
    else:
        commands["library"] = [sys.executable, "-m", "benchmarks.explain", "--child", "library", *size]
    records = []
    for _ in range(arguments.repeats):
        records += [record(name, each, n_rows, command, arguments.threads) for each, command in commands.items()]
    return records


def gpupipe_commands(folder: Path, n_rows: int) -> dict[str, list[str]]:
    """Return the commands that measure gpupipe, by contender."""
    program = [sys.executable, "-m", "benchmarks.explain", "--child"]
    return {each: [*program, each, str(folder), str(n_rows)] for each in GPUPIPE}


def record(name: str, contender: str, n_rows: int, command: Sequence[str], n_threads: int) -> dict[str, Any]:
    """Run a measuring process; print and return its record."""
    found = {"model": name, "contender": contender, "rows": n_rows, **run_child(command, n_threads)}
    print(json.dumps(found), flush=True)
    return found


def largest_difference(folder: Path, name: str) -> float:
    """Return the largest absolute difference from the values of the library."""
    import numpy as np

    expected = np.load(folder / ("xgboost.npy" if name == "xgboost" else "library.npy"))
    expected = expected[:, :-1] if name == "xgboost" else expected
    return max(float(np.abs(np.load(folder / f"{each}.npy") - expected).max()) for each in GPUPIPE)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a JSON object per measurement, and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.explain", description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--peer-rows", type=int, default=20_000)
    parser.add_argument("--models", nargs="+", choices=list(MODELS), default=["xgboost", "lightgbm"])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--python", nargs="+", default=[], help="interpreters with another version of XGBoost")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--child", nargs=3, metavar=("CONTENDER", "FOLDER", "ROWS"), help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.child:
        contender, folder, n_rows = given.child
        print(json.dumps(measure(contender, Path(folder), int(n_rows))))
        return 0
    records, is_equal = [], True
    for name in given.models:
        with tempfile.TemporaryDirectory(prefix="gpupipe-explain-") as folder:
            n_rows = max(given.rows, given.peer_rows) if name == "xgboost" else given.peer_rows
            prepare(Path(folder), name, n_rows, given.peer_rows)
            records += compare(Path(folder), name, given.peer_rows, given)
            difference = largest_difference(Path(folder), name)
            print(json.dumps({"model": name, "largest_difference": difference}), flush=True)
            is_equal &= difference <= TOLERANCE
            if name == "xgboost":
                commands = gpupipe_commands(Path(folder), given.rows)
                records += [record(name, each, given.rows, run, given.threads) for each, run in commands.items()]
    if given.json:
        given.json.write_text(json.dumps(records, indent=1))
    return 0 if is_equal else 1


if __name__ == "__main__":
    sys.exit(main())
