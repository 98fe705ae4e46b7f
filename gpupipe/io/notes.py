"""Notes of a reader: what it repaired or skipped, each reported once however many files it happened in."""

from __future__ import annotations


class Notes:
    """Collects notes; repeated ones count once."""

    def __init__(self) -> None:
        self._columns: dict[str, str] = {}  # by text
        self._skipped: dict[str, int] = {}

    def say(self, text: str, column: str = "") -> None:
        """Add a note, unless it was added before.

        Parameters
        ----------
        text : str
        column : str
            The column that it is about, if it is about one.
        """
        self._columns[text] = column

    def skipped_rows(self, path: str, n_rows: int) -> None:
        """Count rows of a file that were skipped because they have another number of fields."""
        self._skipped[path] = self._skipped.get(path, 0) + n_rows

    @property
    def n_skipped(self) -> int:
        """Rows that were skipped because they have another number of fields."""
        return sum(self._skipped.values())

    def include(self, other: Notes) -> None:
        """Add what another has collected."""
        self._columns.update(other._columns)
        for path, n_rows in other._skipped.items():
            self.skipped_rows(path, n_rows)

    def columns(self) -> dict[str, str]:
        """Return the column of each note, ``""`` for none; the count of skipped rows is not among them."""
        return dict(self._columns)

    def skipped_line(self) -> str:
        """Return the count of skipped rows as a text, empty if there are none."""
        if not self.n_skipped:
            return ""
        by_file = ", ".join(f"{path}: {n}" for path, n in list(self._skipped.items())[:5])
        rows = "row" if self.n_skipped == 1 else "rows"
        return f"skipped {self.n_skipped} {rows} with another number of fields ({by_file})"

    def lines(self) -> list[str]:
        """Return all notes, in the order in which they were first added."""
        return [*self._columns, *filter(None, [self.skipped_line()])]
