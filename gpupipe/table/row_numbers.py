"""Row numbers in messages about cells, which do not depend on the chunk or partition of the rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from gpupipe.errors import ROWS_COUNTED, SchemaError
from gpupipe.typing import HostArray

ROWS_SHOWN = 10


@dataclass(frozen=True)
class RowNumbers:
    """The first of the rows of a problem.

    `shown` has at most `ROWS_SHOWN` rows, from 0. `n_rows` is the number of rows with the problem, if they were
    counted.
    """

    shown: tuple[int, ...]
    n_rows: int | None = None

    @staticmethod
    def of(is_bad: HostArray) -> RowNumbers:
        """Return the rows of a mask."""
        rows = np.flatnonzero(is_bad)
        return RowNumbers(tuple(rows[:ROWS_SHOWN].tolist()), len(rows))

    def after(self, n_rows: int) -> RowNumbers:
        """Return the rows numbered from `n_rows` rows earlier."""
        return replace(self, shown=tuple(row + n_rows for row in self.shown))

    def __str__(self) -> str:
        numbers = ", ".join(f"{row:,}" for row in self.shown)
        if len(self.shown) == 1 and self.n_rows in (None, 1):
            return f"data row {numbers}"
        if self.n_rows is None:
            return f"data rows {numbers}{', ...' if len(self.shown) == ROWS_SHOWN else ''}"
        return f"{self.n_rows:,} data rows: {numbers}{', ...' if self.n_rows > len(self.shown) else ''}"


class CellsError(SchemaError):
    """Cells of a table that do not match their column (exit code 5).

    `lines` are those of the message, each with the rows that it ends with. For `where`, `fix` and `names`, see
    `GpupipeError`.
    """

    def __init__(
        self,
        lines: Sequence[tuple[str, RowNumbers | None]],
        *,
        where: str = ROWS_COUNTED,
        fix: str = "",
        names: Iterable[str] = (),
    ) -> None:
        self.lines = tuple(lines)
        super().__init__(self._text(), where=where, fix=fix, names=names)

    def _text(self) -> str:
        return "\n".join(text if rows is None else f"{text} in {rows}" for text, rows in self.lines)

    def count_after(self, n_rows: int) -> None:
        """Number the rows from the start of the table, if they were numbered after its first `n_rows`."""
        self.lines = tuple((text, rows and rows.after(n_rows)) for text, rows in self.lines)
        self.what = self._text()
