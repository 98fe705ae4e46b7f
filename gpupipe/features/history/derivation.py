"""Ops that make columns which a row alone does not give: of the history of its key, of the bytes of a text.

They run on the whole table before it is split, learn nothing, and append columns that all later ops use like any other.
What they read is recorded, so that a model knows which columns, and which further tables, it needs when it serves.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from gpupipe.errors import ArtifactError, ConfigError, GpupipeError, SchemaError
from gpupipe.features.history.tables import Events, Rows, Sources
from gpupipe.features.ops.base import FeatureOp
from gpupipe.table.schema import Column, Schema
from gpupipe.typing import Array

if TYPE_CHECKING:
    import pyarrow as pa

    from gpupipe.backends.base import Backend
    from gpupipe.features.program.builder import Builder
    from gpupipe.table.blocks import Table


class FurtherTableError(SchemaError):
    """A further table of a model contradicts its schema; `where` names the table."""


@dataclass(frozen=True)
class Made:
    """A column that a derived op made.

    Attributes
    ----------
    name : str
    values : array, shape (n_rows,)
        float32, NaN where null; or codes.
    inputs : tuple of str
        What it is made of, as people would say it: ``orders.spend``.
    like : Column, optional
        Where the values are codes: the column whose levels they are.
    """

    name: str
    values: Array
    inputs: tuple[str, ...]
    like: Column | None = None

    @property
    def column(self) -> Column:
        """The column of the schema."""
        if self.like is not None:
            return replace(self.like, name=self.name, nullable=True, derived=True)
        return Column(self.name, "numeric", "float", storage="float32", derived=True)


class DerivedOp(FeatureOp):
    """An op whose columns are made before the split.

    Attributes
    ----------
    runs_on_device : bool
        Whether it works on a device's arrays; texts are the host's.
    """

    runs_on_device: ClassVar[bool] = False

    def bound(self, rows: Rows) -> DerivedOp:
        """Return the op as a model keeps it: with the columns that a selection means in `rows` in its place."""
        return self

    @abstractmethod
    def derive(self, sources: Sources) -> Iterable[Made]:
        """Yield the columns that the op makes for the rows of ``sources.main``."""

    def made(self, sources: Sources) -> Iterable[Made]:
        """Return what `derive` yields, however it has to be worked out."""
        return self.derive(sources)

    def key_columns(self) -> tuple[str, ...]:
        """Return the columns of the main table that only say whose row it is: no features by themselves."""
        return ()

    def apply(self, builder: Builder) -> None:
        """Do nothing: the columns are in the table, and later ops, or what suits each column, make use of them."""


@dataclass(frozen=True)
class Derivation:
    """How the derived columns of a model are made, wherever it serves.

    Attributes
    ----------
    ops : tuple of DerivedOp
    schema : Schema
        The encoded columns of the main table that they read.
    inputs : tuple of str
        All columns of the main table that they read.
    tables : mapping of str to DerivedTable
        The further tables that they read.
    made : mapping of str to tuple of str
        Derived column to what it is made of.
    """

    ops: tuple[DerivedOp, ...]
    schema: Schema
    inputs: tuple[str, ...]
    tables: Mapping[str, DerivedTable]
    made: Mapping[str, tuple[str, ...]]

    def run(
        self, table: Table, arrow: pa.Table, events: Mapping[str, pa.Table], backend: Backend, as_of: int | None = None
    ) -> Table:
        """Return `table` with the derived columns; see `gpupipe.features.program.fitted.FittedFeatures.encode`.

        `table` is where `backend` computes, which is that of `where_derived`.

        Raises
        ------
        ArtifactError
            If the ops ask for what the schemas do not have: no run has written such a model.
        """
        sources = {name: needed.encode(name, events, backend) for name, needed in self.tables.items()}
        main = Rows.of_arrow(table, arrow, "the table")
        try:
            return derive(self.ops, Sources(main, sources, backend, as_of))[0]
        except ConfigError as error:
            raise ArtifactError(
                f"the model cannot make its derived columns: {error.what}", where=error.where, fix="export it again"
            ) from error


@dataclass(frozen=True)
class DerivedTable:
    """What a model reads of a further table; attributes as in `Derivation` and `Events`."""

    schema: Schema
    inputs: tuple[str, ...]
    left: tuple[str, ...]
    right: tuple[str, ...]

    def encode(self, name: str, given: Mapping[str, pa.Table], backend: Backend) -> Events:
        """Return the events of a table that was given.

        Raises
        ------
        ConfigError
            If there is none of that name.
        SchemaError
            If a column is absent or of another kind.
        """
        from gpupipe.table.encode import encode_served

        if name not in given:
            raise ConfigError(
                f"the model needs a further table: {name} (columns {', '.join(self.inputs)})",
                fix=f"give it: --table {name}=FILE, or tables={{{name!r}: ...}}",
            )
        try:
            table = encode_served(given[name], backend, self.schema)
        except SchemaError as error:
            where = "; ".join(filter(None, [f"table {name!r}", error.where]))
            raise FurtherTableError(error.what, where=where, fix=error.fix, names=error.names) from None
        rows = Rows.of_arrow(table, given[name], f"table {name!r}")
        return Events(rows, self.left, self.right)


def derived_ops(ops: Iterable[FeatureOp]) -> tuple[DerivedOp, ...]:
    """Return those of `ops` that run before the split."""
    return tuple(op for op in ops if isinstance(op, DerivedOp))


def of_the_host(ops: Iterable[DerivedOp]) -> tuple[DerivedOp, ...]:
    """Return those of `ops` that need the host: with one of them, all columns are derived there."""
    return tuple(op for op in ops if not op.runs_on_device)


def where_derived(ops: Iterable[DerivedOp], backend: Backend) -> Backend:
    """Return the backend that derives the columns of `ops`: `backend` itself, or its host."""
    return backend.host if of_the_host(ops) else backend


def key_columns(ops: Iterable[FeatureOp], further: Iterable[str] = ()) -> tuple[str, ...]:
    """Return the key columns of `ops` and the `further` ones, without those that an op names as its column.

    They identify a row and are not features.
    """
    ops = tuple(ops)
    keys = dict.fromkeys([*further, *(name for op in derived_ops(ops) for name in op.key_columns())])
    named = {name for op in ops if not isinstance(op, DerivedOp) for name in op.named_inputs()}
    return tuple(name for name in keys if name not in named)


def derive(ops: Sequence[DerivedOp], sources: Sources, places: Sequence[str] = ()) -> tuple[Table, Derivation]:
    """Run `ops` in their order; return the table with their columns, and how to do so again.

    Parameters
    ----------
    ops : sequence of DerivedOp
    sources : Sources
    places : sequence of str, optional
        Where each op stands in the configuration, for errors: ``features[2].lag``.

    Raises
    ------
    ConfigError
        If an op does not fit the columns, or makes one that is there already.
    """
    from gpupipe.table.arrange import append

    main, made, kept = sources.main, dict[str, tuple[str, ...]](), []
    for i, op in enumerate(ops):
        columns = {}
        try:
            kept.append(op.bound(main))
            for column in op.made(sources):
                if column.name in main.table.schema or column.name in made:
                    raise ConfigError(
                        f"there is a column {column.name!r} already",
                        fix="give the op another prefix",
                        names=[column.name],
                    )
                made[column.name] = column.inputs
                columns[column.column] = column.values
        except GpupipeError as error:
            error.place(places[i] if places else f"features: {op.title()}")
            raise
        main.table = append(main.table, columns, sources.backend.xp)
    tables = {
        name: DerivedTable(events.rows.schema, events.rows.read, events.left, events.right)
        for name, events in sources.events.items()
        if events.rows.read
    }
    return main.table, Derivation(tuple(kept), main.schema, main.read, tables, made)
