"""Pinball loss of quantile regression, relative to scikit-learn's histogram gradient boosting.

    python -m benchmarks.quantiles --tables-dir DIR [--rows N] [--tables NAME ...] [--seeds N] [--json FILE]

DIR has the tables of `benchmarks.answers` as Parquet files. Each seed draws the rows of a table (at most `--rows`), and
a quarter of them to test. gpupipe's models learn all levels as in a run with ``task: quantile``. scikit-learn's
``HistGradientBoostingRegressor(loss="quantile")`` is trained on the same matrix for each level, with its defaults and
the same categorical columns.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.answers.tables import TABLES, AnswerTable

LEVELS = (0.1, 0.5, 0.9)
MODELS: Mapping[str, Mapping[str, Any]] = {
    name: {name: {}} for name in ("hist_gradient_boosting", "xgboost", "lightgbm", "catboost", "mlp")
}


def measure(frame: Any, table: AnswerTable, seed: int, models: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return a record for each model: its pinball loss and seconds, and those of scikit-learn."""
    import numpy as np

    import gpupipe as gp
    from gpupipe.backends import choose
    from gpupipe.features.program.fitted import write_matrix
    from gpupipe.models.matrix import predict_matrix
    from gpupipe.timeline.timeline import Timeline
    from gpupipe.training.fit import fit_view, train
    from gpupipe.training.preparation.preparation import choose_entries, folds_of, open_job

    backend = choose("cpu")  # it sets how long OpenMP threads spin, before scikit-learn loads OpenMP
    from sklearn.ensemble import HistGradientBoostingRegressor
    from sklearn.metrics import mean_pinball_loss

    unused = [name for name in (*table.drop, table.group, table.time) if name in frame.columns]
    source = {
        "frame": frame.drop(columns=unused),
        "target": table.target,
        "task": "quantile",
        "quantiles": list(LEVELS),
    }
    entries = [{**dict(model), "as": name} for name, model in models.items()]
    pipeline = gp.Pipeline(source, models=entries, split={"test_size": 0.25, "seed": seed}, device="cpu")
    config = pipeline.config
    job = open_job(config, backend, Timeline())
    (fold,) = folds_of(job)
    rows, truth = job.rows(fold.train), job.truth(fold.test)
    assert truth is not None

    def matrices(view: Any) -> tuple[Any, Any, Any]:
        features, X = fit_view(rows, view, config.features, backend)
        return features, X, write_matrix(job.table.take(fold.test, backend), features, backend)

    def mean_loss(predicted: Any) -> float:
        losses = [mean_pinball_loss(truth.y, predicted[:, i], alpha=level) for i, level in enumerate(LEVELS)]
        return float(statistics.mean(losses))

    features, X, X_test = matrices("codes")
    categories = [j for j, n_codes in features.categorical.items() if n_codes <= 255]
    start = time.perf_counter()
    found = []
    for level in LEVELS:
        model = HistGradientBoostingRegressor(
            loss="quantile", quantile=level, categorical_features=categories or None, random_state=seed
        )
        found.append(model.fit(X, rows.y).predict(X_test))
    peer_seconds = time.perf_counter() - start
    peer = mean_loss(np.column_stack(found))
    records = []
    for entry in choose_entries(config, job.goal, backend):
        trained = train(entry, rows, job.goal, config, backend)
        X_test = matrices(entry.params.view)[2]
        predicted = predict_matrix(X_test, trained.model, backend).output
        shares = (truth.y[:, None] <= predicted).mean(axis=0)
        records.append(
            {
                "table": table.name,
                "model": entry.label,
                "seed": seed,
                "rows": len(truth.y),
                "loss": mean_loss(predicted),
                "seconds": trained.seconds,
                "shares": [float(share) for share in shares],
                "scikit_learn_loss": peer,
                "scikit_learn_seconds": peer_seconds,
            }
        )
    return records


def summarize(records: Sequence[dict[str, Any]]) -> str:
    """Return a Markdown table: for each table and model the mean loss relative to scikit-learn's, and the seconds."""
    models = list(dict.fromkeys(r["model"] for r in records))
    lines = [f"| table | {' | '.join(models)} | seconds | scikit-learn, s |", "| --- " * (len(models) + 3) + "|"]
    for table in dict.fromkeys(r["table"] for r in records):
        own = {model: [r for r in records if (r["table"], r["model"]) == (table, model)] for model in models}
        ratios = [f"{statistics.mean(r['loss'] / r['scikit_learn_loss'] for r in own[model]):.3f}" for model in models]
        seconds = [f"{statistics.mean(r['seconds'] for r in own[model]):.1f}" for model in models]
        peer = statistics.mean(r["scikit_learn_seconds"] for r in own[models[0]])
        lines.append(f"| {table} | {' | '.join(ratios)} | {', '.join(seconds)} | {peer:.1f} |")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure the tables, print the summary and write the records."""
    import pandas as pd

    numeric = [table for table in TABLES if table.task == "regression"]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables-dir", type=Path, required=True)
    parser.add_argument("--tables", nargs="*", default=[table.name for table in numeric])
    parser.add_argument("--models", type=json.loads, default=MODELS)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args(arguments)
    records: list[dict[str, Any]] = []
    for table in (table for table in numeric if table.name in given.tables):
        frame = pd.read_parquet(given.tables_dir / f"{table.name}.parquet")
        for seed in range(given.seeds):
            sample = frame.sample(min(len(frame), given.rows), random_state=seed)
            records += measure(sample, table, seed, given.models)
        print(summarize([record for record in records if record["table"] == table.name]), flush=True)
    if given.json is not None:
        given.json.write_text(json.dumps(records, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
