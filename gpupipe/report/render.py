"""Write report.html and plots/ from plain values."""

from __future__ import annotations

from itertools import chain
from pathlib import Path
from typing import Any

from gpupipe.report import text
from gpupipe.report.contribution_section import contribution_sections, draw_contributions
from gpupipe.report.data import LeaderboardRow, ReportData
from gpupipe.report.environment import html_environment, inline_svg
from gpupipe.report.gains import at_threshold, gain_rows
from gpupipe.report.hardware import sparkline_rows
from gpupipe.report.sentences import comparison_sentence, evaluation_basis, result_sentences
from gpupipe.report.settings import Report
from gpupipe.report.slices import slice_axis

CAPTIONS = {
    "gains": "Cumulative gains",
    "roc": "ROC curve",
    "precision_recall": "Precision and recall",
    "calibration": "Calibration",
    "predicted_actual": "Predicted against actual",
    "residuals": "Residuals",
    "training": "Training loss of the best model by epoch",
    "tuning": "Score of each trial, and the best so far",
}
OF_PREDICTIONS = ("gains", "roc", "precision_recall", "calibration", "predicted_actual", "residuals")
MAX_IMPORTANCES = 20
MAX_CLASSES = 20  # of a confusion table
MAX_COLUMNS = 500  # of the tables of columns
MAX_STAGES = 16  # a longer timeline is folded
MAX_GENERATED = 40
MAX_TRIED = 200  # of a table of tried models


def render(data: ReportData, folder: Path, settings: Report | None = None) -> Path:
    """Write ``report.html`` and ``plots/*.svg`` into `folder`.

    The page needs no other file, no script and no network. Every value of the data is escaped.

    `folder`: an existing directory.

    Returns
    -------
    Path
        The page.
    """
    settings = settings or Report()
    plots = draw(data) if settings.plots else {}
    html = page(data, plots, settings.title)  # before the first file: a report is complete or absent
    if plots:
        (folder / "plots").mkdir(exist_ok=True)
    for name, svg in plots.items():
        (folder / "plots" / f"{name}.svg").write_text(svg, encoding="utf-8")
    path = folder / "report.html"
    path.write_text(html, encoding="utf-8")
    return path


def draw(data: ReportData) -> dict[str, str]:
    """Return file stem to SVG for each plot that `data` has the points of."""
    from gpupipe.report.plots import draw_classification, draw_regression, draw_training, draw_tuning

    plots: dict[str, str] = {}
    for i, result in enumerate(data.results, 1):
        found = {} if result.classification is None else draw_classification(result.classification)
        if result.regression is not None:
            found |= draw_regression(result.regression)
        plots |= {_stem(name, i, data): svg for name, svg in found.items()}
    if data.losses:
        plots |= draw_training(data.losses)
    plots |= draw_contributions(data)
    for stem, row in _searches(data):
        if (search := row.search) is not None and search.kind == "tuning" and search.has_scores:
            plots[stem] = draw_tuning(search, data.higher_is_better)
    return plots


def page(data: ReportData, plots: dict[str, str], title: str | None = None) -> str:
    """Return the HTML page with `plots` (file stem to SVG) inlined."""
    from markupsafe import Markup

    sections = contribution_sections(data, plots, has_strips=bool(plots))
    of_columns = set(chain.from_iterable(section.stems for section in sections))
    drawn = {
        name: Markup(inline_svg(svg, name, _caption(name))) for name, svg in plots.items() if name not in of_columns
    }
    searches = [(row, drawn.pop(stem, None)) for stem, row in _searches(data)]
    results: list[dict[str, Any]] = []
    for i, result in enumerate(data.results, 1):
        own = [(name, drawn.pop(stem)) for name in OF_PREDICTIONS if (stem := _stem(name, i, data)) in drawn]
        results.append(
            {
                "target": result,
                "figures": [(_caption(name), svg) for name, svg in own],
                "gains": [] if result.classification is None else gain_rows(result.classification),
                "at_threshold": at_threshold(result.classification),
            }
        )
    figures = [(_caption(name), svg) for name, svg in drawn.items()]
    if len(results) == 1:
        results[0]["figures"] += figures
        figures = []
    influential = [item for item in data.importances if item.is_measurable]
    template = html_environment().get_template("page.html")
    return template.render(
        data=data,
        best=data.best,
        title=title or data.name,
        results=results,
        figures=figures,
        metrics=text.metric_names(data.best.metrics),
        sentences=result_sentences(data),
        basis=evaluation_basis(data),
        comparison=comparison_sentence(data),
        searches=searches,
        slice_axis=slice_axis(data.slices, data.metric),
        total_seconds=_total_seconds(data),
        sparklines=sparkline_rows(data, _total_seconds(data)),
        influential=influential,
        without_influence=[item for item in data.importances if not item.is_measurable],
        importance_scale=max((item.mean + (item.std or 0) for item in influential), default=0),
        contributions=sections,
        is_merged=any(section.importances for section in sections),
        limits={
            "importances": MAX_IMPORTANCES,
            "classes": MAX_CLASSES,
            "columns": MAX_COLUMNS,
            "stages": MAX_STAGES,
            "tried": MAX_TRIED,
            "generated": MAX_GENERATED,
        },
    )


def _searches(data: ReportData) -> list[tuple[str, LeaderboardRow]]:
    """Return the leaderboard's rows with a search, the exported one first, each with the stem of its plot."""
    found = sorted((row for row in data.leaderboard if row.search is not None), key=lambda row: row is not data.best)
    return [(f"tuning-{i}" if i > 1 else "tuning", row) for i, row in enumerate(found, 1)]


def _stem(name: str, position: int, data: ReportData) -> str:
    """Return the file stem of a plot of a target; those of several targets have their positions."""
    return f"{name}-{position}" if data.targets else name


def _caption(stem: str) -> str:
    return CAPTIONS[stem.partition("-")[0]]


def _total_seconds(data: ReportData) -> float:
    """Return the length of the time axis: the end of the last stage."""
    ends = [float(stage["start_seconds"]) + float(stage["seconds"]) for stage in data.stages]
    return max(ends, default=0.0)
