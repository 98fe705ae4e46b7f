"""Raw columns as inputs of an ONNX graph, and their encoding as cells: the rules of `gpupipe.table.cell_encoders`.

Each column is one input, shape (rows, 1). Numbers are float64, and NaN is missing; so are columns of numbers that are
categories or flags, except categories above 2^53, whose last digits float64 does not have. These and texts are strings
without surrounding blanks, which ONNX has no operator to remove; the texts that mean a missing value in files mean it
here too. Times are int64 microseconds since 1970-01-01 UTC, and the smallest int64 is missing: the memory of NumPy's
``datetime64[us]``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from gpupipe.errors import SchemaError
from gpupipe.inference.onnx.graph import ML, OnnxGraph
from gpupipe.inference.onnx.instructions import CellMatrix
from gpupipe.inference.targets.columns import as_number, number_codes, takes_numbers
from gpupipe.table.level_text import NULL_TEXTS, LevelLookup
from gpupipe.table.schema import BOOLEAN_WORDS, FIRST_LEVEL, LARGEST, NAT, NULL, UNSEEN, Column
from gpupipe_kernels.program.program import block_id
from gpupipe_kernels.rows.records import CODE, DOUBLE, KIND_OF_BLOCK, SINGLE, TIME

if TYPE_CHECKING:
    import pyarrow as pa

    from gpupipe.typing import HostArray

InputType = Literal["string", "float64", "int64"]

MOST_SHARED = 256  # codes of a column that is looked up with others
# Python's blanks, written out: the engines of runtimes differ in what \s is.
BLANK = "[\t-\r\x1c-\x20\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]*"
NULL_PATTERN = f"{BLANK}({'|'.join(map(re.escape, sorted(NULL_TEXTS)))}){BLANK}"


@dataclass(frozen=True)
class OnnxInput:
    """An input of the file."""

    column: Column
    type: InputType

    @staticmethod
    def of(column: Column) -> OnnxInput:
        """Return the input of a column."""
        if column.kind == "datetime":
            return OnnxInput(column, "int64")
        return OnnxInput(column, "float64" if takes_numbers(column) else "string")

    def describe(self) -> dict[str, Any]:
        """Return the input as JSON values, for the metadata of the file."""
        missing = {"string": "", "float64": "NaN", "int64": str(NAT)}[self.type]
        blanks = {"blanks": "strip"} if self.type == "string" and self.column.has_normal_form else {}
        unit = {"unit": "microseconds since 1970-01-01 UTC"} if self.type == "int64" else {}
        return {
            "name": self.column.source,
            "kind": self.column.kind,
            "type": self.type,
            "missing": missing,
            **unit,
            **blanks,
        }

    def feed(self, values: pa.ChunkedArray) -> HostArray:
        """Return a column of a table as the array that a runtime takes, shape (rows, 1).

        Raise SchemaError if the column holds values of another type.
        """
        import pyarrow as pa

        from gpupipe.table.exact_values import is_number
        from gpupipe.table.string_columns import as_dictionary
        from gpupipe.table.time_columns import as_times

        found: HostArray
        try:
            if self.type == "string":
                texts = as_dictionary(values).cast(pa.string()).fill_null("").to_pylist()
                if is_number(values.type):
                    code_of, levels = LevelLookup(self.column).of_number, self.column.levels or ()
                    found_codes = zip(texts, map(code_of, texts), strict=True)
                    texts = [text if code is None else levels[code - FIRST_LEVEL] for text, code in found_codes]
                found = np.array([text.strip() if self.column.has_normal_form else text for text in texts], object)
            elif self.type == "int64":
                moments = as_times(self.column.source, values, self.column.time_format).cast(pa.int64())
                found = moments.fill_null(NAT).to_numpy()
            else:
                plain = values.cast(pa.float64(), safe=False) if not pa.types.is_string(values.type) else values
                found = np.array([as_number(self.column, value) for value in plain.to_pylist()], np.float64)
        except (pa.ArrowException, ValueError, TypeError):
            what = f"column {self.column.source!r} has the type {values.type}; the file takes {self.type}"
            raise SchemaError(what, fix="convert the column") from None
        return found.reshape(-1, 1)


def write_inputs(
    graph: OnnxGraph, schema: Sequence[Column], positions: Mapping[tuple[int, int], int], places: Mapping[str, Any]
) -> tuple[list[OnnxInput], list[CellMatrix | None]]:
    """Add an input for each column of a schema, and encode it; return the inputs and the cells.

    The cells are by kind, as `gpupipe.inference.onnx.instructions.write_program` takes them.

    - `schema`: the columns that the program reads; none is derived, hashed or a text
    - `positions`: position of each column among the cells of its kind
    - `places`: block name and row of each column
    """
    inputs = [OnnxInput.of(column) for column in schema]
    kinds: dict[int, dict[int, OnnxInput]] = {SINGLE: {}, DOUBLE: {}, TIME: {}, CODE: {}}
    for each in inputs:
        block, row = places[each.column.name]
        kinds[KIND_OF_BLOCK[block_id(block)]][positions[block_id(block), row]] = each
    of_kind = {kind: [each for _, each in sorted(found.items())] for kind, found in kinds.items()}
    tensors = {each.column.name: graph.input(each.column.source, _data_type(each.type)) for each in inputs}

    def joined(found: Sequence[OnnxInput]) -> str:
        return graph.join([tensors[each.column.name] for each in found])

    cells: list[CellMatrix | None] = [None] * 4
    if numbers := of_kind[SINGLE]:
        cells[SINGLE] = CellMatrix(graph.cast(_within(graph, joined(numbers)), np.float32), len(numbers))
    if numbers := of_kind[DOUBLE]:
        cells[DOUBLE] = CellMatrix(_within(graph, joined(numbers)), len(numbers))
    if times := of_kind[TIME]:
        cells[TIME] = CellMatrix(joined(times), len(times))
    if coded := of_kind[CODE]:
        cells[CODE] = CellMatrix(_codes(graph, coded, tensors), len(coded))
    return inputs, cells


def _data_type(kind: InputType) -> int:
    from onnx import TensorProto

    return int({"string": TensorProto.STRING, "float64": TensorProto.DOUBLE, "int64": TensorProto.INT64}[kind])


def _within(graph: OnnxGraph, x: str) -> str:
    """Return float64 numbers, NaN where they are infinite or too large."""
    is_usable = graph.add("LessOrEqual", graph.add("Abs", x), graph.constant(LARGEST, np.float64))
    return graph.where(is_usable, x, graph.constant(math.nan, np.float64))


def _codes(graph: OnnxGraph, coded: Sequence[OnnxInput], tensors: Mapping[str, str]) -> str:
    """Return the codes of categories and flags, int64."""
    parts: list[str] = []
    order: list[str] = []
    for each in coded:
        x, column = tensors[each.column.name], each.column
        if each.type == "float64" or column.kind == "boolean":
            parts.append((_code_of_number if each.type == "float64" else _code_of_word)(graph, column, x))
            order.append(column.name)
    texts = [each.column for each in coded if each.column.name not in order]
    if texts:
        texts.sort(key=lambda column: column.n_codes > MOST_SHARED)
        n_shared = sum(column.n_codes <= MOST_SHARED for column in texts)
        joined = graph.join([tensors[column.name] for column in texts])
        found = (
            [
                _codes_of_shared(
                    graph, graph.join([tensors[column.name] for column in texts[:n_shared]]), texts[:n_shared]
                )
            ]
            if n_shared
            else []
        )
        found += [
            _lookup(graph, tensors[column.name], list(LevelLookup(column).spellings().items()), UNSEEN)
            for column in texts[n_shared:]
        ]
        is_null = graph.add("RegexFullMatch", joined, pattern=NULL_PATTERN)
        parts.append(graph.where(is_null, graph.constant(NULL, np.int64), graph.join(found)))
        order += [column.name for column in texts]
    return graph.select(graph.join(parts), [order.index(each.column.name) for each in coded], len(coded))


def _codes_of_shared(graph: OnnxGraph, texts: str, columns: Sequence[Column]) -> str:
    """Return the codes of the levels in several columns, by the levels of all: one node instead of one for each."""
    of_column = [LevelLookup(column).spellings() for column in columns]
    levels = list(dict.fromkeys(chain.from_iterable(of_column))) or [""]
    table = [[codes.get(level, UNSEEN) for codes in of_column] for level in levels] + [[UNSEEN] * len(columns)]
    row = _lookup(graph, texts, [(level, i) for i, level in enumerate(levels)], len(levels))
    row = graph.add("Mul", row, graph.constant(len(columns), np.int64))
    place = graph.add("Add", row, graph.constant(np.arange(len(columns)), np.int64))
    return graph.add("Gather", graph.constant(np.array(table, np.int64).reshape(-1)), place)


def _code_of_number(graph: OnnxGraph, column: Column, x: str) -> str:
    """Return the codes of numbers; flags that are neither 0 nor 1 are missing."""
    codes, other = number_codes(column)
    if column.kind == "categorical" and column.dtype == "float":
        x = graph.cast(graph.cast(x, np.float32), np.float64)
    is_missing, null = graph.add("IsNaN", x), graph.constant(NULL, np.int64)
    if not codes:
        return graph.where(is_missing, null, graph.constant(other, np.int64))
    known = graph.where(is_missing, graph.constant(0.0, np.float64), x)
    return graph.where(is_missing, null, _lookup(graph, known, list(codes.items()), other))


def _code_of_word(graph: OnnxGraph, column: Column, x: str) -> str:
    """Return the codes of boolean words; other texts are missing."""
    code = graph.constant(NULL, np.int64)
    for flag in (0, 1):
        words = "|".join(word for word, own in BOOLEAN_WORDS.items() if own == flag)
        is_word = graph.add("RegexFullMatch", x, pattern=rf"(?i){BLANK}({words}|{flag}\.0){BLANK}")
        code = graph.where(is_word, graph.constant(FIRST_LEVEL + flag, np.int64), code)
    return code


def _lookup(graph: OnnxGraph, x: str, codes: Sequence[tuple[Any, int]], other: int) -> str:
    """Return the codes of texts or numbers, `other` for those without one."""
    from onnx import numpy_helper

    keys = [key for key, _ in codes]
    tensors = {
        "keys_tensor": np.array(keys, np.float64 if isinstance(keys[0], float) else object),
        "values_tensor": np.array([code for _, code in codes], np.int64),
        "default_tensor": np.array([other]),
    }
    attributes = {name: numpy_helper.from_array(values, name) for name, values in tensors.items()}
    return graph.add("LabelEncoder", x, domain=ML, **attributes)
