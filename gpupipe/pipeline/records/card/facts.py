"""Facts of a model card, as the run has recorded them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any

from gpupipe.features.statistics.training_summary import TrainedColumn
from gpupipe.inference.parity.verification import Verification
from gpupipe.metrics import METRICS, ColumnImportance
from gpupipe.model_parts.decision import Decision
from gpupipe.model_parts.goal import Goal
from gpupipe.names import enumerate_names
from gpupipe.pipeline.records.card.markdown import code, prose
from gpupipe.pipeline.records.card.split_record import SplitRecord
from gpupipe.report.data import ReportData
from gpupipe.report.intervals import IntervalCoverage
from gpupipe.report.text import column_value
from gpupipe.table.schema import Column
from gpupipe.tasks import SUPERVISED
from gpupipe.training.job import Job
from gpupipe.training.selection.leaderboard import LeaderboardResult, leaderboard_rows


@dataclass(frozen=True, kw_only=True)
class CardFacts:
    """Everything that a model card may state.

    `manifest` is the content of manifest.json. `importances` start with the most important one. `coverage` is that of
    each target. `parity` is the verification of the exported model on the CPU.
    """

    job: Job
    outcome: LeaderboardResult
    manifest: Mapping[str, Any]
    split: SplitRecord
    importances: Sequence[ColumnImportance] = ()
    coverage: Sequence[IntervalCoverage | None] = ()
    parity: Verification | None = None

    def shown(self, text: object) -> str:
        """Return a name, label or message with secrets hidden."""
        return self.job.config.origin.redactor.hide(str(text))

    def name(self, text: object) -> str:
        """Return a name or label as Markdown."""
        return code(self.shown(text))

    def names(self, names: Iterable[object], most: int) -> str:
        """Return names or labels as Markdown, cut after `most` of them."""
        return enumerate_names([self.name(each) for each in names], most)

    def text(self, message: str) -> str:
        """Return a message as Markdown."""
        return prose(self.shown(message))

    @property
    def created(self) -> str:
        """Time of the training in UTC."""
        return f"{datetime.fromisoformat(self.manifest['created']):%Y-%m-%d %H:%M}"

    @property
    def goal(self) -> Goal:
        """Task and targets."""
        return self.job.goal

    @property
    def decisions(self) -> list[tuple[Goal, Decision]]:
        """Each target with its decision."""
        decision = self.outcome.decision
        return list(zip(self.goal.each, decision.targets or (decision,), strict=True))

    @property
    def n_test_rows(self) -> int:
        """Number of test rows; 0 under cross-validation."""
        return 0 if self.outcome.held_out.folds is not None else len(self.outcome.held_out.rows)

    @property
    def inputs(self) -> tuple[str, ...]:
        """Input columns of the main table, the most important first."""
        inputs = self.outcome.champion.features.inputs
        measured = dict.fromkeys(each.name for each in self.importances if each.name in inputs)
        return tuple(dict.fromkeys((*measured, *inputs)))

    @cached_property
    def columns(self) -> dict[str, Column]:
        """The encoded input columns by name; a column is preferred to its hashed copy."""
        columns = [c for c in self.outcome.champion.features.input_schema if not c.derived]
        hashed_first = sorted(columns, key=lambda column: column.hash_of is None)
        return {column.source: column for column in hashed_first}

    @property
    def trained_columns(self) -> Mapping[str, TrainedColumn]:
        """Summary of the input columns over the training rows, by name."""
        training = self.outcome.champion.features.training
        return {} if training is None else training.columns

    @property
    def tables(self) -> list[str]:
        """Names of the further tables that the features are computed from."""
        return list(self.manifest["reading"]["events"]["tables"])

    @property
    def is_of_entities(self) -> bool:
        """True if rows to predict are built from events."""
        return self.job.config.source.entities is not None

    @property
    def has_kernels(self) -> bool:
        """True if the features call custom kernels."""
        return bool(self.manifest["kernels"])

    @cached_property
    def report(self) -> ReportData:
        """The parts of the report that its sentences about evaluation need, without names that users gave."""
        job, outcome = self.job, self.outcome
        return ReportData(
            name=job.config.name,
            created="",
            seconds=0.0,
            device=job.backend.name,
            device_reason="",
            task=self.goal.task,
            target="the target" if self.goal.names else None,
            metric=job.metrics[0],
            higher_is_better=METRICS.get(job.metrics[0]).greater_is_better,
            weight=None,
            leaderboard=leaderboard_rows(outcome.leaderboard),
            selection=outcome.selection,
            tried=outcome.tried,
            rows_train=outcome.n_training_rows,
            rows_test=self.n_test_rows,
            n_features=len(outcome.champion.features.features),
            n_validation_rows=outcome.n_validation_rows,
        )

    @property
    def is_regression(self) -> bool:
        """True if all targets are numbers."""
        return self.goal.tasks <= SUPERVISED and not self.goal.has_classes

    @property
    def is_stratified(self) -> bool:
        """True if a random split keeps the shares of the classes."""
        stratify = self.job.config.split.stratify
        return self.goal.has_classes if stratify is None else stratify

    @property
    def class_counts(self) -> list[tuple[Goal, tuple[tuple[int, int], ...]]]:
        """Each target with classes, and the training and test rows of each class."""
        return list(zip([goal for goal in self.goal.each if goal.labels], self.split.classes, strict=True))

    @property
    def coverages(self) -> list[tuple[Goal, IntervalCoverage | None]]:
        """Each target with the coverage of its intervals or sets."""
        return list(zip(self.goal.each, self.coverage, strict=False))

    @property
    def time_ranges(self) -> list[str]:
        """Time ranges of training and test rows."""
        split = self.split
        ranges = []
        for rows, times in (("training", split.training_times), ("test", split.test_times)):
            if times is not None:
                first, last = (column_value(value, split.time_kind, 6) for value in times)
                ranges.append(f"{rows} rows from {first} to {last}")
        return ranges

    @property
    def unused_columns(self) -> list[str]:
        """Columns of the table that the model does not read."""
        source = self.job.config.source
        used = {*self.outcome.champion.features.inputs, *self.goal.names, source.weight, *source.drop}
        schema = self.job.table.schema
        return [c.name for c in schema if not c.derived and c.hash_of is None and c.name not in used]

    @property
    def warnings(self) -> list[str]:
        """Distinct warnings of the run."""
        return list(dict.fromkeys(note.text for note in self.job.timeline.all_notes("warning")))
