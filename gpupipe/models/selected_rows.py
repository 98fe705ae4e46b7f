"""Rows of a matrix on the host that are copied when they are read, a column or a block at a time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gpupipe.typing import Array, HostArray


@dataclass(frozen=True)
class SelectedRows:
    """The rows of `X` (float32, column-major) with the numbers `rows`, for models that need no copy of them all.

    Indexed as an array is: ``[:, j]`` is a column, and a slice or an array of positions gives rows.
    """

    X: Array
    rows: HostArray

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of rows and columns."""
        return len(self.rows), self.X.shape[1]

    @property
    def nbytes(self) -> int:
        """Bytes of a copy of all rows."""
        return int(self.X.itemsize * len(self.rows) * self.X.shape[1])

    def __getitem__(self, key: Any) -> HostArray:
        import numpy as np

        if isinstance(key, tuple):
            column: HostArray = self.X[:, key[1]][self.rows[key[0]]]
            return column
        rows = self.rows[key]
        found: HostArray = np.empty((len(rows), self.X.shape[1]), self.X.dtype, order="F")
        for j in range(self.X.shape[1]):
            np.take(self.X[:, j], rows, out=found[:, j], mode="clip")  # in range; "raise" would copy
        return found
