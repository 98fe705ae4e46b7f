"""Model card, README.md of a model directory: what a person who receives the model reads first.

The sections follow Mitchell et al., "Model Cards for Model Reporting", FAT* 2019, with what a run records of them. The
header is the metadata of model cards on the Hugging Face Hub.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from gpupipe.artifact.manifest import CARD, load
from gpupipe.inference.parity.verification import Verification
from gpupipe.metrics import ColumnImportance
from gpupipe.model_parts.goal import Goal
from gpupipe.names import count_noun, enumerate_names
from gpupipe.pipeline.records.card.data_sections import columns_section, data_section
from gpupipe.pipeline.records.card.example import use_section
from gpupipe.pipeline.records.card.facts import CardFacts
from gpupipe.pipeline.records.card.markdown import table
from gpupipe.pipeline.records.card.quality_sections import limits_section, metrics_section, parity_section
from gpupipe.pipeline.records.card.split_record import SplitRecord
from gpupipe.report.intervals import IntervalCoverage
from gpupipe.report.sentences import search_summary
from gpupipe.report.text import metric, metric_title, task_title
from gpupipe.training.job import Job
from gpupipe.training.selection.leaderboard import LeaderboardResult
from gpupipe.units import KIB, format_size

MOST_BYTES = 64 * KIB
MOST_LABELS = 10
MOST_FILES = 40
CONTENTS = {
    "features.json": "the features and the columns that they are computed from",
    "learned.json": "what the feature ops have learned",
    "levels.json": "levels of the categorical columns",
    "manifest.json": "the description of the model, versions, and the SHA-256 of the files",
    "parity.json": "tolerance and outcome of the parity check",
    "parity.npz": "recorded features and predictions",
    "parity_rows.json": "recorded rows",
    "program.npz": "the compiled features",
    "schema.json": "the input columns",
    "drift.json": "columns and levels of the reference that `gpupipe drift` compares with",
    "drift.npz": "bins and counts of that reference",
    "training_summary.json": "nulls and ranges of the training rows",
    "derivation.json": "history features",
    "derivation_levels.json": "levels of the columns of history features",
}
# Libraries that compute a stored estimator, each with the prefixes of its distributions; the others need NumPy only.
NEEDED = {"xgboost": ("xgboost",), "scikit-learn": ("scikit-learn", "skops"), "torch": ("torch",),
          "onnxruntime": ("onnxruntime",)}  # fmt: skip


def write_card(
    folder: Path, job: Job, outcome: LeaderboardResult, split: SplitRecord, importances: Sequence[ColumnImportance],
    coverage: Sequence[IntervalCoverage | None], parity: Verification | None,
) -> None:  # fmt: skip
    """Write README.md into the model directory `folder`, which is complete; parameters are those of `CardFacts`."""
    facts = CardFacts(
        job=job, outcome=outcome, manifest=load(folder)[0], split=split, importances=importances, coverage=coverage,
        parity=parity,
    )  # fmt: skip
    (folder / CARD).write_text(render_card(facts), encoding="utf-8")


def render_card(facts: CardFacts) -> str:
    """Return the text of the card, at most `MOST_BYTES` long: what exceeds them is dropped from the end, by section."""
    sections = [
        _header(facts), _summary(facts), use_section(facts), metrics_section(facts), limits_section(facts),
        data_section(facts), columns_section(facts), parity_section(facts), _files_section(facts),
    ]  # fmt: skip
    text = ""
    for lines in filter(None, sections):
        section = "\n".join(lines) + "\n"
        if len(f"{text}\n{section}".encode()) > MOST_BYTES:
            break
        text = f"{text}\n{section}" if text else section
    return text


def _header(facts: CardFacts) -> list[str]:
    """Return the YAML header; the Hub has no task for models without a target, or for rankings."""
    goal = facts.goal
    kind = "tabular-classification" if goal.has_classes else "tabular-regression" if facts.is_regression else ""
    task = [f"pipeline_tag: {kind}"] if kind else []
    return ["---", "library_name: gpupipe", *task, "tags:", "- tabular", f"- {goal.task}", "---"]


def _summary(facts: CardFacts) -> list[str]:
    manifest, outcome = facts.manifest, facts.outcome
    created = datetime.fromisoformat(manifest["created"])
    best = outcome.leaderboard[0]
    lines = [
        f"Model: {facts.name(best.label)}{_choice(facts)}.",
        f"Trained: {created:%Y-%m-%d %H:%M} UTC on {count_noun(outcome.n_training_rows, 'row')}, with gpupipe "
        f"{manifest['gpupipe']}.",
    ]
    if best.search is not None:
        lines.insert(1, f"Search: {facts.text(search_summary(best.search))}.")
    name = facts.job.metrics[0]
    if name in best.metrics:
        rows = f"{count_noun(facts.n_test_rows, 'test row')}" if facts.n_test_rows else f"{facts.split.n_folds} folds"
        lines.append(f"Result: {metric_title(name)} {metric(best.metrics, name)} on {rows}.")
    title = facts.text(facts.job.config.name) or "Model"
    return [f"# {title}", "", _purpose(facts), "", *(f"- {line}" for line in lines)]


def _choice(facts: CardFacts) -> str:
    n = len(facts.outcome.leaderboard)
    return f", the best of {n:,} candidates by {metric_title(facts.job.metrics[0])}" if n > 1 else ""


def _purpose(facts: CardFacts) -> str:
    goal = facts.goal
    if goal.targets:
        each = [f"{facts.name(own.target)} ({_target_kind(facts, own)})" for own in goal.targets]
        return f"Prediction of {count_noun(len(each), 'target')}: {enumerate_names(each, MOST_LABELS)}."
    title = task_title(goal.task)
    if goal.target is None:
        return f"{title} of rows, without a target."
    kind = _target_kind(facts, goal)
    group = facts.job.config.split.group
    if goal.task == "ranking" and group is not None:
        return f"{title} of the rows of each {facts.name(group)} by {facts.name(goal.target)}."
    return f"{title} of {facts.name(goal.target)}{f': {kind}' if kind else ''}."


def _target_kind(facts: CardFacts, goal: Goal) -> str:
    if goal.task == "binary":
        return f"{facts.name(goal.label_texts[1])} (positive) or {facts.name(goal.label_texts[0])}"
    if goal.labels:
        labels = enumerate_names([facts.name(label) for label in goal.label_texts], MOST_LABELS)
        return f"{count_noun(len(goal.labels), 'class')}: {labels}"
    if goal.quantiles:
        return f"quantiles {', '.join(f'{level:g}' for level in goal.quantiles)}"
    return "a number" if facts.goal.targets else ""


def _files_section(facts: CardFacts) -> list[str]:
    manifest, files = facts.manifest, facts.manifest["files"]
    total = format_size(sum(entry["bytes"] for entry in files.values()))
    rows = [
        [f"`{name}`", _content(name), format_size(entry["bytes"])] for name, entry in list(files.items())[:MOST_FILES]
    ]
    lines = ["## Files and versions", "", _needs(manifest), "", *table(["file", "content", "size"], rows, n_left=2)]
    if len(files) > MOST_FILES:
        lines += ["", f"And {count_noun(len(files) - MOST_FILES, 'more file')}."]
    return [*lines, "", f"In total {total}. `manifest.json` has the SHA-256 of each of these files and all versions."]


def _content(name: str) -> str:
    if name.startswith("kernel_"):
        return "a custom kernel"
    return CONTENTS.get(name) or ("the estimator" if name.startswith("estimator.") else "a part of the estimator")


def _needs(manifest: Mapping[str, Any]) -> str:
    used = set(_found("library", manifest["estimator"]))
    prefixes = [prefix for library, found in NEEDED.items() if library in used for prefix in found]
    versions = [
        f"{name} {version}"
        for name, version in manifest["libraries"].items()
        if any(name == prefix or name.startswith(f"{prefix}-") for prefix in prefixes)
    ]
    packages = {(each["distribution"], each["version"]) for each in _found("plugin", manifest["estimator"])}
    versions += [f"{name} {version}, a plug-in" for name, version in sorted(packages)]
    library = f", and the library of the estimator ({', '.join(versions)})" if versions else ""
    return f"To predict: gpupipe (exported with {manifest['gpupipe']}){library}."


def _found(key: str, description: Any) -> Iterator[Any]:
    """Yield the entry `key`, such as the library, of an estimator and of those that it consists of."""
    if isinstance(description, Mapping):
        if key in description:
            yield description[key]
        for value in description.values():
            yield from _found(key, value)
    elif isinstance(description, list):
        for value in description:
            yield from _found(key, value)
