"""The split, features, models and evaluate sections of a starter configuration."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import Any

from gpupipe.backends import DeviceReport
from gpupipe.doctor.distributions import Distributions, install_extra, suitable_major
from gpupipe.features.ops.auto import Auto
from gpupipe.names import count_noun, enumerate_names, is_glob
from gpupipe.starter.columns import TableColumns
from gpupipe.starter.document import YamlDocument, flow
from gpupipe.starter.entities import MIN_REPEATED
from gpupipe.starter.facts import ColumnFacts
from gpupipe.starter.target_analysis import TargetAnalysis
from gpupipe.starter.useless_columns import is_count, is_free_text, is_named_as_key, part_levels
from gpupipe.table.list_columns import Lists
from gpupipe.tasks import Task

ENOUGH_ROWS = 50_000  # for reliable metrics with a single split
FOLDS = 5
COMPONENTS_OF_TEXT = 100  # for latent semantic analysis, scikit-learn's TruncatedSVD recommends it
WIDE_COLUMNS = 5_000  # with more columns, boosting on the CPU takes minutes per model and fold
# Small trees and a low learning rate on samples of rows and columns, as recommended before tuning by Friedman (2002)
# and the guides of XGBoost and LightGBM. benchmarks/results/starter.md has the gain on public tables.
SMALL_XGBOOST = {
    "defaults": "library",
    "n_estimators": 300,
    "learning_rate": 0.05,
    "max_depth": 4,
    "min_child_weight": 5,
    "subsample": 0.8,
    "colsample_bynode": 0.5,
}
SMALL_TREES = {
    "defaults": "library", "learning_rate": 0.05, "max_iter": 200, "max_leaf_nodes": 15, "max_features": 0.5,
}  # fmt: skip
TUNED = "published defaults; held-out rows choose the number of rounds"
AUTO = (
    "Default treatment by kind. Linear models: numbers imputed by the median and scaled, categories one-hot, times "
    "cyclic. Trees: numbers unchanged, categories as ids, calendar parts of times."
)
COORDINATES = {
    "latitude": ({"lat", "latitude"}, 90.0),
    "longitude": ({"lon", "lng", "long", "longitude"}, 180.0),
}
MOST_ITEMS = 64  # distinct items of lists that each have a column
Place = tuple[str, str]
METRICS: dict[Task, list[str]] = {
    "binary": ["roc_auc", "average_precision", "accuracy", "f1", "log_loss"],
    "multiclass": ["log_loss", "accuracy", "balanced_accuracy", "f1", "roc_auc"],
    "regression": ["r2", "rmse", "mae"],
    "clustering": ["silhouette", "davies_bouldin", "calinski_harabasz"],
}


def write_split(document: YamlDocument, analysis: TargetAnalysis) -> None:
    """Write the ``split:`` section, with alternatives as comments."""
    is_class = bool(analysis.counts)
    if analysis.n_known < ENOUGH_ROWS:
        stratify = is_class and min(analysis.counts) >= FOLDS
        settings: dict[str, Any] = {"cv": FOLDS, "stratify": stratify, "shuffle": True, "seed": 0}
        reason = f"{FOLDS} folds: each row is predicted once, by a model that was not trained on it"
    else:
        settings = {"test_size": 0.2, "stratify": is_class and min(analysis.counts) >= 2, "seed": 0}
        reason = "enough rows to test on a fifth of them"
    size: dict[str, Any] = {name: settings[name] for name in ("cv", "test_size") if name in settings}
    offers = split_offers(analysis, size)
    if series := analysis.series:
        document.comment(f"{series.evidence}: each fold is later than the rows that its model was trained on.")
        # A class may be absent from the first folds.
        document.line(f"split: {flow({'time': series.time, **({'test_size': 0.2} if is_class else size)})}")
        offers.insert(0, ("For rows between those that are known, not for a forecast:", settings))
    elif entity := analysis.entity:
        document.comment(f"{entity.evidence}. They stay together; {entity.name} is not an input.")
        document.line(f"split: {flow({**size, 'group': entity.name, 'seed': 0})}")
        offers.insert(0, (f"For new rows of the same {entity.name}; also add it to drop:", settings))
    else:
        document.line(f"split: {flow(settings)}", reason)
        if is_class and not settings["stratify"]:
            document.comment(f"Not stratified: the rarest class has {min(analysis.counts)} rows.")
    for comment, offered in offers:
        document.comment(comment)
        document.line(f"# split: {flow(offered)}")
    _write_repeated_rows(document, analysis)
    document.blank()


def _write_repeated_rows(document: YamlDocument, analysis: TargetAnalysis) -> None:
    """Write how to drop rows that repeat earlier ones, of which a random split trains on a copy."""
    n_repeated, n_rows = analysis.columns.n_repeated, analysis.columns.n_rows
    if n_repeated < MIN_REPEATED * n_rows:
        return
    document.comment(
        f"{n_repeated / n_rows:.0%} of the rows repeat earlier ones: random folds test on copies of rows that were "
        "trained on. To drop the copies, save the next line as hooks.py, and add to source: prepare: hooks.py:distinct"
    )
    document.line("#   def distinct(frame): return frame.drop_duplicates()")


def split_offers(analysis: TargetAnalysis, size: Mapping[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """Return alternative splits that the columns suggest, each with a comment."""
    columns = analysis.columns
    offers = [_offer_of_parts(columns.facts[name], analysis) for name in columns.dropped]
    whole = [name for name in analysis.split_times if not columns.facts[name].n_null]
    times = [analysis.series.time] if analysis.series else whole
    if times and not analysis.series:
        offers.append(("To test on the latest rows, as in production:", {"time": times[0], "test_size": 0.2}))
    groups = [name for name, column in columns.facts.items() if _may_group(column, analysis)]
    if analysis.entity:
        groups = [analysis.entity.name]
    elif groups:
        offers.append(
            (f"To keep rows with the same {groups[0]} together, if they are similar:", {**size, "group": groups[0]})
        )
    if times and groups:
        comment = f"To test on later rows of other values of {groups[0]}; gap: the time until a target is known:"
        is_time = columns.kind(times[0]) == "datetime"
        offers.append((comment, {**size, "time": times[0], "group": groups[0], **({"gap": "7d"} if is_time else {})}))
    return [offer for offer in offers if offer]


def _offer_of_parts(column: ColumnFacts, analysis: TargetAnalysis) -> tuple[str, dict[str, Any]] | None:
    """Return the split by a column of split markers, if one of its test parts has targets."""
    parts = part_levels(column)
    labelled = analysis.labelled_levels(column.name) if parts else set()
    test = next((parts[part] for part in ("test", "valid") if labelled.intersection(parts.get(part, ()))), None)
    if test is None:
        return None
    offered = {"column": {"name": column.name, "train": parts["train"], "test": test}}
    return f"To use the split in {column.name}; also remove the column from drop:", offered


def _may_group(column: ColumnFacts, analysis: TargetAnalysis) -> bool:
    """Return whether a column looks like a key with repeated values, and not like a count."""
    is_input = column.name not in analysis.columns.dropped and column.name != analysis.goal.target
    repeats = 20 <= column.n_distinct <= column.n_filled / 2
    return is_input and repeats and is_named_as_key(column.name) and not is_count(column)


def write_features(document: YamlDocument, columns: TableColumns, analysis: TargetAnalysis | None = None) -> None:
    """Write the ``features:`` section."""
    tails, inputs = (analysis.tails, analysis.inputs) if analysis else ((), columns.kept)
    document.line("features:")
    _write_sentinels(document, columns, inputs)
    _write_numbers(document, columns, inputs)
    _write_texts(document, columns, inputs, analysis is not None and analysis.goal.target is not None)
    _write_lists(document, columns.source_table.lists)
    _write_distance(document, columns, inputs)
    if tails:
        document.list("  - log1p", tails, "long right tails")
    document.comment(AUTO, "  ")
    limit = Auto(columns="@all").max_one_hot
    categories = {name: columns.facts[name].n_distinct for name in inputs if columns.kind(name) == "categorical"}
    long = [f"{name} ({n:,})" for name, n in categories.items() if n > limit]
    if long:
        document.comment(
            f"Too many levels for one-hot, so target-encoded for linear models: {enumerate_names(long)}.", "  "
        )
    document.line('  - auto: "@all"')
    document.blank()


def _write_sentinels(document: YamlDocument, columns: TableColumns, inputs: Sequence[str]) -> None:
    """Write an op for the columns that have the same sentinels."""
    left = {name: columns.sentinels[name] for name in inputs if name in columns.sentinels and name[:1] not in "!@"}
    left = {name: found for name, found in left.items() if columns.kind(name) == "numeric"}
    while left:
        first = next(iter(left.values()))
        alike = {name: found for name, found in left.items() if found.values == first.values}
        rows = ", ".join(f"{name} in {count_noun(found.n_rows, 'row')}" for name, found in alike.items())
        settings = {"columns": list(alike), "values": list(first.values)}
        document.line(f"  - null_if: {flow(settings)}", f"{first.text}: {rows}")
        left = {name: found for name, found in left.items() if name not in alike}


def _write_numbers(document: YamlDocument, columns: TableColumns, inputs: Sequence[str]) -> None:
    """Write an op for the numbers in texts of each format."""
    written = {name: form for name, form in columns.written_numbers().items() if name in inputs}
    while written:
        form = next(iter(written.values()))
        names = [name for name, own in written.items() if own == form]
        document.line(f"  - parse_number: {flow(form.settings(*names))}", f"adds {names[0]}_number")
        written = {name: own for name, own in written.items() if name not in names}


def _write_texts(document: YamlDocument, columns: TableColumns, inputs: Sequence[str], has_target: bool) -> None:
    """Write the op for texts that are similar to each other: free texts, names, and categories with many levels."""
    texts = columns.similar_texts(inputs)
    if columns.n_rows >= ENOUGH_ROWS:  # for target encoding, too; the columns would take much time and memory
        texts = [name for name in texts if name in columns.declared]
    if not texts:
        return
    document.comment(
        "Numbers that are similar for similar texts: TF-IDF of n-grams of words and characters, reduced"
        f"{'; target also predicts the target from all n-grams' * has_target}. Categories keep their codes too.",
        "  ",
    )
    free = [name for name in texts if is_free_text(columns.facts[name])]
    if free:
        document.line("  - text_vectors:")
        document.list("      columns", free)
        document.line(f"      n_components: {COMPONENTS_OF_TEXT}")
        if has_target:
            document.line("      target: true")
    if names := [name for name in texts if name not in free]:
        document.line("  - text_vectors:")
        document.list("      columns", names)
        if has_target:
            document.line("      target: true")


def _write_lists(document: YamlDocument, lists: Mapping[str, Lists]) -> None:
    """Write the ops for columns of lists: indicators of few distinct items, else statistics, items or hashes."""
    found: dict[str, list[str]] = {"multi_hot": [], "list_columns": [], "list_stats": [], "list_hash": []}
    for name, own in lists.items():
        if name[:1] in "!@" or is_glob(name) or not own.lengths.any():
            continue
        sizes, n_distinct = set(own.lengths[~own.is_null].tolist()), len(own.codes[1])
        if n_distinct <= MOST_ITEMS:
            found["multi_hot"].append(name)
        elif own.levels is None and len(sizes) == 1:
            found["list_columns"].append(name)
        else:
            found["list_stats"].append(name)
            found["list_hash"] += [name] * (own.levels is not None)
    written = {op: names for op, names in found.items() if names}
    if written:
        document.comment("Lists: indicators of few distinct items, items of one length, or statistics.", "  ")
    for op, names in written.items():
        document.list(f"  - {op}", names)


def _write_distance(document: YamlDocument, columns: TableColumns, inputs: Sequence[str]) -> None:
    """Write the distance of two places, unless the table has one; trees cannot easily learn it from coordinates."""
    places = two_places(columns, inputs)
    if places and not any("distance" in name.lower() for name in columns.facts):
        document.line("  - haversine:", "great-circle distance")
        document.list("      from", places[0])
        document.list("      to", places[1])
        document.line("      unit: km")
        document.line("      as: distance_km")


def two_places(columns: TableColumns, names: Sequence[str]) -> tuple[Place, Place] | None:
    """Return latitude and longitude of both places; None unless there are exactly two places.

    The first place in column order is the start; the distance does not depend on it.
    """
    found: dict[tuple[str, ...], dict[str, str]] = {}
    for name in names:
        if columns.kind(name) == "numeric":
            coordinate, place = _coordinate(name, columns.facts[name].range)
            if coordinate:
                # Two columns with the same words are ambiguous.
                taken = found.setdefault(place, {})
                taken[coordinate] = "" if coordinate in taken else name
    places = [(place["latitude"], place["longitude"]) for place in found.values() if len(place) == len(COORDINATES)]
    return (places[0], places[1]) if len(places) == 2 and all(map(all, places)) else None


def _coordinate(name: str, bounds: tuple[float, float]) -> tuple[str, tuple[str, ...]]:
    """Return the coordinate of a column (``""`` for none) and its place: the remaining words of its name."""
    words = re.findall(r"[a-z]+|\d+", re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower())
    for coordinate, (spellings, most) in COORDINATES.items():
        rest = tuple(word for word in words if word not in spellings)
        if len(rest) == len(words) - 1 and -most <= bounds[0] and bounds[1] <= most:
            return coordinate, rest
    return "", ()


def write_models(document: YamlDocument, analysis: TargetAnalysis, device: DeviceReport) -> None:
    """Write the ``models:`` section; with a usable GPU, only models that it can train."""
    document.line("models:", "compared in a leaderboard; the champion is exported")
    task, n_columns = analysis.goal.task, len(analysis.columns.kept)
    linear = "ridge" if task == "regression" else "logistic_regression"
    document.line(f"  - {linear}", "linear: strong on few rows, and easy to explain")
    if n_columns > WIDE_COLUMNS and not device.gpu.usable:
        document.comment(f"Boosting is slow on {n_columns:,} columns; to add it:", "  ")
        document.line(f"  # - {'xgboost' if has_xgboost() else 'hist_gradient_boosting'}")
    elif device.gpu.usable:
        document.line("  - xgboost", f"boosted trees: {TUNED}")
        document.line(f"  - {_small('xgboost', SMALL_XGBOOST)}", "smaller trees, on samples of rows and columns")
        for comment in gpu_comments(device):
            document.comment(comment, "  ")
        document.comment("The next model always trains on the CPU:", "  ")
        document.line("  # - hist_gradient_boosting")
    else:
        if analysis.n_known < ENOUGH_ROWS:
            document.line("  - random_forest", "300 trees: strong on few rows")
        document.line("  - hist_gradient_boosting", f"boosted trees: {TUNED}")
        if has_xgboost():
            document.line("  - xgboost", "the same, on samples of rows and columns")
            document.line(f"  - {_small('xgboost', SMALL_XGBOOST)}", "smaller trees, and a fixed number of rounds")
        else:
            small = _small("hist_gradient_boosting", SMALL_TREES)
            document.line(f"  - {small}", "smaller trees, and a fixed number of rounds")
            document.comment("Often better; requires pip install 'gpupipe[cpu]':", "  ")
            document.line("  # - xgboost")
    document.blank()


def _small(name: str, params: dict[str, Any]) -> str:
    return flow({"name": name, "as": "small_trees", "params": params})


def has_xgboost() -> bool:
    """Return whether XGBoost is installed, without importing it."""
    return find_spec("xgboost") is not None


def gpu_comments(device: DeviceReport) -> list[str]:
    """Return comments on the usable GPU of this machine, and on packages that are missing for it."""
    install = install_extra(suitable_major(device.gpu, Distributions()))
    if device.missing_rapids and not device.missing_packages:
        trained = f"XGBoost trains on this machine's GPU, {device.gpu.name}"
        return [f"{trained}; with RAPIDS, the linear model does, too: {install}"]
    comments = [f"All of these models train on this machine's GPU, {device.gpu.name}."]
    if device.missing_packages:
        comments.append(f"Its packages are not installed yet: {install}")
    return comments


def write_evaluation(document: YamlDocument, task: Task) -> None:
    """Write the ``evaluate:`` section."""
    document.line(f"evaluate: {flow({'metrics': METRICS[task]})}", "the first metric ranks the leaderboard")
    document.blank()
