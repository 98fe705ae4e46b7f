"""How to split, what to make of the columns, which models to train and how to judge them: the same rules for all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gpupipe.features.auto import Auto
from gpupipe.models import Task
from gpupipe.starter.columns import Columns
from gpupipe.starter.document import Document, flow
from gpupipe.starter.facts import Facts
from gpupipe.starter.learning import Learning
from gpupipe.starter.useless import is_named_as_identifier, part_levels

ENOUGH_ROWS = 50_000  # for a single split to measure well
FEW_ROWS = 10_000
FOLDS = 5
TREES = {"learning_rate": 0.05, "max_iter": 300}
SMALL_TREES = {"learning_rate": 0.05, "max_iter": 150, "max_leaf_nodes": 6}
AUTO = (
    "Each column as its kind asks for. Linear models: numbers filled by the median and scaled, categories one-hot, "
    "times on a circle. Trees: numbers as they are, categories as ids, parts of times."
)
METRICS: dict[Task, list[str]] = {
    "binary": ["roc_auc", "average_precision", "accuracy", "f1", "log_loss"],
    "multiclass": ["log_loss", "accuracy", "balanced_accuracy", "f1", "roc_auc"],
    "regression": ["r2", "rmse", "mae"],
    "clustering": ["silhouette", "davies_bouldin", "calinski_harabasz"],
}


def write_split(document: Document, learning: Learning) -> None:
    """Write the ``split:`` section, and what else could be chosen."""
    is_class = bool(learning.counts)
    if learning.n_known < ENOUGH_ROWS:
        stratify = is_class and min(learning.counts) >= FOLDS
        settings: dict[str, Any] = {"cv": FOLDS, "stratify": stratify, "shuffle": True, "seed": 0}
        reason = f"{FOLDS} folds: of so few rows, one split would measure badly"
    else:
        settings = {"test_size": 0.2, "stratify": is_class and min(learning.counts) >= 2, "seed": 0}
        reason = "enough rows to measure well on a fifth of them"
    document.line(f"split: {flow(settings)}", reason)
    if is_class and not settings["stratify"]:
        document.remark(f"Not stratified: the rarest class has {min(learning.counts)} rows.")
    for offer in split_offers(learning):
        document.remark(offer)
    document.blank()


def split_offers(learning: Learning) -> list[str]:
    """Return other splits that the columns suggest."""
    columns = learning.columns
    offers = [_offer_of_parts(column, learning) for name, column in columns.facts.items() if name in columns.dropped]
    times = [n for n in columns.facts if n not in columns.dropped and columns.kind(n) == "datetime"]
    offers += [
        f"To test on the latest rows, as it will be in use: split: {flow({'time': name, 'test_size': 0.2})}"
        for name in times[:1]
    ]
    groups = [name for name, column in columns.facts.items() if _may_group(column, learning)]
    offers += [
        f"If rows of one {name} are alike, keep them together: split: {flow({'cv': FOLDS, 'group': name})}"
        for name in groups[:1]
    ]
    return [offer for offer in offers if offer]


def _offer_of_parts(column: Facts, learning: Learning) -> str:
    """Offer the split that a column makes; test on a part that has targets."""
    parts = part_levels(column)
    if not parts:
        return ""
    labelled = learning.labelled_levels(column.name)
    test = next((parts[p] for p in ("test", "valid") if set(parts[p]) & labelled), [])
    if not test:
        return ""
    offered = {"column": {"name": column.name, "train": parts["train"], "test": test}}
    return f"The split in {column.name} instead: take it out of drop, and write split: {flow(offered)}"


def _may_group(column: Facts, learning: Learning) -> bool:
    is_input = column.name not in learning.columns.dropped and column.name != learning.goal.target
    repeats = 20 <= column.n_distinct <= column.n_filled / 2
    return is_input and repeats and is_named_as_identifier(column.name)


def write_features(document: Document, columns: Columns, tails: Sequence[str] = ()) -> None:
    """Write the ``features:`` section."""
    document.line("features:")
    if tails:
        document.list("  - log1p", tails, "long right tails")
    document.remark(AUTO, "  ")
    if long := [f"{name} ({columns.facts[name].n_distinct:,})" for name in columns.kept if _is_long(name, columns)]:
        document.remark(f"Too many levels for one-hot, so encoded by the mean target of each: {', '.join(long)}.", "  ")
    document.line('  - auto: "@all"')
    document.blank()


def _is_long(name: str, columns: Columns) -> bool:
    limit = Auto(columns="@all").max_one_hot
    return columns.kind(name) == "categorical" and columns.facts[name].n_distinct > limit


def write_models(document: Document, learning: Learning) -> None:
    """Write the ``models:`` section."""
    document.line("models:", "a leaderboard; the best one is exported")
    if learning.goal.task == "regression":
        document.line("  - ridge", "linear: hard to beat on few rows, and easy to explain")
    else:
        document.line("  - logistic_regression", "linear: hard to beat on few rows, and easy to explain")
    if learning.goal.task != "regression" and learning.n_known < FEW_ROWS:
        boosting, reason = SMALL_TREES, "small trees: larger ones would learn so few rows by heart"
    else:
        boosting, reason = TREES, "trees: for what is not linear"
    document.line(f"  - hist_gradient_boosting: {flow(boosting)}", reason)
    document.blank()


def write_evaluation(document: Document, task: Task) -> None:
    """Write the ``evaluate:`` section."""
    document.line(f"evaluate: {flow({'metrics': METRICS[task]})}", "the first one orders the leaderboard")
    document.blank()
