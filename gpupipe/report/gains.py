"""Table of gains: the positive class among the rows with the highest probabilities."""

from __future__ import annotations

from dataclasses import dataclass

from gpupipe.report.data import Classification


@dataclass(frozen=True)
class GainRow:
    """One row of the table of gains."""

    n_rows: int  # rows with the highest probabilities
    fraction: float  # `n_rows` as a fraction of all rows
    hits: int  # rows of the positive class among them
    # `precision`, `recall`: hits as a fraction of `n_rows`, and of all rows of the positive class
    precision: float
    recall: float
    lift: float  # precision divided by the fraction of the positive class in all rows


def gain_rows(found: Classification) -> list[GainRow]:
    """Return the table of gains of a binary classification; empty without its confusion."""
    if found.confusion is None or len(found.confusion.counts) != 2:
        return []
    n_positive = int(sum(found.confusion.counts[1]))
    n_rows = n_positive + int(sum(found.confusion.counts[0]))
    return [
        GainRow(
            n_rows=top.n_rows,
            fraction=top.n_rows / n_rows,
            hits=round(top.hits),
            precision=top.hits / top.n_rows,
            recall=top.hits / n_positive,
            lift=top.hits / top.n_rows * n_rows / n_positive,
        )
        for top in found.top
        if n_positive
    ]


def at_threshold(found: Classification | None) -> tuple[float, float] | None:
    """Return precision and recall of a binary classification at its threshold; None if no row is predicted positive."""
    if found is None or found.confusion is None or len(found.confusion.counts) != 2:
        return None
    (_, wrong), (missed, right) = found.confusion.counts
    if not right + wrong or not right + missed:
        return None
    return float(right / (right + wrong)), float(right / (right + missed))
