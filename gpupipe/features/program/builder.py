"""The state of a fit: the virtual columns so far, the columns of the matrix, and what users should know."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from gpupipe.errors import ConfigError, GpupipeError
from gpupipe.features.ops.advice import as_categories, as_numbers, as_times
from gpupipe.features.program.expressions import Codes, IndexStep, Numbers, Output, Start, Texts, Times, Virtual
from gpupipe.features.program.selection import no_column, resolve
from gpupipe.table.schema import FIRST_LEVEL, Column
from gpupipe.tasks import View

if TYPE_CHECKING:
    from gpupipe.features.ops.base import FeatureOp
    from gpupipe.features.statistics.training import Statistics

NAN = float("nan")


class Builder:
    """Collects what the ops of one view make.

    Parameters
    ----------
    statistics : Statistics
        Reductions over the training rows; shared by all views.
    view : {"codes", "dense", "embedding"}
        What the model likes: integer ids, scaled numbers without nulls, or those of the categories and these of the
        numbers.
    withheld : mapping of str to str, optional
        Columns of the table that no op may select, each with the reason.

    Attributes
    ----------
    columns : dict of str to Virtual
        The columns that ops may select, by name, as the ops so far have left them.
    made : dict of str to str
        Columns that ops added, each with the op.
    changed, dropped : dict of str to str
        Columns that an op replaced by its result, or dropped, each with the op.
    consumed : set of str
        Categories that were combined into others.
    outputs : dict of str to Output
        The columns of the matrix.
    notes, warnings : list of str
    """

    def __init__(self, statistics: Statistics, view: View, withheld: Mapping[str, str] | None = None) -> None:
        self.statistics, self.view, self.withheld = statistics, view, withheld or {}
        self.columns: dict[str, Virtual] = {c.name: _source(c) for c in statistics.table.schema if not c.hash_of}
        self.made: dict[str, str] = {}
        self.changed: dict[str, str] = {}
        self.dropped: dict[str, str] = {}
        self.consumed: set[str] = set()
        self.outputs: dict[str, Output] = {}
        self.notes: list[str] = []
        self.warnings: list[str] = []
        self.n_folds = 0
        self.states: list[dict[str, object]] = []
        self._op = "auto"  # the op that is being applied, as messages call it

    def apply(self, op: FeatureOp, place: str) -> None:
        """Apply an op.

        Parameters
        ----------
        op : FeatureOp
        place : str
            Where it stands in the configuration: ``features[2]``.

        Raises
        ------
        GpupipeError
            Of the op, with `place` and the name of the op as its ``where``, unless it has one of its own.
        """
        self._op = f"{op.title()} ({place})"
        try:
            op.apply(self)
        except GpupipeError as error:
            error.place(f"{place}.{op.title()}")
            raise

    def numbers(self, selection: str | list[str], op: str) -> list[Numbers]:
        """Return the numeric (or boolean) columns of a selection.

        Raises
        ------
        ConfigError
            If a column that was named is of another kind.
        """
        return [self._as_numbers(column, op) for column in self._select(selection, op)]

    def codes(self, selection: str | list[str], op: str) -> list[Codes]:
        """Return the categorical (or boolean) columns of a selection.

        Raises
        ------
        ConfigError
            If a column that was named is of another kind.
        """
        columns: list[Codes] = []
        for column in self._select(selection, op):
            if not isinstance(column, Codes):
                error = self._of_another_kind(column, op, "categorical", as_categories(column))
                error.depends_on_rows = isinstance(column, Texts)  # text is a category whose levels repeat
                raise error
            columns.append(column)
        return columns

    def times(self, selection: str | list[str], op: str) -> list[Times]:
        """Return the datetime columns of a selection.

        Raises
        ------
        ConfigError
            If a column that was named is of another kind.
        """
        columns: list[Times] = []
        for column in self._select(selection, op):
            if not isinstance(column, Times):
                raise self._of_another_kind(column, op, "datetime", as_times(column, self.statistics))
            columns.append(column)
        return columns

    def any_kind(self, selection: str | list[str], op: str) -> list[Virtual]:
        """Return the columns of a selection, whatever they are."""
        return self._select(selection, op)

    def absent(self, name: str, op: str) -> ConfigError:
        """Return the error about a name or glob that matches no column."""
        for column, reason in self.withheld.items():
            if column == name or fnmatchcase(name, column):
                return ConfigError(
                    f"{name!r} cannot be an input of {op}: {reason}", fix=f"remove it from {op}", names=[name]
                )
            if fnmatchcase(column, name):
                what = f"{name!r} matches nothing but {column!r}, which cannot be an input of {op}: {reason}"
                return ConfigError(what, fix=f"remove it from {op}", names=[name, column])
        if name in self.dropped:
            by = self.dropped[name]
            return ConfigError(f"no column {name!r}: {by} dropped it", fix=f"put {op} before {by}", names=[name])
        return no_column(name, self.columns)

    def _select(self, selection: str | list[str], op: str) -> list[Virtual]:
        def absent(name: str, is_excluded: bool) -> ConfigError | None:
            known = name in self.withheld or name in self.dropped
            return None if is_excluded and known else self.absent(name, op)

        return [self.columns[name] for name in resolve(selection, _Kinds(self.columns), absent)]

    def _as_numbers(self, column: Virtual, op: str) -> Numbers:
        if isinstance(column, Numbers):
            return column
        if isinstance(column, Codes) and column.kind == "boolean":
            return self.take(column, [NAN, NAN, NAN, 0.0, 1.0], column.name)
        raise self._of_another_kind(column, op, "numeric", as_numbers(column))

    def _of_another_kind(self, column: Virtual, op: str, wanted: str, fix: str) -> ConfigError:
        is_a = f"is {column.kind}"
        by = self.changed.get(column.name)
        if by is not None and isinstance(column, Codes) and wanted == "numeric":
            is_a += f" since {by}"
            fix = f"put {op} before it, or keep the number there, with as: {column.name}_bin"
        return ConfigError(f"{op} needs {wanted} columns; {column.name!r} {is_a}", fix=fix, names=[column.name])

    def take(self, codes: Codes, table: object, name: str, inputs: tuple[str, ...] = ()) -> Numbers:
        """Return the column whose value is looked up in `table`, shape (n_codes,) or (folds + 1, n_codes)."""
        import numpy as np

        values = np.asarray(table, np.float32)
        if codes.remap is not None:
            values = values[..., codes.remap]
        start = Start("TAKE", codes=codes, table=values)
        may_be_null = bool(np.isnan(values).any())
        return Numbers(name, inputs or codes.inputs, start, may_be_null=may_be_null, root=codes.root)

    def put(self, column: Numbers, op: str, n_codes: int = 0) -> None:
        """Make `column` a column of the matrix, in the place of one of the same name if there is one.

        Raises
        ------
        ConfigError
            If that name belongs to what is made of other columns.
        """
        old = self.outputs.get(column.name)
        taken = self.columns.get(column.name) if old is None else old.column
        if taken is not None and taken.inputs != column.inputs:
            raise ConfigError(
                f"two features are called {column.name!r}: "
                f"{'that' if old is None else old.op} of {', '.join(taken.inputs)}, "
                f"and {op} of {', '.join(column.inputs)}",
                fix="rename or drop one of the columns",
                names=[column.name],
            )
        self.outputs[column.name] = Output(column, op, n_codes)

    def replace(self, column: Numbers, op: str) -> None:
        """Put an in-place result: later ops see it under the name of its source."""
        self.change(column)
        self.put(column, op)

    def change(self, column: Virtual) -> None:
        """Have later ops see `column` where they saw the one of its name."""
        self.columns[column.name] = column
        self.changed[column.name] = self._op

    def add(self, column: Virtual) -> None:
        """Offer a new column to later ops, by its name.

        Raises
        ------
        ConfigError
            If there is a column of that name.
        """
        if column.name in self.columns or column.name in self.outputs:
            raise ConfigError(
                f"there is a column {column.name!r} already",
                fix="give the new one another name, with as: NAME",
                names=[column.name],
            )
        self.columns[column.name] = column
        self.made[column.name] = self._op

    def copy(self, column: Virtual, name: str) -> Virtual:
        """Return a copy of a column under a new name, beside it.

        Raises
        ------
        ConfigError
            If there is a column of that name.
        """
        assert isinstance(column, (Numbers, Codes))  # what in-place ops select
        copied = replace(column, name=name, root=name)
        self.add(copied)
        return copied

    def consume(self, names: Iterable[str]) -> None:
        """Remember that columns are combined into another: made categories among them need no feature of their own."""
        self.consumed.update(names)

    def drop(self, selection: str | list[str], op: str) -> None:
        """Forget the columns of a selection, and the columns of the matrix that stand for them.

        Raises
        ------
        ConfigError
            If there is no such column.
        """
        gone = {column.name for column in self._select(selection, op)}
        self.columns = {name: column for name, column in self.columns.items() if name not in gone}
        self.dropped |= dict.fromkeys(gone, self._op)
        self.outputs = {
            name: output
            for name, output in self.outputs.items()
            if name not in gone and output.column.stands_for not in gone
        }

    def hashed(self, source: str, n_buckets: int) -> str:
        """Return the name of the source column that hashes the levels of `source`, made where it is new."""
        name = f"{source}#{n_buckets}"
        schema = self.statistics.table.schema
        column = schema[source]
        if name in schema and schema[name].hash_of != source:
            raise ConfigError(
                f"there is a column {name!r} already", fix="rename it, or use another number of buckets", names=[name]
            )
        hashed = Column(name, "categorical", column.dtype, hash_of=source, n_buckets=n_buckets)
        self.statistics.add_hashed(hashed)
        return name

    def use_folds(self, k: int) -> None:
        """Ask for training rows in `k` folds.

        Raises
        ------
        ConfigError
            If another op has asked for another number: a row belongs to one fold.
        """
        if self.n_folds not in (0, k):
            raise ConfigError(f"target_encode with {self.n_folds} folds and with {k}", fix="use one number of folds")
        self.n_folds = k

    def note(self, text: str) -> None:
        """Say something once in the log and the report."""
        if text not in self.notes:
            self.notes.append(text)

    def warn(self, text: str) -> None:
        """Warn once, in the log, the report, and `gpupipe check`."""
        if text not in self.warnings:
            self.warnings.append(text)

    def learned(self, op: str, name: str, state: Mapping[str, object]) -> None:
        """Record for people what an op learned of the column `name`."""
        if state:
            self.states.append({"op": op, "column": name, **state})

    def fill_the_rest(self) -> None:
        """Impute what an estimator that is not of the codes view cannot take, by the training median, and say so."""
        open_ones = {name: out for name, out in self.outputs.items() if out.column.may_be_null}
        if self.view == "codes" or not open_ones:
            return
        columns = [out.column for out in open_ones.values()]
        medians = self.statistics.medians(columns)
        nulls = self.statistics.null_counts(columns)
        for (name, out), median, n in zip(open_ones.items(), medians, nulls, strict=True):
            self.outputs[name] = replace(out, column=out.column.then("FILL", median))
            if n:
                self.note(f"{name}: {n:,} nulls imputed by the median, as the model takes none")

    def leftovers(self) -> list[str]:
        """Return the columns that no feature stands for: no op has named them, or only to make others of them.

        So a coordinate that a distance was taken of is a feature as well, and the distance is one though no op names
        it. A category that one op made and another combined into a third is none by itself.
        """
        done = {output.column.stands_for for output in self.outputs.values()}.union(self.outputs)
        combined = {name for name in self.made if name in self.consumed and isinstance(self.columns.get(name), Codes)}
        return [name for name in self.columns if name not in done and name not in combined]


def _source(column: Column) -> Virtual:
    inputs = (column.name,)
    if column.kind == "numeric":
        return Numbers(column.name, inputs, Start("LOAD", column.name))
    if column.kind == "datetime":
        return Times(column.name, inputs, column.name)
    if column.kind == "text":
        return Texts(column.name, inputs)
    levels = column.levels or ()
    index = (IndexStep("INDEX", column.name),)
    return Codes(column.name, inputs, index, FIRST_LEVEL + len(levels), levels, kind=column.kind)


class _Kinds(Mapping[str, str]):
    """The kinds of columns, each looked up when it is asked for: ops that select one column at a time stay linear."""

    def __init__(self, columns: Mapping[str, Virtual]) -> None:
        self._columns = columns

    def __getitem__(self, name: str) -> str:
        return self._columns[name].kind

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)
