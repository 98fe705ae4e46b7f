"""Results of cells as JSON lines; a cell is one contender with one limit on one fold of one table."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class CellRecord:
    """Result of a cell.

    Attributes
    ----------
    limit_s : float
        Time limit of the training; 0 for a contender without one.
    score : float, optional
        The metric on the test rows, computed by the runner; none if the contender failed.
    error : str
        The reason of a failure, or an empty text.
    fit_s, predict_s, wall_s : float, optional
        Seconds of training and of predicting as the contender measured them, and of its whole process.
    peak_memory_mib : float
        Largest sum of the resident memory of the contender's processes, sampled.
    machine, busy_cores : dict, float
        Description of the machine with its load average, and the cores that other programs used before the start.
    commit : str
        Commit of the checkout, ``-dirty`` if it had been changed.
    published : float, optional
        Accuracy, or RMSE of a regression: the metrics of published results.
    """

    table: str
    fold: int
    contender: str
    limit_s: float
    metric: str
    score: float | None
    error: str
    fit_s: float | None
    predict_s: float | None
    wall_s: float
    peak_memory_mib: float
    n_train: int
    n_test: int
    versions: dict[str, str] = field(default_factory=dict)
    note: str = ""
    date: str = ""
    machine: dict[str, Any] = field(default_factory=dict)
    busy_cores: float = 0.0
    commit: str = ""
    published: float | None = None

    @property
    def key(self) -> tuple[str, int, str, float]:
        """Table, fold, contender and limit: a file has one result of each."""
        return self.table, self.fold, self.contender, self.limit_s

    @property
    def label(self) -> str:
        """Contender and limit, as in ``autogluon@600``; the contender alone if it has no limit."""
        return f"{self.contender}@{self.limit_s:g}" if self.limit_s else self.contender


def read_records(paths: Iterable[Path]) -> list[CellRecord]:
    """Return the results of the files; of two results of a cell the later one. A line that a kill cut off is ignored.

    Raises
    ------
    ValueError
        If a line other than the last of a file is not a result.
    """
    records = {}
    for path in paths:
        lines = path.read_text(encoding="utf8").splitlines()
        for number, line in enumerate(lines, 1):
            try:
                record = CellRecord(**json.loads(line))
            except (ValueError, TypeError) as error:
                if number == len(lines):
                    continue
                message = f"{path}, line {number}: expected a result as JSON: {error}"
                raise ValueError(message) from None
            records[record.key] = record
    return list(records.values())


def append_record(path: Path, record: CellRecord) -> None:
    """Add a result to the file, instead of a last line that a kill cut off."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab+") as file:
        file.seek(0)
        file.truncate(file.read().rfind(b"\n") + 1)
        file.write(json.dumps(asdict(record), allow_nan=False).encode() + b"\n")
