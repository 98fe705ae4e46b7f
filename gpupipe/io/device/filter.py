"""Apply the row filter of ``where:`` on a device.

For text, the host's own filter evaluates the distinct values; numbers and times are compared on the device. As on the
host, a comparison with null is null.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
import pyarrow as pa

from gpupipe.backends.base import DeviceBackend
from gpupipe.io.device.obstacles import names_in
from gpupipe.io.filter import filter_rows, time_scalar
from gpupipe.io.filter_expression import COMPARISONS, links, parse_where
from gpupipe.table.device.encode import TextRules
from gpupipe.table.device.frame_columns import (
    DeviceColumn,
    DeviceDictionary,
    DeviceNumbers,
    has_texts,
    text_codes,
)
from gpupipe.table.time_columns import MICROS
from gpupipe.typing import Array

PLACE = "place in the table"  # cannot be a name in an expression


@dataclass(frozen=True)
class _Truth:
    """Masks of the rows for which a condition is true and false, bool, shape (rows,); unknown for other rows."""

    true: Array
    false: Array

    def __and__(self, other: _Truth) -> _Truth:
        return _Truth(self.true & other.true, self.false | other.false)

    def __or__(self, other: _Truth) -> _Truth:
        return _Truth(self.true | other.true, self.false & other.false)

    def __invert__(self) -> _Truth:
        return _Truth(self.false, self.true)


def filter_columns(columns: dict[str, Any], where: str, rules: TextRules, backend: DeviceBackend) -> dict[str, Any]:
    """Return the rows of `columns` (Series, DeviceNumbers or DeviceDictionary) for which the filter is true, in order.

    Text is decoded before filtering; the result has DeviceDictionary columns for it.

    Raise SchemaError as `gpupipe.io.filter.filter_rows`.
    """
    tree, names = parse_where(where)
    if not set(names.values()) <= set(columns):
        filter_rows(pa.table({name: pa.nulls(0) for name in columns}), where)  # raises, with a hint
    known = known_columns(columns, rules, backend)
    truth = _Condition({name: known[real] for name, real in names.items()}, backend).truth(tree)
    rows = backend.xp.flatnonzero(truth.true)
    return {name: _taken(column, rows, backend) for name, column in known.items()}


def known_columns(columns: dict[str, Any], rules: TextRules, backend: DeviceBackend) -> dict[str, DeviceColumn]:
    """Return columns (Series, DeviceNumbers or DeviceDictionary) decoded by the rules."""
    return {name: _known(name, column, rules, backend) for name, column in columns.items()}


def _known(name: str, column: Any, rules: TextRules, backend: DeviceBackend) -> DeviceColumn:
    if isinstance(column, DeviceNumbers | DeviceDictionary):
        return column
    if not has_texts(column):
        return DeviceNumbers.of(column, backend)
    return rules.decode(name, *text_codes(column, backend), backend)


def _taken(column: DeviceColumn, rows: Array, backend: DeviceBackend) -> DeviceColumn:
    if isinstance(column, DeviceNumbers):
        return DeviceNumbers(column.values[rows], column.valid[rows], column.type)
    return DeviceDictionary(column.codes[rows], column.values).trim(backend)


class _Condition:
    """Evaluator of a checked expression per row; `columns` are the columns of its names."""

    def __init__(self, columns: dict[str, DeviceColumn], backend: DeviceBackend) -> None:
        self.columns, self.backend = columns, backend

    def truth(self, node: ast.expr) -> _Truth:
        if isinstance(node, ast.BoolOp):
            truths = [self.truth(value) for value in node.values]
            return reduce(_Truth.__and__ if isinstance(node.op, ast.And) else _Truth.__or__, truths)
        if isinstance(node, ast.UnaryOp):
            return ~self.truth(node.operand)
        (name,) = names_in(node)
        column = self.columns[name]
        return (
            self._of_numbers(node, name, column)
            if isinstance(column, DeviceNumbers)
            else self._of_codes(node, name, column)
        )

    def _of_codes(self, node: ast.expr, name: str, coded: DeviceDictionary) -> _Truth:
        values = pa.concat_arrays([coded.values, pa.nulls(1, coded.values.type)])  # selected by code -1
        tables = [self.backend.to_device(table) for table in _truth_of_values(node, name, values)]
        return _Truth(*(self.backend.xp.take(table, coded.codes) for table in tables))

    def _of_numbers(self, node: ast.expr, name: str, numbers: DeviceNumbers) -> _Truth:
        _truth_of_values(node, name, numbers.summary().combine_chunks())  # raises an error if types do not match
        if isinstance(node, ast.Name):
            return _compared(numbers, lambda values: values == 1)
        assert isinstance(node, ast.Compare)
        return reduce(_Truth.__and__, (self._link(numbers, *link) for link in links(node)))

    def _link(self, numbers: DeviceNumbers, left: ast.expr, operator: ast.cmpop, right: ast.expr) -> _Truth:
        if isinstance(operator, ast.Is | ast.IsNot):
            null = _Truth(~numbers.valid, numbers.valid)
            return null if isinstance(operator, ast.Is) else ~null
        if isinstance(operator, ast.In | ast.NotIn):
            assert isinstance(right, ast.List | ast.Tuple | ast.Set)
            found = reduce(_Truth.__or__, (self._link(numbers, left, ast.Eq(), item) for item in right.elts))
            return found if isinstance(operator, ast.In) else ~found
        compare = getattr(self.backend.xp, COMPARISONS[type(operator)])
        if isinstance(left, ast.Name):
            literal = _literal(right, numbers.type)
            return _compared(numbers, lambda values: compare(values, literal))
        literal = _literal(left, numbers.type)
        return _compared(numbers, lambda values: compare(literal, values))


def _compared(numbers: DeviceNumbers, compare: Callable[[Array], Array]) -> _Truth:
    # As in Arrow: float32 is compared as float64, and literals may exceed narrow integer types.
    result = compare(numbers.values.astype("float64" if numbers.values.dtype.kind == "f" else "int64"))
    return _Truth(numbers.valid & result, numbers.valid & ~result)


def _literal(node: ast.expr, kind: pa.DataType) -> Any:
    value = ast.literal_eval(node)
    if pa.types.is_timestamp(kind):
        return time_scalar(value, MICROS).value
    if isinstance(value, int) and not -(2**63) <= value < 2**63:  # no integer of an array module
        return math.copysign(math.inf, value) if pa.types.is_integer(kind) else float(value)
    return value


def _truth_of_values(node: ast.expr, name: str, values: pa.Array) -> tuple[Any, Any]:
    """Return masks of the values of a column for which the host's filter finds a condition true, and false."""
    table = pa.table({name: values, PLACE: np.arange(len(values))})
    found = []
    for text in (ast.unparse(node), f"not ({ast.unparse(node)})"):
        mask = np.zeros(len(values), bool)
        mask[filter_rows(table, text)[PLACE].to_numpy()] = True
        found.append(mask)
    return found[0], found[1]
