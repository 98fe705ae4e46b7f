"""Whether the first row of a file is a header, judged by how unlike the rows below it is."""

from __future__ import annotations

from collections.abc import Sequence

Row = Sequence[str]


def is_header(rows: Sequence[Row]) -> bool:
    """Return whether the first of `rows` names the columns.

    It is data where it holds a number, in a column of numbers, and no word in any such column; where there are no
    columns of numbers, if half of its values come again below.
    """
    first, rest = [cell.strip() for cell in rows[0]], rows[1:]
    if not rest or _counts_up(first):
        return True
    columns = [[row[i].strip() for row in rest if i < len(row) and row[i].strip()] for i in range(len(first))]
    numeric = [cell for cell, below in zip(first, columns, strict=True) if below and all(map(is_number, below))]
    if any(cell and not is_number(cell) for cell in numeric):
        return True
    if any(map(is_number, numeric)):
        return False
    again = [cell in below for cell, below in zip(first, columns, strict=True) if cell]
    return sum(again) * 2 < max(1, len(again))


def is_number(text: str) -> bool:
    """Return whether `text` is written as a number."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def _counts_up(cells: Row) -> bool:
    """Whether the cells are 0, 1, 2… or years in a row: numbers that name columns."""
    if len(cells) < 2 or not all(cell.isdecimal() for cell in cells):
        return False
    numbers = [int(cell) for cell in cells]
    return numbers == list(range(numbers[0], numbers[0] + len(numbers)))
