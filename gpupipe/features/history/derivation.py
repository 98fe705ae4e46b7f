"""Derived ops: columns that a program cannot compute from one row, such as history and text features.

Derived ops run on the whole table before it is split, and append columns that later ops use like any other. They learn
nothing there: an op that learns from the training rows appends the positions of distinct texts instead, see
`gpupipe.features.program.learned_columns`. The input columns and further tables that they read are recorded, since a
model needs them when it serves.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import TYPE_CHECKING, Any

from gpupipe.errors import ArtifactError, ConfigError, GpupipeError, SchemaError
from gpupipe.features.history.tables import DerivationSources, EventTable, HistoryRows
from gpupipe.features.ops.base import FeatureOp
from gpupipe.table.schema import Column, Schema
from gpupipe.typing import Array, HostArray

if TYPE_CHECKING:
    import pyarrow as pa

    from gpupipe.backends.base import Backend
    from gpupipe.features.program.builder import ProgramBuilder
    from gpupipe.table.blocks import Table


class FurtherTableError(SchemaError):
    """Raised if a further table contradicts the schema in the model; `where` names the table."""


@dataclass(frozen=True)
class TextCorpus:
    """The distinct texts of a column, or its lists, from which an op learns columns.

    `column` is the input column, `names` are the columns to learn, if known before. `values` (strings without nulls)
    end with an empty text, that of null; lists end with a null list. `op` is the position of the op among those of the
    derivation.
    """

    column: str
    names: tuple[str, ...]
    values: Any
    op: int = 0


@dataclass(frozen=True)
class DerivedColumn:
    """A column computed by a derived op.

    `values` are float32, NaN where null; integer codes with the levels of the column `like`; or lists in the layout of
    `gpupipe.table.list_columns`. `inputs` are the columns that it is derived from, such as ``orders.spend``. For
    `has_scale`, see `gpupipe.table.schema.Column`. With `texts`, `values` are the positions of the texts of the rows,
    int32, until columns are learned from them.
    """

    name: str
    values: Array
    inputs: tuple[str, ...]
    like: Column | None = None
    has_scale: bool = False
    texts: TextCorpus | None = None

    @property
    def made(self) -> dict[str, tuple[str, ...]]:
        """The columns that the op makes, now or once they are learned, each with its inputs."""
        return dict.fromkeys((self.name,) if self.texts is None else self.texts.names, self.inputs)

    @property
    def is_list(self) -> bool:
        """True if the values are lists."""
        return self.like is not None and self.like.kind == "list"

    @property
    def column(self) -> Column:
        """The schema entry of the column."""
        if self.texts is not None:
            return Column(self.name, "text", "string", storage="int32", derived=True)
        if self.like is not None:
            return replace(self.like, name=self.name, nullable=True, derived=True)
        return Column(self.name, "numeric", "float", storage="float32", derived=True, has_scale=self.has_scale)


class DerivedOp(FeatureOp):
    """An op whose columns are computed before the split."""

    def resolve(self, rows: HistoryRows) -> DerivedOp:
        """Return the op with its selection resolved to the columns of `rows`, for the model."""
        return self

    @abstractmethod
    def derive(self, sources: DerivationSources) -> Iterable[DerivedColumn]:
        """Yield the new columns for the rows of ``sources.main``."""

    def run(self, sources: DerivationSources) -> Iterable[DerivedColumn]:
        """Return the columns of `derive`; a subclass may compute them in several steps."""
        return self.derive(sources)

    def arrays(self) -> dict[str, HostArray]:
        """Return what the op has learned, by name, for the model."""
        return {}

    def with_arrays(self, arrays: Mapping[str, HostArray]) -> DerivedOp:
        """Return the op with the result of `arrays`; raise ValueError or KeyError if it is malformed."""
        return self

    def made_lists(self) -> tuple[str, ...]:
        """Return the list columns that the op makes, which are not in the input."""
        return ()

    def key_columns(self) -> tuple[str, ...]:
        """Return the columns of the main table that identify the entity of a row; they are not features."""
        return ()

    def raw_columns(self, texts: Sequence[str]) -> tuple[str, ...]:
        """Return the columns of the main table that are needed unencoded; `texts` are those that may contain text."""
        return self.key_columns()

    def apply(self, builder: ProgramBuilder) -> None:
        """Do nothing: the columns are already in the table."""


@dataclass(frozen=True)
class Derivation:
    """The derived columns of a model, and the ops and schemas that compute them when it serves.

    `schema` has the encoded columns of the main table that the ops read, `inputs` all of its columns that they read,
    and `tables` the further tables. `made` has the columns that each derived column is computed from. `texts` are those
    that columns are still to be learned from, by the column with their positions.
    """

    ops: tuple[DerivedOp, ...]
    schema: Schema
    inputs: tuple[str, ...]
    tables: Mapping[str, DerivedTable]
    made: Mapping[str, tuple[str, ...]]
    texts: Mapping[str, TextCorpus] = field(default_factory=dict, repr=False)

    def run(
        self, table: Table, arrow: pa.Table, events: Mapping[str, pa.Table], backend: Backend, as_of: int | None = None
    ) -> Table:
        """Return `table` with the derived columns; see `gpupipe.features.program.fitted.FittedFeatures.encode`.

        `table` is on the device of `backend`. Raise ArtifactError if the schemas lack a column that the ops read: the
        model is corrupt.
        """
        sources = {name: needed.encode(name, events, backend) for name, needed in self.tables.items()}
        main = HistoryRows.of_arrow(table, arrow, "the table")
        try:
            found = derive(self.ops, DerivationSources(main, sources, backend, as_of))[0]
            if absent := next((name for name in self.made if name not in found.schema), None):
                raise ConfigError(f"no op derives {absent!r:.40}")
            return found
        except ConfigError as error:
            raise ArtifactError(
                f"the model cannot compute its derived columns: {error.what}",
                where=error.where or "derivation.json",
                fix="export it again",
            ) from error

    def then(self, later: Derivation) -> Derivation:
        """Return the derivation of the ops of both; `later` is derived from the same sources."""
        moved = {name: replace(texts, op=texts.op + len(self.ops)) for name, texts in later.texts.items()}
        made, texts = {**self.made, **later.made}, {**self.texts, **moved}
        return replace(later, ops=(*self.ops, *later.ops), made=made, texts=texts)


@dataclass(frozen=True)
class DerivedTable:
    """Columns of a further table that a model reads; attributes as in `Derivation` and `EventTable`."""

    schema: Schema
    inputs: tuple[str, ...]
    left: tuple[str, ...]
    right: tuple[str, ...]

    def encode(self, name: str, given: Mapping[str, pa.Table], backend: Backend) -> EventTable:
        """Return the encoded events of the table `name` in `given`.

        Raise ConfigError if `given` has no table of that name, and SchemaError if a column is missing or has another
        kind.
        """
        from gpupipe.table.encode import encode_served

        if name not in given:
            raise ConfigError(
                f"the model requires the table {name!r} with columns {', '.join(self.inputs)}",
                fix=f"pass it with --table {name}=FILE, or tables={{{name!r}: ...}}",
            )
        try:
            table = encode_served(given[name], backend, self.schema)
        except SchemaError as error:
            where = "; ".join(filter(None, [f"table {name!r}", error.where]))
            raise FurtherTableError(error.what, where=where, fix=error.fix, names=error.names) from None
        rows = HistoryRows.of_arrow(table, given[name], f"table {name!r}")
        return EventTable(rows, self.left, self.right)


def join_arrays(parts: Iterable[Mapping[str, HostArray]]) -> dict[str, HostArray]:
    """Return all arrays, each name preceded by the position of its part: ``0_scale``."""
    found = dict[str, HostArray]()
    for i, part in enumerate(parts):
        found |= {f"{i}_{name}": array for name, array in part.items()}
    return found


def arrays_of_part(arrays: Mapping[str, HostArray], position: int) -> dict[str, HostArray]:
    """Return the arrays of a part from the result of `join_arrays`."""
    prefix = f"{position}_"
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}


def derived_ops(ops: Iterable[FeatureOp]) -> tuple[DerivedOp, ...]:
    """Return the ops that run before the split."""
    return tuple(op for op in ops if isinstance(op, DerivedOp))


def key_columns(ops: Iterable[FeatureOp], further: Iterable[str] = ()) -> tuple[str, ...]:
    """Return the key columns of `ops` and the `further` ones, which identify a row and are not features.

    Columns that another op selects by name are excluded.
    """
    ops = tuple(ops)
    keys = dict.fromkeys(chain(further, *(op.key_columns() for op in derived_ops(ops))))
    named = set(chain.from_iterable(op.named_inputs() for op in ops if not isinstance(op, DerivedOp)))
    return tuple(name for name in keys if name not in named)


def derive(
    ops: Sequence[DerivedOp], sources: DerivationSources, places: Sequence[str] = ()
) -> tuple[Table, Derivation]:
    """Run `ops` in order; return the table with the new columns, and the derivation for serving.

    `places` are the positions of the ops in the configuration, for errors: ``features[2].lag``. Raise ConfigError if an
    op does not apply to the columns, or its new column already exists.
    """
    from gpupipe.table.arrange import append

    main = sources.main
    made = dict[str, tuple[str, ...]]()
    texts = dict[str, TextCorpus]()
    kept = []
    for i, op in enumerate(ops):
        columns = {}
        try:
            kept.append(op.resolve(main))
            for column in op.run(sources):
                for name in {column.name, *column.made}:
                    if name in main.table.schema or name in made:
                        what = f"column {name!r} already exists"
                        raise ConfigError(what, fix="set another prefix", names=[name])
                made |= {
                    name: tuple(dict.fromkeys(chain.from_iterable(made.get(each, (each,)) for each in inputs)))
                    for name, inputs in column.made.items()
                }
                if column.texts is not None:
                    texts[column.name] = replace(column.texts, op=i)
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
    return main.table, Derivation(tuple(kept), main.schema, main.read, tables, made, texts)
