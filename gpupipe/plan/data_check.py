"""Check of a configuration against a sample of its tables, with all errors at once and without training."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa

from gpupipe.backends import choose
from gpupipe.backends.base import Backend
from gpupipe.config import Config, ModelEntry
from gpupipe.config.document import Problem
from gpupipe.config.load import heading, in_lines
from gpupipe.config.locations import is_in_section, is_setting, place_problem
from gpupipe.errors import ConfigError, DataError, GpupipeError, LimitError, SchemaError
from gpupipe.features.history.derivation import Derivation, DerivedOp, derive
from gpupipe.features.ops.base import FeatureOp
from gpupipe.features.program.builder import ProgramBuilder
from gpupipe.features.program.fit import finish_features
from gpupipe.features.program.fitted import FittedFeatures
from gpupipe.features.program.learned_columns import learn_columns
from gpupipe.features.program.selection import no_column
from gpupipe.io.column_filter import ColumnFilter
from gpupipe.io.entities import read_entities
from gpupipe.io.filter_expression import parse_where
from gpupipe.io.input_files import InputFiles
from gpupipe.io.row_sample import SAMPLE_ROWS
from gpupipe.io.settings import JoinedTable, Source, TableSource
from gpupipe.io.source_reader import read_arrow
from gpupipe.metrics import metric_names, unit_notes
from gpupipe.model_parts.goal import Goal
from gpupipe.names import MOST_HINTS, count_noun, unmatched
from gpupipe.plan.sampling import SampledTables, sampled_tables
from gpupipe.table.blocks import Table
from gpupipe.tasks import View
from gpupipe.timeline.timeline import Timeline
from gpupipe.training.fit import require_joint
from gpupipe.training.job import Job
from gpupipe.training.preparation.input_copies import find_inputs
from gpupipe.training.preparation.preparation import (
    check_folds,
    choose_entries,
    reason_code_notes,
    settings_without_effect,
)
from gpupipe.training.preparation.read_stage import ReadTable, read_table
from gpupipe.training.preparation.row_weights import weighted_rows
from gpupipe.training.preparation.split_columns import advise_dropped, split_columns
from gpupipe.training.preparation.target import TargetColumn, find_goal, known_rows, target_values
from gpupipe.training.selection.slices import read_levels

MORE_ROWS = 1_000_000
NO_DATA = "`gpupipe check --no-data` checks the configuration alone"


@dataclass(frozen=True)
class DataCheck:
    """Result of checking a configuration against a sample."""

    n_rows: int  # rows in the sample
    is_whole: bool  # true if the sample has all rows
    goal: Goal | None  # the task; None if the target is invalid
    features: dict[View, FittedFeatures]  # view to the features fitted to the sample
    entries: tuple[ModelEntry, ...]  # the candidates
    # Columns without features, settings without effect, and problems that rows outside the sample may resolve
    warnings: tuple[str, ...]


def check_data(config: Config) -> DataCheck:
    """Check columns, kinds, ops, metrics, split and models of `config` against a sample of its tables.

    About 20,000 rows are read; up to a million if those show a problem that other rows may resolve.

    Raise ConfigError or SchemaError with all errors, each with its line: ConfigError if one of them is an error of the
    configuration; DataError if a file is missing or cannot be read.
    """
    try:
        files = find_inputs(config)
        checker = _checked(config, files, SAMPLE_ROWS)
        if checker.open_questions and not checker.tables.is_whole:
            checker = _checked(config, files, MORE_ROWS)
    except DataError as error:
        if not isinstance(error, SchemaError):
            error.advise(NO_DATA)
        raise
    if checker.errors:
        raise checker.error()
    return checker.result()


def _checked(config: Config, files: InputFiles, most: int) -> _Checker:
    with sampled_tables(config, files, most) as tables:
        checker = _Checker(config, tables, files.is_untyped)
        checker.check()
        rename = tables.in_words_of(config)
        for found in (checker.errors, checker.open_questions):
            found[:] = [replace(problem, what=rename(problem.what)) for problem in found]
        return checker


@dataclass
class _Checker:
    """Check of all steps of a run; a step that fails does not prevent the check of the others."""

    config: Config
    tables: SampledTables
    is_untyped: bool
    errors: list[Problem] = field(default_factory=list)
    open_questions: list[Problem] = field(default_factory=list)
    kinds: list[type[GpupipeError]] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    goal: Goal | None = None
    features: dict[View, FittedFeatures] = field(default_factory=dict)
    entries: tuple[ModelEntry, ...] = ()
    n_rows: int = 0
    backend: Backend = field(default_factory=lambda: choose("cpu"))

    def check(self) -> None:
        """Check every step, in order."""
        config = self._names(self.tables.config)
        found = self._read(config)
        if found is None:
            return
        self.n_rows = found.table.n_rows
        self._goal(config, found)
        table, derivation = self._derive(config, found)
        names = () if self.goal is None else self.goal.names
        targets = TargetColumn.all_of(found.table, names, self.backend, self.is_untyped)
        known, row_ids = known_rows(table, targets, self.backend)
        weights = None
        with self._collected("source.weight"):
            known, row_ids, weights = weighted_rows(config, known, row_ids, found.table.n_rows, self.backend)
        y = None if self.goal is None else target_values(targets, row_ids, self.goal, config.source.positives)
        goal = self.goal or Goal("regression", next(iter(config.source.targets), None))
        job = Job(config, self.backend, Timeline(), known, y, goal, (), None, None, weights, row_ids, derivation)
        with self._collected("evaluate.by"):
            read_levels(job)
        if self.goal is not None:
            with self._collected("evaluate.reason_codes"):
                self.warnings += reason_code_notes(config, self.goal, known.schema)
        self._models(config)
        self._split(config, job)
        self._features(config, job)

    def result(self) -> DataCheck:
        """Return the result, without errors."""
        questions = [f"{problem} (in a sample of {count_noun(self.n_rows, 'row')})" for problem in self.open_questions]
        warnings = tuple(dict.fromkeys([*self.warnings, *questions]))
        return DataCheck(self.n_rows, self.tables.is_whole, self.goal, self.features, self.entries, warnings)

    def error(self) -> GpupipeError:
        """Return all errors as one."""
        title, problems = str(self.config.origin.path or "the settings"), self.errors
        if any(issubclass(kind, ConfigError) for kind in self.kinds):
            return ConfigError(heading(title, problems), problems=in_lines(problems))
        return self.kinds[0]("\n".join([heading(title, problems), *in_lines(problems)]))

    @contextmanager
    def _collected(self, path: str) -> Iterator[None]:
        """Collect an error raised in the ``with`` block; `path` is its location unless the error names a setting."""
        try:
            yield
        except (ConfigError, DataError, LimitError) as error:
            at, about = (error.where, "") if is_setting(error.where) else (path, error.where)
            self._add(error, at, about, error.depends_on_rows)

    def _add(self, error: GpupipeError, path: str, about: str = "", depends_on_rows: bool = False) -> None:
        what = "; ".join(part for part in (error.what, about, error.fix) if part)
        problem = place_problem(self.config.origin, path, what, error.names)
        open_ = depends_on_rows and not self.tables.is_whole
        into = self.open_questions if open_ else self.errors
        if problem not in into:
            into.append(problem)
            if not open_:
                self.kinds.append(type(error))

    def _names(self, config: Config) -> Config:
        """Check every column that a source names; return the configuration without the missing ones."""
        of_events = config.source.entities is not None
        main = read_entities(config.source, config.tables).table if of_events else _as_read(config.source)
        plain = {"": main.column_names} | {name: _as_read(table).column_names for name, table in config.tables.items()}
        joined: list[str] = []
        for name, table in config.tables.items():
            if table.is_joined:
                joined += [f"{table.prefix}{column}" for column in plain[name]]
        source = self._source_names(config.source, "source", plain[""], joined)
        tables: dict[str, JoinedTable] = {}
        wanted = ColumnFilter(config.source)
        for name, table in config.tables.items():
            before = table.model_copy(update={"group_by": None})
            names = plain[name] if table.group_by is None else _as_read(before).column_names
            tables[name] = self._source_names(table, f"tables.{name}", names, [])
            self._absent([c for c in table.on.right if c not in plain[name]], plain[name], f"tables.{name}.on")
            lefts = [c for c in table.on.left if c not in [*plain[""], *joined]]
            self._absent(lefts, [*plain[""], *joined], f"tables.{name}.on")
            for key in (c for c in table.on.left if c in plain[""] and not wanted.is_wanted(c)):
                error = ConfigError(f"{key!r} is dropped, but tables.{name} needs it as its key", names=[key])
                advise_dropped(error, config)
                self._add(error, "source.drop")
                source = source.model_copy(update={"drop": tuple(n for n in source.drop if n != key)})
        columns = [*(name for name in plain[""] if wanted.is_wanted(name)), *joined]
        split = config.split
        named = {"split.group": split.group, "split.time": split.time}
        named["split.column.name"] = None if split.column is None else split.column.name
        for path, column in named.items():
            if column is not None:
                self._absent([column] if column not in columns else [], columns, path)
        return config.model_copy(update={"source": source, "tables": tables})

    def _source_names(self, source: Any, section: str, names: Sequence[str], joined: Sequence[str]) -> Any:
        known = dict.fromkeys([*names, *joined])
        absent = {
            "drop": unmatched((n for n in source.drop if n[:1] != "@"), names),
            "columns": unmatched(source.columns or (), names),
            "schema": [n for n in source.declared if n not in known],
        }
        for key, missing in absent.items():
            self._absent(missing, list(known), f"{section}.{key}", SchemaError)
        update: dict[str, Any] = {
            "drop": tuple(n for n in source.drop if n not in absent["drop"]),
            "declared": {n: kind for n, kind in source.declared.items() if n not in absent["schema"]},
        }
        if source.columns is not None:
            update["columns"] = tuple(n for n in source.columns if n not in absent["columns"]) or None
        if source.where is not None:
            missing = [n for n in parse_where(source.where)[1].values() if n not in names]
            self._absent(missing, names, f"{section}.where", SchemaError)
            update |= {"where": None} if missing else {}
        named = {"target": source.targets, "weight": (source.weight,)} if isinstance(source, Source) else {}
        for key, given in named.items():
            if missing := [name for name in given if name is not None and name not in known]:
                self._absent(missing, list(known), f"{section}.{key}", SchemaError)
                update[key] = None
        return source.model_copy(update=update)

    def _absent(
        self, missing: Sequence[str], names: Sequence[str], path: str, kind: type[GpupipeError] = ConfigError
    ) -> None:
        for name in missing[:MOST_HINTS]:
            known = no_column(name, names)
            error = kind(known.what, fix=known.fix, names=known.names)
            advise_dropped(error, self.config)
            self._add(error, path)
        if len(missing) > MOST_HINTS:
            self._add(
                kind(f"{count_noun(len(missing) - MOST_HINTS, 'more name', 'that matches', 'that match')} no column"),
                path,
            )

    def _read(self, config: Config) -> ReadTable[Table] | None:
        """Return the rows; if they violate rules of ``data:``, read them again without rules."""
        with self._collected("data"):
            return read_table(config, self.backend)
        if config.data:
            with self._collected("source"):
                return read_table(config.model_copy(update={"data": {}}), self.backend)
        return None

    def _goal(self, config: Config, found: ReadTable[Table]) -> None:
        if self.config.source.target is not None and config.source.target is None:
            return  # the name is invalid, so nothing that depends on the target can be checked
        with self._collected("source.target"):
            targets = TargetColumn.all_of(found.table, config.source.targets, self.backend, self.is_untyped)
            models, source = [entry.params for entry in config.models], config.source
            try:
                self.goal = find_goal(targets, source.positives, models, source.quantile_levels, source.task)
            except (ConfigError, DataError) as error:
                error.depends_on_rows = bool(targets) and not isinstance(error, SchemaError)
                raise
        if self.goal is not None:
            self.warnings += settings_without_effect(config, self.goal)
            with self._collected("evaluate.metrics"):
                names = metric_names(self.goal.tasks, config.evaluate)
                self.warnings += unit_notes(names, len(targets))

    def _derive(self, config: Config, found: ReadTable[Table]) -> tuple[Any, Derivation | None]:
        """Return the table with its derived columns, and the derivation of the ops that could be applied."""
        if found.sources is None:
            return found.table, None
        derivation: Derivation | None = None
        for i, op in enumerate(config.features):
            if isinstance(op, DerivedOp):
                path = f"features[{i}].{op.title()}"
                with self._collected(path):
                    try:
                        own = derive([op], found.sources, [path])[1]
                    except GpupipeError as error:
                        advise_dropped(error, config)
                        raise
                    derivation = own if derivation is None else derivation.then(own)
        self.warnings += found.sources.warnings
        return found.sources.main.table, derivation

    def _models(self, config: Config) -> None:
        if self.goal is None:
            return
        able: list[ModelEntry] = []
        for i, entry in enumerate(config.models):
            with self._collected(f"models[{i}]"):
                try:
                    able += choose_entries(config.model_copy(update={"models": (entry,)}), self.goal, self.backend)
                except ConfigError as error:
                    error.where = f"models[{i}]"
                    raise
        self.entries = tuple(able) if config.models else choose_entries(config, self.goal, self.backend)

    def _split(self, config: Config, job: Job) -> None:
        """Check that the rows can be split as configured."""
        names = job.table.schema.names
        split = config.split
        if any(c is not None and c not in names for c in (split.group, split.time, split.column and split.column.name)):
            return
        with self._collected("split"):
            groups, times = split_columns(config, job.table, self.backend)
            if self.goal is not None:
                try:
                    check_folds(replace(job, groups=groups, times=times))
                except (ConfigError, DataError) as error:
                    error.depends_on_rows = True
                    raise

    def _features(self, config: Config, job: Job) -> None:
        """Apply every op for every view that a model uses."""
        views: list[View] = list(dict.fromkeys(entry.params.view for entry in self.entries)) or ["dense"]
        rows = job.rows(np.ones(job.table.n_rows, bool))
        assert rows.statistics is not None
        n_errors = len(self.errors)
        derivation, _ = learn_columns(job.derivation, rows.statistics, is_preview=True)
        for view in views:
            builder, pending = ProgramBuilder(rows.statistics, view, rows.withheld, True), set[str]()
            for i, op in enumerate(config.features):
                self._op(builder, op, f"features[{i}]", pending)
            if len(self.errors) > n_errors:
                continue  # the columns of the failed ops are missing
            with self._collected("features"):
                self.features[view] = finish_features(builder, derivation)
                self.warnings += self.features[view].warnings
                self._components(view, len(self.features[view].names))
        with self._collected("models"):
            require_joint(self.entries, job.goal, self.features)

    def _components(self, view: View, n_columns: int) -> None:
        """Check that no model has more components than there are columns."""
        for i, entry in enumerate(self.entries):
            wanted = getattr(entry.params, "n_components", None)
            if entry.params.view == view and isinstance(wanted, int) and wanted > n_columns:
                what = f"expected n_components of at most {n_columns}, the number of columns; got {wanted}"
                self._add(ConfigError(what), f"models[{i}]", depends_on_rows=True)

    def _op(self, builder: ProgramBuilder, op: FeatureOp, place: str, pending: set[str]) -> None:
        """Apply an op; skip errors that follow from an earlier one, such as those about its missing columns."""
        try:
            builder.apply(op, place)
        except (ConfigError, DataError, LimitError) as error:
            made = getattr(op, "name", None)
            pending.update([made] if made else [])
            absent = set(error.names) & pending - {made}
            if not absent and (self.goal is not None or op.title() != "target_encode"):
                about = "" if is_in_section(error.where, "features") else error.where
                self._add(error, f"{place}.{op.title()}", about, error.depends_on_rows)


def _as_read(source: TableSource) -> pa.Table:
    """Return a table before any column is dropped or declared."""
    update: dict[str, Any] = {"drop": (), "columns": None, "declared": {}, "where": None}
    update |= {"rows": 1} if source.generate else {}  # only its names are used
    if hasattr(source, "target"):
        update |= {"target": None, "weight": None}
    return read_arrow(source.model_copy(update=update)).table
