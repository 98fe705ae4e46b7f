"""Histogram gradient boosting on one-hot columns and on integer codes of the same rows: what ``encode`` is worth."""

from __future__ import annotations

from typing import Any

from gpupipe.bench.choice import choose_model, describe
from gpupipe.bench.clock import StageClock
from gpupipe.bench.stages import Divided, import_estimator, judge, measured_metrics, model_of, read_and_split
from gpupipe.config import Config, ModelEntry
from gpupipe.models.boosting import HistGradientBoosting
from gpupipe.pipeline.training import fit_view, train

BOOSTING = "hist_gradient_boosting"


class OneHotBoosting(HistGradientBoosting):
    """The same model, shown what linear models see."""

    view = "dense"  # type: ignore[assignment]  # mypy takes the parent's value for its type


def run_encodings(config: Config, repeat: int) -> dict[str, Any]:
    """Train both `repeat` times in turn, in this process; return seconds, metrics and columns of each.

    Raises
    ------
    ConfigError
        If the task is not supervised.
    """
    divided = read_and_split(config, StageClock())
    codes = model_of(divided.job, choose_model(config, BOOSTING))
    dense = ModelEntry(name=BOOSTING, params=OneHotBoosting(**codes.params.model_dump()))
    entries = {"one-hot": dense, "codes": codes}
    report = {name: _describe_view(divided, entry) for name, entry in entries.items()}
    with StageClock()("imports"):
        import_estimator(divided.job, codes)
    for _ in range(repeat):
        for name, entry in entries.items():
            report[name]["runs"].append(_fit_and_judge(divided, entry))
    metric = measured_metrics(divided.job)[0]
    return {"model": describe(codes), "metric": metric, "rows": divided.rows.n_rows, "views": report}


def _describe_view(divided: Divided, entry: ModelEntry) -> dict[str, Any]:
    job = divided.job
    features, matrix = fit_view(divided.rows, entry.params.view, job.config.features, job.backend)
    return {"columns": matrix.shape[1], "native_categories": len(features.categorical), "runs": []}


def _fit_and_judge(divided: Divided, entry: ModelEntry) -> dict[str, float]:
    job, clock = divided.job, StageClock()
    with clock("fit"):
        trained = train(entry, divided.rows, job.goal, job.config, job.backend)
    X = trained.features.transform(divided.test, job.backend)
    quality = judge(job, divided.y_test, trained.model.predict(X), X)
    return {"fit_s": clock.wall["fit"], "fit_cpu_s": clock.cpu["fit"], **quality}
