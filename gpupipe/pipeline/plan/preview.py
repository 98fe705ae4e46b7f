"""Preview of a run from a sample of its table: bytes per row, columns of the matrices, the goal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from gpupipe.backends import choose
from gpupipe.config import Config, ModelEntry
from gpupipe.errors import ConfigError, DataError
from gpupipe.features.program.fitted import FittedFeatures
from gpupipe.io.join import read_joined
from gpupipe.io.row_sample import SAMPLE_ROWS, SourceSample
from gpupipe.io.row_steps import decode_dictionary
from gpupipe.io.source_reader import read_arrow
from gpupipe.models import FitContext
from gpupipe.pipeline.data_check import MORE_ROWS
from gpupipe.pipeline.decision import is_learned
from gpupipe.pipeline.job import Job
from gpupipe.pipeline.plan.sampling import sampled_tables
from gpupipe.pipeline.preparation import ON_A_GPU, choose_entries, folds_of, open_job
from gpupipe.pipeline.target import Goal
from gpupipe.pipeline.timeline import Timeline
from gpupipe.pipeline.training import fit_view
from gpupipe.splits import hold_out
from gpupipe.tasks import View
from gpupipe.typing import Array


@dataclass(frozen=True)
class SplitFractions:
    """Number of folds, and the fraction of all rows in each part of one.

    Attributes
    ----------
    train, test : float
    n_folds : int
        1 without cross-validation.
    validation : float, optional
        Of all rows, held out of those to train on; None where nothing is chosen.
    """

    train: float
    test: float
    n_folds: int = 1
    validation: float | None = None


@dataclass(frozen=True)
class Preview:
    """What some rows say of all.

    Attributes
    ----------
    goal : Goal
    entries : tuple of ModelEntry
    n_rows : int
        Rows with a target that pass the filter, of the whole.
    is_exact : bool
        Whether that is known from footers and settings, not from sizes or from the share that passes in the sample.
    n_sample : int
        Rows that this is known from.
    n_read : int
        Rows of the whole before any filter.
    file_format : str
        What is read: "csv", "jsonl", "parquet" for all that has a footer, "" for what is generated or in memory.
    file_bytes : int
        Of all tables.
    arrow_row, text_row, plain_row, encoded_row : float
        Bytes of a row as Arrow decodes it, of its free texts alone, with its texts written out (but not those that are
        generated: they are codes from the first), and encoded.
    features : dict of str to FittedFeatures
        View to its features, fitted to the sample.
    matrices : dict of str to array
        View to the matrix of the sample.
    shares : SplitFractions
    n_derived : int
        Columns that are made before the split.
    events_bytes, n_events : int
        Of the tables of events, as Arrow holds them; and the rows of the longest one.
    warnings : tuple of str
        Columns that would not be among the features, and settings without effect.
    """

    goal: Goal
    entries: tuple[ModelEntry, ...]
    n_rows: int
    is_exact: bool
    n_sample: int
    n_read: int
    file_format: str
    file_bytes: int
    arrow_row: float
    text_row: float
    plain_row: float
    encoded_row: float
    features: dict[View, FittedFeatures]
    matrices: dict[View, Array]
    shares: SplitFractions
    n_derived: int = 0
    events_bytes: int = 0
    n_events: int = 0
    warnings: tuple[str, ...] = ()

    def context(self, view: View) -> FitContext:
        """Return what a model of `view` would be told of its matrix; the backend is the host's."""
        features = self.features[view]
        return FitContext(
            choose("cpu"), self.goal.task, 0, self.goal.n_classes, features.categorical, features.names,
            [str(label) for label in self.goal.labels],
        )  # fmt: skip


def preview(config: Config, device: str = "cpu") -> Preview:
    """Read some rows of the tables of `config`, and fit its features to them on the host.

    Parameters
    ----------
    config : Config
    device : {"cpu", "gpu"}
        Where the run would be: the models of a leaderboard that names none depend on it.

    Raises
    ------
    GpupipeError
        As the run itself would, as far as the sample tells.
    """
    if config.source.entities is not None:  # keys and labels need whole histories, not rows of some
        return _look(config, device, MORE_ROWS)
    try:
        return _look(config, device, SAMPLE_ROWS)
    except (ConfigError, DataError):  # few rows may hold one class only, or too few members of one: look at more
        return _look(config, device, MORE_ROWS)


def _look(config: Config, device: str, most: int) -> Preview:
    with sampled_tables(config, most) as tables:
        small, main = tables.config, tables.main
        arrow = read_joined(small.source, small.tables).table
        events = [part for name, part in tables.further.items() if not config.tables[name].is_joined]
        timeline = Timeline()
        try:
            job = open_job(small, choose("cpu"), timeline)
            entries = _entries(config, job, device)
            seen = _measured(config, main, arrow, job, entries)
        except (ConfigError, DataError) as error:
            error.what += f" (in the {arrow.num_rows:,} rows that the plan looks at)"
            error.where = error.where or "source"
            error.fix = error.fix or "run it, if that is not so of all rows"
            raise
        warned = [note.text for note in timeline.all_notes("warning")]
        warned += [text for features in seen.features.values() for text in features.warnings]
        n_bytes = main.n_bytes + sum(part.n_bytes for part in tables.further.values())
        n_events = max((part.n_rows for part in events), default=0)
        return replace(
            seen, file_bytes=n_bytes, events_bytes=sum(map(_bytes_of_all, events)), n_events=n_events,
            warnings=tuple(dict.fromkeys(warned)),
        )  # fmt: skip


def _bytes_of_all(part: SourceSample) -> int:
    """Return what Arrow would hold of a further table."""
    return int(read_arrow(part.source).table.nbytes / part.n_sample_rows * part.n_rows)


def _entries(config: Config, job: Job, device: str) -> tuple[ModelEntry, ...]:
    entries = choose_entries(config, job.goal, job.backend)
    if config.models or device == "cpu":
        return entries
    return tuple(ModelEntry(name=ON_A_GPU.get(entry.name, entry.name)) for entry in entries)


def _measured(
    config: Config, main: SourceSample, arrow: pa.Table, job: Job, entries: tuple[ModelEntry, ...]
) -> Preview:
    rows = job.rows(np.ones(job.table.n_rows, bool))
    views: list[View] = list(dict.fromkeys(entry.params.view for entry in entries))
    matrices = {view: fit_view(rows, view, config.features, job.backend)[1] for view in views}
    table = job.table
    n_sample, n_read = table.n_rows, arrow.num_rows
    kept = n_sample / main.n_sample_rows if main.n_sample_rows else 1.0
    texts = [arrow.column(name) for name in table.texts if name in arrow.column_names]
    return Preview(
        goal=job.goal,
        entries=entries,
        n_rows=max(1, round(main.n_rows * kept)),
        is_exact=main.is_exact and n_sample == main.n_sample_rows,
        n_sample=n_sample,
        n_read=main.n_rows,
        file_format=main.source.format if config.source.path else "",
        file_bytes=main.n_bytes,
        arrow_row=arrow.nbytes / n_read,
        text_row=_bytes(texts) / n_read,
        plain_row=_bytes(arrow.columns if config.source.generate else map(decode_dictionary, arrow.columns)) / n_read,
        encoded_row=table.n_bytes / n_sample,
        features={view: rows.features[view] for view in views},
        matrices=matrices,
        shares=_shares(job, entries),
        n_derived=0 if job.derivation is None else len(job.derivation.made),
    )


def _bytes(columns: Any) -> int:
    return sum(int(column.nbytes) for column in columns)


def _shares(job: Job, entries: Sequence[ModelEntry]) -> SplitFractions:
    folds, n = folds_of(job), job.table.n_rows
    train, test = folds[0].train, folds[0].test
    settings = job.config.evaluate
    if job.config.split.cv:
        return SplitFractions(float(train.mean()), float(test.mean()), len(folds))
    if job.y is None or (len(entries) == 1 and not is_learned(settings)):
        return SplitFractions(float(train.mean()), float(test.mean()))
    fit, held = hold_out(train, settings.validation, job.classes, job.groups, job.times, job.config.seed)
    return SplitFractions(float(fit.sum() / n), float(test.mean()), 1, float(held.sum() / n))
