"""The page of metrics."""

from __future__ import annotations

from collections.abc import Mapping

from gpupipe.metrics import METRICS
from gpupipe.tasks import Task
from gpupipe_reference.markdown import code, fence, inline, link, page, table

TASKS: dict[str, tuple[Task, ...]] = {
    "Classification": ("binary", "multiclass"),
    "Regression": ("regression",),
    "Quantile regression": ("quantile",),
    "Ranking": ("ranking",),
    "Clustering": ("clustering",),
    "Embedding": ("embedding",),
}


def metric_pages(links: Mapping[str, str]) -> dict[str, str]:
    """Return the text of the page by its path in the reference."""
    blocks = [f"## {title}\n\n{_table(tasks, links)}" for title, tasks in TASKS.items()]
    text = page(
        "reference-metrics",
        "Metrics",
        f"{link('`evaluate.metrics`', 'config-evaluate-metrics')} names metrics; without it, those marked as default "
        f"are measured. {link('`evaluate.select_by`', 'config-evaluate-select-by')} names the metric that orders the "
        "leaderboard. A metric that is not defined for the test rows is NaN.",
        fence("evaluate: {metrics: [roc_auc, average_precision, f1], select_by: average_precision}", "yaml"),
        *blocks,
        "Metrics of several classes are means over the classes, except accuracy, log_loss, brier and matthews. The "
        "threshold of a binary model is chosen on held-out training rows, never on the test rows: see "
        f"{link('`evaluate.threshold`', 'config-evaluate-threshold')}.",
    )
    return {"metrics.md": text}


def _table(tasks: tuple[Task, ...], links: Mapping[str, str]) -> str:
    rows = []
    for name, metric in METRICS.items():
        if metric.tasks & set(tasks):
            only = (
                ""
                if set(tasks) <= metric.tasks
                else f" ({', '.join(task for task in tasks if task in metric.tasks)} only)"
            )
            better = "higher" if metric.greater_is_better else "lower"
            rows.append(
                [code(name) + only, inline(metric.definition, links), better, "yes" if metric.default else "no"]
            )
    return table(["name", "definition", "better", "default"], rows)
