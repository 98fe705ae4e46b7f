"""Rows, repeats and models by which importances are measured within a limit of predicted work."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from gpupipe.names import count_noun

LIMIT_SECONDS = 3.0  # of one processor core, by the sizes of the models
GOOD_ROWS, LEAST_ROWS = 1_000, 200
LEAST_REPEATS = 2  # whose spread tells noise from importance
LEAST_COLUMNS = 10


@dataclass(frozen=True)
class ImportanceWork:
    """Amount of work of permutation importances.

    `n_models` is the number of models of each member of an ensemble that predict; 1 for other models.
    """

    n_rows: int
    repeats: int
    n_columns: int
    n_models: int = 1

    @property
    def predicted_rows(self) -> int:
        """Number of rows to predict."""
        return self.n_rows * (1 + self.repeats * self.n_columns)

    def describe(self, whole: ImportanceWork) -> str:
        """Return what was reduced from `whole`, for people; empty if nothing was."""
        parts = []
        if self.n_rows < whole.n_rows:
            parts.append(f"{self.n_rows:,} of {count_noun(whole.n_rows, 'test row')}")
        if self.n_models < whole.n_models:
            parts.append(f"{self.n_models} of {count_noun(whole.n_models, 'model')} of each member")
        if self.repeats < whole.repeats:
            parts.append(f"{count_noun(self.repeats, 'shuffle')} instead of {whole.repeats}")
        if self.n_columns < whole.n_columns:
            parts.append(f"{self.n_columns:,} of {count_noun(whole.n_columns, 'column')}")
        return ", ".join(parts)


def choose_work(whole: ImportanceWork, row_seconds: Callable[[int], float], limit_seconds: float) -> ImportanceWork:
    """Return the largest work within a limit, which is at most `whole`.

    The limit is on counts, not on a clock, so that the same run has the same importances. What is reduced first costs
    least accuracy: rows down to `GOOD_ROWS`; then the models of each member, which differ only by the fold that they
    were not trained on; rows down to `LEAST_ROWS`; repeats; columns. At the least of all of them, the limit may be
    exceeded.

    `row_seconds` returns the predicted seconds of one row with n models of each member.

    Examples
    --------
    >>> whole = ImportanceWork(n_rows=5_000, repeats=3, n_columns=33, n_models=8)
    >>> choose_work(whole, lambda n_models: 1e-5 * n_models, 5.0)
    ImportanceWork(n_rows=1000, repeats=3, n_columns=33, n_models=5)
    >>> choose_work(whole, lambda n_models: 1e-6 * n_models, 5.0) == whole
    True
    """

    def n_fitting(work: ImportanceWork) -> int:
        """Return the number of rows that the limit has room for."""
        row = row_seconds(work.n_models) * work.predicted_rows / work.n_rows
        return int(limit_seconds / row) if row > 0 else work.n_rows

    def with_rows(work: ImportanceWork, least: int) -> ImportanceWork:
        return replace(work, n_rows=min(work.n_rows, max(least, n_fitting(work))))

    found = with_rows(whole, GOOD_ROWS)
    while found.n_models > 1 and n_fitting(found) < found.n_rows:
        found = replace(found, n_models=found.n_models - 1)
    found = with_rows(found, LEAST_ROWS)
    if n_fitting(found) < found.n_rows:
        found = replace(found, repeats=min(found.repeats, LEAST_REPEATS))
    if (n_rows := n_fitting(found)) < found.n_rows:
        found = replace(
            found, n_columns=min(found.n_columns, max(LEAST_COLUMNS, found.n_columns * n_rows // found.n_rows))
        )
    return found
