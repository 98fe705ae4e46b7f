"""Detection of a header: the first row of a file is one if it is unlike the rows after it."""

from __future__ import annotations

import re
from collections.abc import Sequence

from gpupipe.units import is_number

Row = Sequence[str]
NULLS = {"", "na", "n/a", "nan", "null", "none", "nil", "missing", "unknown"}


def is_header(rows: Sequence[Row]) -> bool:
    """Return whether the first of `rows` names the columns.

    Columns of numbers, and of texts of one shape (dates, codes), decide: the row is a header if one of its cells there
    is a word, and data if its cells are like those after it. Where there are no such columns, it is data if half of
    its values are repeated below.
    """
    first, rest = [cell.strip() for cell in rows[0]], rows[1:]
    if not rest or _counts_up(first):
        return True
    columns = [[row[i].strip() for row in rest if i < len(row) and not is_null(row[i])] for i in range(len(first))]
    likeness = [
        _is_like(cell, below) for cell, below in zip(first, columns, strict=True) if below and not is_null(cell)
    ]
    if False in likeness:
        return True
    if True in likeness:
        return False
    again = [cell in below for cell, below in zip(first, columns, strict=True) if cell]
    return sum(again) * 2 < max(1, len(again))


def is_null(text: str) -> bool:
    """Return whether `text` stands for a missing value: a usual word, or punctuation alone."""
    return text.strip().lower() in NULLS or not any(map(str.isalnum, text))


def _is_like(cell: str, below: Sequence[str]) -> bool | None:
    """Return whether a cell is written as those below are; None if nothing speaks for or against it."""
    if all(map(is_number, below)):
        return is_number(cell)
    shapes = set(map(_shape, below))
    if len(shapes) > 1 or len(below) == 1 or not any(map(str.isdigit, below[0])):
        return None
    if _shape(cell) in shapes:
        return True
    return None if any(map(str.isdigit, cell)) else False


def _shape(text: str) -> str:
    """Return a text with 9 for each digit and a for each run of letters: ``2024-05-31`` is ``9999-99-99``."""
    return re.sub(r"[^\W\d_]+", "a", re.sub(r"\d", "9", text))


def _counts_up(cells: Row) -> bool:
    """Return whether the cells are 0, 1, 2, … or consecutive years: numbers that name columns."""
    if len(cells) < 2 or not all(cell.isdecimal() for cell in cells):
        return False
    numbers = [int(cell) for cell in cells]
    return numbers == list(range(numbers[0], numbers[0] + len(numbers)))
