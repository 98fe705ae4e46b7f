"""Row steps of an event table after reading: ``compute:``, ``where:`` and ``group_by:``.

An exported model stores these steps and applies them to the tables it scores, so features are computed from the same
kind of events in training and serving.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gpupipe.errors import SchemaError
from gpupipe.io.compute_formula import OPERATORS, formula_columns, parse_formula
from gpupipe.io.event_settings import ROWS, GroupBy
from gpupipe.io.filter import filter_rows, require_column
from gpupipe.io.filter_expression import columns_of
from gpupipe.io.missing_values import TEXT
from gpupipe.io.settings import JoinedTable, TableSource
from gpupipe.table.exact_values import is_number
from gpupipe.table.schema import DeclaredColumn
from gpupipe.table.time_columns import as_times, is_text

ARROW_NAMES = {"nunique": "count_distinct"}
ROW = "#row"  # without the prefix "=" of aggregated columns, so the names cannot collide


def raw_columns(source: TableSource, names: Sequence[str] = ()) -> tuple[str, ...]:
    """Return the file columns that the steps of a table and its result columns `names` are computed from."""
    made: dict[str, tuple[str, ...]] = {}
    needed = list(columns_of(source.where))
    if isinstance(source, JoinedTable):
        made = {name: formula_columns(text) for name, text in source.compute.items()}
        if source.group_by is not None:
            needed += source.group_by.inputs
            names = [name for name in names if name not in source.group_by.made()]
    needed += names
    # A formula may use the result of an earlier one.
    for name in reversed(made):
        if name in needed:
            needed += made[name]
    return tuple(dict.fromkeys(name for name in needed if name not in made or name in made[name]))


def apply_steps(table: pa.Table, source: TableSource) -> pa.Table:
    """Return a table after its compute, filter and group steps.

    Raise SchemaError if a column is missing or does not have the type that a step needs.
    """
    if isinstance(source, JoinedTable):
        for name, text in source.compute.items():
            table = with_column(table, name, _evaluated(table, text))
    if source.where and table.num_rows:  # columns without rows have no types to compare
        table = filter_rows(table, source.where)
    if isinstance(source, JoinedTable) and source.group_by is not None:
        table = _grouped(table, source.group_by, source.declarations())
    return table


def with_column(table: pa.Table, name: str, column: pa.ChunkedArray) -> pa.Table:
    """Return a table with a column added, or replaced if it has one of that name."""
    if name in table.column_names:
        return table.set_column(table.column_names.index(name), name, column)
    return table.append_column(name, column)


def _evaluated(table: pa.Table, text: str) -> pa.ChunkedArray:
    tree, names = parse_formula(text)
    columns = {stand_in: _number(table, name, text) for stand_in, name in names.items()}

    def value(node: ast.expr) -> pa.ChunkedArray | pa.Scalar:
        if isinstance(node, ast.BinOp):
            return pc.call_function(OPERATORS[type(node.op)], [value(node.left), value(node.right)])
        if isinstance(node, ast.UnaryOp):
            return pc.negate(value(node.operand)) if isinstance(node.op, ast.USub) else value(node.operand)
        if isinstance(node, ast.Name):
            return columns[node.id]
        return pa.scalar(float(ast.literal_eval(node)))

    return value(tree)


def _number(table: pa.Table, name: str, text: str) -> pa.ChunkedArray:
    column = table.column(require_column(table.column_names, name, f"compute: {text}"))
    return as_floats(column, name, f"compute: {text}")


def as_floats(column: pa.ChunkedArray, name: str, where: str) -> pa.ChunkedArray:
    """Return a numeric or boolean column as float64.

    Raise SchemaError if the column has another type.
    """
    kind = column.type
    if pa.types.is_boolean(kind):
        return column.cast(pa.int8()).cast(pa.float64())
    if not len(column) or is_number(kind) or pa.types.is_null(kind):
        return column.cast(pa.float64(), safe=False) if len(column) else pa.chunked_array([], pa.float64())
    found = "text" if is_text(kind) else str(kind)
    raise SchemaError(
        f"column {name!r}: expected numbers, found {found}", where=where, fix="use a numeric column", names=[name]
    )


def times_of(table: pa.Table, name: str, declared: DeclaredColumn | None, where: str) -> pa.ChunkedArray:
    """Return a column of times as timestamp[us] in UTC; texts have the declared format, else they are ISO 8601.

    Raise SchemaError if the column is missing, or does not contain times.
    """
    column = table.column(require_column(table.column_names, name, where))
    return as_times(name, column, declared.time_format if declared else None)


def _grouped(table: pa.Table, by: GroupBy, declared: dict[str, DeclaredColumn]) -> pa.Table:
    """Return one row per group, in the order in which the groups first appear."""
    for name in by.inputs:
        require_column(table.column_names, name, "group_by")
    made = by.made()
    if not table.num_rows:
        return pa.table({name: pa.chunked_array([], TEXT) for name in (*by.keys, *made)})
    columns = {name: decode_dictionary(table.column(name)) for name in by.keys}
    columns |= {f"={source}": _values(table, source, by, declared) for source in by.columns if source != ROWS}
    aggregations = [
        ([], "count_all") if source == ROWS else (f"={source}", ARROW_NAMES.get(function, function))
        for source, function in made.values()
    ]
    columns[ROW] = pa.chunked_array([np.arange(table.num_rows)])
    # One thread: first, last and float sums depend on the row order. Arrow does not define the order of the groups.
    grouped = pa.table(columns).group_by(list(by.keys), use_threads=False)
    found = grouped.aggregate([*aggregations, (ROW, "min")]).sort_by(f"{ROW}_min")
    names = ["count_all" if source == [] else f"{source}_{function}" for source, function in aggregations]
    result = {name: found.column(name) for name in by.keys}
    result |= {name: found.column(arrow_name) for name, arrow_name in zip(made, names, strict=True)}
    return pa.table({name: _coded(column) for name, column in result.items()})


def _values(table: pa.Table, name: str, by: GroupBy, declared: dict[str, DeclaredColumn]) -> pa.ChunkedArray:
    column = table.column(name)
    functions = by.columns[name]
    stated = declared.get(name)
    if stated is not None and stated.kind == "datetime":
        return times_of(table, name, stated, "group_by")
    if is_text(column.type) and any(function in ("min", "max") for function in functions):
        return times_of(table, name, stated, "group_by")
    if any(function in ("sum", "mean") for function in functions):
        return as_floats(column, name, "group_by")
    return decode_dictionary(column)


def decode_dictionary(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return a column without dictionary encoding."""
    return column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column


def _coded(column: pa.ChunkedArray) -> pa.ChunkedArray:
    return column.dictionary_encode().cast(TEXT) if is_text(column.type) else column
