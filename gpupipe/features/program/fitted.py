"""Fit ops to training rows; write the matrix of any rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import singledispatch
from typing import TYPE_CHECKING, Any

from gpupipe.backends.base import Backend
from gpupipe.backends.out_of_memory import map_row_ranges, too_large
from gpupipe.errors import ConfigError, DataError
from gpupipe.features.history.derivation import Derivation
from gpupipe.features.ops.auto import Auto
from gpupipe.features.ops.base import FeatureOp
from gpupipe.features.program.builder import ProgramBuilder
from gpupipe.features.program.compile import compile_program
from gpupipe.features.program.expressions import OutputColumn, TextExpr
from gpupipe.features.statistics.training import Statistics
from gpupipe.features.statistics.training_summary import TrainingSummary, summarize
from gpupipe.table.arrange import arrange, same_codes, slice_rows
from gpupipe.table.blocks import Table, layout
from gpupipe.table.encode import encode_served
from gpupipe.table.schema import Schema
from gpupipe.tasks import View
from gpupipe.typing import Array
from gpupipe_kernels.program.program import Program, block_id
from gpupipe_kernels.user.language import KernelError

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class Feature:
    """One column of the matrix.

    Attributes
    ----------
    name : str
    inputs : tuple of str
        The input columns that it is made of.
    op : str
        The op that made it.
    n_codes : int
        Where its values are integer ids, how many there are; 0 for a number.
    """

    name: str
    inputs: tuple[str, ...]
    op: str
    n_codes: int = 0


@dataclass(frozen=True)
class FittedFeatures:
    """The result of a fit: portable, and the same on every device.

    Attributes
    ----------
    schema : Schema
        The source columns that the program reads, with their levels.
    program : Program
        For rows outside the training: lookups hold the full statistics.
    training_program : Program, optional
        For the training rows, each of which reads the statistics of the other folds; None where no op is cross-fitted,
        and in a loaded model.
    folds : array of int8, shape (training rows,), optional
        The fold of each training row.
    features : tuple of Feature
        The columns of the matrix, in order.
    notes : tuple of str
        What was done without being asked for.
    warnings : tuple of str
        Columns that are not among the features though nobody dropped them, each with what to do.
    states : tuple of dict
        What each op learned of each column, for people to read.
    derivation : Derivation, optional
        How the columns that are no column of the input are made; None where there are none.
    training : TrainingSummary, optional
        Nulls and ranges of the input columns over the training rows; None in a model of an earlier version.
    """

    schema: Schema
    program: Program
    features: tuple[Feature, ...]
    training_program: Program | None = None
    folds: Array | None = None
    notes: tuple[str, ...] = ()
    states: tuple[Mapping[str, Any], ...] = ()
    derivation: Derivation | None = None
    training: TrainingSummary | None = None
    warnings: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"FittedFeatures({len(self.inputs)} inputs, {len(self.features)} features)"

    @property
    def names(self) -> list[str]:
        """Names of the columns of the matrix."""
        return [feature.name for feature in self.features]

    @property
    def categorical(self) -> dict[int, int]:
        """Column of the matrix to number of codes, for columns of integer ids."""
        return {i: feature.n_codes for i, feature in enumerate(self.features) if feature.n_codes}

    @property
    def lineage(self) -> dict[str, list[str]]:
        """Column of the matrix to the input columns that it is made of; ``table.column`` of a further table."""
        made = {} if self.derivation is None else self.derivation.made
        sources = {f.name: [s for name in f.inputs for s in made.get(name, (name,))] for f in self.features}
        return {name: list(dict.fromkeys(inputs)) for name, inputs in sources.items()}

    @property
    def inputs(self) -> tuple[str, ...]:
        """The columns of the main table that are read, each once."""
        derived = () if self.derivation is None else self.derivation.inputs
        return tuple(dict.fromkeys((*(column.source for column in self.input_schema), *derived)))

    @property
    def input_schema(self) -> Schema:
        """The columns of the main table that are encoded, with all the levels that any reader of them knows."""
        if self.derivation is None:
            return self.schema
        columns = {column.name: column for column in self.schema if not column.derived}
        return Schema(tuple((columns | {column.name: column for column in self.derivation.schema}).values()))

    def encode(
        self, arrow: pa.Table, backend: Backend, events: Mapping[str, pa.Table] | None = None, as_of: int | None = None
    ) -> Table:
        """Return rows as they were read as a table that `transform` takes.

        Parameters
        ----------
        arrow : pyarrow.Table
            Rows of the main table.
        events : mapping of str to pyarrow.Table, optional
            The further tables that the features are made of.
        as_of : int, optional
            A time in microseconds since 1970, in place of the cut-off dates of the training.

        Raises
        ------
        SchemaError
            If a column is absent or of another kind.
        ConfigError
            If a table is absent.
        """
        table = encode_served(arrow, backend, self.input_schema)
        return table if self.derivation is None else self.derivation.run(table, arrow, events or {}, backend, as_of)

    def transform(self, table: Table, backend: Backend, engine: str | None = None) -> Array:
        """Return the matrix of `table`, float32, shape (n_rows, len(features)), column-major.

        Parameters
        ----------
        engine : {"numpy", "numba"}, optional
            As in `Backend.run_program`: where `table` is a partition, that of the driver.

        Raises
        ------
        SchemaError
            If the table lacks a column, or has one of another kind.
        LimitError
            If the matrix does not fit into memory.
        DataError
            If a user's kernel cannot compute a value.
        """
        return self._run(self.program, table, None, backend, engine)

    def transform_training(self, table: Table, backend: Backend) -> Array:
        """Return the matrix of the very rows that were fitted: cross-fitted statistics do not see their own row."""
        if self.training_program is None:
            return self.transform(table, backend)
        return self._run(self.training_program, table, self.folds, backend)

    def _run(
        self, program: Program, table: Table, folds: Array | None, backend: Backend, engine: str | None = None
    ) -> Array:
        out = _matrix(table.n_rows, program.n_columns, backend)
        engine = engine or backend.interpreter(program)
        old, fits = layout(self.schema), _fits(table.schema, self.schema)

        def write(start: int, stop: int) -> None:
            part = slice_rows(table, start, stop)
            part = part if fits else arrange(part, self.schema, backend)
            fold = None if folds is None else folds[start:stop]
            backend.run_program(program.moved(_moves(old, part.places)), part.blocks, out[start:stop], fold, engine)

        try:
            map_row_ranges(write, table.n_rows, backend, "features")
        except KernelError as error:
            raise DataError(error.what, where=error.where, fix=error.fix) from error
        return out


@singledispatch
def write_matrix(table: Any, features: FittedFeatures, backend: Backend, is_training: bool = False) -> Any:
    """Return the feature matrix of an `EncodedTable`: an array, or of a partitioned table a partitioned matrix.

    With `is_training` the rows are those of the fit: see `FittedFeatures.transform_training`.
    """
    return (features.transform_training if is_training else features.transform)(table, backend)


def _matrix(n_rows: int, n_columns: int, backend: Backend) -> Array:
    try:
        return backend.empty_matrix(n_rows, n_columns)
    except MemoryError as error:
        what = f"the matrix of {n_rows:,} rows and {n_columns} columns"
        raise too_large(what, 4 * n_rows * n_columns, backend, error) from error


def _fits(table: Schema, schema: Schema) -> bool:
    """Return whether a program for `schema` can read a table of schema `table` as it lies."""
    return all(column.name in table and same_codes(table[column.name], column) for column in schema)


def _moves(
    old: Mapping[str, tuple[str, int]], new: Mapping[str, tuple[str, int]]
) -> dict[tuple[int, int], tuple[int, int]]:
    def place(block: str, row: int) -> tuple[int, int]:
        return block_id(block), row

    return {place(*old[name]): place(*new[name]) for name in old}


def fit_features(
    ops: Sequence[FeatureOp],
    statistics: Statistics,
    view: View,
    derivation: Derivation | None = None,
    withheld: Mapping[str, str] | None = None,
) -> FittedFeatures:
    """Fit `ops` to the training rows of `statistics`.

    Parameters
    ----------
    ops : sequence of Op
        In the order in which they apply; columns that no feature represents afterwards are handled by `Auto`.
    statistics : Statistics
        May be used for several views: it remembers what it has reduced.
    view : {"codes", "dense", "embedding"}
        What the model likes. In the embedding view the numbers come first and the ids last, so that either are one
        block of the column-major matrix.
    derivation : Derivation, optional
        How those columns came about that are no columns of the input.
    withheld : mapping of str to str, optional
        As `ProgramBuilder` takes it.

    Raises
    ------
    ConfigError
        If an op does not fit the columns, or no column is left.
    """
    builder = ProgramBuilder(statistics, view, withheld)
    for i, op in enumerate(ops):
        builder.apply(op, f"features[{i}]")
    return finish_features(builder, derivation)


def finish_features(builder: ProgramBuilder, derivation: Derivation | None = None) -> FittedFeatures:
    """Return the features once all ops have been applied: columns that no op encoded are handled by `Auto`.

    Raises
    ------
    ConfigError
        If no column is left.
    """
    read = () if derivation is None else derivation.inputs
    rest = [n for n in builder.unrepresented() if not (n in read and isinstance(builder.columns[n], TextExpr))]
    if rest:
        Auto(columns=rest).apply(builder)
    for name in builder.unrepresented():
        if not isinstance(builder.columns[name], TextExpr):
            builder.warn(f"{name}: the training rows hold no value of it, so it is not among the features")
    builder.impute_nulls()
    outputs = list(builder.outputs.values())
    if builder.view == "embedding":
        outputs.sort(key=lambda output: output.n_codes > 0)
    if not outputs:
        raise ConfigError("no feature is left", where="features", fix="select columns that are not dropped or text")
    return _written(outputs, builder, derivation)


def _written(outputs: list[OutputColumn], builder: ProgramBuilder, derivation: Derivation | None) -> FittedFeatures:
    statistics = builder.statistics
    table = statistics.table.schema
    columns = [output.column for output in outputs]
    program = compile_program(columns, statistics.table.places, folds=False)
    used = program.sources
    names = [n for n, (block, row) in statistics.table.places.items() if (block_id(block), row) in used]
    schema = table.select(names)
    places = layout(schema)
    return FittedFeatures(
        schema,
        program.moved(_moves({name: statistics.table.places[name] for name in names}, places)),
        tuple(Feature(o.column.name, o.column.inputs, o.op, o.n_codes) for o in outputs),
        compile_program(columns, places) if builder.n_folds else None,
        statistics.folds(builder.n_folds) if builder.n_folds else None,
        tuple(builder.notes),
        tuple(builder.states),
        derivation,
        summarize(statistics, Schema((*schema, *(() if derivation is None else derivation.schema)))),
        tuple(builder.warnings),
    )
