"""Ops that make columns which a row alone does not give: of the history of its key, of the bytes of a text.

They run on the whole table before it is split, learn nothing, and append columns that all later ops use like any other.
What they read is recorded, so that a model knows which columns, and which further tables, it needs when it serves.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from gpupipe.errors import ConfigError, did_you_mean
from gpupipe.features.base import FeatureOp, Op
from gpupipe.table.schema import Column, Schema

if TYPE_CHECKING:
    import pyarrow as pa

    from gpupipe.backends.base import Backend
    from gpupipe.features.builder import Builder
    from gpupipe.table.blocks import Table

Array = Any


class Rows:
    """A table as derived ops see it: encoded, and as it was read. It remembers what was asked for.

    Parameters
    ----------
    table : Table
    arrow : pyarrow.Table
        The same rows, for keys and texts: their values, not their codes.
    label : str
        What the table is called in messages.
    unknown : sequence of str
        Columns that will not be there when a model serves.
    """

    def __init__(self, table: Table, arrow: pa.Table, label: str, unknown: Sequence[str] = ()) -> None:
        self.table, self.arrow, self.label, self.unknown = table, arrow, label, unknown
        self._encoded: dict[str, None] = {}
        self._raw: dict[str, None] = {}

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.table.n_rows

    def column(self, name: str, *kinds: str) -> tuple[Column, Array]:
        """Return a column and its encoded values, shape (n_rows,).

        Raises
        ------
        ConfigError
            If there is none of that name, or it is of none of these kinds.
        """
        self._require(name, self.table.schema.names)
        column = self.table.schema[name]
        if column.kind not in kinds:
            raise ConfigError(
                f"column {name!r} of {self.label} is {column.kind}; {' or '.join(kinds)} is needed",
                fix=f"declare it: schema: {{{name}: {kinds[0]}}}",
            )
        if not column.derived:
            self._encoded[name] = None
        return column, self.table.column(name)

    def raw(self, name: str) -> pa.ChunkedArray:
        """Return a column as it was read.

        Raises
        ------
        ConfigError
            If there is none of that name.
        """
        self._require(name, self.arrow.column_names)
        self._raw[name] = None
        return self.arrow.column(name)

    def _require(self, name: str, names: Sequence[str]) -> None:
        if name in self.unknown:
            raise ConfigError(f"{name!r} is the target: it is not known when the model serves", fix="use other columns")
        if name not in names:
            hint = did_you_mean(name, names) or f"the columns are {', '.join(names[:20])}"
            raise ConfigError(f"{self.label} has no column {name!r}", fix=hint)

    @property
    def read(self) -> tuple[str, ...]:
        """Every column of the input that was asked for."""
        return tuple(dict.fromkeys((*self._encoded, *self._raw)))

    @property
    def schema(self) -> Schema:
        """The columns whose encoded values were asked for."""
        return Schema(tuple(column for column in self.table.schema if column.name in self._encoded))


@dataclass(frozen=True)
class Events:
    """A further table, many rows of which belong to one row of the main one.

    Attributes
    ----------
    rows : Rows
    left, right : tuple of str
        The key columns of the main table, and of this one.
    """

    rows: Rows
    left: tuple[str, ...]
    right: tuple[str, ...]


@dataclass
class Sources:
    """What derived ops work on.

    Attributes
    ----------
    main : Rows
    events : mapping of str to Events
    backend : Backend
    as_of : int, optional
        A time in microseconds in place of every date that an op names as its cut-off: "today", when a model serves.
    memory : dict
        What ops share: the order of a history, found once.
    engines : dict of str to None
        What computed over histories (numpy, numba, cuda), each once, for the timeline.
    """

    main: Rows
    events: Mapping[str, Events]
    backend: Backend
    as_of: int | None = None
    memory: dict[Any, Any] = field(default_factory=dict)
    engines: dict[str, None] = field(default_factory=dict)

    def once(self, key: Any, make: Callable[[], Any]) -> Any:
        """Return what `make` made when it was first called under `key`."""
        if key not in self.memory:
            self.memory[key] = make()
        return self.memory[key]

    def table(self, name: str) -> Events:
        """Return a further table.

        Raises
        ------
        ConfigError
            If there is none of that name whose rows are events.
        """
        if name not in self.events:
            raise ConfigError(
                f"there is no table {name!r} of events",
                fix=did_you_mean(name, self.events)
                or f"declare it: tables: {{{name}: {{path: ..., on: KEY, cardinality: one_to_many}}}}",
            )
        return self.events[name]


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
    """An op whose columns are made before the split."""

    def bound(self, rows: Rows) -> DerivedOp:
        """Return the op as a model keeps it: with the columns that a selection means in `rows` in its place."""
        return self

    @abstractmethod
    def derive(self, sources: Sources) -> Iterable[Made]:
        """Yield the columns that the op makes for the rows of ``sources.main``."""

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
        """Return `table` with the derived columns; see `gpupipe.features.fitted.FittedFeatures.encode`."""
        sources = {name: needed.encode(name, events, backend) for name, needed in self.tables.items()}
        main = Rows(table, arrow, "the table")
        return derive(self.ops, Sources(main, sources, backend, as_of))[0]


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
        from gpupipe.table.encode import encode

        if name not in given:
            raise ConfigError(
                f"the features read a further table: {name} (columns {', '.join(self.inputs)})",
                fix=f"give it: --table {name}=FILE, or tables={{{name!r}: ...}}",
            )
        rows = Rows(encode(given[name], backend, frozen=self.schema), given[name], f"table {name!r}")
        return Events(rows, self.left, self.right)


def derived_ops(ops: Iterable[FeatureOp]) -> tuple[DerivedOp, ...]:
    """Return those of `ops` that run before the split."""
    return tuple(op for op in ops if isinstance(op, DerivedOp))


def key_columns(ops: Iterable[FeatureOp]) -> tuple[str, ...]:
    """Return the columns that only say whose row it is, unless an op names one of them as its column."""
    ops = tuple(ops)
    keys = dict.fromkeys(name for op in derived_ops(ops) for name in op.key_columns())
    selections = (op.columns for op in ops if isinstance(op, Op))
    named = {name for s in selections for name in ([s] if isinstance(s, str) else s)}
    return tuple(name for name in keys if name not in named)


def derive(ops: Sequence[DerivedOp], sources: Sources) -> tuple[Table, Derivation]:
    """Run `ops` in their order; return the table with their columns, and how to do so again.

    Raises
    ------
    ConfigError
        If an op does not fit the columns, or makes one that is there already.
    """
    from gpupipe.table.arrange import append

    main, made, kept = sources.main, dict[str, tuple[str, ...]](), []
    for op in ops:
        columns = {}
        kept.append(op.bound(main))
        for column in op.derive(sources):
            if column.name in main.table.schema or column.name in made:
                raise ConfigError(f"there is a column {column.name!r} already", fix="give the op another prefix")
            made[column.name] = column.inputs
            columns[column.column] = column.values
        main.table = append(main.table, columns, sources.backend.xp)
    tables = {
        name: DerivedTable(events.rows.schema, events.rows.read, events.left, events.right)
        for name, events in sources.events.items()
        if events.rows.read
    }
    return main.table, Derivation(tuple(kept), main.schema, main.read, tables, made)
