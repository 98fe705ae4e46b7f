"""Notes of a reader about repairs, skipped rows and findings, merged over chunks and files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gpupipe.io.stray_values import TextProfile
from gpupipe.names import count_noun
from gpupipe.user_warnings import WarningNote

SHOWN = 5
READ_AS_MISSING = " read as missing"
UNBOUNDED = "infinite values or values above 4e37, which count as missing"


class Notes:
    """Collection of notes, stored as facts so that notes of chunks and files can be merged; iterates over their texts.

    - `columns`: the column that each fixed text is about, ``""`` for none
    - `missing`: strings that were read as missing, by column
    - `profiles`: profiles of the text columns of CSV files
    - `skipped`: number of rows skipped because their number of fields differs from the header's, by file
    """

    def __init__(self) -> None:
        self.columns: dict[str, str] = {}
        self.missing: dict[str, set[str]] = {}
        self.profiles: dict[str, TextProfile] = {}
        self.skipped: dict[str, int] = {}

    def add(self, text: str, column: str = "") -> None:
        """Add a text, optionally about a column; the same text is kept once."""
        self.columns[text] = column

    def warn(self, text: str, column: str = "", fate: str = "") -> None:
        """Add a text that a run shows as a warning; see `WarningNote`."""
        self.add(WarningNote.of(text, column, fate), column)

    def add_missing(self, column: str, texts: Iterable[str]) -> None:
        """Add strings of a column that were read as missing."""
        self.missing.setdefault(column, set()).update(texts)

    def add_profile(self, column: str, profile: TextProfile) -> None:
        """Merge a profile of strings of a column."""
        known = self.profiles.get(column)
        self.profiles[column] = profile if known is None else known | profile

    def add_skipped(self, path: str, n_rows: int) -> None:
        """Count rows of a file that were skipped because of a wrong number of fields."""
        self.skipped[path] = self.skipped.get(path, 0) + n_rows

    @property
    def n_skipped(self) -> int:
        """Number of rows skipped because of a wrong number of fields."""
        return sum(self.skipped.values())

    def include(self, other: Notes) -> None:
        """Merge the notes of another collection."""
        self.columns.update(other.columns)
        for column, texts in other.missing.items():
            self.add_missing(column, texts)
        for column, profile in other.profiles.items():
            self.add_profile(column, profile)
        for path, n_rows in other.skipped.items():
            self.add_skipped(path, n_rows)

    def __iter__(self) -> Iterator[str]:
        return (text for text, _ in self._texts())

    def lines(self) -> list[str]:
        """Return all notes as text."""
        return list(self)

    def about(self, columns: Iterable[str]) -> list[str]:
        """Return the notes about these columns."""
        known = frozenset(columns)
        return [text for text, column in self._texts() if column in known]

    def skipped_line(self) -> str:
        """Return the note about skipped rows, empty if there are none."""
        if not self.n_skipped:
            return ""
        by_file = ", ".join(f"{path}: {n}" for path, n in list(self.skipped.items())[:SHOWN])
        rows = count_noun(self.n_skipped, "row")
        return WarningNote(f"skipped {rows} with a wrong number of fields ({by_file})")

    def _texts(self) -> Iterator[tuple[str, str]]:
        """Yield each note and its column, ``""`` for none."""
        yield from self.columns.items()
        for column, profile in self.profiles.items():
            if text := profile.describe(column):
                yield WarningNote.of(text, column, "text"), column
        for column, texts in self.missing.items():
            if any(texts):  # empty strings are expected to be missing: no note
                yield (
                    WarningNote.of(f"column {column!r}: {shown_texts(texts)}{READ_AS_MISSING}", column, "missing"),
                    column,
                )
        if line := self.skipped_line():
            yield line, ""


def shown_texts(texts: Iterable[str]) -> str:
    """Return some texts in quotes, in order."""
    return ", ".join(map(repr, sorted(texts)[:SHOWN]))


def reasons_of_nulls(notes: Iterable[str], column: str) -> list[str]:
    """Return the reasons in notes why values of a column are missing: texts that mean so, and unbounded numbers."""
    prefix = f"column {column!r}"
    about = [text.removeprefix(prefix) for text in notes if text.startswith(prefix)]
    words = [text.removeprefix(": ") for text in about if text.startswith(": ") and text.endswith(READ_AS_MISSING)]
    return words + [UNBOUNDED for text in about if text == f" has {UNBOUNDED}"]
