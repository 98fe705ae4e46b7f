"""Sections of a model card about data and input columns."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from pathlib import PurePath

from gpupipe.io.settings import TableSource
from gpupipe.metrics import METRICS
from gpupipe.names import count_noun, enumerate_names
from gpupipe.pipeline.records.card.facts import CardFacts
from gpupipe.pipeline.records.card.markdown import table
from gpupipe.report.text import at_scale, column_value, metric_title, percent
from gpupipe.rules.model_rules import ServedRules
from gpupipe.units import MISSING

MOST_COLUMNS = 50  # of a table
MOST_NAMES = 20  # in a sentence
MOST_CLASSES = 20
MOST_TARGETS = 5  # whose classes are listed


def data_section(facts: CardFacts) -> list[str]:
    """Return the section about training and test rows."""
    return ["## Data", "", *(f"- {line}" for line in _data_lines(facts)), *_class_tables(facts), *_rules(facts)]


def _data_lines(facts: CardFacts) -> Iterator[str]:
    job, source = facts.job, facts.job.config.source
    yield f"Source: {_source(facts, source)}, {count_noun(job.table.n_rows, 'row')}."
    if further := [f"{facts.name(name)} ({_source(facts, each)})" for name, each in job.config.tables.items()]:
        yield f"Further tables: {enumerate_names(further, MOST_NAMES)}."
    if source.where:
        yield f"Rows are those that satisfy {facts.name(source.where)}."
    if source.prepare:
        yield f"Rows were changed by the function {facts.name(source.prepare)} before training."
    yield _rows_line(facts)
    yield from _time_lines(facts)
    if source.weight:
        yield f"Rows are weighted by {facts.name(source.weight)}, in training and in metrics."
    if source.drop:
        yield f"Dropped columns: {_names(facts, source.drop)}."
    used = {*facts.outcome.champion.features.inputs, *job.goal.names, source.weight, *source.drop}
    unused = [c.name for c in job.table.schema if not c.derived and c.hash_of is None and c.name not in used]
    if unused:
        yield f"Columns that the model does not read: {_names(facts, unused)}."


def _source(facts: CardFacts, source: TableSource) -> str:
    """Return the label of a table; absolute paths are shown as names, because a card leaves the author's machine."""
    if source.frame is not None:
        return facts.name(source.label.partition(",")[0])  # the number of rows follows
    if not source.locations:
        return facts.name(source.label)
    shown = map(facts.shown, source.locations)
    names = [PurePath(path).name if PurePath(path).is_absolute() else path for path in shown]
    return enumerate_names([facts.name(name) for name in names], MOST_NAMES)


def _names(facts: CardFacts, names: Iterable[str]) -> str:
    return enumerate_names([facts.name(name) for name in names], MOST_NAMES)


def _rows_line(facts: CardFacts) -> str:
    split, n_train = facts.split, count_noun(facts.outcome.n_training_rows, "training row")
    if split.n_folds > 1:
        n_repeats = facts.job.config.split.repeats
        repeated = f"{n_repeats} repeats of " if n_repeats > 1 else ""
        folds = f"{repeated}{split.n_folds // n_repeats}-fold cross-validation"
        return f"Evaluated by {folds}, {_split_way(facts)}; the exported model has {n_train}."
    unused = facts.job.table.n_rows - facts.outcome.n_training_rows - split.n_tested
    neither = f", {count_noun(unused, 'row')} in neither" if unused > 0 else ""
    return f"Split {_split_way(facts)}: {n_train}, {count_noun(split.n_tested, 'test row')}{neither}."


def _split_way(facts: CardFacts) -> str:
    split = facts.job.config.split
    if split.column is not None:
        return f"by the column {facts.name(split.column.name)}"
    ways = [f"by time ({facts.name(split.time)}), the test rows being the latest"] if split.time else []
    ways += [f"by {facts.name(split.group)}, whose equal values are kept together"] if split.group else []
    if ways:
        return " and ".join(ways) + (f", with a gap of {split.gap}" if split.gap else "")
    if not split.shuffle:
        return "in the order of the rows"
    is_stratified = facts.goal.has_classes if split.stratify is None else split.stratify
    return "at random, stratified by class" if is_stratified else "at random"


def _time_lines(facts: CardFacts) -> Iterator[str]:
    split, ranges = facts.split, []
    for rows, times in (("training", split.training_times), ("test", split.test_times)):
        if times is not None:
            first, last = (column_value(value, split.time_kind, 6) for value in times)
            ranges.append(f"{rows} rows from {first} to {last}")
    if ranges:
        yield f"Time range of {facts.name(facts.job.config.split.time)}: {'; '.join(ranges)}."


def _class_tables(facts: CardFacts) -> Iterator[str]:
    targets = [goal for goal in facts.goal.each if goal.labels]
    for goal, counts in list(zip(targets, facts.split.classes, strict=True))[:MOST_TARGETS]:
        totals = [sum(rows) or 1 for rows in zip(*counts, strict=True)]
        rows = [
            [facts.name(label), *(f"{n:,} ({percent(n / total)})" for n, total in zip(each, totals, strict=True))]
            for label, each in zip(goal.label_texts, counts, strict=True)
        ]
        tested = "test rows" if facts.split.n_folds == 1 else "rows tested in folds"
        yield from ("", *table([f"class of {facts.name(goal.target)}", "training rows", tested], rows[:MOST_CLASSES]))
        if len(rows) > MOST_CLASSES:
            yield from ("", f"And {count_noun(len(rows) - MOST_CLASSES, 'more class')}.")


def _rules(facts: CardFacts) -> Iterator[str]:
    rules = facts.job.rules.served
    if not rules:
        return
    yield from ("", "Rules that each table to predict must satisfy:", "")
    yield from (f"- {facts.name(each.column)}: {facts.text(_rule_text(each))}" for each in rules[:MOST_NAMES])
    if len(rules) > MOST_NAMES:
        yield f"- and {len(rules) - MOST_NAMES:,} more"


def _rule_text(served: ServedRules) -> str:
    rules = served.rules
    warns = " (only a warning)" if rules.otherwise == "warn" else ""
    texts = []
    for name in rules.names:
        value = getattr(rules, name)
        if name == "nulls":
            texts.append("no nulls")
        elif name == "unique":
            texts.append("no value twice")
        elif name == "range":
            low, high = ("any" if bound is None else f"{bound}".removesuffix(".0") for bound in value)
            texts.append(f"range {low} to {high}")
        elif name == "set":
            texts.append(f"one of {enumerate_names([str(each) for each in value], MOST_NAMES)}")
        elif value is not None:
            texts.append(f"{name} {value}")
    return "; ".join(texts) + warns


def columns_section(facts: CardFacts) -> list[str]:
    """Return the section about the input columns."""
    inputs, measured = facts.inputs, _importances(facts)
    n_features = count_noun(len(facts.outcome.champion.features.features), "feature")
    tables = f" and {count_noun(len(facts.tables), 'further table')}" if facts.tables else ""
    lines = [
        "## Input columns",
        "",
        f"{count_noun(len(inputs), 'column')}{tables}, from which {n_features} are computed.",
    ]
    if measured:
        title = metric_title(facts.job.metrics[0])
        change = "decrease" if METRICS.get(facts.job.metrics[0]).greater_is_better else "increase"
        lines[-1] += f" Importance: the {change} of {title} when the values of the column are shuffled in test rows;"
        lines[-1] += " ≈ 0 is within its spread over the repeats."
    head = ["column", "kind", "training range", "nulls", *(["importance"] if measured else [])]
    rows = [
        [facts.name(name), *_column(facts, name), *([measured.get(name, MISSING)] if measured else [])]
        for name in inputs[:MOST_COLUMNS]
    ]
    lines += ["", *table(head, rows, n_left=3)]
    if len(inputs) > MOST_COLUMNS:
        lines += ["", f"And {count_noun(len(inputs) - MOST_COLUMNS, 'more column')}; `schema.json` lists all of them."]
    further = [f"{facts.name(name)} {value}" for name, value in measured.items() if name not in inputs]
    if further:
        lines += ["", f"Importance of columns of further tables: {enumerate_names(further, MOST_NAMES)}."]
    return lines


def _importances(facts: CardFacts) -> dict[str, str]:
    """Return the importance of each measured column as text, the most important first."""
    largest = max((each.mean for each in facts.importances if each.mean == each.mean), default=0.0)
    return {
        each.name: at_scale(each.mean, largest) if each.mean > each.std or math.isnan(each.mean) else "≈ 0"
        for each in facts.importances
    }


def _column(facts: CardFacts, name: str) -> list[str]:
    """Return kind, range or levels, and share of nulls of an input column."""
    schema = facts.job.table.schema
    column = facts.columns.get(name) or next((c for c in schema if c.name == name), None)
    trained, training = facts.trained_columns.get(name), facts.outcome.champion.features.training
    if column is None:
        return [MISSING, MISSING, MISSING]
    domain = MISSING
    if column.kind == "categorical" and column.levels is not None:
        domain = count_noun(len(column.levels), "level")
    elif column.n_buckets:
        domain = f"hashed into {column.n_buckets:,} buckets"
    elif trained is not None and trained.low is not None:
        low, high = column_value(trained.low, column.kind, 6), column_value(trained.high, column.kind, 6)
        domain = f"{low} to {high}" if low != high else f"only {low}"
    nulls = MISSING if trained is None or training is None else percent(trained.n_null / max(training.n_rows, 1))
    return [column.kind, domain, nulls]
