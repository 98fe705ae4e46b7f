"""Notes of a reader: what it repaired, skipped or found, merged over chunks and files and worded once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gpupipe.io.formats.csv.stray_values import TextProfile

SHOWN = 5


class Notes:
    """Collects notes as facts, so that those of chunks and files can be merged; iterating yields them as text.

    Attributes
    ----------
    columns : dict of str to str
        The column of each fixed text, ``""`` for none.
    missing : dict of str to set of str
        Texts that were read as missing, by column.
    profiles : dict of str to TextProfile
        The texts of the text columns of CSV files.
    skipped : dict of str to int
        Rows that were skipped because they have another number of fields than the header, by file.
    """

    def __init__(self) -> None:
        self.columns: dict[str, str] = {}
        self.missing: dict[str, set[str]] = {}
        self.profiles: dict[str, TextProfile] = {}
        self.skipped: dict[str, int] = {}

    def say(self, text: str, column: str = "") -> None:
        """Add a text, about a column if one is named, unless it was added before."""
        self.columns[text] = column

    def add_missing(self, column: str, texts: Iterable[str]) -> None:
        """Add texts of a column that were read as missing."""
        self.missing.setdefault(column, set()).update(texts)

    def add_profile(self, column: str, profile: TextProfile) -> None:
        """Add the profile of some texts of a column."""
        known = self.profiles.get(column)
        self.profiles[column] = profile if known is None else known | profile

    def add_skipped(self, path: str, n_rows: int) -> None:
        """Count rows of a file that were skipped because they have another number of fields."""
        self.skipped[path] = self.skipped.get(path, 0) + n_rows

    @property
    def n_skipped(self) -> int:
        """Rows that were skipped because they have another number of fields."""
        return sum(self.skipped.values())

    def include(self, other: Notes) -> None:
        """Add the notes that another has collected."""
        self.columns.update(other.columns)
        for column, texts in other.missing.items():
            self.add_missing(column, texts)
        for column, profile in other.profiles.items():
            self.add_profile(column, profile)
        for path, n_rows in other.skipped.items():
            self.add_skipped(path, n_rows)

    def __iter__(self) -> Iterator[str]:
        return (text for text, _ in self._worded())

    def lines(self) -> list[str]:
        """Return all notes as text."""
        return list(self)

    def about(self, columns: Iterable[str]) -> list[str]:
        """Return the notes about these columns."""
        known = frozenset(columns)
        return [text for text, column in self._worded() if column in known]

    def skipped_line(self) -> str:
        """Return the count of skipped rows as text, empty if there are none."""
        if not self.n_skipped:
            return ""
        by_file = ", ".join(f"{path}: {n}" for path, n in list(self.skipped.items())[:SHOWN])
        rows = "row" if self.n_skipped == 1 else "rows"
        return f"skipped {self.n_skipped} {rows} with another number of fields ({by_file})"

    def _worded(self) -> Iterator[tuple[str, str]]:
        """Yield each note and its column, ``""`` for none."""
        yield from self.columns.items()
        for column, profile in self.profiles.items():
            if remark := profile.remark(column):
                yield remark, column
        for column, texts in self.missing.items():
            if any(texts):  # an empty text is expected to be missing
                yield f"column {column!r}: {', '.join(map(repr, sorted(texts)[:SHOWN]))} read as missing", column
        if line := self.skipped_line():
            yield line, ""
