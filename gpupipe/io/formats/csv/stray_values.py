"""Columns that are text by a few values alone: what a CSV file nearly says, and the setting that would have it so."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from gpupipe.io.missing_values import TEXT

FEW = 5  # so many texts among numbers are strays; more make a column of text
FIRST = 256  # levels of a column that are looked at before all of them
NUMBER = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$"
MARKED = r"^[+-]?([0-9]{1,3}([.,' ][0-9]{3})+|[0-9]+)([.,][0-9]+)?$"  # 1.234,56 or 1'234.5


@dataclass(frozen=True)
class TextProfile:
    """Counts of the kinds of texts in a column; independent of how the column is split into chunks.

    Attributes
    ----------
    has_numbers : bool
    strays : frozenset of str
        Texts that are no numbers, `FEW` and one more at most.
    is_marked : bool
        Whether all of them would be numbers with other marks.
    """

    has_numbers: bool
    strays: frozenset[str]
    is_marked: bool

    def __or__(self, other: TextProfile) -> TextProfile:
        strays = frozenset(sorted(self.strays | other.strays)[: FEW + 1])
        return TextProfile(self.has_numbers or other.has_numbers, strays, self.is_marked and other.is_marked)

    def remark(self, name: str) -> str:
        """Return what there is to say of the column, often nothing."""
        shown = ", ".join(map(repr, sorted(self.strays)))
        if self.strays and self.is_marked:
            return (
                f"column {name!r} is text, but looks like numbers with other marks ({min(self.strays)!r}): "
                "csv.decimal and csv.thousands say which"
            )
        if self.has_numbers and 0 < len(self.strays) <= FEW:
            return (
                f"column {name!r} is text: all of its values are numbers but {shown}; "
                "csv.null_values would make these missing"
            )
        return ""


MANY_STRAYS = TextProfile(False, frozenset(map(str, range(FEW + 1))), is_marked=False)


def profile_texts(table: pa.Table, declared: Iterable[str]) -> dict[str, TextProfile]:
    """Return the profiles of the text columns, except those declared as text."""
    known, columns = frozenset(declared), zip(table.column_names, table.columns, strict=True)
    texts = {name: column for name, column in columns if name not in known and column.type == TEXT}
    return {name: texture for name, column in texts.items() if (texture := _texture(column)) is not None}


def _texture(column: pa.ChunkedArray) -> TextProfile | None:
    """Return the texture of a column; None where it has no text."""
    found: TextProfile | None = None
    for chunk in column.chunks:
        for part in (chunk.dictionary[:FIRST], chunk.dictionary[FIRST:]):
            if len(part) and (found is None or found.is_marked or len(found.strays) <= FEW):
                seen = _seen(part)
                found = seen if found is None else found | seen
    if found is not None and not found.is_marked and len(found.strays) > FEW:
        return MANY_STRAYS  # whatever other chunks hold, there is nothing to remark: nothing more is kept
    return found


def _seen(texts: pa.Array) -> TextProfile:
    texts = texts.drop_null()
    is_number = pc.match_substring_regex(texts, NUMBER)
    others = texts.filter(pc.invert(is_number))
    is_marked = pc.all(pc.match_substring_regex(others, MARKED), min_count=0).as_py()
    strays = frozenset(map(sys.intern, others[: FEW + 1].to_pylist()))  # files have the same ones, often thousands
    return TextProfile(len(others) < len(texts), strays, is_marked)
