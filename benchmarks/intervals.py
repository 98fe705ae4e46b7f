"""Coverage and size of prediction intervals and sets, compared with MAPIE on the same predictions.

    python -m benchmarks.intervals --tables-dir DIR [--seeds N] [--rows N] [--tables NAME ...] [--json FILE]

DIR has the tables of `benchmarks.answers` as Parquet files. Each seed draws the rows of a table (at most `--rows`), and
splits them at random: a quarter to test, then a quarter of the others to calibrate. A model is trained on the remaining
rows, and calibrated at each level, as in a run with ``evaluate: {intervals: LEVEL}``. MAPIE (SplitConformalRegressor,
and SplitConformalClassifier with randomized adaptive sets) gets the same predictions of the same rows; for two classes
it has no adaptive sets.
"""

from __future__ import annotations

import argparse
import json
import statistics
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.answers.tables import TABLES, AnswerTable

LEVELS = (0.8, 0.9, 0.95)
MODEL = {"hist_gradient_boosting": {"defaults": "library", "early_stopping": False}}


def measure(frame: Any, table: AnswerTable, seed: int, levels: Sequence[float] = LEVELS) -> list[dict[str, Any]]:
    """Return a record for each level: coverage and mean size of gpupipe's intervals or sets, and of MAPIE's."""
    import numpy as np

    import gpupipe as gp
    from gpupipe.backends import choose
    from gpupipe.features.program.fitted import write_matrix
    from gpupipe.model_parts.decision import decide
    from gpupipe.models.matrix import predict_matrix
    from gpupipe.pipeline.records.metrics_document import measure_coverage
    from gpupipe.splits import hold_out
    from gpupipe.timeline.timeline import Timeline
    from gpupipe.training.fit import fit_view, train
    from gpupipe.training.preparation.preparation import choose_entries, folds_of, open_job
    from gpupipe.training.selection.leaderboard import HeldOutPredictions

    backend = choose("cpu")
    unused = [name for name in (*table.drop, table.group, table.time) if name in frame.columns]
    source = {"frame": frame.drop(columns=unused), "target": table.target}
    if table.task != "regression":
        source["schema"] = {table.target: "categorical"}
    split = {"test_size": 0.25, "seed": seed}
    config = gp.Pipeline(source, models=[MODEL], split=split, device="cpu").config
    job = open_job(config, backend, Timeline())
    (fold,) = folds_of(job)
    held = hold_out(config.split, fold.train, 0.25, job.strata(), None, None, seed)
    (entry,) = choose_entries(config, job.goal, backend)
    rows = job.rows(held.train)
    features, _ = fit_view(rows, entry.params.view, config.features, backend)
    model = train(entry, rows, job.goal, config, backend).model
    parts = {}
    for name, mask in (("held", held.test), ("test", fold.test)):
        X = write_matrix(job.table.take(mask, backend), features, backend)
        truth = job.truth(mask)
        assert truth is not None
        parts[name] = truth, predict_matrix(X, model, backend)
    (known, of_known), (truth, predicted) = parts["held"], parts["test"]
    found = []
    for level in levels:
        evaluate = config.evaluate.model_copy(update={"intervals": level})
        decision = decide(evaluate, job.goal.task, known, of_known, backend)
        test = HeldOutPredictions(np.flatnonzero(fold.test), truth, predicted, decision)
        ours = measure_coverage(test, job.goal.task, backend)
        assert ours is not None
        coverage, size = by_mapie(job.goal.task, level, of_known.output, known.y, predicted.output, truth.y, seed)
        found.append(
            {
                "table": table.name,
                "task": job.goal.task,
                "seed": seed,
                "level": level,
                "coverage": ours.coverage,
                "size": ours.mean_width if ours.mean_size is None else ours.mean_size,
                "rows": ours.n_rows,
                "mapie_coverage": coverage,
                "mapie_size": size,
            }
        )
    return found


def by_mapie(task: str, level: float, known: Any, y: Any, predicted: Any, truth: Any, seed: int) -> tuple[Any, Any]:
    """Return coverage and mean size of MAPIE's intervals or sets for given predictions; None for two classes."""
    import numpy as np
    from mapie.classification import SplitConformalClassifier
    from mapie.regression import SplitConformalRegressor
    from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin

    class Values(RegressorMixin, BaseEstimator):  # type: ignore[misc]
        """Regressor that predicts its input."""

        def fit(self, X: Any, y: Any) -> Any:
            self.fitted_ = True
            return self

        def predict(self, X: Any) -> Any:
            return X[:, 0]

    class Probabilities(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
        """Classifier whose probabilities are its input."""

        def fit(self, X: Any, y: Any) -> Any:
            self.classes_ = np.arange(X.shape[1])
            return self

        def predict_proba(self, X: Any) -> Any:
            return X

        def predict(self, X: Any) -> Any:
            return X.argmax(axis=1)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if task == "regression":
            regressor = SplitConformalRegressor(Values().fit(known, y), confidence_level=level, prefit=True)
            regressor.conformalize(known[:, None], y)
            _, ends = regressor.predict_interval(predicted[:, None])
            low, high = ends[:, 0, 0], ends[:, 1, 0]
            return float(((low <= truth) & (truth <= high)).mean()), float((high - low).mean())
        if task == "binary":
            return None, None
        known, predicted = (p / p.sum(axis=1, keepdims=True) for p in (known, predicted))
        classifier = SplitConformalClassifier(
            Probabilities().fit(known, y),
            confidence_level=level,
            prefit=True,
            conformity_score="aps",
            random_state=seed,
        )
        classifier.conformalize(known, y.astype(int))
        _, sets = classifier.predict_set(predicted, conformity_score_params={"include_last_label": "randomized"})
        members = sets[:, :, 0]
        return float(members[np.arange(len(members)), truth.astype(int)].mean()), float(members.sum(axis=1).mean())


def summarize(records: Sequence[dict[str, Any]]) -> str:
    """Return a Markdown table: for each table and level the mean coverage, and the mean size relative to MAPIE's."""
    lines = ["| table | task | level | coverage | size | MAPIE coverage | size / MAPIE |", "| --- " * 7 + "|"]
    for key in dict.fromkeys((r["table"], r["task"], r["level"]) for r in records):
        own = [r for r in records if (r["table"], r["task"], r["level"]) == key]
        coverage, size = (statistics.mean(r[name] for r in own) for name in ("coverage", "size"))
        mapie, ratio = "", ""
        if own[0]["mapie_size"] is not None:
            mapie = f"{100 * statistics.mean(r['mapie_coverage'] for r in own):.1f} %"
            ratio = f"{size / statistics.mean(r['mapie_size'] for r in own):.3f}"
        name, task, level = key
        figures = f"{100 * level:g} % | {100 * coverage:.1f} % | {size:.4g} | {mapie} | {ratio}"
        lines.append(f"| {name} | {task} | {figures} |")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure the tables, print the summary and write the records."""
    import pandas as pd

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables-dir", type=Path, required=True)
    parser.add_argument("--tables", nargs="*", default=[table.name for table in TABLES])
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args(arguments)
    records: list[dict[str, Any]] = []
    for table in (table for table in TABLES if table.name in given.tables):
        frame = pd.read_parquet(given.tables_dir / f"{table.name}.parquet")
        for seed in range(given.seeds):
            sample = frame.sample(min(len(frame), given.rows), random_state=seed)
            records += measure(sample, table, seed)
        print(summarize([record for record in records if record["table"] == table.name]), flush=True)
    if given.json is not None:
        given.json.write_text(json.dumps(records, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
