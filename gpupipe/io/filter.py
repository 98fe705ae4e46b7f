"""Apply the row filter of ``where:`` to a table."""

from __future__ import annotations

import ast
import math
from collections.abc import Sequence
from contextlib import suppress
from decimal import Decimal
from functools import reduce
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gpupipe.errors import SchemaError, did_you_mean
from gpupipe.io.filter_expression import COMPARISONS, links, parse_where
from gpupipe.io.missing_values import TEXT, relabel
from gpupipe.table.exact_texts import MOST_DIGITS
from gpupipe.table.exact_values import is_number, wider_number
from gpupipe.table.string_columns import without_zone
from gpupipe.table.time_columns import MICROS, is_text
from gpupipe.units import parse_time_us


def filter_rows(table: pa.Table, text: str) -> pa.Table:
    """Return the rows of `table` for which the filter `text` is true, in order.

    Dictionaries keep only levels that occur in the result. Otherwise the levels would depend on how the file was split
    into chunks, because Arrow drops chunks without rows. Raise ConfigError if the filter cannot be parsed; SchemaError
    if it names a missing column, or compares a column with a value of another type.
    """
    tree, names = parse_where(text)
    for name in names.values():
        require_column(table.column_names, name, f"where: {text}")
    kept = table.filter(_Filter(table, names, text).mask(tree))
    return pa.table([_with_used_levels(column) for column in kept.columns], names=kept.column_names)


def require_column(names: Sequence[str], name: str, where: str) -> str:
    """Return `name`; raise SchemaError if it is not one of the columns `names` of the table described by `where`."""
    if name not in names:
        hint = did_you_mean(name, names) or f"the columns are {', '.join(names[:20])}"
        raise SchemaError(f"there is no column {name!r}", where=where, fix=hint, names=[name])
    return name


def _with_used_levels(column: pa.ChunkedArray) -> pa.ChunkedArray:
    if column.type != TEXT:
        return column
    chunks = []
    for chunk in column.chunks:
        is_used = pc.is_in(pa.array(np.arange(len(chunk.dictionary), dtype="int32")), value_set=chunk.indices.unique())
        used = pc.if_else(is_used, chunk.dictionary, pa.scalar(None, pa.string()))
        chunks.append(chunk if pc.all(is_used).as_py() else relabel(chunk, used))
    return pa.chunked_array(chunks, TEXT)


class _Filter:
    """Evaluator of a checked expression over the columns of a table; results are boolean, null for unknown."""

    def __init__(self, table: pa.Table, names: dict[str, str], text: str) -> None:
        self.table = table
        self.names = names
        self.text = text

    def mask(self, node: ast.expr) -> pa.ChunkedArray:
        if isinstance(node, ast.BoolOp):
            masks = [self.mask(value) for value in node.values]
            return reduce(pc.and_kleene if isinstance(node.op, ast.And) else pc.or_kleene, masks)
        if isinstance(node, ast.UnaryOp):
            return pc.invert(self.mask(node.operand))
        if isinstance(node, ast.Compare):
            return reduce(pc.and_kleene, [self.link(*link) for link in links(node)])
        column = self.operand(node)
        if not pa.types.is_boolean(column.type):
            raise SchemaError(f"where: {ast.unparse(node)} is {_type_name(column)}, not a condition", where=self.text)
        return column

    def link(self, left: ast.expr, operator: ast.cmpop, right: ast.expr) -> pa.ChunkedArray:
        if isinstance(operator, ast.Is):
            return pc.is_null(self.operand(left), nan_is_null=True)
        if isinstance(operator, ast.IsNot):
            return pc.invert(pc.is_null(self.operand(left), nan_is_null=True))
        if isinstance(operator, ast.In | ast.NotIn):
            assert isinstance(right, ast.List | ast.Tuple | ast.Set)
            found = reduce(pc.or_kleene, [self.compare(left, ast.Eq(), item) for item in right.elts])
            return found if isinstance(operator, ast.In) else pc.invert(found)
        return self.compare(left, operator, right)

    def compare(self, left: ast.expr, operator: ast.cmpop, right: ast.expr) -> pa.ChunkedArray:
        first, second = self.operand(left), self.operand(right)
        try:
            first, second = _parsed_if_time(first, second), _parsed_if_time(second, first)
            if is_text(first.type) != is_text(second.type):  # Arrow would compare 3 with "3"
                raise TypeError
            result = compare(COMPARISONS[type(operator)], first, second)
        except (pa.ArrowException, ValueError, TypeError):
            raise SchemaError(
                f"where: {ast.unparse(left)} ({_type_name(first)}) and {ast.unparse(right)} ({_type_name(second)}) "
                "cannot be compared",
                where=self.text,
                fix="quote text, not numbers; write times as '2020-01-31' or '2020-01-31 12:00:00'",
            ) from None
        # NaN is a missing value too; without this, != would be true for it.
        return pc.if_else(pc.or_(_is_nan(first), _is_nan(second)), pa.scalar(None, pa.bool_()), result)

    def operand(self, node: ast.expr) -> pa.ChunkedArray | pa.Scalar:
        if isinstance(node, ast.Name):
            return without_zone(self.table.column(self.table.column_names.index(self.names[node.id])))
        value = ast.literal_eval(node)
        try:
            return number_scalar(value)
        except OverflowError:
            raise SchemaError(
                f"where: expected a number of at most {MOST_DIGITS} digits; found one of {len(str(abs(value))):,}",
                where=self.text,
                fix="compare with a smaller number",
            ) from None


def _parsed_if_time(value: pa.ChunkedArray | pa.Scalar, other: pa.ChunkedArray | pa.Scalar) -> pa.Scalar:
    if not (isinstance(value, pa.StringScalar) and pa.types.is_timestamp(other.type)):
        return value
    return time_scalar(value.as_py(), other.type)


def time_scalar(text: str, kind: pa.DataType) -> pa.Scalar:
    """Return an ISO time as a timestamp scalar of this type; a time without a zone is in UTC."""
    return pa.scalar(parse_time_us(text), pa.int64()).cast(MICROS).cast(kind)


def _is_nan(value: pa.ChunkedArray | pa.Scalar) -> pa.ChunkedArray | pa.Scalar:
    return pc.is_nan(value) if pa.types.is_floating(value.type) else pa.scalar(False)


def _type_name(value: pa.ChunkedArray | pa.Scalar) -> str:
    return "text" if is_text(value.type) else str(value.type)


FLIPPED = {"less": "greater", "less_equal": "greater_equal", "greater": "less", "greater_equal": "less_equal"}
# For a value between two float64 numbers, with the lower one, and with the upper one.
ABOVE = {"less": "less_equal", "less_equal": "less_equal", "greater": "greater", "greater_equal": "greater"}
BELOW = {"less": "less", "less_equal": "less", "greater": "greater_equal", "greater_equal": "greater_equal"}


def number_scalar(value: Any) -> pa.Scalar:
    """Return a value of a filter as an Arrow scalar; integers outside int64 are decimals.

    Raise OverflowError if an integer has more than 76 digits.
    """
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        if abs(value) >= 10**MOST_DIGITS:
            raise OverflowError
        return pa.scalar(Decimal(value))
    return pa.scalar(value)


def compare(function: str, first: pa.ChunkedArray | pa.Scalar, second: pa.ChunkedArray | pa.Scalar) -> pa.ChunkedArray:
    """Return the result of a comparison function of Arrow; numbers of different types are compared exactly.

    A fraction in a filter means the decimal that is written, so that 0.1 equals the decimal 0.1. Raise
    pyarrow.ArrowException if the types cannot be compared.
    """
    a, b = first.type, second.type
    if a == b or not (is_number(a) and is_number(b)):
        return pc.call_function(function, [first, second])
    if isinstance(first, pa.Scalar):
        return compare(FLIPPED.get(function, function), second, first)
    if isinstance(second, pa.Scalar):
        if pa.types.is_floating(a):
            return _with_float_column(function, first, second.as_py())
        if pa.types.is_floating(b) and math.isfinite(second.as_py()):
            with suppress(pa.ArrowInvalid):  # more digits than a decimal has
                second = pa.scalar(Decimal(repr(second.as_py())))
    common = wider_number(a, second.type) or pa.float64()
    is_exact = not pa.types.is_floating(common)
    return pc.call_function(function, [_cast(first, common, is_exact), _cast(second, common, is_exact)])


def _cast(values: pa.ChunkedArray | pa.Scalar, kind: pa.DataType, is_exact: bool) -> Any:
    if isinstance(values, pa.Scalar):
        return pa.array([values.as_py()]).cast(kind, safe=is_exact)[0]
    return values.cast(kind, safe=is_exact)


def _with_float_column(function: str, column: pa.ChunkedArray, value: Any) -> pa.ChunkedArray:
    """Compare a column of floats with a number that is possibly not a float."""
    try:
        number = float(value)
    except OverflowError:
        number = math.copysign(math.inf, value)
    if number != value:
        if function not in ABOVE:
            number = math.nan  # equal to no value
        else:
            function = (ABOVE if value > number else BELOW)[function]
    return pc.call_function(function, [column.cast(pa.float64()), pa.scalar(number)])
