"""Raw columns as inputs of a target: those that are numbers, and the codes of numbers that are levels."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gpupipe.table.cell_encoders import EXACT, read_number
from gpupipe.table.level_text import NULL_TEXTS, canonical_text, level_codes, normal_form
from gpupipe.table.schema import FIRST_LEVEL, NULL, UNSEEN, Column

NUMBER_TYPES = ("int", "uint", "float", "double", "half", "decimal", "bool")  # beginnings of Arrow types
NO_LEVEL = -1.7e308  # stands for a text that is not a number, in a column whose levels are numbers


def takes_numbers(column: Column) -> bool:
    """Return whether a column is read as float64: numbers, and categories and flags that are numbers in training.

    Not categories above 2^53, because float64 may not distinguish a level from other numbers.
    """
    if column.kind == "categorical" and any(abs(_number_in(level)) >= EXACT for level in column.levels or ()):
        return False
    return column.kind == "numeric" or column.dtype.startswith(NUMBER_TYPES)


def as_number(column: Column, value: Any) -> float:
    """Return a number, or a level or flag that stands for one, as float64; NaN if it is missing."""
    if not isinstance(value, str):
        return math.nan if value is None else float(value)
    if value.strip() in NULL_TEXTS:
        return math.nan
    if column.kind == "numeric":
        return read_number(value)
    text = normal_form(column.dtype)(value) if column.has_normal_form else value
    if text in ("true", "false"):
        return float(text == "true")
    number = _number_in(text)
    return number if canonical_text(number) == text else NO_LEVEL


def number_codes(column: Column) -> tuple[dict[float, int], int]:
    """Return the codes of numbers, and the code of other numbers; flags that are neither 0 nor 1 are missing."""
    if column.kind == "boolean":
        return {0.0: FIRST_LEVEL, 1.0: FIRST_LEVEL + 1}, NULL
    # A level that `canonical_text` writes for no number is the level of none.
    is_single = column.dtype == "float"  # the level 1.1 is the float32 next to 1.1
    found = [(_number_in(level), level, code) for level, code in level_codes(column).items()]
    codes = {
        float(np.float32(number)) if is_single else number: code
        for number, level, code in found
        if canonical_text(number) == level
    }
    codes |= {float(level == "true"): code for _, level, code in found if level in ("true", "false")}
    return codes, UNSEEN


def _number_in(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan
