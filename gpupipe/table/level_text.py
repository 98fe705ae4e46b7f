"""Texts of levels and keys: one text for each value, and the normal form of the texts that write the same value.

A level or key is a text. `canonical_text` is the text of a typed value, which `gpupipe.table.string_columns` writes for
columns. A file without types writes a value in several ways, such as ``True`` and ``1.0``: `normal_text` returns one
form for all of them. A value is looked up by its text first, then by its normal form (`LevelLookup`), so that texts
which differ in training stay apart. ``01`` and ``1.10`` are other texts than ``1`` and ``1.1``: they may be codes.

Standard library and NumPy only, so that single rows are encoded without Arrow.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import cached_property
from typing import Any

import numpy as np

from gpupipe.table.exact_texts import decimal_text, exact_text
from gpupipe.table.schema import BOOLEAN_WORDS, FIRST_LEVEL, NULL_VALUES, Column

NULL_TEXTS = frozenset(NULL_VALUES)
WORDS = {"True": "true", "TRUE": "true", "False": "false", "FALSE": "false"}
FLAGS = {**WORDS, "true": "true", "false": "false", "1": "true", "0": "false"}
LONGEST_NUMBER = 400  # characters; no number of float64 is written longer
_WHOLE = re.compile(r"-?(0|[1-9][0-9]*)\.0|-0")
_TIME = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})[ T]([0-9]{2}:[0-9]{2}:[0-9]{2})(\.[0-9]{1,9})?(Z|[+-]00:?00)?", re.ASCII
)
_SCALED = re.compile(r"-?(0|[1-9][0-9]{0,30})\.[0-9]{0,30}0", re.ASCII).fullmatch
_INTEGER = re.compile(r"[+-]?[0-9]+", re.ASCII)
# Matches every text that `normal_text` may change, for Arrow, whose \s is ASCII.
MAYBE_OTHER = r"^\s|\s$|[^\x00-\x7f]|^[\x1c-\x1f]|[\x1c-\x1f]$|^(?:True|TRUE|False|FALSE)$|^-?[0-9]+\.0$|^-0$|:"


def canonical_text(value: Any) -> str | None:
    """Return a value as a level: integral floats as integers, ``""`` for NaN, times at midnight as dates.

    A float32 has the shortest text that float32 reads back: ``1.1``, as in the file that it was read from. Integers,
    decimals and UUIDs keep every digit. None for other types, and for times with a zone other than UTC, which tables
    convert.
    """
    kind = type(value)
    if kind is bool or isinstance(value, np.bool_):
        return "true" if value else "false"
    if is_numpy_integer(value):
        return str(int(value))
    if kind is float or isinstance(value, np.float32 | np.float64):
        number = float(value)
        if number != number:
            return ""
        if number.is_integer():
            return f"{number + 0.0:.0f}"  # + 0.0 turns -0.0 into 0.0
        return str(value) if isinstance(value, np.float32) else repr(number)
    if kind is date or (kind is datetime and value.tzinfo in (None, UTC)):
        return normal_text(value.isoformat().removesuffix("+00:00"))
    return exact_text(value)


def is_numpy_integer(value: Any) -> bool:
    """Return whether a value is a NumPy integer; NumPy derives durations from integers, too."""
    return isinstance(value, np.integer) and not isinstance(value, np.timedelta64)


def normal_text(text: str) -> str:
    """Return the normal form of a text without a type: the same for the texts that write the same value.

    Surrounding blanks are removed, booleans are in lower case, whole numbers have no ``.0``, times have no ``T``, zero
    fraction or UTC zone, and no time of day at midnight, and accents are composed (NFC). Other texts are unchanged.

    Examples
    --------
    >>> [normal_text(text) for text in ("oak ", "TRUE", "1.0", "2024-01-31T00:00:00", "01", "1.10")]
    ['oak', 'true', '1', '2024-01-31', '01', '1.10']
    """
    text = text.strip()
    if text in WORDS:
        return WORDS[text]
    if not text.isascii():
        return unicodedata.normalize("NFC", text)
    if _WHOLE.fullmatch(text):
        return "0" if text in ("-0", "-0.0") else text.removesuffix(".0")
    if ":" in text and (found := _TIME.fullmatch(text)):
        day = found[1]
        clock = found[2]
        fraction = (found[3] or "").rstrip("0").rstrip(".")
        return day if clock == "00:00:00" and not fraction else f"{day} {clock}{fraction}"
    return text


def normal_form(dtype: str) -> Callable[[str], str]:
    """Return the function to the normal form of the texts of a column, by the Arrow type of its values in training.

    For a column of numbers, each text of a number is that number, ``01`` and ``1.10`` too; for one of booleans, ``1``
    and ``0`` are true and false.
    """
    if dtype == "bool":
        return lambda text: FLAGS.get(text.strip(), text.strip())
    if dtype.startswith(("int", "uint", "float", "double", "half", "decimal")):
        round_number = np.float32 if dtype in ("float", "halffloat") else float
        return lambda text: _normal_number(text.strip(), round_number)
    return normal_text


def _normal_number(text: str, round_number: Callable[[float], Any]) -> str:
    if len(text) > LONGEST_NUMBER:
        return text
    if _INTEGER.fullmatch(text):
        return str(int(text))  # every digit, which float64 does not keep
    try:
        number = float(text)
    except ValueError:
        return text
    if not math.isfinite(number) or "_" in text or not text.isascii():
        return text
    with np.errstate(over="ignore"):
        return canonical_text(round_number(number)) or text


def compares_forms(column: Column) -> bool:
    """Return whether texts other than the levels of a column are looked up by their normal form.

    In models of earlier versions, so are numbers and times only, whose text was another one.
    """
    return column.has_normal_form or column.dtype.startswith(("float", "half", "timestamp", "date"))


def level_codes(column: Column) -> Mapping[str, int]:
    """Return the code of each level, or of each word of a boolean column."""
    if column.kind == "boolean":
        return {word: FIRST_LEVEL + flag for word, flag in BOOLEAN_WORDS.items()}
    return LevelLookup(column).codes


class LevelLookup:
    """Codes of texts among the levels of a categorical column.

    `codes` has the code of each level that can be a value: without texts that mean a missing value.
    """

    def __init__(self, column: Column) -> None:
        self.column, self.normal = column, normal_form(column.dtype)
        levels = enumerate(column.levels or (), FIRST_LEVEL)
        self.codes = {level: code for code, level in levels if level.strip() not in NULL_TEXTS}

    def __call__(self, text: str) -> int | None:
        """Return the code of a text: that of the equal level, or of the only one with its normal form; else None."""
        code = self.codes.get(text)
        return self.others.get(self.normal(text)) if code is None else code

    def of_number(self, text: str) -> int | None:
        """Return the code of a typed number from its canonical text: also that of a level such as ``1.50`` for 1.5."""
        code = self(text)
        return self.numbers.get(text) if code is None else code

    @cached_property
    def numbers(self) -> dict[str, int]:
        """The code of each number that a single level writes, with zeros at the end of its fraction."""
        if not self.column.has_normal_form:
            return {}
        return _single((decimal_text(Decimal(level)), code) for level, code in self.codes.items() if _SCALED(level))

    @cached_property
    def others(self) -> dict[str, int]:
        """The code of each normal form that a single level has."""
        if not compares_forms(self.column):
            return {}
        return _single((self.normal(level), code) for level, code in self.codes.items())

    def spellings(self) -> dict[str, int]:
        """Return the codes of the levels and of their usual other texts, for a lookup that cannot compute."""
        found = dict(self.codes)
        for form, code in self.others.items():
            for text in _spellings(form, self.column.dtype):
                found.setdefault(text, code)
        return found


def _single(forms: Iterable[tuple[str, int]]) -> dict[str, int]:
    """Return the code of each form that occurs once."""
    found: dict[str, int | None] = {}
    for form, code in forms:
        found[form] = None if form in found else code
    return {form: code for form, code in found.items() if code is not None}


def _spellings(form: str, dtype: str) -> list[str]:
    """Return the usual texts of a normal form."""
    texts = [form, *(word for word, own in (FLAGS if dtype == "bool" else WORDS).items() if own == form)]
    if re.fullmatch(r"-?(0|[1-9][0-9]*)", form):
        texts.append(f"{form}.0")
    if re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", form):
        texts += [f"{form} 00:00:00", f"{form}T00:00:00"]
    elif _TIME.fullmatch(form):
        texts.append(form.replace(" ", "T"))
    if not form.isascii():
        texts.append(unicodedata.normalize("NFD", form))
    return texts
