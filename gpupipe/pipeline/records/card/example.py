"""Python code that predicts a row of the model's input columns."""

from __future__ import annotations

from gpupipe.pipeline.records.card.facts import CardFacts
from gpupipe.report.text import column_value

MOST_IN_ROW = 4_000  # characters of the example row
WIDTH = 100
EXACT = 2.0**53  # float64 holds every integer below it


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
