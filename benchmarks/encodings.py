"""Comparison of histogram gradient boosting on one-hot columns and on integer codes of the same rows.

    python -m benchmarks.encodings CONFIG [--set PATH=VALUE ...] [--repeat N] [--json FILE]

The two are trained in turn in this process, with CONFIG's parameters for the model, if it lists the model. Results are
medians.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gpupipe.bench.clock import StageClock
from gpupipe.bench.figures import known_median, ratio
from gpupipe.bench.models import choose_model, describe
from gpupipe.bench.stages import SplitTable, import_estimator, measured_metrics, model_of, read_and_split, score_rows
from gpupipe.config import Config, ModelEntry, load_config
from gpupipe.errors import GpupipeError
from gpupipe.features.program.fitted import write_matrix
from gpupipe.files.jsonfile import write_json
from gpupipe.models.scikit_learn.settings.hist_boosting import HistGradientBoosting
from gpupipe.training.fit import fit_view, train

BOOSTING = "hist_gradient_boosting"
ONE_HOT, CODES = "one-hot", "codes"
REPEAT = 5


class OneHotBoosting(HistGradientBoosting):
    """The same model on the columns of linear models."""

    view = "dense"  # type: ignore[assignment]  # mypy takes the parent's value for its type


def run_encodings(config: Config, repeat: int) -> dict[str, Any]:
    """Train both `repeat` times in turn; return the seconds, metrics and columns of each.

    Raises
    ------
    ConfigError
        If the task is not supervised.
    """
    split = read_and_split(config, StageClock())
    codes = model_of(split.job, choose_model(config, BOOSTING))
    dense = ModelEntry(name=BOOSTING, params=OneHotBoosting(**codes.params.model_dump()))
    entries = {ONE_HOT: dense, CODES: codes}
    views = {name: _describe_view(split, entry) for name, entry in entries.items()}
    import_estimator(split.job, codes)
    for _ in range(repeat):
        for name, entry in entries.items():
            views[name]["runs"].append(_fit_and_score(split, entry))
    metric = measured_metrics(split.job)[0]
    for view in views.values():
        view |= {name: known_median([run[name] for run in view["runs"]]) for name in ("fit_s", "fit_cpu_s", metric)}
    return {
        "model": describe(codes), "metric": metric, "rows": split.rows.n_rows, "views": views,
        "fit_ratio": ratio(views[CODES]["fit_s"], views[ONE_HOT]["fit_s"]),
    }  # fmt: skip


def _describe_view(split: SplitTable, entry: ModelEntry) -> dict[str, Any]:
    job = split.job
    features, matrix = fit_view(split.rows, entry.params.view, job.config.features, job.backend)
    return {"columns": matrix.shape[1], "native_categories": len(features.categorical), "runs": []}


def _fit_and_score(split: SplitTable, entry: ModelEntry) -> dict[str, float]:
    job, clock = split.job, StageClock()
    with clock("fit"):
        trained = train(entry, split.rows, job.goal, job.config, job.backend)
    X = write_matrix(split.test, trained.features, job.backend)
    quality = score_rows(job, split.truth, trained.model.predict(X), X)
    return {"fit_s": clock.wall["fit"], "fit_cpu_s": clock.cpu["fit"], **quality}


def text_of(figures: Mapping[str, Any]) -> str:
    """Return the results as a table with the ratio, or the reason that there is nothing to compare."""
    metric, views = figures["metric"], figures["views"]
    lines = [
        f"{figures['model']}, {figures['rows']:,} training rows",
        f"{'encoding':<12}{'columns':>9}{'native categories':>19}{'fit s':>10}{'CPU s':>10}{metric:>12}",
    ]
    for name, view in views.items():
        seconds = f"{view['fit_s']:10.3f}{view['fit_cpu_s']:10.3f}"
        lines.append(f"{name:<12}{view['columns']:9}{view['native_categories']:19}{seconds}{view[metric]:12.5f}")
    if not views[CODES]["native_categories"]:
        lines.append(
            "No column reaches the trees as codes: the configuration fixes the encoding (one_hot, target_encode). "
            "Use `encode` to compare."
        )
    else:
        lines.append(f"The fit on codes takes {figures['fit_ratio']:.2f} of the time on one-hot columns.")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the results, and return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.encodings",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("config", type=Path)
    parser.add_argument("--set", dest="overrides", action="append", default=[], metavar="PATH=VALUE")
    parser.add_argument("--repeat", type=int, default=REPEAT, help="runs per encoding (default: %(default)s)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all results to this JSON file")
    options = parser.parse_args(arguments)
    try:
        figures = run_encodings(load_config(options.config, options.overrides), options.repeat)
    except GpupipeError as error:
        print(f"{error.title}: {error}", file=sys.stderr)
        return error.exit_code
    if options.json:
        write_json(options.json, figures)
    print(text_of(figures))
    return 0


if __name__ == "__main__":
    sys.exit(main())
