"""Summary of a batch scoring."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gpupipe.io.external.table_target import MergeCounts
    from gpupipe.partitions.scoring import RowReport


@dataclass(frozen=True, kw_only=True)
class ScoreSummary:
    """Result of a batch scoring."""

    output: Path | str  # the file of the scores; with a cluster, the folder; or the name of a table
    n_rows: int
    seconds: float = 0.0  # wall time, including loading the model
    # ids, kept: columns copied from the input to the output.
    ids: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    n_rejected: int = 0
    rejected_path: Path | None = None
    # Number of rejected rows by reason; a row may have several reasons.
    reasons: Mapping[str, int] = field(default_factory=dict)
    nulled: Mapping[str, int] = field(default_factory=dict)  # number of bad cells scored as null by column
    notes: tuple[str, ...] = ()  # warnings and notes, as printed
    merged: MergeCounts | None = None  # numbers of rows of the table, if the scores were merged into one
    report: RowReport | None = None  # nulls, unseen levels and values outside the training range

    def to_json(self) -> dict[str, Any]:
        """Return the summary as JSON values."""
        return {
            "output": str(self.output),
            "rows": self.n_rows,
            "seconds": round(self.seconds, 3),
            "ids": list(self.ids),
            "kept": list(self.kept),
            "rejected": {
                "rows": self.n_rejected,
                "file": None if self.rejected_path is None else str(self.rejected_path),
                "reasons": dict(self.reasons),
            },
            "nulled": dict(self.nulled),
            "notes": list(self.notes),
            "merged": None if self.merged is None else asdict(self.merged),
            "report": None if self.report is None else self.report.to_json(),
        }

    def lines(self) -> list[str]:
        """Return the summary as lines of text."""
        found = [] if self.report is None else self.report.lines()
        found += [f"{column}: {n:,} bad {_cells(n)} scored as null" for column, n in self.nulled.items()]
        if self.n_rejected:
            found += [reason_line(reason, n) for reason, n in self.reasons.items()]
            found += [f"{self.n_rejected:,} rejected {_rows(self.n_rejected)} written to {self.rejected_path}"]
        if (merged := self.merged) is not None:
            counts = f"{merged.inserted:,} inserted, {merged.updated:,} updated, {merged.unchanged:,} unchanged"
            return [*found, f"{self.n_rows:,} scored {_rows(self.n_rows)} merged into {self.output}: {counts}"]
        return [*found, f"{self.n_rows:,} scored {_rows(self.n_rows)} written to {self.output}"]


def reason_line(reason: str, n: int) -> str:
    """Return a reason for rejection and its number of rows as a line of text."""
    return f"{reason}: {n:,} {_rows(n)}"


def _rows(n: int) -> str:
    return "row" if n == 1 else "rows"


def _cells(n: int) -> str:
    return "cell" if n == 1 else "cells"
