"""Sources, classes, rules and input columns, as a model card lists them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import PurePath

from gpupipe.io.settings import TableSource
from gpupipe.model_parts.goal import Goal
from gpupipe.names import count_noun, enumerate_names
from gpupipe.pipeline.records.card.facts import CardFacts
from gpupipe.pipeline.records.card.markdown import table
from gpupipe.report.text import at_scale, column_value, percent
from gpupipe.rules.model_rules import ServedRules
from gpupipe.units import MISSING

MOST_NAMES = 20  # in a sentence


def source_label(facts: CardFacts, source: TableSource) -> str:
    """Return the label of a table; absolute paths are shown as names, because a card leaves the author's machine."""
    if source.frame is not None:
        return facts.name(source.label.partition(",")[0])  # the number of rows follows
    if not source.locations:
        return facts.name(source.label)
    shown = map(facts.shown, source.locations)
    return facts.names([PurePath(path).name if PurePath(path).is_absolute() else path for path in shown], MOST_NAMES)


def further_tables(facts: CardFacts) -> str:
    """Return the names and sources of the further tables of a configuration."""
    tables = facts.job.config.tables.items()
    return enumerate_names([f"{facts.name(name)} ({source_label(facts, each)})" for name, each in tables], MOST_NAMES)


def class_table(facts: CardFacts, goal: Goal, counts: Sequence[tuple[int, int]], most: int) -> str:
    """Return the table of the rows of each class of a target."""
    totals = [sum(rows) or 1 for rows in zip(*counts, strict=True)]
    rows = [
        [facts.name(label), *(f"{n:,} ({percent(n / total)})" for n, total in zip(each, totals, strict=True))]
        for label, each in zip(goal.label_texts, counts, strict=True)
    ]
    tested = "test rows" if facts.split.n_folds == 1 else "rows tested in folds"
    return table([f"class of {facts.name(goal.target)}", "training rows", tested], rows[:most])


def rule_text(served: ServedRules) -> str:
    """Return the rules of a column in words."""
    rules = served.rules
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
    return "; ".join(texts) + (" (only a warning)" if rules.otherwise == "warn" else "")


def importance_texts(facts: CardFacts) -> dict[str, str]:
    """Return the importance of each measured column as text, the most important first."""
    largest = max((each.mean for each in facts.importances if each.mean == each.mean), default=0.0)
    return {
        each.name: at_scale(each.mean, largest) if each.mean > each.std or math.isnan(each.mean) else "≈ 0"
        for each in facts.importances
    }


def further_importances(facts: CardFacts, measured: Mapping[str, str]) -> str:
    """Return the importances of columns of further tables."""
    further = [f"{facts.name(name)} {value}" for name, value in measured.items() if name not in facts.inputs]
    return enumerate_names(further, MOST_NAMES)


def column_table(facts: CardFacts, inputs: Sequence[str], measured: Mapping[str, str]) -> str:
    """Return the table of input columns."""
    head = ["column", "kind", "training range", "nulls", *(["importance"] if measured else [])]
    rows = [
        [facts.name(name), *_column(facts, name), *([measured.get(name, MISSING)] if measured else [])]
        for name in inputs
    ]
    return table(head, rows, n_left=3)


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
