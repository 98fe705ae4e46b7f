"""Explained example rows in words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from gpupipe.names import count_noun
from gpupipe.report.text import number, printable, signed

if TYPE_CHECKING:
    from gpupipe.report.contributions import ExplainedColumn, TargetContributions

MOST_NAMED = 4  # columns of a row that are named
LEAST_SHARE = 0.05  # of the largest contribution, for a column to be named
MOST_CHARACTERS = 40  # of a value
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, kw_only=True)
class ExampleRow:
    """A row to explain in words."""

    title: str  # what it is an example of: ``"Highest prediction"``
    row: int  # its position in the input, as in predictions.parquet
    position: int  # its position in the explained rows
    margin: int = 0  # position of the explained margin: of several classes, the predicted one
    predicted: float  # value, probability or score, calibrated
    mean: float  # mean of the same prediction over the explained rows
    label: str = ""  # the class that `predicted` is a probability of; "" for values
    actual: str | float | None = None  # true label or value


def example_sentences(found: TargetContributions, example: ExampleRow) -> list[str]:
    """Return the prediction of a row, the columns that raised and lowered it most, and the sum, as sentences.

    Examples
    --------
    >>> import numpy as np
    >>> from gpupipe.report.contributions import ExplainedColumn, TargetContributions
    >>> columns = [
    ...     ExplainedColumn(name="Contract", kind="categorical", values=["Month-to-month"]),
    ...     ExplainedColumn(name="tenure", kind="numeric", values=[2.0]),
    ...     ExplainedColumn(name="TotalCharges", kind="numeric", values=[1840.5]),
    ...     ExplainedColumn(name="gender", kind="categorical", values=["Female"]),
    ... ]
    >>> found = TargetContributions(
    ...     target="Churn", scale="log-odds", method="exact trees", columns=columns, labels=("Yes",), has_classes=True,
    ...     values=np.array([1.1, 0.6, -0.3, 0.01]).reshape(1, 4, 1), base=np.array([-1.2]),
    ... )
    >>> example = ExampleRow(
    ...     title="Highest prediction", row=7, position=0, predicted=0.5523, mean=0.27, label="Yes", actual="Yes"
    ... )
    >>> for sentence in example_sentences(found, example):
    ...     print(sentence)
    Probability of Yes 0.552, on average 0.27; the true value is Yes.
    Contract = Month-to-month raised it most (+1.10 log-odds), then tenure = 2 (+0.60).
    TotalCharges = 1840 lowered it (−0.30).
    1 other column: +0.01 in total.
    From the base of −1.20, this adds up to +0.21 log-odds.
    """
    row = found.values[example.position, :, example.margin]
    base = float(found.base[example.margin])
    largest = max((abs(float(value)) for value in row), default=0.0)
    order = sorted(range(len(row)), key=lambda i: -abs(row[i]))
    named = [i for i in order[:MOST_NAMED] if abs(row[i]) >= LEAST_SHARE * largest > 0]
    sentences = [_prediction(example, found.target)]
    sides = [("raised", [i for i in named if row[i] > 0]), ("lowered", [i for i in named if row[i] < 0])]
    unit = f" {found.short_unit}" if found.short_unit else ""
    for verb, own in sorted(sides, key=lambda side: named.index(side[1][0]) if side[1] else len(named)):
        parts = [(_named(found.columns[i], example.position), _amount(float(row[i]), largest)) for i in own]
        if parts:
            (first, amount), *others = parts
            most = " most" if others else ""
            text = f"{first} {verb} it{most} ({amount}{unit})"
            sentences.append(", then ".join([text, *(f"{name} ({amount})" for name, amount in others)]) + ".")
            unit = ""
    rest = [i for i in range(len(row)) if i not in named]
    if rest:
        total = _amount(float(sum(row[i] for i in rest)), largest)
        sentences.append(f"{count_noun(len(rest), 'other column')}: {total} in total.")
    sentences.append(_sum(found, example, base, base + float(row.sum()), largest))
    return sentences


def shown_value(column: ExplainedColumn, position: int) -> str:
    """Return the value of a column in a row, shortened; "" for a column without values."""
    if not column.kind:
        return ""
    value = column.values[position]
    if value is None or value != value:
        return "missing"
    if column.kind == "datetime":
        return _time(float(value))
    if column.kind == "numeric":
        return plain_number(float(value))
    text = printable(str(value))
    return text if len(text) <= MOST_CHARACTERS else f"{text[: MOST_CHARACTERS - 1]}…"


def plain_number(value: float) -> str:
    """Return an input value: integers in full, other numbers with about four digits.

    Examples
    --------
    >>> plain_number(2.0), plain_number(1840.5), plain_number(0.25), plain_number(-3.5)
    ('2', '1840', '0.25', '−3.5')
    """
    if value.is_integer() and abs(value) < 1e12:
        return f"{int(value):,}".replace("-", "−")
    text = number(value)
    text = text.rstrip("0").rstrip(".") if "." in text and "e" not in text else text
    return text.replace("-", "−")


def _time(microseconds: float) -> str:
    try:
        found = EPOCH + timedelta(microseconds=microseconds)
    except OverflowError:
        return "a time after the year 9999"
    return f"{found:%Y-%m-%d}" if found.time() == datetime.min.time() else f"{found:%Y-%m-%d %H:%M}"


def _amount(value: float, largest: float) -> str:
    """Return a contribution with a sign and as many decimals as give the largest two or three digits."""
    return signed(value, largest * 20)


def _named(column: ExplainedColumn, position: int) -> str:
    value = shown_value(column, position)
    return f"{printable(column.name)} = {value}" if value else printable(column.name)


def _prediction(example: ExampleRow, target: str | None) -> str:
    mean = plain_number(_rounded(example.mean))
    predicted = plain_number(_rounded(example.predicted))
    if example.label:
        sentence = f"Probability of {example.label} {predicted}, on average {mean}"
    else:
        sentence = f"Predicted {predicted}, on average {mean}"
    if example.actual is None:
        return f"{sentence}."
    actual = example.actual if isinstance(example.actual, str) else plain_number(example.actual)
    return f"{sentence}; the true value is {printable(actual)}."


def _sum(found: TargetContributions, example: ExampleRow, base: float, margin: float, largest: float) -> str:
    if not found.short_unit:
        return f"From the base of {plain_number(_rounded(base))}, this adds up to {plain_number(_rounded(margin))}."
    of = f" of {found.labels[example.margin]}" if len(found.labels) > 1 else ""
    start, end = (_amount(value, max(abs(base), largest)) for value in (base, margin))
    return f"From the base of {start}, this adds up to {end} {found.short_unit}{of}."


def _rounded(value: float) -> float:
    """Return a prediction with three digits after the point, or three significant ones if it is small."""
    return round(value, 3) if abs(value) >= 0.1 else float(f"{value:.3g}")


def examples_of(found: TargetContributions) -> Sequence[tuple[ExampleRow, list[str]]]:
    """Return each example row with its sentences."""
    return [(example, example_sentences(found, example)) for example in found.examples]
