"""What a reader repaired or skipped, each said once however many files it happened in."""

from __future__ import annotations


class Notes:
    """Collects remarks; repeated ones count once."""

    def __init__(self) -> None:
        self._lines: dict[str, None] = {}
        self._skipped: dict[str, int] = {}

    def say(self, line: str) -> None:
        """Add a remark, unless it was made before."""
        self._lines[line] = None

    def skipped_rows(self, path: str, n_rows: int) -> None:
        """Count rows of a file that were left out because they have another number of fields."""
        self._skipped[path] = self._skipped.get(path, 0) + n_rows

    @property
    def n_skipped(self) -> int:
        """Rows that were left out because they have another number of fields."""
        return sum(self._skipped.values())

    def include(self, other: Notes) -> None:
        """Add what another has collected."""
        self._lines.update(other._lines)
        for path, n_rows in other._skipped.items():
            self.skipped_rows(path, n_rows)

    def remarks(self) -> list[str]:
        """Return the remarks alone, without the count of rows that were left out."""
        return list(self._lines)

    def lines(self) -> list[str]:
        """Return the remarks, in the order in which they were first made."""
        total = sum(self._skipped.values())
        if not total:
            return list(self._lines)
        by_file = ", ".join(f"{path}: {n}" for path, n in list(self._skipped.items())[:5])
        rows = "row" if total == 1 else "rows"
        return [*self._lines, f"skipped {total} {rows} with another number of fields ({by_file})"]
