"""Small models that earlier commits write, with the predictions of those commits: the fixtures in ``tests/old_models``.

::

    python -m tools.old_models            # the archives that are missing; `--commit ID` writes one again

Each commit of `COMMITS` trains the models of `RUNS` with its own code and the libraries of this environment, and then
predicts ``rows.csv``, as far as its schema has the ops and models.
"""

from __future__ import annotations

import argparse
import io
import os
import subprocess
import sys
import tarfile
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as csv
import yaml

from tools.fuzz.structure.recipes import TIME, wine

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "tests" / "old_models"
N_ROWS = 40  # of rows.csv

COMMITS = {
    "b770d198": "the first run",
    "9ff24baa": "the last of format 1; networks, kernels, histories",
    "f7f75e1f": "format 2; LightGBM, CatBoost, ensembles",
    "6fc0f2d7": "importances, rules, several targets; the last with networks of format 1",
    "878beeb4": "networks of format 2; text vectors, statistics by group",
}
"""Commits that landed, oldest first, and what their models have that those of earlier ones do not."""

_HISTORY = {"key": "tint", "time": TIME}
_EVENTS = {"table": "sales", "as_of": "2025-06-01", "time": "sold"}
OPS: list[dict[str, Any]] = [
    {"null_if": {"columns": "ash", "values": [2.36]}},
    {"impute": {"columns": "@numeric", "strategy": "median", "indicator": True}},
    {"yeo_johnson": {"columns": "malic_acid"}},
    {"log1p": {"columns": "color_intensity"}},
    {"clip": {"columns": "flavanoids", "quantiles": [0.05, 0.95]}},
    {"expression": {"sour": "malic_acid / (1 + ash)"}},
    {"polynomial": {"columns": ["alcohol", "ash"]}},
    {"bucketize": {"columns": "alcohol", "bins": 4}},
    {"haversine": {"from": ["latitude", "longitude"], "to": ["shop_latitude", "shop_longitude"]}},
    {"bearing": {"from": ["latitude", "longitude"], "to": ["shop_latitude", "shop_longitude"]}},
    {"hash_bucket": {"columns": "tint", "buckets": 8}},
    {"frequency_encode": {"columns": "tint"}},
    {"cross": {"columns": ["tint", "strength"], "as": "look"}},
    {"target_encode": {"columns": "look", "folds": 3}},
    {"group_stats": {"columns": "ash", "by": "tint", "stats": ["mean", "ratio"]}},
    {"cyclic": {"columns": TIME, "parts": ["hour", "weekday"]}},
    {"datetime_parts": {"columns": TIME, "parts": ["month"]}},
    {"lag": _HISTORY | {"columns": "ash"}},
    {"difference": _HISTORY | {"columns": "ash"}},
    {"rolling": _HISTORY | {"columns": "malic_acid", "functions": "mean", "windows": [3]}},
    {"time_since": _HISTORY | {"of": ["last"]}},
    {"sessions": _HISTORY | {"gap": "3d", "unit": "days"}},
    {"rfm": _EVENTS | {"amount": "paid"}},
    {"decay": _EVENTS | {"columns": "paid", "half_life": "30d"}},
    {"aggregate": _EVENTS | {"columns": {"paid": ["mean", "max"], "shop": ["nunique", "last"]}}},
    {"text_hash": {"columns": "note", "buckets": 8}},
    {"text_counts": {"columns": "note", "counts": ["characters", "words"]}},
    {"parse_number": {"columns": "price", "unit": "$"}},
    {"text_vectors": {"columns": "note", "n_components": 3, "size": 1024}},
    {"min_max": "latitude"},
    {"robust_scale": "longitude"},
    {"standardize": "@numeric"},
    {"one_hot": {"columns": "strength"}},
    {"encode": "@categorical"},
]
"""Every op whose state is learned or has tables, for one model."""
_NUMBERS = [{"impute": "@numeric"}, {"standardize": "@numeric"}, {"encode": "@categorical"}]
_BOOSTING = {"n_estimators": 3, "max_depth": 3}
_NETWORK = {"epochs": 1, "depth": 1, "width": 6}
INPUTS = ["alcohol", "ash", "tint", "strength"]
"""Inputs of the models, except that of the ops: the recorded rows of `verify` are most of an archive."""
RUNS: dict[str, dict[str, Any]] = {
    "ops": {"models": ["logistic_regression"], "features": OPS},
    "ridge": {"models": ["ridge"], "target": "proline", "features": _NUMBERS},
    "xgboost": {"models": [{"xgboost": _BOOSTING}], "target": "class"},
    "random_forest": {"models": [{"random_forest": _BOOSTING}], "target": "class"},
    "hist_gradient_boosting": {"models": [{"hist_gradient_boosting": {"max_iter": 3}}]},
    "knn": {"models": ["knn"], "features": _NUMBERS, "evaluate": {"calibrate": "sigmoid"}},
    "lightgbm": {"models": [{"lightgbm": {"n_estimators": 3, "num_leaves": 5}}], "target": "class"},
    "catboost": {"models": [{"catboost": {"iterations": 4, "depth": 3}}]},
    "mlp": {"models": [{"mlp": _NETWORK}], "target": "class"},
    "tabm": {"models": [{"tabm": _NETWORK | {"members": 3}}], "target": "proline"},
    "best": {"models": [{"best": {"models": ["logistic_regression", "xgboost"], "members": 2, "folds": 2}}]},
}  # fmt: skip


def write_tables(folder: Path) -> None:
    """Write the tables of the models: ``wine.csv``, its first rows ``rows.csv``, and ``sales.csv``."""
    table = wine()
    n = table.num_rows
    number = np.arange(n)
    table = table.append_column("bottle", pa.array(number))
    table = table.append_column("latitude", pa.array(44.25 + number % 7))
    table = table.append_column("longitude", pa.array(0.5 + number % 11))
    table = table.append_column("shop_latitude", pa.array(44.75 + number % 5))
    table = table.append_column("shop_longitude", pa.array(1.5 + number % 3))
    table = table.append_column("price", pa.array([f"${1000 + 37 * value:,}.50" for value in number]))
    tastes = ("oak and plum", "a long finish", "plum, smoke", "thin")
    table = table.append_column("note", pa.array([f"{tastes[value % 4]} {tastes[value % 3]}" for value in number]))
    csv.write_csv(table, folder / "wine.csv")
    csv.write_csv(table.slice(0, N_ROWS), folder / "rows.csv")
    sold = np.datetime64("2025-01-01T09:00", "s") + number * np.timedelta64(20, "h")
    sales = {
        "bottle": number // 2,
        "sold": sold,
        "paid": 5 + number % 13,
        "shop": np.array(["a", "b", "c"])[number % 3],
    }
    csv.write_csv(pa.table(sales), folder / "sales.csv")


def write_archive(commit: str, folder: Path) -> None:
    """Write the models of a commit, and what it predicts with them, to an archive in `folder`."""
    with TemporaryDirectory() as made:
        work = Path(made)
        code = subprocess.run(
            ["git", "archive", commit, "gpupipe", "kernels"], cwd=ROOT, check=True, capture_output=True
        )
        with tarfile.open(fileobj=io.BytesIO(code.stdout)) as archive:
            archive.extractall(work / "code", filter="data")
        write_tables(work)
        known = _python(work, ["-m", "gpupipe", "schema"])
        names = [name for name, run in RUNS.items() if all(f'"{_name(entry)}"' in known for entry in run["models"])]
        for name in names:
            (work / f"{name}.yaml").write_text(yaml.safe_dump(_config(name, known), sort_keys=False))
        _python(work, ["-c", DRIVER, *names])
        with tarfile.open(folder / f"{commit}.tar.xz", "w:xz", preset=9) as archive:
            for name in names:
                [found] = (work / "runs" / name).glob("**/manifest.json")
                archive.add(work / f"{name}.csv", f"{name}/predictions.csv", filter=_anonymous)
                archive.add(found.parent, f"{name}/model", filter=_anonymous)


DRIVER = """
import glob, os, sys
from gpupipe.cli import main
for name in sys.argv[1:]:
    tables = ["--table", "sales=sales.csv"] if "sales" in open(f"{name}.yaml").read() else []
    code = main(["run", f"{name}.yaml"])
    for manifest in glob.glob(f"runs/{name}/**/manifest.json", recursive=True):
        code = code or main(["predict", os.path.dirname(manifest), "rows.csv", *tables, "-o", f"{name}.csv"])
    if code:
        sys.exit(code)
"""
"""Program of one process for all models, since imports take longer than they."""


def _config(name: str, known: str) -> dict[str, Any]:
    """Return the configuration of a run for a commit whose schema is `known`."""
    run = {**RUNS[name]}
    source: dict[str, Any] = {"path": "wine.csv", "target": run.pop("target", "cultivar")}
    run["features"] = [op for op in run.pop("features", []) if f'"{_name(op)}"' in known]
    run["output"] = f"runs/{name}"
    if name != "ops":
        source["columns"] = INPUTS
        return {"name": name, "source": source, **run}
    source["drop"] = ["class", "proline"]
    if '"text_hash"' in known:
        source["schema"] = {"note": "text", "price": "text"}
    if '"rfm"' in known:
        run["tables"] = {"sales": {"path": "sales.csv", "on": "bottle", "cardinality": "one_to_many"}}
    return {"name": name, "source": source, **run}


def _python(work: Path, arguments: list[str]) -> str:
    """Return the standard output of Python with the code of the commit."""
    env = {**os.environ, "PYTHONPATH": f"{work / 'code'}:{work / 'code' / 'kernels'}"}
    done = subprocess.run([sys.executable, "-P", *arguments], cwd=work, env=env, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(arguments)}\n{done.stderr}")
    return done.stdout


def _name(entry: str | dict[str, Any]) -> str:
    """Return the name of a model or op in a list of a configuration."""
    return entry if isinstance(entry, str) else next(iter(entry))


def _anonymous(member: tarfile.TarInfo) -> tarfile.TarInfo:
    """Drop the owner and the time of a file."""
    member.uid = member.gid = member.mtime = 0
    member.uname = member.gname = ""
    return member


def main() -> None:
    """Write the archives that are missing, and the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--commit", choices=COMMITS, help="write this archive again")
    parser.add_argument("--folder", type=Path, default=FOLDER)
    options = parser.parse_args()
    options.folder.mkdir(exist_ok=True)
    write_tables(options.folder)
    (options.folder / "wine.csv").unlink()  # the training rows
    for commit in COMMITS:
        path = options.folder / f"{commit}.tar.xz"
        if options.commit == commit or not (options.commit or path.exists()):
            write_archive(commit, options.folder)
            print(f"{path.name}: {path.stat().st_size:,} bytes", flush=True)


if __name__ == "__main__":
    main()
