"""Everything that is found out about a table before a configuration is written for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gpupipe.backends import choose
from gpupipe.errors import ConfigError
from gpupipe.pipeline.target import Goal, find_goal, known_rows, target_values
from gpupipe.starter.categories import find_categories
from gpupipe.starter.facts import Facts, facts_of
from gpupipe.starter.kinds import Declaration, declarations
from gpupipe.starter.leaks import find_leaks
from gpupipe.starter.sample import Sample, draw
from gpupipe.starter.tails import long_tails
from gpupipe.starter.target import Positive, choose_positive, classes_in_numbers, find_target
from gpupipe.starter.useless import useless_columns
from gpupipe.starter.written import Written, read_as_written
from gpupipe.table.blocks import Table
from gpupipe.table.encode import encode
from gpupipe.table.schema import declare

MAX_ROWS_TO_COMPARE = 300_000


@dataclass(frozen=True)
class Columns:
    """What a table holds, whatever may be predicted from it.

    Attributes
    ----------
    written : Written
    facts : mapping of str to Facts
    declared : mapping of str to Declaration
        What goes into ``schema:``.
    dropped : mapping of str to str
        What goes into ``drop:``, and why.
    """

    written: Written
    facts: Mapping[str, Facts]
    declared: Mapping[str, Declaration]
    dropped: Mapping[str, str]

    @property
    def n_rows(self) -> int:
        """Rows of the table."""
        return int(self.written.table.num_rows)

    def kind(self, name: str) -> str:
        """Return what a column is taken for."""
        if name in self.declared:
            return self.declared[name].kind
        kinds = {"text": "categorical", "integer": "numeric", "number": "numeric", "time": "datetime"}
        return kinds.get(self.facts[name].holds, "boolean")


@dataclass(frozen=True)
class Learning:
    """What is to be predicted, and what helps.

    Attributes
    ----------
    columns : Columns
        With leaks dropped, and integers declared categorical.
    goal : Goal
    positive : Positive, optional
        Binary only.
    counts : sequence of int
        Classification only: known rows of each class.
    rows : array of int, shape (n_known,)
        Which rows have a target.
    n_duplicates : int
        Rows that are there already; 0 where the table is too long to compare them.
    tails : sequence of str
        Columns to take the logarithm of.
    sample : Sample
        The rows that leaks, categories and tails were found in.
    """

    columns: Columns
    goal: Goal
    rows: Any
    n_duplicates: int
    sample: Sample
    positive: Positive | None = None
    counts: Sequence[int] = ()
    tails: Sequence[str] = ()

    @property
    def n_known(self) -> int:
        """Rows that have a target."""
        return len(self.rows)

    def labelled_levels(self, name: str) -> set[str]:
        """Return the texts of a column that are in rows with a target."""
        known = self.columns.facts[name].values.take(pa.array(self.rows))
        return {str(text) for text in pc.unique(known).to_pylist()}


def inspect_columns(path: str) -> Columns:
    """Read a table and find out what its columns are.

    Raises
    ------
    DataError
        If it cannot be read.
    """
    written = read_as_written(path)
    facts = facts_of(written.table)
    declared = declarations(facts, written)
    dropped = useless_columns(facts, set(declared))
    return Columns(written, facts, {n: d for n, d in declared.items() if n not in dropped}, dropped)


def inspect_target(columns: Columns, wanted: str) -> Learning:
    """Find out what is to be learned of a column, and what gives it away.

    Raises
    ------
    ConfigError
        If there is no such column, or nothing can be learned.
    """
    name = find_target(wanted, columns.facts, columns.written.has_header)
    columns = _with_target(columns, name)
    table = _encoded(columns)
    goal, positive = _goal(table, columns.facts[name])
    table, rows = known_rows(table, goal, choose("cpu"))
    y = target_values(table, goal, [positive.label] if positive else [])
    sample = draw(table, y, goal.task, name)
    columns = _with_categories(_without_leaks(columns, sample, name), sample)
    if len(columns.dropped) + 1 >= len(columns.facts):
        raise ConfigError("no column is left to learn from", where="--target", fix="choose another column")
    tails = [n for n in long_tails(sample, columns.facts) if n not in columns.dropped and columns.kind(n) == "numeric"]
    counts = np.bincount(y.astype(int), minlength=goal.n_classes).tolist() if goal.n_classes else []
    return Learning(columns, goal, rows, _duplicates(columns), sample, positive, counts, tails)


def _with_target(columns: Columns, name: str) -> Columns:
    """Return the columns with the target neither dropped nor taken for a date."""
    dropped = {n: reason for n, reason in columns.dropped.items() if n != name}
    declared = {n: d for n, d in columns.declared.items() if n != name or d.kind == "float"}
    classes = classes_in_numbers(columns.facts[name])
    if classes is not None:
        declared[name] = classes
    return Columns(columns.written, columns.facts, declared, dropped)


def _encoded(columns: Columns) -> Table:
    kept = [name for name in columns.facts if name not in columns.dropped]
    declared = {n: declare(d.kind, d.format) for n, d in columns.declared.items() if n in kept}
    return encode(columns.written.table.select(kept), choose("cpu"), declared)


def _goal(table: Table, target: Facts) -> tuple[Goal, Positive | None]:
    """Return the task as ``gpupipe run`` will see it, and for two classes the positive one."""
    goal = find_goal(table, target.name, (), ())
    if goal.task != "binary":
        return goal, None
    counts = {str(v): int(n) for v, n in zip(target.distinct.to_pylist(), target.counts, strict=True)}
    positive = choose_positive(goal.labels, counts)
    return find_goal(table, target.name, [positive.label], ()), positive


def _without_leaks(columns: Columns, sample: Sample, target: str) -> Columns:
    reasons = {
        name: f"leak: alone it predicts {target}, {leak.measure} {leak.score:.3f} on rows not learned from"
        for name, leak in find_leaks(sample).items()
    }
    declared = {name: d for name, d in columns.declared.items() if name not in reasons}
    return replace(columns, declared=declared, dropped={**columns.dropped, **reasons})


def _with_categories(columns: Columns, sample: Sample) -> Columns:
    found = {
        name: Declaration(
            "categorical", f"explains {_percent(gain.as_names)} by name, {_percent(gain.as_number)} by size"
        )
        for name, gain in find_categories(sample, columns.facts).items()
        if name not in columns.dropped and name not in columns.declared
    }
    return replace(columns, declared={**columns.declared, **found})


def _duplicates(columns: Columns) -> int:
    if columns.n_rows > MAX_ROWS_TO_COMPARE:
        return 0
    return int(columns.written.table.to_pandas().duplicated().sum())


def _percent(share: float) -> str:
    return f"{max(0.0, share) * 100:.0f} %"
