"""Planner of out-of-core runs, which keep one partition in memory (`gpupipe.partitions.out_of_core.workers`)."""

from __future__ import annotations

from collections.abc import Sequence

from gpupipe.config import ModelEntry
from gpupipe.io.chunks.splittable_files import SplittableFile, find_splittable_files
from gpupipe.models.xgboost.settings import XGBoost
from gpupipe.names import count_noun
from gpupipe.partitions.linear import can_fit_in_passes
from gpupipe.partitions.source_chunks import CHUNK_BYTES
from gpupipe.partitions.training import require_partitions
from gpupipe.partitions.training_memory import SHARE, binned_bytes, gathered_bytes
from gpupipe.plan import costs
from gpupipe.plan.ensemble_costs import costs_of
from gpupipe.plan.model_costs import EstimatorCosts
from gpupipe.plan.planner import MATRIX_CELL, Planner
from gpupipe.training.steps import TrainingRound


class OutOfCorePlanner(Planner):
    """Planner of a run that keeps neither table nor matrix in memory."""

    on_disk = True
    target_row = 16  # the codes of classes are part of the training

    def read(self) -> None:
        seen = self.seen
        whole = self.config.source.prepare or self.config.source.entities or self.config.has_frames
        if seen.n_derived or whole:  # these need all rows at once
            super().read()
            return
        found = find_splittable_files(self.config.source, files=seen.files.source)
        total = max(1, sum(cut.n_bytes for cut in found))  # generators too, which have no file
        size = min(max(map(_chunk_bytes, found)), total)
        n_chunks = -(-total // size)
        arrow, texts = (int(seen.n_read * row / n_chunks) for row in (seen.arrow_row, seen.text_row))
        host = costs.read_bytes(seen.file_format, size, arrow, texts, int(seen.n_rows * seen.encoded_row / n_chunks))
        notes = [] if seen.is_exact else [f"rows estimated from file sizes and a sample of {seen.n_sample:,}"]
        self.host.hold("tables as they were read", seen.events_bytes)
        self._add("read", seen.n_rows, host, parts=n_chunks, notes=notes)
        self._need_disk(seen.n_read * seen.arrow_row + seen.n_rows * seen.encoded_row)
        self.host.hold("Python and its libraries", costs.READ_BESIDE)  # kept by Arrow's pool

    def split(self) -> None:
        self.host.release("encoded table")  # now on disk
        super().split()

    def fit_features(self, step: TrainingRound, entries: Sequence[ModelEntry]) -> None:
        n_train, n_parts = self._n_rows(step)
        views, n_rows = self._views(entries), n_train + sum(n_parts)
        height = min(n_rows, costs.PARTITION_ROWS)
        widest = max(self._columns(view) for view in views)
        need = height * (2 * self.seen.encoded_row + 2 * MATRIX_CELL * widest)  # input and output of a partition
        names = {view: ", ".join(e.label for e in entries if e.params.view == view) for view in views}
        notes = [f"{count_noun(self._columns(view), 'column')} for {names[view]}" for view in views]
        self._add(f"{step.label}features", n_rows, int(need), parts=-(-n_rows // height), notes=notes)
        matrices = MATRIX_CELL * sum(map(self._columns, views)) * n_rows
        self._need_disk((self.seen.n_rows + n_rows) * self.seen.encoded_row + matrices)

    def train(self, step: TrainingRound, entry: ModelEntry) -> None:
        require_partitions(entry.params)
        n_rows, _ = self._n_rows(step)
        cost = costs_of(entry, self.seen)
        for library, n_bytes in cost.libraries(False).items():
            if library not in self.host.held:
                self.host.hold(library, n_bytes)
        need, note = self._learning(entry, n_rows)
        self._add(f"{step.label}train {entry.label}", n_rows, need, notes=[note] if note else [])
        self.host.hold("trained models", cost.kept(n_rows))

    def _need_disk(self, n_bytes: float) -> None:
        self.disk_bytes = max(self.disk_bytes, int(n_bytes))

    def _learning(self, entry: ModelEntry, n_rows: int) -> tuple[int, str]:
        """Return the bytes that training needs, and a note about it."""
        cost, room = costs_of(entry, self.seen), self.host.limit - self.host.total
        width = cost.n_columns
        is_boosted = isinstance(entry.params, XGBoost) and self.seen.goal.task != "ranking"
        if is_boosted and isinstance(cost, EstimatorCosts):
            need, in_files = binned_bytes(n_rows, width, cost.n_margins, room)
            return need, "histogram bins on disk, read again for every level of every tree" if in_files else ""
        codes = 8 * self._n_targets * n_rows
        gathered = codes + max(
            MATRIX_CELL * n_rows * width + cost.training(n_rows), int(gathered_bytes(n_rows, width) / SHARE)
        )
        can_pass = can_fit_in_passes(entry.params, width, self.seen.context(entry.params.view))
        if gathered > room and can_pass and isinstance(cost, EstimatorCosts):
            partition = costs.PASS_CELL * width * min(n_rows, costs.PARTITION_ROWS) + costs.PASS_ROW * n_rows
            return codes + partition + cost.training_in_passes(n_rows), "in passes"
        return gathered, "trains on the whole matrix, which must fit in memory"


def _chunk_bytes(cut: SplittableFile) -> int:
    """Return the approximate bytes of the largest chunk of a file."""
    if cut.groups is not None:
        return max(CHUNK_BYTES, *cut.groups)
    return CHUNK_BYTES if cut.span is not None else max(CHUNK_BYTES, cut.n_bytes)
