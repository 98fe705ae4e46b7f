"""XGBoost on several targets: trees that predict all of them, compared with a model for each.

    python -m benchmarks.targets --tables-dir DIR [--rows N] [--tables NAME ...] [--seeds N] [--json FILE]

DIR has tables of `benchmarks.answers` as Parquet files. Each seed draws the rows of a table (at most `--rows`), and a
quarter of them to test. Both sides are trained as in a run, with the same settings except ``multi_strategy``, and are
timed on the same prepared rows. Joint trees on categorical columns need XGBoost 3.4 and Python 3.12.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple


class Targets(NamedTuple):
    """Numbers of a table to predict, and the features to drop because they restate one of them."""

    names: tuple[str, ...]
    drop: tuple[str, ...] = ()


TARGETS: Mapping[str, Targets] = {
    "texas-housing": Targets(("sales", "median", "listings", "inventory")),
    "flchain-death": Targets(("kappa", "lambda"), ("flc.grp", "death")),  # the group is a decile of their sum
    "card-churn": Targets(("Total_Trans_Amt", "Total_Trans_Ct")),
    "chicago-taxi": Targets(("fare", "trip_seconds")),
    "storm-status": Targets(
        ("wind", "pressure"), ("status", "tropicalstorm_force_diameter", "hurricane_force_diameter", "storm")
    ),
    "diamonds": Targets(("price", "carat")),
}
"""Chosen before any of them was trained on: every registered table of which two numbers or more are results."""
STRATEGIES = ("one_output_per_tree", "multi_output_tree")


def measure(frame: Any, table: str, targets: Targets, seed: int, model: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return a record for each strategy: R² of each target, seconds of training and of prediction, and the trees."""
    import gpupipe as gp
    from gpupipe.backends import choose
    from gpupipe.features.program.fitted import write_matrix
    from gpupipe.models.matrix import predict_matrix
    from gpupipe.timeline.timeline import Timeline
    from gpupipe.training.fit import fit_view, train
    from gpupipe.training.preparation.preparation import choose_entries, folds_of, open_job

    backend = choose("cpu")  # it sets how long OpenMP threads spin, before scikit-learn loads OpenMP
    from sklearn.metrics import r2_score

    source = {"frame": frame.drop(columns=list(targets.drop)), "target": list(targets.names)}
    entries = [{"xgboost": {**model, "multi_strategy": strategy}, "as": strategy} for strategy in STRATEGIES]
    config = gp.Pipeline(source, models=entries, split={"test_size": 0.25, "seed": seed}, device="cpu").config
    job = open_job(config, backend, Timeline())
    (fold,) = folds_of(job)
    rows, truth = job.rows(fold.train), job.truth(fold.test)
    assert truth is not None
    records = []
    for entry in choose_entries(config, job.goal, backend):
        features, _ = fit_view(rows, entry.params.view, config.features, backend)
        X_test = write_matrix(job.table.take(fold.test, backend), features, backend)
        trained = train(entry, rows, job.goal, config, backend)
        start = time.perf_counter()
        predicted = predict_matrix(X_test, trained.model, backend).output
        records.append(
            {
                "table": table,
                "strategy": entry.label,
                "seed": seed,
                "rows": len(truth.y),
                "targets": targets.names,
                "r2": [float(score) for score in r2_score(truth.y, predicted, multioutput="raw_values")],
                "seconds": trained.seconds,
                "prediction_seconds": time.perf_counter() - start,
            }
        )
    return records


def summarize(records: Sequence[dict[str, Any]]) -> str:
    """Return a Markdown table: for each table the mean R² over targets and seeds, its difference, and the seconds."""
    lines = [
        "| table | targets | R², separate | R², joint | difference | training: separate, joint, s "
        "| prediction: separate, joint, ms |",
        "| --- " * 7 + "|",
    ]
    for table in dict.fromkeys(r["table"] for r in records):
        separate, joint = (
            [r for r in records if (r["table"], r["strategy"]) == (table, strategy)] for strategy in STRATEGIES
        )
        of_seeds = [[statistics.mean(r["r2"]) for r in own] for own in (separate, joint)]
        difference = [b - a for a, b in zip(*of_seeds, strict=True)]
        error = statistics.stdev(difference) / len(difference) ** 0.5 if len(difference) > 1 else float("nan")
        seconds = [statistics.mean(r["seconds"] for r in own) for own in (separate, joint)]
        prediction = [1e3 * statistics.mean(r["prediction_seconds"] for r in own) for own in (separate, joint)]
        lines.append(
            f"| {table} | {len(separate[0]['r2'])} | {statistics.mean(of_seeds[0]):.4f} "
            f"| {statistics.mean(of_seeds[1]):.4f} | {statistics.mean(difference):+.4f} ± {error:.4f} "
            f"| {seconds[0]:.1f}, {seconds[1]:.1f} | {prediction[0]:.0f}, {prediction[1]:.0f} |"
        )
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure the tables, print the summary and write the records."""
    import pandas as pd

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables-dir", type=Path, required=True)
    parser.add_argument("--tables", nargs="*", default=list(TARGETS))
    parser.add_argument("--model", type=json.loads, default={})
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args(arguments)
    records: list[dict[str, Any]] = []
    for table in given.tables:
        frame = pd.read_parquet(given.tables_dir / f"{table}.parquet")
        for seed in range(given.seeds):
            sample = frame.sample(min(len(frame), given.rows), random_state=seed)
            records += measure(sample, table, TARGETS[table], seed, given.model)
        print(summarize([record for record in records if record["table"] == table]), flush=True)
    if given.json is not None:
        given.json.write_text(json.dumps(records, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
