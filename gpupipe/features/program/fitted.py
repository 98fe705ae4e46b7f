"""Fitted features: the feature matrix of any rows. Importing this module imports no op, and no Arrow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import singledispatch
from itertools import chain
from typing import TYPE_CHECKING, Any

from gpupipe.backends.base import Backend
from gpupipe.backends.out_of_memory import map_row_ranges, too_large
from gpupipe.errors import DataError
from gpupipe.table.arrange import LookedUpColumns, arrange, look_up, same_codes, slice_rows
from gpupipe.table.blocks import Table, layout
from gpupipe.table.schema import Schema
from gpupipe.tasks import View
from gpupipe.typing import Array
from gpupipe_kernels.program.program import Program, block_id
from gpupipe_kernels.user.language import KernelError

if TYPE_CHECKING:
    import pyarrow as pa

    from gpupipe.features.history.derivation import Derivation
    from gpupipe.features.statistics.training_summary import TrainingSummary


@dataclass(frozen=True)
class Feature:
    """One column of the matrix.

    `inputs` are the input columns that `op` computes it from. `n_codes` is the number of codes if the values are
    integer ids; 0 for numbers.
    """

    name: str
    inputs: tuple[str, ...]
    op: str
    n_codes: int = 0


@dataclass(frozen=True)
class FittedFeatures:
    """The result of a fit, portable between devices."""

    schema: Schema  # the columns that the program reads, with their levels
    program: Program  # for rows that were not fitted: lookup tables contain the full statistics
    features: tuple[Feature, ...]  # the columns of the matrix, in order
    # For the training rows, each of which reads the statistics of the other folds; None if no op is cross-fitted, and
    # in a loaded model.
    training_program: Program | None = None
    folds: Array | None = None  # int8, shape (training rows,): the fold of each training row
    notes: tuple[str, ...] = ()  # automatic treatments, such as imputed nulls
    states: tuple[Mapping[str, Any], ...] = ()  # state that each op learned from each column, for users to read
    derivation: Derivation | None = None  # computation of the derived columns; None if there are none
    # Nulls and ranges of the input columns over the training rows; None in models of earlier versions.
    training: TrainingSummary | None = None
    warnings: tuple[str, ...] = ()  # columns that were dropped automatically, each with advice
    # Of the combined view: the matrix columns of each view, in the order of that view. Empty for other views, and in a
    # loaded model.
    views: Mapping[View, tuple[int, ...]] = field(default_factory=dict)
    # The columns learned from texts, for rows of the run, which have the positions of their texts. Empty in a loaded
    # model, which computes them from texts.
    lookups: tuple[LookedUpColumns, ...] = ()

    def __repr__(self) -> str:
        return f"FittedFeatures({len(self.inputs)} inputs, {len(self.features)} features)"

    @property
    def names(self) -> list[str]:
        """Names of the columns of the matrix."""
        return [feature.name for feature in self.features]

    @property
    def categorical(self) -> dict[int, int]:
        """Number of codes of each matrix column with integer ids, by position."""
        return {i: feature.n_codes for i, feature in enumerate(self.features) if feature.n_codes}

    @property
    def lineage(self) -> dict[str, list[str]]:
        """Input columns of each matrix column, by name; ``table.column`` for a further table."""
        made = {} if self.derivation is None else self.derivation.made
        sources = {f.name: chain.from_iterable(made.get(name, (name,)) for name in f.inputs) for f in self.features}
        return {name: list(dict.fromkeys(inputs)) for name, inputs in sources.items()}

    @property
    def inputs(self) -> tuple[str, ...]:
        """The columns of the main table that are read."""
        derived = () if self.derivation is None else self.derivation.inputs
        return tuple(dict.fromkeys((*(column.source for column in self.input_schema), *derived)))

    @property
    def input_schema(self) -> Schema:
        """The columns of the main table that are encoded, with all levels that the program or the derivation uses."""
        if self.derivation is None:
            return self.schema
        columns = {column.name: column for column in self.schema if not column.derived}
        return Schema(tuple((columns | {column.name: column for column in self.derivation.schema}).values()))

    def of_columns(self, columns: Sequence[int]) -> FittedFeatures:
        """Return the features of some columns of the matrix, which read only the input columns of these.

        `columns` are distinct positions of matrix columns; the new matrix has them in this order.
        """
        program = self.program.of_columns(columns)
        old, used = layout(self.schema), program.sources
        names = [name for name, (block, row) in old.items() if (block_id(block), row) in used]
        schema = self.schema.select(names)
        to_new = moves({name: old[name] for name in names}, layout(schema))
        training = None if self.training_program is None else self.training_program.of_columns(columns)
        if training is not None and not training.has_folds:
            training = None
        places = {column: place for place, column in enumerate(columns)}
        found = replace(
            self,
            schema=schema,
            program=program.moved(to_new),
            features=tuple(self.features[column] for column in columns),
            training_program=None if training is None else training.moved(to_new),
            folds=None if training is None else self.folds,
            derivation=self.derivation if any(column.derived for column in schema) else None,
            lookups=tuple(each for each in self.lookups if any(column.name in schema for column in each.columns)),
            views={view: tuple(places[c] for c in each if c in places) for view, each in self.views.items()},
        )
        gone = {column.name for column in (*self.schema, *self.input_schema)}
        gone -= {column.name for column in (*found.schema, *found.input_schema)}
        return replace(
            found,
            states=tuple(state for state in self.states if state.get("column") not in gone),
            training=None if self.training is None else self.training.without(gone),
        )

    def encode(
        self, arrow: pa.Table, backend: Backend, events: Mapping[str, pa.Table] | None = None, as_of: int | None = None
    ) -> Table:
        """Encode raw rows of the main table for `transform`.

        `events` are the further tables that the features are computed from. `as_of` is a time in microseconds since
        1970, instead of the cut-off dates of the training. Raise SchemaError if a column is missing or has another
        kind, and ConfigError if a table is missing.
        """
        from gpupipe.table.encode import encode_served

        table = encode_served(arrow, backend, self.input_schema)
        return table if self.derivation is None else self.derivation.run(table, arrow, events or {}, backend, as_of)

    def transform(self, table: Table, backend: Backend) -> Array:
        """Return the matrix of `table`, float32, shape (n_rows, len(features)), column-major.

        Raise SchemaError if a column is missing or has another kind; LimitError if the matrix does not fit into memory;
        DataError if a user's kernel raises for a value.
        """
        return self._run(self.program, table, None, backend)

    def transform_training(self, table: Table, backend: Backend) -> Array:
        """Return the matrix of the rows that were fitted, in which cross-fitted statistics exclude their own row."""
        if self.training_program is None:
            return self.transform(table, backend)
        return self._run(self.training_program, table, self.folds, backend)

    def _run(self, program: Program, table: Table, folds: Array | None, backend: Backend) -> Array:
        out = _matrix(table.n_rows, program.n_columns, backend)
        old = layout(self.schema)
        lookups = [lookup for lookup in self.lookups if lookup.positions in table.schema]

        def write(start: int, stop: int) -> None:
            part = look_up(slice_rows(table, start, stop), lookups, backend)
            part = part if _fits(part.schema, self.schema) else arrange(part, self.schema, backend)
            fold = None if folds is None else folds[start:stop]
            backend.run_program(program.moved(moves(old, part.places)), part.blocks, out[start:stop], fold)

        try:
            map_row_ranges(write, table.n_rows, backend, "features")
        except KernelError as error:
            raise DataError(error.what, where=error.where, fix=error.fix) from error
        return out


@singledispatch
def write_matrix(table: Any, features: FittedFeatures, backend: Backend, is_training: bool = False) -> Any:
    """Return the feature matrix of an `EncodedTable`: an array, or a partitioned matrix for a partitioned table.

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
    """Return whether a program for `schema` can read a table of schema `table` without rearranging it."""
    return all(column.name in table and same_codes(table[column.name], column) for column in schema)


def moves(
    old: Mapping[str, tuple[str, int]], new: Mapping[str, tuple[str, int]]
) -> dict[tuple[int, int], tuple[int, int]]:
    """Return the block id and row of each column of `old`, and those of the column in `new`."""

    def place(block: str, row: int) -> tuple[int, int]:
        return block_id(block), row

    return {place(*old[name]): place(*new[name]) for name in old}
