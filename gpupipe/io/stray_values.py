"""Detection of columns that are text because of a few stray values, with the setting that would fix them."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from gpupipe.io.missing_values import TEXT
from gpupipe.table.number_texts import is_band

FEW = 5  # up to this many distinct strings among numbers are strays; more are a text column
FIRST = 256  # levels of a column to check before all others
NUMBER = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$"
MARKED = r"^[+-]?([0-9]{1,3}([.,' ][0-9]{3})+|[0-9]+)([.,][0-9]+)?$"  # 1.234,56 or 1'234.5


@dataclass(frozen=True)
class TextProfile:
    """Kinds of strings in a column, independent of how the column is split into chunks.

    `strays`: strings that are not numbers, at most `FEW` + 1. `is_marked`: True if all of them are numbers with other
    separators.
    """

    has_numbers: bool
    strays: frozenset[str]
    is_marked: bool

    def __or__(self, other: TextProfile) -> TextProfile:
        strays = frozenset(sorted(self.strays | other.strays)[: FEW + 1])
        return TextProfile(self.has_numbers or other.has_numbers, strays, self.is_marked and other.is_marked)

    def describe(self, name: str) -> str:
        """Return a note about the column `name`, often empty."""
        shown = ", ".join(map(repr, sorted(self.strays)))
        if self.strays and self.is_marked:
            return (
                f"column {name!r} is text, but looks like numbers with other separators ({min(self.strays)!r}): "
                "set csv.decimal and csv.thousands, or add the op parse_number"
            )
        if self.has_numbers and 0 < len(self.strays) <= FEW:
            bands = ", ".join(repr(text) for text in sorted(self.strays) if is_band(text))
            meaning = bands and (
                f"{bands}: a band of numbers, not a missing value; declare the column categorical, or read its limit: "
                f"- parse_number: {{columns: {name}, bands: limit}}"
            )
            fix = "to read these as missing, add them to csv.null_values, or replace them by None in a frame"
            return f"column {name!r} is text: all values are numbers except {shown}; {meaning or fix}"
        return ""


MANY_STRAYS = TextProfile(False, frozenset(map(str, range(FEW + 1))), is_marked=False)


def profile_texts(table: pa.Table, declared: Iterable[str]) -> dict[str, TextProfile]:
    """Return the profiles of the text columns, except those declared as text."""
    known, columns = frozenset(declared), zip(table.column_names, table.columns, strict=True)
    texts = {name: column for name, column in columns if name not in known and column.type == TEXT}
    return {name: profile for name, column in texts.items() if (profile := _profile(column)) is not None}


def _profile(column: pa.ChunkedArray) -> TextProfile | None:
    """Return the profile of a column; None if it has no text."""
    found: TextProfile | None = None
    for chunk in column.chunks:
        for part in (chunk.dictionary[:FIRST], chunk.dictionary[FIRST:]):
            if len(part) and (found is None or found.is_marked or len(found.strays) <= FEW):
                seen = _seen(part)
                found = seen if found is None else found | seen
    if found is not None and not found.is_marked and len(found.strays) > FEW:
        return MANY_STRAYS  # other chunks cannot change this: keep no strings
    return found


def _seen(texts: pa.Array) -> TextProfile:
    texts = texts.drop_null()
    is_number = pc.match_substring_regex(texts, NUMBER)
    others = texts.filter(pc.invert(is_number))
    is_marked = pc.all(pc.match_substring_regex(others, MARKED), min_count=0).as_py()
    strays = frozenset(map(sys.intern, others[: FEW + 1].to_pylist()))  # thousands of files often have the same strings
    return TextProfile(len(others) < len(texts), strays, is_marked)
