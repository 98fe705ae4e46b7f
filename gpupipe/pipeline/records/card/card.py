"""Model card, README.md of a model directory: what a person who receives the model reads first.

The sections follow Mitchell et al., "Model Cards for Model Reporting", FAT* 2019, with what a run records of them. The
header is the metadata of model cards on the Hugging Face Hub, which has no task for models without a target, or for
rankings.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpupipe.artifact.manifest import CARD, load
from gpupipe.inference.parity.verification import Verification
from gpupipe.metrics import ColumnImportance
from gpupipe.names import count_noun, enumerate_names
from gpupipe.pipeline.records.card import column_facts, quality_facts
from gpupipe.pipeline.records.card.facts import CardFacts
from gpupipe.pipeline.records.card.markdown import table
from gpupipe.pipeline.records.card.split_record import SplitRecord
from gpupipe.report import text
from gpupipe.report.intervals import IntervalCoverage
from gpupipe.report.sentences import comparison_sentence, evaluation_basis
from gpupipe.report.text import column_value
from gpupipe.training.job import Job
from gpupipe.training.selection.leaderboard import LeaderboardResult
from gpupipe.units import KIB, format_size

if TYPE_CHECKING:
    import jinja2
    import jinja2.runtime

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
    "held_out.npz": "outputs and targets of held-out rows, for `gpupipe evaluate`",
    "lineage.json": "the generations that the model was updated from",
    "training.json": "the settings of the training, for `gpupipe update`",
    "training_summary.json": "nulls and ranges of the training rows",
    "derivation.json": "history features",
    "derivation_arrays.npz": "what features of texts have learned",
    "derivation_levels.json": "levels of the columns of history features",
}
# Libraries that compute a stored estimator, each with the prefixes of its distributions; the others need NumPy only.
NEEDED = {
    "xgboost": ("xgboost",),
    "scikit-learn": ("scikit-learn",),
    "torch": ("torch",),
    "onnxruntime": ("onnxruntime",),
}

MOST_IN_ROW = 4_000  # characters of the example row
WIDTH = 100
EXACT = 2.0**53  # float64 holds every integer below it

MOST_BYTES = 64 * KIB
SECTION_END = "\f"  # no name or message contains it: control characters are shown as escapes


def write_card(
    folder: Path,
    job: Job,
    outcome: LeaderboardResult,
    split: SplitRecord,
    importances: Sequence[ColumnImportance],
    coverage: Sequence[IntervalCoverage | None],
    parity: Verification | None,
) -> None:
    """Write README.md into the model directory `folder`, which is complete; parameters are those of `CardFacts`."""
    facts = CardFacts(
        job=job,
        outcome=outcome,
        manifest=load(folder)[0],
        split=split,
        importances=importances,
        coverage=coverage,
        parity=parity,
    )
    (folder / CARD).write_text(render_card(facts), encoding="utf-8")


def render_card(facts: CardFacts) -> str:
    """Return the text of the card, at most `MOST_BYTES` long: what exceeds them is dropped from the end, by section."""
    functions = (
        example_row,
        prediction_calls,
        file_table,
        quality_facts.metric_table,
        quality_facts.slice_table,
        quality_facts.scores,
        quality_facts.rare_classes,
        quality_facts.sparse_columns,
        quality_facts.new_levels,
        quality_facts.parity_table,
        column_facts.source_label,
        column_facts.further_tables,
        column_facts.class_table,
        column_facts.importance_texts,
        column_facts.column_table,
        column_facts.further_importances,
    )
    rendered = _template().render(
        {function.__name__: partial(function, facts) for function in functions},
        facts=facts,
        job=facts.job,
        config=facts.job.config,
        split=facts.job.config.split,
        goal=facts.goal,
        metric=facts.job.metrics[0],
        outcome=facts.outcome,
        best=facts.outcome.leaderboard[0],
        training=facts.outcome.champion.features.training,
        manifest=facts.manifest,
        record=facts.split,
        folds=facts.split.n_folds,
        parity=facts.parity,
        libraries=libraries(facts),
        section_end=SECTION_END,
    )
    card = ""
    for section in rendered.split(SECTION_END):
        lines = re.sub(r"\n{3,}", "\n\n", section).strip("\n")
        if len(f"{card}\n{lines}\n".encode()) > MOST_BYTES:
            break
        if lines:
            card = f"{card}\n{lines}\n" if card else f"{lines}\n"
    return card


@cache  # compiling the template takes longer than filling it
def _template() -> jinja2.Template:
    """Return the template; its filters for names and messages hide the secrets of the run in `facts`."""
    import jinja2

    from gpupipe.report.template_cache import TemplateCache

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=False,  # the filters `name` and `text` escape Markdown
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        bytecode_cache=TemplateCache(),
    )
    filters = (
        text.metric,
        text.metric_title,
        text.task_title,
        text.threshold_rule_title,
        text.column_value,
        format_size,
        count_noun,
        enumerate_names,
        evaluation_basis,
        comparison_sentence,
        column_facts.rule_text,
    )
    environment.filters |= {function.__name__: function for function in filters}
    environment.filters["shell_quote"] = shlex.quote
    for name in ("name", "names", "text", "shown"):
        environment.filters[name] = jinja2.pass_context(partial(_call_facts, name))
    return environment.get_template("card.md.jinja")


def _call_facts(method: str, context: jinja2.runtime.Context, *arguments: Any) -> str:
    return str(getattr(context["facts"], method)(*arguments))


def prediction_calls(facts: CardFacts, row: list[str]) -> list[str]:
    """Return the calls of a loaded model; `row` is the assignment of the example row, or empty."""
    tables = ", ".join(f"{_quoted(facts.shown(name))}: FILE" for name in facts.tables)
    if facts.is_of_entities:
        return [f"model.predict_entities({{{tables}}}, as_of=DATE)"]
    rows = ("row" if row else '"rows.csv"') + (f", {{{tables}}}" if tables else "")
    has_classes, has_intervals = facts.goal.has_classes, facts.outcome.decision.has_intervals
    calls = ["predict", *["predict_proba"] * has_classes]
    calls += [["predict_interval", "predict_set"][has_classes]] * has_intervals
    return [f"model.{name}({rows})" for name in calls]


def example_row(facts: CardFacts) -> list[str]:
    """Return lines of code that assign a row that the model predicts; empty if it would be long, or has history."""
    if facts.outcome.champion.features.derivation is not None or facts.is_of_entities:
        return []
    names = facts.outcome.champion.features.inputs
    if any(facts.shown(name) != name for name in names):  # it would not be a valid name any more
        return []
    items = [f"{_quoted(name)}: {value}" for name in names if (value := _value(facts, name))]
    if len(items) < len(names) or sum(map(len, items)) > MOST_IN_ROW:
        return []
    body = ", ".join(items)
    return [f"row = {{{body}}}"] if len(body) < WIDTH - 10 else ["row = {", *_wrapped(items), "}"]


def _wrapped(items: list[str]) -> list[str]:
    """Return items as lines of at most `WIDTH` characters, each broken after an item only."""
    lines, line = [], ""
    for item in items:
        if line and len(line) + len(item) + 2 > WIDTH - 4:
            lines.append(line)
            line = ""
        line = f"{line} {item}," if line else f"{item},"
    return [f"    {each}" for each in (*lines, line)]


def _value(facts: CardFacts, name: str) -> str:
    """Return a value of an input column as Python code: a level, or the smallest value of the training rows."""
    column, trained = facts.columns.get(name), facts.trained_columns.get(name)
    if column is None:
        return ""
    if column.kind == "boolean":
        return "True"
    if column.kind == "list":
        return "[1.0, 2.0]" if column.dtype == "list<number>" else '["text"]'
    if column.kind == "text" or column.hash_of is not None:
        return '"text"'
    if column.kind == "categorical":
        levels = [level for level in column.levels or () if facts.shown(level) == level]
        return _quoted(levels[0]) if levels else "None"
    if trained is None or trained.low is None:
        return "None"
    if column.kind == "datetime":
        return _quoted(column_value(trained.low, column.kind, 6))
    low = float(trained.low)
    if low.is_integer() and abs(low) < EXACT:
        return str(int(low))
    return repr(low) if column.storage == "float64" else f"{low:.7g}"


def _quoted(text: str) -> str:
    """Return a text as a Python literal."""
    return repr(text) if set(text) & {'"', "\\"} or not text.isprintable() else f'"{text}"'


def file_table(facts: CardFacts, most: int) -> str:
    """Return the table of the files of the model."""
    files = list(facts.manifest["files"].items())[:most]
    rows = [[f"`{name}`", _content(name), format_size(entry["bytes"])] for name, entry in files]
    return table(["file", "content", "size"], rows, n_left=2)


def _content(name: str) -> str:
    if name.startswith("kernel_"):
        return "a custom kernel"
    return CONTENTS.get(name) or ("the estimator" if name.startswith("estimator.") else "a part of the estimator")


def libraries(facts: CardFacts) -> list[str]:
    """Return the libraries and plug-ins that the estimator needs, with their versions."""
    manifest = facts.manifest
    used = set(_found("library", manifest["estimator"]))
    prefixes = list(chain.from_iterable(found for library, found in NEEDED.items() if library in used))
    versions = [
        f"{name} {version}"
        for name, version in manifest["libraries"].items()
        if any(name == prefix or name.startswith(f"{prefix}-") for prefix in prefixes)
    ]
    packages = {(each["distribution"], each["version"]) for each in _found("plugin", manifest["estimator"])}
    return versions + [f"{name} {version}, a plug-in" for name, version in sorted(packages)]


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
