"""The state of a fit: the virtual columns so far, those that go into the matrix, and what was said on the way."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from gpupipe.errors import ConfigError
from gpupipe.features.columns import Codes, IndexStep, Numbers, Output, Start, Texts, Times, Virtual
from gpupipe.features.selection import resolve
from gpupipe.table.schema import FIRST_LEVEL, Column

if TYPE_CHECKING:
    from gpupipe.features.statistics import Statistics

View = Literal["codes", "dense", "embedding"]
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
    """

    def __init__(self, statistics: Statistics, view: View) -> None:
        self.statistics, self.view = statistics, view
        self.columns: dict[str, Virtual] = {c.name: _source(c) for c in statistics.table.schema if not c.hash_of}
        self.derived: list[str] = []
        self.selected: set[str] = set()
        self.outputs: dict[str, Output] = {}
        self.notes: list[str] = []
        self.n_folds = 0
        self.states: list[dict[str, object]] = []

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
                raise ConfigError(
                    f"{op} needs categorical columns; {column.name!r} is {column.kind}",
                    fix=f"declare it: schema: {{{column.name}: categorical}}"
                    + (", or bucketize it first" if column.kind == "numeric" else ""),
                )
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
                raise ConfigError(
                    f"{op} needs datetime columns; {column.name!r} is {column.kind}",
                    fix=f"declare it: schema: {{{column.name}: {{kind: datetime, format: '%Y-%m-%d'}}}}",
                )
            columns.append(column)
        return columns

    def any_kind(self, selection: str | list[str], op: str) -> list[Virtual]:
        """Return the columns of a selection, whatever they are."""
        return self._select(selection, op)

    def _select(self, selection: str | list[str], op: str) -> list[Virtual]:
        kinds = {name: column.kind for name, column in self.columns.items()}
        try:
            names = resolve(selection, kinds, self.derived)
        except ConfigError as error:
            raise ConfigError(error.what, where=f"features: {op}", fix=error.fix) from None
        self.selected.update(names)
        return [self.columns[name] for name in names]

    def _as_numbers(self, column: Virtual, op: str) -> Numbers:
        if isinstance(column, Numbers):
            return column
        if isinstance(column, Codes) and column.kind == "boolean":
            return self.take(column, [NAN, NAN, NAN, 0.0, 1.0], column.name)
        raise ConfigError(
            f"{op} needs numeric columns; {column.name!r} is {column.kind}",
            fix=f"select others, or declare it: schema: {{{column.name}: float}}",
        )

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
            )
        self.outputs[column.name] = Output(column, op, n_codes)

    def replace(self, column: Numbers, op: str) -> None:
        """Put an in-place result: later ops see it under the name of its source."""
        self.columns[column.name] = column
        self.put(column, op)

    def add(self, column: Virtual) -> None:
        """Offer a new column to later ops, by its name.

        Raises
        ------
        ConfigError
            If there is a column of that name.
        """
        if column.name in self.columns:
            raise ConfigError(
                f"there is a column {column.name!r} already", fix="rename or drop it, or name the new one: as: …"
            )
        self.columns[column.name] = column
        self.derived.append(column.name)

    def drop(self, selection: str | list[str], op: str) -> None:
        """Forget the columns of a selection, and the columns of the matrix that stand for them.

        Raises
        ------
        ConfigError
            If there is no such column.
        """
        gone = {column.name for column in self._select(selection, op)}
        self.columns = {name: column for name, column in self.columns.items() if name not in gone}
        self.derived = [name for name in self.derived if name not in gone]
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
            raise ConfigError(f"there is a column {name!r} already", fix="rename it, or use another number of buckets")
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
        it. A category that an op made is left to the ops that select it (see `unused`).
        """
        done = {output.column.stands_for for output in self.outputs.values()}.union(self.outputs)
        made = {name for name in self.derived if isinstance(self.columns[name], Codes)}
        return [name for name in self.columns if name not in done and name not in made]

    def unused(self) -> list[str]:
        """Return the categories that an op made and that no other op took."""
        made = [name for name in self.derived if isinstance(self.columns[name], Codes)]
        return [name for name in made if name not in self.selected]


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
