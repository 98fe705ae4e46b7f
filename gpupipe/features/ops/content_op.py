"""Base class of the ops on the contents of single cells that programs do not read: texts and lists."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, ClassVar, Self

from pydantic import Field

from gpupipe.errors import LimitError
from gpupipe.features.history.derivation import DerivedOp
from gpupipe.features.ops.base import SelectingOp

if TYPE_CHECKING:
    from gpupipe.features.history.tables import DerivationSources, HistoryRows

MIN_BYTES_CHECKED = 1 << 26  # smaller results are allocated without checking the free memory


class ContentOp(DerivedOp, SelectingOp):
    """An op that derives columns from each cell of a selection of columns, without other rows."""

    READS: ClassVar[str]  # contents of the cells, for messages

    prefix: str = Field("", description="Prefix of the new column names.")

    @abstractmethod
    def selected(self, rows: HistoryRows) -> list[str]:
        """Return the columns that the selection matches."""

    def resolve(self, rows: HistoryRows) -> Self:
        """Return the op with its selection resolved to names, since served tables may have further columns."""
        return self.model_copy(update={"columns": self.selected(rows)})

    def listed(self) -> list[str]:
        """Return the items of the selection."""
        return [self.columns] if isinstance(self.columns, str) else self.columns

    def require_room(self, n_columns: int, sources: DerivationSources) -> None:
        """Raise LimitError if the new columns do not fit into memory."""
        n_bytes = 4 * n_columns * sources.main.n_rows
        if n_bytes >= MIN_BYTES_CHECKED and 2 * n_bytes > (free := sources.backend.free_bytes()):
            raise LimitError(
                f"{self.title()} needs {2 * n_bytes / 1e9:.1f} GB of memory for {n_columns:,} columns of "
                f"{sources.main.n_rows:,} rows; {free / 1e9:.1f} GB are free",
                fix="select fewer columns, buckets or rows",
            )
