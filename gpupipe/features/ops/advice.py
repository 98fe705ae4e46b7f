"""Advice for columns whose kind an op does not take, based on their values."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from gpupipe.features.program.expressions import CategoryExpr, Expr, NumericExpr, TextExpr, TimeExpr
from gpupipe.table.number_texts import guess_format
from gpupipe.units import is_number

if TYPE_CHECKING:
    from gpupipe.features.statistics.training import Statistics

MAX_ROWS_INSPECTED = 1_000
LIST_ADVICE = "derive features with `- list_stats: {name}` or `- multi_hot: {name}`, or list it in source.drop"
MAX_WORD_SHARE = 0.5  # of the levels: such a column contains numbers and some words


def advise_numbers(column: Expr) -> str:
    """Return advice on how to derive numbers from a column that is not numeric."""
    name = column.name
    if isinstance(column, TimeExpr):
        made = f"- datetime_parts: {{columns: {name}, parts: [elapsed_days]}}"
        return f"convert the time to a number: {made} adds {name}_elapsed_days"
    if isinstance(column, TextExpr) and column.kind == "list":
        return LIST_ADVICE.format(name=name)
    if isinstance(column, TextExpr):
        return f"text_vectors and text_counts convert text to numbers: - text_vectors: {name}"
    if isinstance(column, CategoryExpr) and (numbers := written_numbers(column)):
        return f"{numbers} adds {name}_number"
    if isinstance(column, CategoryExpr) and (words := _words(column.labels)) is not None:
        unless = f", and list {', '.join(map(repr, words[:3]))} in source.csv.null_values" if words else ""
        return f"it contains numbers as text: declare source.schema: {{{name}: float}}{unless}"
    return f"select numeric columns, or encode it: - encode: {name}"


def written_numbers(column: CategoryExpr) -> str:
    """Return advice on a column whose levels are numbers with units or separators; "" for others."""
    found = guess_format(column.labels)
    return "" if found is None else f"it contains numbers: - parse_number: {_flow(found.settings(column.name))}"


def _words(labels: tuple[str, ...]) -> list[str] | None:
    """Return the levels that are not numbers, or None if most of them are not."""
    words = [label for label in labels if not is_number(label)]
    return words if labels and len(words) <= MAX_WORD_SHARE * len(labels) else None


def advise_categories(column: Expr) -> str:
    """Return advice on how to derive categories from a column that is not categorical."""
    name = column.name
    if column.kind == "list":
        return LIST_ADVICE.format(name=name)
    if isinstance(column, TimeExpr):
        return f"select other columns; for times, use datetime_parts or cyclic: - datetime_parts: {name}"
    declared = f"declare source.schema: {{{name}: categorical}}"
    return f"{declared}, or bucketize it first" if isinstance(column, NumericExpr) else declared


def advise_times(column: Expr, statistics: Statistics) -> str:
    """Return advice on how to declare a column as datetime, in the format of its values."""
    from gpupipe.table.time_formats import declare_numbers, declare_texts

    name = column.name
    if isinstance(column, NumericExpr):
        ((low, high),) = statistics.extremes([column])
        return declare_numbers(name, low, high)
    texts = column.labels if isinstance(column, CategoryExpr) else _some_texts(name, statistics)
    return (
        declare_texts(name, texts)
        or f"select other columns: {name!r} contains no dates; its values are {_examples(texts)}"
    )


def advise_texts(column: TextExpr, statistics: Statistics) -> str:
    """Return advice on how to derive features from a text column."""
    if column.kind == "list":
        return LIST_ADVICE.format(name=column.name)
    from gpupipe.table.time_formats import declare_texts, time_formats

    texts = _some_texts(column.name, statistics)
    if time_formats(texts):
        return f"it contains dates: {declare_texts(column.name, texts)}"
    if numbers := guess_format(texts):
        return f"it contains numbers: `- parse_number: {_flow(numbers.settings(column.name))}`"
    if (words := _words(texts)) is not None:
        unless = f" except {', '.join(map(repr, words[:3]))}" if words else ""
        return f"its texts are numbers{unless}: `- parse_number: {column.name}`"
    return f"derive features with `- text_vectors: {column.name}`, or list it in source.drop"


def _flow(settings: dict[str, object]) -> str:
    """Return settings as YAML in one line."""
    return json.dumps(settings, ensure_ascii=False)


def _some_texts(name: str, statistics: Statistics) -> tuple[str, ...]:
    """Return the first distinct texts of a text column; none if it was read by workers or a device."""
    import pyarrow as pa

    column = getattr(statistics.table, "texts", {}).get(name)
    if not isinstance(column, pa.ChunkedArray):  # a device does not keep texts
        return ()
    found = dict.fromkeys(text for text in column.slice(0, MAX_ROWS_INSPECTED).to_pylist() if text and text.strip())
    return tuple(found)


def _examples(texts: tuple[str, ...]) -> str:
    return ", ".join(repr(text[:40]) for text in texts[:3]) or "null"
