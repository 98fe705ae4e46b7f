"""`ServedReference`: the training rows that the predicted rows of a served model are compared with."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

from gpupipe.artifact import ArtifactReader
from gpupipe.artifact.untrusted.failures import refuse_failures
from gpupipe.inference.drift.files import read_reference
from gpupipe.inference.drift.reference import DriftColumn
from gpupipe.inference.drift.report import DriftReport
from gpupipe.inference.drift.row_cell_counter import RowCellCounter
from gpupipe.inference.drift.verdict import comparison_steps, overall_verdict, worst_first
from gpupipe.inference.drift.weights import EQUAL_WEIGHTS, importance_weights
from gpupipe.inference.scorer.rare_values import encode_by_table
from gpupipe.inference.scorer.scorer import Scorer
from gpupipe.model_parts.part_checks import read_importances
from gpupipe.names import enumerate_names
from gpupipe.serve.drift_window import MOST_CELLS
from gpupipe.typing import Array


@dataclass(frozen=True, eq=False)
class ServedReference:
    """Cells of a model's training rows, and what counts the rows of a server in them.

    `weights` are as in `gpupipe.inference.drift.verdict.compare_columns`, and `has_importances` as in `DriftReport`.
    """

    counter: RowCellCounter
    weights: Mapping[str, float] | None
    has_importances: bool
    notes: tuple[str, ...]

    @staticmethod
    def load(reader: ArtifactReader, scorer: Scorer, outputs: Sequence[str]) -> ServedReference | None:
        """Return the reference of a model directory; None if the model has none.

        `outputs` has the names of the outputs. Raise ArtifactError if the reference is corrupt.
        """
        with refuse_failures("cannot read the reference of the training rows", str(reader.folder)):
            reference = read_reference(reader)
            if reference is None:
                return None
            weights = importance_weights(reader.manifest)
            notes = [] if weights is not None else [EQUAL_WEIGHTS]
            given = {column.source for column in scorer.columns if not column.derived}
            columns = [column for column in reference.columns if column.name in given]
            if absent := [column.name for column in reference.columns if column.name not in given]:
                notes.append(f"requests do not have these columns, which are not compared: {enumerate_names(absent)}")
            if skipped := _exceeding(columns, reference.scores, weights or {}):
                columns = [column for column in columns if column.name not in skipped]
                notes.append(f"there are too many columns; these are not compared: {enumerate_names(skipped)}")
            counter = RowCellCounter(columns, reference.scores, scorer.encoder, outputs, encode_by_table)
            has_importances = read_importances(reader.manifest.get("importances")) is not None
            return ServedReference(counter, weights, has_importances, tuple(notes))

    def report_steps(self, n_rows: int, cells: Array) -> Generator[None, None, DriftReport]:
        """Return the report on counted rows, after short steps: the verdict of `gpupipe.Model.drift` on these rows.

        `cells` is int64, shape (counter.n_cells,).
        """
        of_columns, of_scores = self.counter.by_column(cells)
        columns = yield from comparison_steps(self.counter.columns, of_columns, self.weights)
        scores = yield from comparison_steps(self.counter.scores, of_scores)
        verdict = overall_verdict(columns, scores)
        return DriftReport(
            severity=verdict.severity,
            weighted_psi=verdict.weighted_psi,
            n_rows=n_rows,
            n_scored=n_rows,
            columns=tuple(worst_first(columns)),
            scores=tuple(worst_first(scores)),
            notes=self.notes,
            has_importances=self.has_importances,
        )


def _exceeding(
    columns: Sequence[DriftColumn], scores: Sequence[DriftColumn], weights: Mapping[str, float]
) -> list[str]:
    """Return the names of the columns with the smallest weights that the memory of a window does not hold."""
    ranked = sorted(columns, key=lambda column: -weights.get(column.name, 0.0))
    ends = accumulate((len(column.counts) for column in ranked), initial=sum(len(score.counts) for score in scores))
    return [column.name for column, end in zip(ranked, list(ends)[1:], strict=True) if end > MOST_CELLS]
