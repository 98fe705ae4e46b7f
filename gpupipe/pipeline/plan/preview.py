"""What a run would meet, from some rows of its table: sizes of a row, columns of the matrices, the goal."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa

from gpupipe.backends import choose
from gpupipe.config import Config, ModelEntry
from gpupipe.errors import ConfigError, DataError
from gpupipe.features.fitted import FittedFeatures
from gpupipe.models import FitContext
from gpupipe.models.base import View
from gpupipe.pipeline.decision import needs_held_out_rows
from gpupipe.pipeline.job import Job
from gpupipe.pipeline.preparation import ON_A_GPU, choose_entries, folds_of, prepare
from gpupipe.pipeline.target import Goal
from gpupipe.pipeline.timeline import Timeline
from gpupipe.pipeline.training import fit_view
from gpupipe.readers.join import read_joined
from gpupipe.readers.read import read_arrow
from gpupipe.readers.sample import SAMPLE_ROWS, Sampled, take_sample
from gpupipe.readers.settings import Source
from gpupipe.splits import hold_out

Array = Any
MORE_ROWS = 1_000_000


@dataclass(frozen=True)
class Shares:
    """How many folds there are, and what part of all rows is in the parts of each.

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
        What is read: "csv", "jsonl", "parquet" for all that has a footer, "" where the table is generated.
    file_bytes : int
        Of all tables.
    arrow_row, text_row, plain_row, encoded_row : float
        Bytes of a row as Arrow decodes it, of its free texts alone, with its texts written out (but not those that are
        generated: they are codes from the first), and encoded.
    features : dict of str to FittedFeatures
        View to its features, fitted to the sample.
    matrices : dict of str to array
        View to the matrix of the sample.
    shares : Shares
    n_derived : int
        Columns that are made before the split.
    events_bytes, n_events : int
        Of the tables of events, as Arrow holds them; and the rows of the longest one.
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
    shares: Shares
    n_derived: int = 0
    events_bytes: int = 0
    n_events: int = 0

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
    with TemporaryDirectory(prefix="gpupipe-plan-") as folder:
        tables = config.tables.items()
        sampled = {name: take_sample(table, _made(folder, f"table-{name}"), most) for name, table in tables}
        parts = {name: part.source for name, part in sampled.items()}
        main = None if config.source.entities else take_sample(config.source, _made(folder, "main"), most)
        source = _of_sampled_events(config.source, sampled) if main is None else main.source
        small = config.model_copy(update={"source": source, "tables": parts, "device": "cpu"})
        arrow = read_joined(small.source, small.tables).table
        main = main or _made_of_events(source, arrow.num_rows, sampled)
        events = [part for name, part in sampled.items() if not config.tables[name].is_joined]
        try:
            job = prepare(small, choose("cpu"), Timeline())
            entries = _entries(config, job, device)
            seen = _measured(config, main, arrow, job, entries)
        except (ConfigError, DataError) as error:
            what = f"{error.what} (in the {arrow.num_rows:,} rows that the plan looks at)"
            raise type(error)(what, where="source", fix="run it, if that is not so of all rows") from error

        n_bytes = main.n_bytes + sum(part.n_bytes for part in sampled.values())
        n_events = max((part.n_rows for part in events), default=0)
        return replace(seen, file_bytes=n_bytes, events_bytes=sum(map(_bytes_of_all, events)), n_events=n_events)


def _of_sampled_events(source: Source, sampled: Mapping[str, Sampled]) -> Source:
    """Return a source whose rows are made of sampled events; the last events may not be among these."""
    entities = source.entities
    assert entities is not None
    if _share(sampled[entities.table]) < 1:
        entities = entities.model_copy(update={"until": "9999-12-31"})
    return source.model_copy(update={"entities": entities, "cache": False})


def _made_of_events(source: Source, n_rows: int, sampled: Mapping[str, Sampled]) -> Sampled:
    """Return the rows of sampled events as a sample, with an estimate of how many all events would make."""
    assert source.entities is not None
    events, n_cut_offs = sampled[source.entities.table], len(source.entities.as_of)
    if _share(events) == 1:
        return Sampled(source, n_rows, n_rows, 0, True)
    n_all = n_cut_offs * _n_keys_of_all(n_rows / n_cut_offs, events.n_sample_rows, events.n_rows)
    return Sampled(source, round(n_all), n_rows, 0, False)


def _n_keys_of_all(n_keys: float, n_sampled: int, n_events: int) -> float:
    """Return how many keys all events have if some of them have `n_keys`, and events fall on keys at random."""
    low, high = n_keys, n_keys * n_events / n_sampled
    for _ in range(60):  # n_keys = n * (1 - exp(-n_sampled / n)) grows with n
        n = (low + high) / 2
        low, high = (n, high) if n * -math.expm1(-n_sampled / n) < n_keys else (low, n)
    return min(-high * math.expm1(-n_events / high), n_keys * n_events / n_sampled)


def _share(part: Sampled) -> float:
    return part.n_sample_rows / part.n_rows


def _bytes_of_all(part: Sampled) -> int:
    """Return what Arrow would hold of a further table."""
    return int(read_arrow(part.source).table.nbytes / part.n_sample_rows * part.n_rows)


def _entries(config: Config, job: Job, device: str) -> tuple[ModelEntry, ...]:
    entries = choose_entries(config, job.goal, job.backend)
    if config.models or device == "cpu":
        return entries
    return tuple(ModelEntry(name=ON_A_GPU.get(entry.name, entry.name)) for entry in entries)


def _made(folder: str, name: str) -> Path:
    path = Path(folder) / name
    path.mkdir()
    return path


def _measured(config: Config, main: Sampled, arrow: pa.Table, job: Job, entries: tuple[ModelEntry, ...]) -> Preview:
    rows = job.rows(np.ones(job.table.n_rows, bool))
    views: list[View] = list(dict.fromkeys(entry.params.view for entry in entries))
    matrices = {view: fit_view(rows, view, config.features, job.backend)[1] for view in views}
    n_sample, n_read = job.table.n_rows, arrow.num_rows
    kept = n_sample / main.n_sample_rows if main.n_sample_rows else 1.0
    texts = [arrow.column(name) for name in job.table.texts if name in arrow.column_names]
    return Preview(
        goal=job.goal,
        entries=entries,
        n_rows=max(1, round(main.n_rows * kept)),
        is_exact=main.is_exact and n_sample == main.n_sample_rows,
        n_sample=n_sample,
        n_read=main.n_rows,
        file_format="" if config.source.generate else main.source.format,
        file_bytes=main.n_bytes,
        arrow_row=arrow.nbytes / n_read,
        text_row=_bytes(texts) / n_read,
        plain_row=_bytes(arrow.columns if config.source.generate else map(_written_out, arrow.columns)) / n_read,
        encoded_row=job.table.n_bytes / n_sample,
        features={view: rows.features[view] for view in views},
        matrices=matrices,
        shares=_shares(job, entries),
        n_derived=0 if job.derivation is None else len(job.derivation.made),
    )


def _bytes(columns: Any) -> int:
    return sum(int(column.nbytes) for column in columns)


def _written_out(column: pa.ChunkedArray) -> pa.ChunkedArray:
    return column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column


def _shares(job: Job, entries: Sequence[ModelEntry]) -> Shares:
    folds, n = folds_of(job), job.table.n_rows
    train, test = folds[0].train, folds[0].test
    settings = job.config.evaluate
    if job.config.split.cv:
        return Shares(float(train.mean()), float(test.mean()), len(folds))
    if job.y is None or (len(entries) == 1 and not needs_held_out_rows(settings)):
        return Shares(float(train.mean()), float(test.mean()))
    fit, held = hold_out(train, settings.validation, job.classes, job.groups, job.times, job.config.seed)
    return Shares(float(fit.sum() / n), float(test.mean()), 1, float(held.sum() / n))
