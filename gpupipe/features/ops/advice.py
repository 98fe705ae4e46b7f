"""Kinds of columns that an op does not take: advice by the values seen."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpupipe.features.program.expressions import CategoryExpr, Expr, NumericExpr, TextExpr, TimeExpr
from gpupipe.units import is_number

if TYPE_CHECKING:
    from gpupipe.features.statistics.training import Statistics

ROWS_LOOKED_AT = 1_000
MOSTLY = 0.5  # of the levels: a column of numbers with some words in it


def advise_numbers(column: Expr) -> str:
    """Return how to get numbers of a column that holds none."""
    name = column.name
    if isinstance(column, TimeExpr):
        made = f"- datetime_parts: {{columns: {name}, parts: [elapsed_days]}}"
        return f"make a number of the time: {made} gives {name}_elapsed_days"
    if isinstance(column, TextExpr):
        return f"text_hash or text_counts make numbers of text: - text_hash: {name}"
    if isinstance(column, CategoryExpr) and (words := _words(column.labels)) is not None:
        unless = f", and list {', '.join(map(repr, words[:3]))} in source.csv.null_values" if words else ""
        return f"it holds numbers as text: declare source.schema: {{{name}: float}}{unless}"
    return f"select numeric columns, or make numbers of it: - encode: {name}"


def _words(labels: tuple[str, ...]) -> list[str] | None:
    """Return the levels that are no numbers; None where most are none."""
    words = [label for label in labels if not is_number(label)]
    return words if labels and len(words) <= MOSTLY * len(labels) else None


def advise_categories(column: Expr) -> str:
    """Return how to get categories of a column that holds none."""
    name = column.name
    if isinstance(column, TimeExpr):
        return f"select others; datetime_parts or cyclic take times: - datetime_parts: {name}"
    declared = f"declare source.schema: {{{name}: categorical}}"
    return f"{declared}, or bucketize it first" if isinstance(column, NumericExpr) else declared


def advise_times(column: Expr, statistics: Statistics) -> str:
    """Return how to declare a column as times, in the format of its values."""
    from gpupipe.table.time_formats import declare_numbers, declare_texts

    name = column.name
    if isinstance(column, NumericExpr):
        ((low, high),) = statistics.extremes([column])
        return declare_numbers(name, low, high)
    texts = column.labels if isinstance(column, CategoryExpr) else _some_texts(name, statistics)
    return declare_texts(name, texts) or f"select others: {name!r} holds no dates, for example {_examples(texts)}"


def advise_texts(column: TextExpr, statistics: Statistics) -> str:
    """Return how to make features of a column of text."""
    from gpupipe.table.time_formats import declare_texts, time_formats

    texts = _some_texts(column.name, statistics)
    if time_formats(texts):
        return f"it holds dates: {declare_texts(column.name, texts)}"
    return f"make some of it with `- text_hash: {column.name}`, or list it in source.drop"


def _some_texts(name: str, statistics: Statistics) -> tuple[str, ...]:
    """Return the first distinct texts of a text column; none where workers hold the table."""
    column = getattr(statistics.table, "texts", {}).get(name)
    if column is None:
        return ()
    found = dict.fromkeys(text for text in column.slice(0, ROWS_LOOKED_AT).to_pylist() if text and text.strip())
    return tuple(found)


def _examples(texts: tuple[str, ...]) -> str:
    return ", ".join(repr(text[:40]) for text in texts[:3]) or "nothing"
