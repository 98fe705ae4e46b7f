"""Derived columns of single rows: features of texts and lists, and values of a history."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from gpupipe.errors import ConfigError
from gpupipe.table.schema import FIRST_LEVEL, NULL, UNSEEN_TEXT, Column

if TYPE_CHECKING:
    from gpupipe.backends.base import Backend
    from gpupipe.features.history.derivation import Derivation
    from gpupipe.features.ops.distinct_text_op import TextOp
    from gpupipe.features.ops.items_op import ListFeature, ListOp
    from gpupipe.inference.model import Model
    from gpupipe.typing import HostArray
    from gpupipe_kernels.engines import HostEngine


@dataclass(frozen=True)
class TextDeriver:
    """The columns that a text op computes from one input column.

    `name` is the input column. `backend` is the host, with the engine of the scorer. If `strip`, texts are stripped.
    """

    op: TextOp
    name: str
    backend: Backend
    strip: bool

    @property
    def source(self) -> Column:
        """The input column."""
        return Column(self.name, "text", "string", has_normal_form=self.strip)

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """Names of the derived columns."""
        return tuple(f"{self.op.prefix}{self.name}_{name}" for name in self.op.column_names())

    def values(self, texts: Sequence[str | None]) -> HostArray:
        """Return the values of the derived columns, float32, shape (len(columns), len(texts))."""
        import pyarrow as pa

        given = pa.array(["" if text is None else text for text in texts], pa.string())
        values = self.backend.to_host(self.op.values(given, self.name, self.backend))
        for i, text in enumerate(texts):
            if text is None:
                values[:, i] = self.op.NULL
        return values


@dataclass(frozen=True)
class ListDeriver:
    """The columns that a list op computes from one list column, `source`, which may be a list of a history."""

    op: ListOp
    source: Column

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """Names of the derived columns."""
        return tuple(f"{self.op.prefix}{name}" for name in self.op.names(self.source.name, self.source.item_kind))

    def values(self, cells: Sequence[list[Any] | None]) -> list[HostArray | list[str | None]]:
        """Return the values of the derived columns: float32, or levels, None where null."""
        import pyarrow as pa

        from gpupipe.table.list_columns import LAYOUTS, Lists, lists_array

        kind = self.source.item_kind
        lists = Lists.of(pa.chunked_array([lists_array(cells, kind)], LAYOUTS[kind]))
        return [_own_values(feature) for feature in self.op.features(lists, self.source.name)]


def _own_values(feature: ListFeature) -> HostArray | list[str | None]:
    if (levels := feature.levels) is None:
        return feature.values
    return [levels[i] if i >= 0 else None for i in feature.values.tolist()]


def content_derivers(
    derivation: Derivation | None, engine: HostEngine, strip: bool
) -> tuple[TextDeriver | ListDeriver, ...]:
    """Return what computes the features of texts and lists of a model.

    Raise ConfigError if there are any, and pyarrow is not installed.
    """
    from gpupipe.backends import DeviceOptions, choose
    from gpupipe.features.ops.content_op import ContentOp
    from gpupipe.features.ops.distinct_text_op import TextOp
    from gpupipe.features.ops.items_op import ListOp
    from gpupipe.features.ops.last_events import made_lists

    ops = [op for op in derivation.ops if isinstance(op, ContentOp)] if derivation is not None else []
    if derivation is None or not ops:
        return ()
    try:
        import pyarrow  # noqa: F401
    except ImportError:
        what = "the model computes features of texts or lists, which needs pyarrow"
        raise ConfigError(what, fix="pip install pyarrow") from None
    host = choose("cpu", DeviceOptions(engine=engine))
    derivers: list[TextDeriver | ListDeriver] = []
    lists = {column.name: column for column in (*derivation.schema, *made_lists(derivation))}
    for op in ops:
        if isinstance(op, TextOp):
            derivers += [TextDeriver(op, name, host, strip) for name in op.listed()]
        elif isinstance(op, ListOp):
            derivers += [ListDeriver(op, lists[name]) for name in op.listed()]
    return tuple(derivers)


def derive_history(
    model: Model, inputs: Sequence[str], rows: Sequence[Mapping[str, Any]], tables: Any, as_of: Any
) -> list[dict[str, Any]]:
    """Return rows with the `inputs` of a scorer that a model derives from a history.

    `rows`, `tables` and `as_of` are as `gpupipe.Model.predict` takes them. Raise GpupipeError as
    `gpupipe.Model.predict`.
    """
    from gpupipe.inference.prediction.rows import rows_to_predict

    given = rows_to_predict(model, list(rows), tables, as_of)
    table = model.features.encode(given.arrow, model.backend, given.events, given.as_of)
    found = [dict(row) for row in rows]
    for name in inputs:
        if name in table.schema and table.schema[name].derived:
            column = table.schema[name]
            if column.kind == "list":
                values = table.texts[name].to_pylist()
            else:
                values = _raw_values(column, model.backend.to_host(table.column(name)).tolist())
        elif name in given.arrow.column_names and not all(name in row for row in rows):  # the cut-off
            values = given.arrow.column(name).to_pylist()
        else:
            continue
        for row, value in zip(found, values, strict=True):
            row[name] = value
    return found


def _raw_values(column: Column, cells: list[Any]) -> list[Any]:
    """Return raw values that are encoded to the given cells."""
    if not column.n_codes:
        return [None if value != value else value for value in cells]
    levels = column.levels or ()
    return [
        levels[code - FIRST_LEVEL] if code >= FIRST_LEVEL else None if code == NULL else UNSEEN_TEXT for code in cells
    ]
