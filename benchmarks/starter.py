"""Scores of ``gpupipe init`` followed by ``gpupipe run``, compared with plain scikit-learn models on the same folds.

    python -m benchmarks.starter TABLES.csv [NAME ...] --output results.csv

``TABLES.csv`` has the columns ``name``, ``path``, ``target``, ``drop`` and ``task``. ``drop`` lists the columns that a
careful user would drop (identifiers, columns that restate the target), separated by ``|``; it applies to the references
only, while ``init`` gets the path and the target. ``task``, if given, is ``classification`` or ``regression``. The
references are typical first attempts: logistic regression or ridge on one-hot, imputed and standardized columns, and
histogram gradient boosting with scikit-learn's defaults, on one-hot columns and with native categories.
"""

from __future__ import annotations

import csv
import json
import subprocess
import tempfile
import time
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click
import numpy as np

from gpupipe.children import child_environment, python_command

FOLDS = 5
WIDEST = 500  # limit of one-hot columns; above it, only native categories are measured
METRICS = {"binary": "roc_auc", "multiclass": "log_loss", "regression": "r2"}
SCORES = ("linear", "hgb_onehot", "hgb_native", "init")
FIELDS = ("name", "rows", "task", "metric", *SCORES, "best", "gain", "seconds")


@click.command
@click.argument("tables", type=click.Path(exists=True, path_type=Path))
@click.argument("names", nargs=-1)
@click.option(
    "--output",
    type=click.Path(path_type=Path),
    required=True,
    help="CSV file of results; tables already in it are skipped.",
)
def main(tables: Path, names: Sequence[str], output: Path) -> None:
    """Measure the tables listed in TABLES, or only NAMES, and print the results as Markdown."""
    entries = [entry for entry in _rows(tables) if not names or entry["name"] in names]
    known = {row["name"] for row in _rows(output)} if output.exists() else set()
    for entry in entries:
        if entry["name"] not in known:
            row = measure(entry)
            with output.open("a", newline="", encoding="utf-8") as file:
                writer = csv.DictWriter(file, FIELDS)
                if file.tell() == 0:
                    writer.writeheader()
                writer.writerow(row)
    click.echo(render([row for row in _rows(output) if row["name"] in {entry["name"] for entry in entries}]))


def _rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def measure(entry: dict[str, str]) -> dict[str, Any]:
    """Return the scores of one table: the references and the starter's best model."""
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "starter.yaml"
        started = time.perf_counter()
        _gpupipe("init", entry["path"], "--target", entry["target"], "-o", str(config))
        seconds = time.perf_counter() - started
        frame, y, settings = _table(config, entry)
        stratify = bool(settings["stratify"])
        split = {"cv": FOLDS, "stratify": stratify, "shuffle": True, "seed": 0}
        overrides = [f"split={json.dumps(split)}", "report.enabled=false", "evaluate.importance=false"]
        sets = [word for override in overrides for word in ("--set", override)]
        done = json.loads(_gpupipe("run", str(config), "--output", str(Path(folder) / "run"), "--json", *sets))
        task, metric = settings["task"], METRICS[settings["task"]]
        best_model = done["best"]
        init = float(done["models"][best_model][metric])
        plain = dict(references(frame, y, task, stratify))
    sign = -1 if metric == "log_loss" else 1
    best = sign * max(sign * value for value in plain.values())
    return {
        "name": entry["name"],
        "rows": len(y),
        "task": task,
        "metric": metric,
        **{name: round(value, 5) for name, value in plain.items()},
        "init": round(init, 5),
        "best": best_model,
        "gain": round(sign * (init - best), 5),
        "seconds": round(seconds, 1),
    }


def _gpupipe(*words: str) -> str:
    command = python_command("-m", "gpupipe", *words)
    done = subprocess.run(command, env=child_environment(), capture_output=True, text=True, check=False)
    if done.returncode:
        raise click.ClickException(f"gpupipe {' '.join(words)}: {done.stderr}")
    return done.stdout


def _table(config: Path, entry: dict[str, str]) -> tuple[Any, Any, dict[str, Any]]:
    """Return the inputs and the target as the starter reads them, and the starter's task."""
    from gpupipe.config import load_config
    from gpupipe.io.settings import TableSource
    from gpupipe.io.source_reader import read_arrow

    source = load_config(config).source
    assert source is not None
    read = TableSource(path=source.path, format=source.format, csv=source.csv)
    frame = read_arrow(read).table.to_pandas()
    target = source.target
    frame = frame[frame[target].notna()].reset_index(drop=True)
    y = frame.pop(target)
    declared = source.declared[target].kind if target in source.declared else ""
    is_class = entry.get("task") == "classification" or declared == "categorical" or y.dtype.kind not in "iuf"
    n_classes = y.nunique() if is_class or y.nunique() == 2 else 0
    task = "binary" if n_classes == 2 else "multiclass" if n_classes else "regression"
    stratify = task != "regression" and int(y.value_counts().min()) >= FOLDS
    dropped = [name for name in entry["drop"].split("|") if name in frame]
    return frame.drop(columns=dropped), y, {"task": task, "stratify": stratify}


def references(frame: Any, y: Any, task: str, stratify: bool) -> Iterator[tuple[str, float]]:
    """Yield the name and the mean score over the folds for each plain model."""
    import pandas as pd
    from sklearn.compose import make_column_transformer
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
    from sklearn.impute import SimpleImputer
    from sklearn.linear_model import LogisticRegression, Ridge
    from sklearn.model_selection import KFold, StratifiedKFold, cross_val_score
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import LabelEncoder, OneHotEncoder, OrdinalEncoder, StandardScaler

    frame = frame.dropna(axis=1, thresh=20)  # scikit-learn cannot bin a column that has no values in some fold
    is_number = {name: pd.api.types.is_numeric_dtype(frame[name]) for name in frame}
    numbers = [name for name in frame if is_number[name]]
    texts = [name for name in frame if not is_number[name]]
    frame = frame.astype(dict.fromkeys(numbers, float) | dict.fromkeys(texts, object))
    frame[texts] = frame[texts].where(frame[texts].notna(), np.nan)
    if task != "regression":
        y = LabelEncoder().fit_transform(y)
    boosting = HistGradientBoostingRegressor if task == "regression" else HistGradientBoostingClassifier
    linear = Ridge() if task == "regression" else LogisticRegression(max_iter=2000)
    one_hot = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
    dense = make_column_transformer(
        (make_pipeline(SimpleImputer(strategy="median"), StandardScaler()), numbers),
        (make_pipeline(SimpleImputer(strategy="constant", fill_value="missing"), one_hot), texts),
    )
    unknown = {"handle_unknown": "use_encoded_value", "unknown_value": np.nan, "encoded_missing_value": np.nan}
    codes = make_column_transformer(("passthrough", numbers), (OrdinalEncoder(max_categories=250, **unknown), texts))
    categorical = list(range(len(numbers), len(numbers) + len(texts))) or None
    models = {"hgb_native": make_pipeline(codes, boosting(random_state=0, categorical_features=categorical))}
    if sum(frame[name].nunique() for name in texts) <= WIDEST:
        models |= {"linear": make_pipeline(dense, linear)}
        models |= {"hgb_onehot": make_pipeline(dense, boosting(random_state=0))}
    folds = (StratifiedKFold if stratify else KFold)(FOLDS, shuffle=True, random_state=0)
    scoring = {"roc_auc": "roc_auc", "log_loss": "neg_log_loss", "r2": "r2"}[METRICS[task]]
    for name, model in models.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            score = float(cross_val_score(model, frame, y, cv=folds, scoring=scoring, error_score="raise").mean())
        yield name, -score if task == "multiclass" else score


def render(rows: Sequence[dict[str, str]]) -> str:
    """Return the results as a Markdown table, with the mean and the worst gain."""
    lines = [
        "| table | rows | metric | linear | boosting, one-hot | boosting, native | init | its model | gain |",
        "| --- | ---: | --- | ---: | ---: | ---: | ---: | --- | ---: |",
    ]
    for row in rows:
        scores = [
            f"{float(row[key]):.4f}" if row[key] else "" for key in ("linear", "hgb_onehot", "hgb_native", "init")
        ]
        cells = [
            row["name"],
            f"{int(row['rows']):,}",
            row["metric"],
            *scores,
            row["best"],
            f"{float(row['gain']):+.4f}",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    gains = [float(row["gain"]) for row in rows]
    n_below = sum(gain < -0.003 for gain in gains)
    closing = f"{len(gains)} tables: mean gain {np.mean(gains):+.4f}, worst {min(gains):+.4f}, {n_below} below -0.003."
    return "\n".join([*lines, "", closing])


if __name__ == "__main__":
    main()
