"""How to split, what to make of the columns, which models to train and how to judge them: the same rules for all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gpupipe.backends import DeviceReport
from gpupipe.doctor.extras import install_extra, suitable_major
from gpupipe.doctor.installed import Installed
from gpupipe.features.auto import Auto
from gpupipe.models import Task
from gpupipe.starter.columns import Columns
from gpupipe.starter.document import Document, flow
from gpupipe.starter.facts import Facts
from gpupipe.starter.learning import Learning
from gpupipe.starter.places import two_places
from gpupipe.starter.tails import has_wild_values
from gpupipe.starter.useless import is_named_as_identifier, part_levels

ENOUGH_ROWS = 50_000  # for a single split to measure well
FEW_ROWS = 10_000
FOLDS = 5
# Of the settings tried on seven public tables, these were best or near it on every one: many small steps, each split
# choosing among half of the columns. Where a few values rule the error, later steps follow them: the fares of the
# Chicago table have R² 0.807 to 0.813 with 100 steps, 0.793 to 0.808 with 300. New York's durations would lose 0.010 by
# it, and 0.005 by early stopping.
_STEPS = {"learning_rate": 0.05, "max_iter": 300, "max_features": 0.5}
TREES = {
    "usual": _STEPS,
    "fewer": {**_STEPS, "max_iter": 100},
    "small": {"learning_rate": 0.05, "max_iter": 150, "max_leaf_nodes": 6, "max_features": 0.5},
}
# The same for XGBoost. On three of these tables it scores as scikit-learn's: ROC-AUC 0.849 (0.849) on Telco, R² 0.954
# (0.956) on the bikes, 0.806 (0.807) on the fares. In regression a leaf needs 20 rows as there: with XGBoost's default
# of one the fares have R² 0.69.
_GPU_STEPS = {"learning_rate": 0.05, "n_estimators": 300, "colsample_bynode": 0.5}
LEAF_ROWS = {"min_child_weight": 20}
GPU_TREES = {
    "usual": _GPU_STEPS,
    "fewer": {**_GPU_STEPS, "n_estimators": 100},
    "small": {**_GPU_STEPS, "n_estimators": 150, "max_depth": 3},
}
AUTO = (
    "Each column as its kind asks for. Linear models: numbers filled by the median and scaled, categories one-hot, "
    "times on a circle. Trees: numbers as they are, categories as ids, parts of times."
)
XGBOOST = {"n_estimators": 300, "learning_rate": 0.05, "subsample": 0.8}
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
    for remark, offered in split_offers(learning):
        document.remark(remark)
        document.line(f"# split: {flow(offered)}")
    document.blank()


def split_offers(learning: Learning) -> list[tuple[str, dict[str, Any]]]:
    """Return other splits that the columns suggest, each with what speaks for it."""
    columns = learning.columns
    offers = [_offer_of_parts(columns.facts[name], learning) for name in columns.dropped]
    times = [name for name in columns.kept if columns.kind(name) == "datetime"]
    if times:
        offers.append(("To test on the latest rows, as it will be in use:", {"time": times[0], "test_size": 0.2}))
    groups = [name for name, column in columns.facts.items() if _may_group(column, learning)]
    if groups:
        offers.append(
            (f"To keep rows of one {groups[0]} together, if they are alike:", {"cv": FOLDS, "group": groups[0]})
        )
    return [offer for offer in offers if offer]


def _offer_of_parts(column: Facts, learning: Learning) -> tuple[str, dict[str, Any]] | None:
    """Offer the split that a column makes; test on a part that has targets."""
    parts = part_levels(column)
    labelled = learning.labelled_levels(column.name) if parts else set()
    test = next((parts[part] for part in ("test", "valid") if labelled.intersection(parts.get(part, ()))), None)
    if test is None:
        return None
    offered = {"column": {"name": column.name, "train": parts["train"], "test": test}}
    return f"The split in {column.name} instead; take it out of drop then:", offered


def _may_group(column: Facts, learning: Learning) -> bool:
    is_input = column.name not in learning.columns.dropped and column.name != learning.goal.target
    repeats = 20 <= column.n_distinct <= column.n_filled / 2
    return is_input and repeats and is_named_as_identifier(column.name)


def write_features(document: Document, columns: Columns, learning: Learning | None = None) -> None:
    """Write the ``features:`` section."""
    tails, target = (learning.tails, learning.goal.target) if learning else ((), None)
    inputs = [name for name in columns.kept if name != target]
    document.line("features:")
    _write_distance(document, columns, inputs)
    if tails:
        document.list("  - log1p", tails, "long right tails")
    document.remark(AUTO, "  ")
    long = [f"{name} ({columns.facts[name].n_distinct:,})" for name in inputs if _is_long(name, columns)]
    if long:
        document.remark(f"Too many levels for one-hot, so numbers for linear models: {', '.join(long)}.", "  ")
    document.line('  - auto: "@all"')
    document.blank()


def _write_distance(document: Document, columns: Columns, inputs: Sequence[str]) -> None:
    """Write what is between two places, unless a distance is given: trees would have to make it of four columns."""
    places = two_places(columns, inputs)
    if places and not any("distance" in name.lower() for name in columns.facts):
        document.line("  - haversine:", "as the crow flies")
        document.list("      from", places[0])
        document.list("      to", places[1])
        document.line("      unit: km")
        document.line("      as: distance_km")


def _is_long(name: str, columns: Columns) -> bool:
    limit = Auto(columns="@all").max_one_hot
    return columns.kind(name) == "categorical" and columns.facts[name].n_distinct > limit


def write_models(document: Document, learning: Learning, device: DeviceReport) -> None:
    """Write the ``models:`` section: only models that the GPU trains where there is a usable one."""
    document.line("models:", "a leaderboard; the best one is exported")
    linear = "ridge" if learning.goal.task == "regression" else "logistic_regression"
    document.line(f"  - {linear}", "linear: hard to beat on few rows, and easy to explain")
    if learning.goal.task != "regression" and learning.n_known < FEW_ROWS:
        size, reason = "small", "small trees: larger ones would learn so few rows by heart"
    elif learning.goal.task == "regression" and learning.n_known < ENOUGH_ROWS and has_wild_values(learning.sample.y):
        size, reason = "fewer", "fewer trees: more would follow the few targets that are far out"
    else:
        size, reason = "usual", "trees: for what is not linear"
    on_host = f"- hist_gradient_boosting: {flow(TREES[size])}"
    if device.gpu.usable:
        trees = {**GPU_TREES[size], **(LEAF_ROWS if learning.goal.task == "regression" else {})}
        document.line(f"  - xgboost: {flow(trees)}", reason)
        for remark in gpu_remarks(device):
            document.remark(remark, "  ")
        document.remark("The next model is trained on the CPU, whatever the device:", "  ")
        document.line(f"  # {on_host}")
    else:
        document.line(f"  {on_host}", reason)
        document.remark(f"- xgboost: {flow(XGBOOST)}  # pip install 'gpupipe[cpu]'", "  ")
    document.blank()


def gpu_remarks(device: DeviceReport) -> list[str]:
    """Return what to say of the usable GPU of this machine: its part, and what to install first, if anything."""
    remarks = [f"Both models train on this machine's GPU, {device.gpu.name}."]
    if device.missing_packages:
        install = install_extra(suitable_major(device.gpu, Installed()))
        remarks.append(f"Its packages are not installed yet: {install}")
    return remarks


def write_evaluation(document: Document, task: Task) -> None:
    """Write the ``evaluate:`` section."""
    document.line(f"evaluate: {flow({'metrics': METRICS[task]})}", "the first one orders the leaderboard")
    document.blank()
