"""Preview of a run from a sample of its tables: bytes per row, columns of the matrices, goal."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa

from gpupipe.backends import choose
from gpupipe.backends.probe import lacks_nothing
from gpupipe.config import Config, ModelEntry
from gpupipe.errors import ConfigError, DataError
from gpupipe.features.program.fitted import FittedFeatures
from gpupipe.io.input_files import InputFiles
from gpupipe.io.join import read_joined
from gpupipe.io.row_sample import SAMPLE_ROWS, SourceSample
from gpupipe.io.row_steps import decode_dictionary
from gpupipe.io.source_reader import read_arrow
from gpupipe.model_parts.goal import Goal
from gpupipe.models import FitContext
from gpupipe.names import count_noun
from gpupipe.plan.data_check import MORE_ROWS
from gpupipe.plan.sampling import sampled_tables
from gpupipe.splits import hold_out
from gpupipe.tasks import View
from gpupipe.timeline.timeline import Timeline
from gpupipe.training.fit import fit_view, require_joint
from gpupipe.training.job import Job
from gpupipe.training.preparation.default_models import default_entries
from gpupipe.training.preparation.input_copies import find_inputs
from gpupipe.training.preparation.preparation import choose_entries, folds_of, open_job
from gpupipe.training.steps import is_out_of_fold, needs_validation
from gpupipe.typing import Array


@dataclass(frozen=True)
class SplitFractions:
    """Number of folds, and the fractions of all rows in the parts of a fold."""

    train: float
    test: float
    n_folds: int = 1  # 1 without cross-validation, 0 if the folds of the only candidate evaluate it
    # Fraction held out of the training rows; None if no model or decision is chosen on them
    validation: float | None = None

    def of_rows(self) -> dict[str, float]:
        """Return the fraction of all rows for each name of rows in a `TrainingRound`."""
        held = self.validation or 0.0
        return {"fit": self.train, "train": self.train + held, "validation": held, "test": self.test, "all": 1.0}


@dataclass(frozen=True)
class Preview:
    """Properties of a run estimated from a sample."""

    goal: Goal
    entries: tuple[ModelEntry, ...]
    n_rows: int  # rows of the whole table that have a target and pass the filter
    # True if `n_rows` is known from footers and settings, False if it is estimated from sizes or the sample
    is_exact: bool
    n_sample: int  # rows of the sample
    n_read: int  # rows of the whole table before any filter
    file_format: str  # "csv", "jsonl", "parquet" for all formats with a footer, "" for generated tables and frames
    file_bytes: int  # bytes of the files of all tables
    # `arrow_row`, `text_row`, `plain_row`, `encoded_row`: bytes per row: in Arrow; of the text columns alone; in Arrow
    # with dictionaries decoded (except for generated tables, which start as codes); and encoded
    arrow_row: float
    text_row: float
    plain_row: float
    encoded_row: float
    files: InputFiles  # the files of all tables
    features: dict[View, FittedFeatures]  # view to the features fitted to the sample
    matrices: dict[View, Array]  # view to the matrix of the sample
    shares: SplitFractions
    has_groups: bool = False  # whether folds keep the rows of a group together
    has_times: bool = False  # whether test rows are later than training rows
    n_derived: int = 0  # columns derived before the split
    # `events_bytes`, `n_events`: bytes of the event tables in Arrow, and rows of the longest one
    events_bytes: int = 0
    n_events: int = 0
    warnings: tuple[str, ...] = ()  # columns without features, and settings without effect

    def context(self, view: View) -> FitContext:
        """Return the fit context of a model with `view`, on the host backend; of several targets, the first one's."""
        features, first = self.features[view], self.goal.each[0]
        return FitContext(
            choose("cpu"),
            first.task,
            0,
            first.n_classes,
            features.categorical,
            features.names,
            list(first.label_texts),
            quantiles=self.goal.quantiles,
            targets=self.goal.specs,
        )


def preview(
    config: Config, device: str = "cpu", files: InputFiles | None = None, lacks: Callable[[str], bool] = lacks_nothing
) -> Preview:
    """Sample the tables of `config`, fit its features on the host, and return the preview.

    - `device` ({"cpu", "gpu"}): device of the run, on which the default models depend
    - `files`: the files of all tables, if they were listed already
    - `lacks`: returns whether a library is missing where the run would be

    Raises
    ------
    GpupipeError
        The errors of the run that occur on the sample.
    """
    files = find_inputs(config) if files is None else files
    if config.source.entities is not None:  # keys and labels need whole histories
        return _look(config, files, device, MORE_ROWS, lacks)
    try:
        return _look(config, files, device, SAMPLE_ROWS, lacks)
    except (ConfigError, DataError):  # a small sample may lack a class, or have too few rows of one
        return _look(config, files, device, MORE_ROWS, lacks)


def _look(config: Config, files: InputFiles, device: str, most: int, lacks: Callable[[str], bool]) -> Preview:
    with sampled_tables(config, files, most) as tables:
        small, main = tables.config, tables.main
        arrow = read_joined(small.source, small.tables).table
        events = [part for name, part in tables.further.items() if not config.tables[name].is_joined]
        timeline = Timeline()
        try:
            job = open_job(small, choose("cpu"), timeline)
            entries = _entries(config, job, device, lacks)
            seen = _measured(config, files, main, arrow, job, entries)
        except (ConfigError, DataError) as error:
            error.what += f" (in a sample of {count_noun(arrow.num_rows, 'row')})"
            error.where = error.where or "source"
            error.fix = error.fix or "if this does not apply to all rows, run it without a plan"
            raise
        warned = [note.text for note in timeline.all_notes("warning")]
        warned += chain.from_iterable(features.warnings for features in seen.features.values())
        n_bytes = main.n_bytes + sum(part.n_bytes for part in tables.further.values())
        n_events = max((part.n_rows for part in events), default=0)
        return replace(
            seen,
            file_bytes=n_bytes,
            events_bytes=sum(map(_bytes_of_all, events)),
            n_events=n_events,
            warnings=tuple(dict.fromkeys(warned)),
        )


def _bytes_of_all(part: SourceSample) -> int:
    """Return the estimated bytes of a whole table in Arrow."""
    return int(read_arrow(part.source).table.nbytes / part.n_sample_rows * part.n_rows)


def _entries(config: Config, job: Job, device: str, lacks: Callable[[str], bool]) -> tuple[ModelEntry, ...]:
    entries = choose_entries(config, job.goal, job.backend)
    if config.models or device == "cpu":
        return entries
    return default_entries(job.goal, on_gpu=True, lacks=lacks).entries


def _views(entry: ModelEntry) -> tuple[View, ...]:
    """Return the view of a candidate, and for an ensemble those of its members."""
    view = entry.params.view
    return (view, "codes", "dense", "embedding") if view == "combined" else (view,)


def _measured(
    config: Config,
    files: InputFiles,
    main: SourceSample,
    arrow: pa.Table,
    job: Job,
    entries: tuple[ModelEntry, ...],
) -> Preview:
    rows = job.rows(np.ones(job.table.n_rows, bool))
    views: list[View] = list(dict.fromkeys(chain.from_iterable(map(_views, entries))))
    matrices = {view: fit_view(rows, view, config.features, job.backend)[1] for view in views}
    require_joint(entries, job.goal, rows.features)
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
        file_format=main.source.format if config.source.has_files else "",
        file_bytes=main.n_bytes,
        arrow_row=arrow.nbytes / n_read,
        text_row=_bytes(texts) / n_read,
        plain_row=_bytes(arrow.columns if config.source.generate else map(decode_dictionary, arrow.columns)) / n_read,
        encoded_row=table.n_bytes / n_sample,
        files=files,
        features={view: rows.features[view] for view in views},
        matrices=matrices,
        shares=_shares(job, entries),
        has_groups=job.groups is not None,
        has_times=job.times is not None,
        n_derived=0 if job.derivation is None else len(job.derivation.made),
    )


def _bytes(columns: Any) -> int:
    return sum(int(column.nbytes) for column in columns)


def _shares(job: Job, entries: Sequence[ModelEntry]) -> SplitFractions:
    folds, n = folds_of(job), job.table.n_rows
    train, test = folds[0].train, folds[0].test
    settings = job.config.evaluate
    split = job.config.split
    if is_out_of_fold(entries):
        return SplitFractions(1.0, float(test.mean()), 0)
    if split.cv:
        return SplitFractions(float(train.mean()), float(test.mean()), len(folds))
    if not needs_validation(job.config, entries, job.y is not None):
        return SplitFractions(float(train.mean()), float(test.mean()))
    held = hold_out(split, train, settings.validation, job.strata(train), job.groups, job.times, job.config.seed)
    return SplitFractions(float(held.train.sum() / n), float(test.mean()), 1, float(held.test.sum() / n))
