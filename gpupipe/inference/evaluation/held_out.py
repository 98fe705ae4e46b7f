"""Held-out rows of a run, kept in its model: outputs and targets, which calibrate estimates without labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from gpupipe.artifact import ArtifactReader, ArtifactWriter
from gpupipe.model_parts.goal import Goal
from gpupipe.typing import Array

NAME = "held_out.npz"
MOST_ROWS = 2_000
MOST_VALUES = 40_000  # outputs; of many classes, fewer rows
MOST_BYTES = 8 * (MOST_VALUES + MOST_ROWS)  # of the rows of one target


@dataclass(frozen=True)
class HeldOutRows:
    """Calibrated outputs of a model for rows that it was not trained on, and their targets.

    `output`, float64, shape (n,) or (n, k), is as `Prediction.output`; `y`, float64, shape (n,), or (n, n_targets) for
    several targets, has class codes or numbers.
    """

    output: Array
    y: Array

    def sample(self, most: int = MOST_ROWS) -> HeldOutRows:
        """Return at most `most` rows, evenly spaced."""
        most = min(most, max(1, MOST_VALUES // (self.output.size // max(1, len(self.y)) or 1)))
        rows = np.unique(np.linspace(0, len(self.y) - 1, min(most, len(self.y))).astype(np.int64))
        return HeldOutRows(self.output[rows], self.y[rows])


def join_rows(parts: Sequence[HeldOutRows]) -> HeldOutRows:
    """Return the rows of all parts, at least one."""
    return HeldOutRows(*(np.concatenate(arrays) for arrays in zip(*((p.output, p.y) for p in parts), strict=True)))


def write_held_out(writer: ArtifactWriter, rows: HeldOutRows) -> None:
    """Write the rows, at most 336 kB."""
    writer.arrays(NAME, vars(rows))


def read_held_out(reader: ArtifactReader, goal: Goal) -> HeldOutRows | None:
    """Return the rows of a model; None if it has none, since an earlier version wrote it.

    Raise KeyError or ValueError if the file is malformed.
    """
    return check_held_out(reader.arrays(NAME), goal) if NAME in reader.names() else None


def check_held_out(arrays: Mapping[str, Array], goal: Goal) -> HeldOutRows:
    """Return arrays as rows of a goal. Raise KeyError or ValueError if the goal has other outputs or targets."""
    output, y = (np.asarray(arrays[name], np.float64) for name in ("output", "y"))
    widths = [own.n_classes if own.n_classes > 2 else len(own.quantiles) or 1 for own in goal.each]
    n, is_matrix = len(y), bool(goal.targets) or widths[0] > 1
    if len(output) != n or output.size != n * sum(widths) or y.size != n * len(widths):
        raise ValueError(f"{NAME}: expected {sum(widths)} outputs and {len(widths)} targets for each row")
    if not (np.isfinite(output).all() and np.isfinite(y).all()):
        raise ValueError(f"{NAME}: expected finite numbers")
    for own, codes in zip(goal.each, y.reshape(n, -1).T if n else (), strict=bool(n)):
        if own.n_classes and not np.isin(codes, np.arange(own.n_classes)).all():
            raise ValueError(f"{NAME}: expected class codes in [0, {own.n_classes})")
    shape = (n, sum(widths)) if is_matrix else (n,)
    return HeldOutRows(output.reshape(shape), y.reshape((n, len(widths)) if goal.targets else (n,)))
