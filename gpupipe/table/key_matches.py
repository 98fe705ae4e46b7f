"""Share of the rows whose key is in another table: a note, or a warning if nearly no key is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from gpupipe.user_warnings import WarningNote

FEW_ROWS = 10  # of fewer rows, none may match by chance
LOW_SHARE = 0.01  # keys of another form match none, or the few that look the same in both


@dataclass(frozen=True)
class KeyMatches:
    """Numbers of rows by whether their key is in another table, with an example of the keys of both.

    - `n_keys`: rows whose key has no null part
    - `n_matches`: rows with a match
    - `ours`, `theirs`: a key without a match, and one of the other table; empty if there is none
    """

    n_rows: int
    n_keys: int
    n_matches: int
    ours: str = ""
    theirs: str = ""

    @staticmethod
    def of(
        left: pa.Table, left_names: Sequence[str], right: pa.Table, right_names: Sequence[str], matches: pa.Array
    ) -> KeyMatches:
        """Return the matches of the rows of `left`, whose positions in `right` are given, null without a match."""
        has_key = pa.chunked_array([pa.repeat(True, left.num_rows)])
        for name in left_names:
            has_key = pc.and_(has_key, left.column(name).is_valid())
        n_keys, n_matches = pc.sum(has_key).as_py() or 0, len(matches) - matches.null_count
        found = KeyMatches(left.num_rows, n_keys, n_matches)
        if not found.are_few:
            return found
        ours = _example(left, left_names, pc.and_(has_key, matches.is_null()))
        return replace(found, ours=ours, theirs=_example(right, right_names))

    def __add__(self, other: KeyMatches) -> KeyMatches:
        numbers = (self.n_rows + other.n_rows, self.n_keys + other.n_keys, self.n_matches + other.n_matches)
        return KeyMatches(*numbers, self.ours or other.ours, self.theirs or other.theirs)

    @property
    def are_few(self) -> bool:
        """True if so few rows with a key have a match that the keys are probably written in another way."""
        return self.n_keys >= FEW_ROWS and self.n_matches < LOW_SHARE * self.n_keys

    def note(self, label: str) -> str:
        """Return the note about the share of rows with a match; a `WarningNote` if it is near zero."""
        if not self.are_few:
            return f"{label}: {self.n_matches / max(1, self.n_rows):.1%} of the rows have a match"
        shown = f", such as {self.ours} here and {self.theirs} there" if self.ours and self.theirs else ""
        return WarningNote(
            f"{label}: {self.n_matches:,} of {self.n_keys:,} rows with a key have a match; the keys of the tables "
            f"differ{shown}; write both in the same way, or declare what they are in both, as in schema: {{KEY: int}}"
        )


def _example(table: pa.Table, names: Sequence[str], mask: pa.ChunkedArray | None = None) -> str:
    """Return the first key of a table, of those that the mask flags, as text; empty if there is none."""
    row = 0 if mask is None else pc.index(mask, True).as_py()
    if not 0 <= row < table.num_rows:
        return ""
    return ", ".join(repr(table.column(name)[row].as_py()) for name in names)
