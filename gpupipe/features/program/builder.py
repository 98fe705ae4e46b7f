"""State of one fit: expressions, matrix columns, notes and warnings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, TypeVar
from zlib import crc32

from gpupipe.backends.float32_loss import merges
from gpupipe.errors import ConfigError, GpupipeError
from gpupipe.features.ops.advice import advise_categories, advise_numbers, advise_times
from gpupipe.features.program.expressions import (
    CategoryExpr,
    Expr,
    IndexTerm,
    NumericExpr,
    OutputColumn,
    Producer,
    TextExpr,
    TimeExpr,
)
from gpupipe.features.program.selection import no_column, resolve
from gpupipe.table.schema import FIRST_LEVEL, NULL, RAW_KINDS, Column
from gpupipe.tasks import View

if TYPE_CHECKING:
    from gpupipe.features.ops.base import FeatureOp
    from gpupipe.features.statistics.training import Statistics

Copied = TypeVar("Copied", bound=Expr)
NAN = float("nan")


class ProgramBuilder:
    """Collects the expressions of the ops for one view.

    - `statistics`: reductions over the training rows; shared by all views
    - `view` ({"codes", "dense", "embedding"}): the form that suits the model: integer ids and unscaled numbers; scaled
      numbers without nulls; or ids for categories and scaled numbers for numeric columns
    - `withheld`: columns that no op may select, each with the reason
    - `is_preview`: whether the rows are a sample to check the ops on, so that expensive selections can be omitted

    - `applied`: the ops so far, each with its position in the configuration
    - `columns`: the columns that ops may select, by name, in their current state
    - `made`: columns that ops have added, each with the op
    - `changed`, `dropped`: columns that an op has changed or dropped, each with the op
    - `consumed`: columns that have been combined into others; categories among them that an op added need no feature
    - `outputs`: the matrix columns, by name
    """

    def __init__(
        self,
        statistics: Statistics,
        view: View,
        withheld: Mapping[str, str] | None = None,
        is_preview: bool = False,
    ) -> None:
        self.statistics = statistics
        self.view = view
        self.withheld = withheld or {}
        self.is_preview = is_preview
        self.applied: list[tuple[FeatureOp, str]] = []
        self.columns: dict[str, Expr] = {c.name: _source(c) for c in statistics.table.schema if not c.hash_of}
        self.made: dict[str, str] = {}
        self.changed: dict[str, str] = {}
        self.dropped: dict[str, str] = {}
        self.consumed: set[str] = set()
        self.outputs: dict[str, OutputColumn] = {}
        self._defaults: dict[str, tuple[str, Sequence[float], str, int]] = {}  # by column: name, and as in put_default
        self.notes: list[str] = []
        self.warnings: list[str] = []
        self.n_folds = 0
        self.states: list[dict[str, object]] = []
        self._op = "auto"  # the current op, as named in messages

    def apply(self, op: FeatureOp, place: str) -> None:
        """Apply an op.

        `place` is its position in the configuration, ``features[2]``. Any GpupipeError of the op is raised with the
        place and the name of the op as ``where`` unless it has one.
        """
        self._op = f"{op.title()} ({place})"
        try:
            op.apply(self)
        except GpupipeError as error:
            error.place(f"{place}.{op.title()}")
            raise
        self.applied.append((op, place))

    def before_current(self) -> ProgramBuilder:
        """Return a builder of the codes view with the ops before the current one, the same for every view."""
        builder = ProgramBuilder(self.statistics, "codes", self.withheld)
        for op, place in self.applied:
            builder.apply(op, place)
        return builder

    def select_numbers(self, selection: str | list[str], op: str) -> list[NumericExpr]:
        """Return the numeric (or boolean) columns of a selection.

        Raise ConfigError if a selected column has another kind.
        """
        return [self._as_numbers(column, op) for column in self.select_any(selection, op)]

    def select_categories(self, selection: str | list[str], op: str) -> list[CategoryExpr]:
        """Return the categorical (or boolean) columns of a selection.

        Raise ConfigError if a selected column has another kind.
        """
        columns: list[CategoryExpr] = []
        for column in self.select_any(selection, op):
            if not isinstance(column, CategoryExpr):
                error = self._wrong_kind(column, op, "categorical", advise_categories(column))
                error.depends_on_rows = isinstance(
                    column, TextExpr
                )  # with more repeated values, the column would be categorical
                raise error
            columns.append(column)
        return columns

    def select_times(self, selection: str | list[str], op: str) -> list[TimeExpr]:
        """Return the datetime columns of a selection; raise ConfigError if a selected column has another kind."""
        columns: list[TimeExpr] = []
        for column in self.select_any(selection, op):
            if not isinstance(column, TimeExpr):
                raise self._wrong_kind(column, op, "datetime", advise_times(column, self.statistics))
            columns.append(column)
        return columns

    def missing_column(self, name: str, op: str) -> ConfigError:
        """Return the error about a name or glob that matches no column."""
        for column, reason in self.withheld.items():
            if column == name or fnmatchcase(name, column):
                return ConfigError(
                    f"{name!r} cannot be an input of {op}: {reason}", fix=f"remove it from {op}", names=[name]
                )
            if fnmatchcase(column, name):
                what = f"{name!r} matches only {column!r}, which cannot be an input of {op}: {reason}"
                return ConfigError(what, fix=f"remove it from {op}", names=[name, column])
        if name in self.dropped:
            by = self.dropped[name]
            return ConfigError(f"no column {name!r}: {by} has dropped it", fix=f"move {op} before {by}", names=[name])
        return no_column(name, self.columns)

    def select_any(self, selection: str | list[str], op: str) -> list[Expr]:
        """Return the columns of a selection, of any kind."""

        def absent(name: str, is_excluded: bool) -> ConfigError | None:
            known = name in self.withheld or name in self.dropped
            return None if is_excluded and known else self.missing_column(name, op)

        return [self.columns[name] for name in resolve(selection, _Kinds(self.columns), absent)]

    def _as_numbers(self, column: Expr, op: str) -> NumericExpr:
        if isinstance(column, NumericExpr):
            return column
        if isinstance(column, CategoryExpr) and column.kind == "boolean":
            return self.look_up(column, [NAN, NAN, NAN, 0.0, 1.0], column.name)
        raise self._wrong_kind(column, op, "numeric", advise_numbers(column))

    def _wrong_kind(self, column: Expr, op: str, wanted: str, fix: str) -> ConfigError:
        is_a = f"is {column.kind}"
        by = self.changed.get(column.name)
        if by is not None and isinstance(column, CategoryExpr) and wanted == "numeric":
            is_a += f" since {by}"
            fix = f"move {op} before that op, or keep the number by giving that op as: {column.name}_bin"
        return ConfigError(f"{op} takes {wanted} columns; {column.name!r} {is_a}", fix=fix, names=[column.name])

    def look_up(self, codes: CategoryExpr, table: object, name: str) -> NumericExpr:
        """Return the lookup of `codes` in `table`, shape (n_codes,) or (folds + 1, n_codes)."""
        import numpy as np

        wide = np.asarray(table, np.float64)
        values = wide if merges(wide.ravel()) else wide.astype(np.float32)  # a center is subtracted in float64
        if codes.remap is not None:
            values = values[..., codes.remap]
        start = Producer("TAKE", codes=codes, table=values)
        may_be_null = bool(np.isnan(values).any())
        return NumericExpr(name, codes.inputs, start, may_be_null=may_be_null, root=codes.root)

    def put(self, column: NumericExpr, op: str, n_codes: int = 0) -> None:
        """Add `column` to the matrix, or replace the one of the same name and the default of the column it represents.

        Raise ConfigError if the name belongs to a feature of other input columns.
        """
        old = self.outputs.get(column.name)
        taken = self.columns.get(column.name) if old is None else old.column
        if taken is not None and taken.inputs != column.inputs:
            first = "the column" if old is None else old.op
            raise ConfigError(
                f"two features are named {column.name!r}: {first} of {', '.join(taken.inputs)}, "
                f"and {op} of {', '.join(column.inputs)}",
                fix="rename or drop one of the columns",
                names=[column.name],
            )
        name, *_ = self._defaults.pop(column.represents, (column.name,))
        if name != column.name:
            self.outputs.pop(name, None)
        self.outputs[column.name] = OutputColumn(column, op, n_codes)

    def put_default(self, codes: CategoryExpr, values: Sequence[float], op: str, n_codes: int = 0) -> None:
        """Add a column with a value for each code, such as the number of a bin, which any later encoding replaces."""
        self.put(self.look_up(codes, values, codes.name), op, n_codes)
        self._defaults[codes.represents] = codes.name, values, op, n_codes

    def replace(self, column: NumericExpr, op: str) -> None:
        """Add `column` to the matrix, and replace the column of that name for later ops."""
        self.change(column)
        self.put(column, op)

    def change(self, column: Expr) -> None:
        """Replace the column of the same name for later ops."""
        self.columns[column.name] = column
        self.changed[column.name] = self._op
        if isinstance(column, CategoryExpr) and column.represents in self._defaults:
            _, values, op, n_codes = self._defaults[column.represents]
            self.put_default(column, values, op, n_codes)

    def add(self, column: Expr) -> None:
        """Add a new column for later ops to select; raise ConfigError if a column of that name exists."""
        if column.name in self.columns or column.name in self.outputs:
            raise ConfigError(
                f"column {column.name!r} already exists",
                fix="give the new column another name, with as: NAME",
                names=[column.name],
            )
        self.columns[column.name] = column
        self.made[column.name] = self._op

    def copy(self, column: Copied, name: str) -> Copied:
        """Add a copy of a column under a new name, and return it; raise ConfigError if a column of that name exists."""
        assert isinstance(column, (NumericExpr, CategoryExpr))  # the kinds that in-place ops select
        copied = replace(column, name=name, root=name)
        self.add(copied)
        return copied

    def drop(self, selection: str | list[str], op: str) -> None:
        """Drop the columns of a selection, and the matrix columns that represent them.

        Raise ConfigError if a column does not exist.
        """
        gone = {column.name for column in self.select_any(selection, op)}
        self.columns = {name: column for name, column in self.columns.items() if name not in gone}
        self.dropped |= dict.fromkeys(gone, self._op)
        self.outputs = {
            name: output
            for name, output in self.outputs.items()
            if name not in gone and output.column.represents not in gone
        }

    def source_of(self, column: CategoryExpr, op: str, fix: str) -> str:
        """Return the name of the input column that an op reads; raise ConfigError if another op has made the column."""
        step = column.index[0]
        is_read = len(column.index) == 1 and step.op == "INDEX"
        if not is_read or self.statistics.table.schema[step.source].hash_of is not None or column.kind != "categorical":
            what = f"{op} takes input columns; {column.name!r} is made by another op"
            raise ConfigError(what, fix=fix, names=[column.name])
        return step.source

    def hashed(self, column: CategoryExpr, n_buckets: int, levels: Sequence[str] = ()) -> CategoryExpr:
        """Return an input column with codes of the given levels, and of buckets of the others.

        Imputed nulls have the code of their level.
        """
        from gpupipe.table.hash_buckets import hash_levels

        source = self._add_hashed(column.index[0].source, n_buckets, tuple(levels))
        labels = (*levels, *map(str, range(n_buckets)))
        index = (IndexTerm("INDEX", source),)
        codes = CategoryExpr(column.name, column.inputs, index, FIRST_LEVEL + len(labels), labels, root=column.root)
        if column.remap is None:
            return codes
        level = column.labels[column.remap[NULL] - FIRST_LEVEL]
        return codes.with_null_as(int(hash_levels(self.statistics.table.schema[source], (level,))[0]))

    def _add_hashed(self, source: str, n_buckets: int, levels: tuple[str, ...]) -> str:
        """Add the column that hashes the levels of `source`, unless it exists, and return its name."""
        name = f"{source}#{n_buckets}" + (f"#{crc32(chr(0).join(levels).encode()):08x}" if levels else "")
        schema = self.statistics.table.schema
        column = schema[source]
        if name in schema and schema[name].hash_of != source:
            raise ConfigError(
                f"column {name!r} already exists", fix="rename it, or use another number of buckets", names=[name]
            )
        form = column.has_normal_form
        hashed = Column(name, "categorical", column.dtype, hash_of=source, n_buckets=n_buckets, has_normal_form=form)
        self.statistics.add_hashed(replace(hashed, levels=levels or None))
        return name

    def use_folds(self, k: int) -> None:
        """Divide the training rows into `k` folds for cross-fitting.

        Raise ConfigError if another op uses another number of folds.
        """
        if self.n_folds not in (0, k):
            raise ConfigError(
                f"target_encode: {k} folds conflict with {self.n_folds} folds of an earlier op",
                fix="use the same number of folds",
            )
        self.n_folds = k

    def note(self, text: str) -> None:
        """Add a note to the log and the report, once."""
        if text not in self.notes:
            self.notes.append(text)

    def warn(self, text: str) -> None:
        """Warn once, in the log, the report, and `gpupipe check`."""
        if text not in self.warnings:
            self.warnings.append(text)

    def record_state(self, op: str, name: str, state: Mapping[str, object]) -> None:
        """Record the state that an op learned from the column `name`, for users to read."""
        if state:
            self.states.append({"op": op, "column": name, **state})

    def impute_nulls(self) -> None:
        """Impute remaining nulls by the training median, with a note, unless the view is codes, which allows nulls."""
        open_ones = {name: out for name, out in self.outputs.items() if out.column.may_be_null}
        if self.view == "codes" or not open_ones:
            return
        columns = [out.column for out in open_ones.values()]
        medians = self.statistics.medians(columns)
        nulls = self.statistics.null_counts(columns)
        for (name, out), median, n in zip(open_ones.items(), medians, nulls, strict=True):
            self.outputs[name] = replace(out, column=out.column.then("FILL", median))
            if n:
                self.note(f"{name}: {n:,} null{'s' * (n != 1)} imputed by the median, as the model accepts no nulls")

    def unrepresented(self) -> list[str]:
        """Return the columns that no feature represents: not selected, or only used to derive other columns.

        For example, both the coordinates of a distance and the distance itself, if no op encodes them. A category that
        one op added and another combined into a third column needs no feature and is excluded.
        """
        represented = {output.column.represents for output in self.outputs.values()}.union(self.outputs)
        merged = self.consumed.intersection(self.made)
        combined = {name for name in merged if isinstance(self.columns.get(name), CategoryExpr)}
        return [name for name in self.columns if name not in represented and name not in combined]


def _source(column: Column) -> Expr:
    inputs = (column.name,)
    if column.kind == "numeric":
        return NumericExpr(column.name, inputs, Producer("LOAD", column.name))
    if column.kind == "datetime":
        return TimeExpr(column.name, inputs, column.name)
    if column.kind in RAW_KINDS:
        return TextExpr(column.name, inputs, column.kind)
    levels = column.levels or ()
    index = (IndexTerm("INDEX", column.name),)
    return CategoryExpr(column.name, inputs, index, FIRST_LEVEL + len(levels), levels, kind=column.kind)


class _Kinds(Mapping[str, str]):
    """The kinds of columns, looked up lazily so that ops that select one column at a time stay linear."""

    def __init__(self, columns: Mapping[str, Expr]) -> None:
        self._columns = columns

    def __getitem__(self, name: str) -> str:
        return self._columns[name].kind

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)
