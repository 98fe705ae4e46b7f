"""Arrow streams as bodies. Imports pyarrow, so it is imported when the first such body arrives.

These bodies are untrusted. A stream can describe gigabytes in a few bytes: compressed buffers, and types whose rows
share or repeat values. So the head of each message is read before Arrow decodes it, and only plain types are accepted.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from gpupipe.inference.prediction.prediction_table import label_kind
from gpupipe.inference.scorer.outputs import Output
from gpupipe.io.arrow_types import UnusableColumn, plain_column
from gpupipe.serve.coalescer import Columns
from gpupipe.serve.explanations import explained_outputs
from gpupipe.serve.problems import RequestProblem
from gpupipe.serve.request_rows import Explanations, require_rows, rows_of
from gpupipe.serve.served_model import ServedModel
from gpupipe.table.list_columns import is_list

WORK_A_BATCH, WORK_A_ROW = 100, 10  # in levels: what a batch costs, and what a row may cost
RECORD_BATCH = 3  # of the union MessageHeader in Arrow's Message.fbs
DICTIONARY_BATCH = 2
TYPES = {"text": pa.string(), "boolean": pa.bool_(), "integer": pa.int64(), "number": pa.float64()}


def read_arrow(body: bytes, model: ServedModel, max_rows: int) -> list[Mapping[str, Any]]:
    """Return the rows of an Arrow IPC stream, with those of its columns that the model reads or has rules for.

    Raise RequestProblem if the stream is malformed or compressed, has more than `max_rows` rows, or a column of another
    type than numbers, booleans, strings, dates and times, or no rows and not all columns.
    """
    try:
        _require_plain(body, max_rows)
        table = pa.ipc.open_stream(body).read_all()
        table.validate(full=True)
    except (
        pa.ArrowException,
        OSError,
        ValueError,
        struct.error,
        IndexError,
    ) as error:  # ValueError: names not in UTF-8
        raise RequestProblem("invalid_request", "the body is not a valid Arrow stream") from error
    require_rows(table.num_rows, max_rows)
    names = table.column_names
    inputs = dict.fromkeys((*model.scorer.inputs, *(rule.column for rule in model.scorer.rules)))
    wanted = [name for name in inputs if names.count(name) == 1]
    if repeated := [name for name in inputs if names.count(name) > 1]:
        raise RequestProblem("invalid_request", f"the column {repeated[0]!r} occurs more than once")
    if not wanted and table.num_rows:
        return [{} for _ in range(table.num_rows)]
    kinds = {column.source: column.kind for column in model.scorer.columns}
    return rows_of({name: _values(name, table[name], kinds.get(name, "")) for name in wanted}, model)


def encode_arrow(model: ServedModel, columns: Columns, explanations: Explanations) -> bytes:
    """Return the outputs as an Arrow IPC stream of one batch, with the types of ``gpupipe predict``.

    Explanations are structs without the values that were sent, which differ in type.
    """
    arrays = [pa.array(values, _type(model, output)) for output, values in zip(model.outputs, columns, strict=True)]
    table = pa.table(dict(zip(model.output_names, arrays, strict=True)))
    for explained in explained_outputs(model) if explanations else ():
        prediction = explained.prediction
        has_reasons = "reason_codes" in model.scorer.manifest
        kind = _explanation_type(None if prediction < 0 else _type(model, model.outputs[prediction]), has_reasons)
        table = table.append_column(explained.name, pa.array(explanations[explained.name], kind))
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()  # type: ignore[no-any-return]


def _explanation_type(label: pa.DataType | None, has_reasons: bool) -> pa.DataType:
    """Return the type of explanations; `label` is that of the classes, if any."""
    column = pa.struct([("column", pa.string()), ("contribution", pa.float64())])
    labels = [] if label is None else [("label", label)]
    totals = [("base", pa.float64()), ("margin", pa.float64()), ("scale", pa.string())]
    fields = [*labels, *totals, ("columns", pa.list_(column)), ("others", pa.float64())]
    texts = [(name, pa.string()) for name in ("column", "code", "text")]
    reason = pa.struct([*texts, ("contribution", pa.float64())])
    return pa.struct([*fields, *[("reasons", pa.list_(reason))] * has_reasons])


def _type(model: ServedModel, output: Output) -> pa.DataType:
    if model.scorer.goal.task == "clustering" and output.name == "prediction":
        return pa.int32()
    if output.labels:
        return label_kind(next(own for own in model.scorer.goal.each if output.target in ("", own.target)))
    return pa.float32() if model.scorer.goal.task == "embedding" else TYPES[output.type]


def _values(name: str, column: pa.ChunkedArray, kind: str) -> list[Any]:
    """Return the values of a column of a kind of the model as Python values, read as those of files are.

    The levels of a dictionary are shared, not copied.
    """
    given = column.type
    if kind == "list" and is_list(given):
        return column.to_pylist()  # type: ignore[no-any-return]
    if not _is_plain(given.value_type if pa.types.is_dictionary(given) else given):
        raise RequestProblem(
            "invalid_request",
            f"column {name!r}: expected numbers, booleans, strings, UUIDs, bytes, dates, times or durations; "
            f"found {str(given)[:80]}",
        )
    try:
        plain, _ = plain_column(column, is_named=True)
        if not pa.types.is_dictionary(plain.type):
            return _python_values(plain, kind)
        values: list[Any] = []
        for chunk in plain.chunks:
            levels = _python_values(chunk.dictionary, kind)
            values += [None if code is None else levels[code] for code in chunk.indices.to_pylist()]
        return values
    except (pa.ArrowException, UnusableColumn, ValueError, OverflowError) as error:
        raise RequestProblem("invalid_request", f"column {name!r} has values that cannot be read") from error


def _python_values(plain: pa.Array | pa.ChunkedArray, kind: str) -> list[Any]:
    found = plain.type
    if pa.types.is_timestamp(found) and kind in ("datetime", "numeric"):  # Python's do not reach as far
        missing = None if kind == "datetime" else np.datetime64("NaT")  # no times are numbers
        micros = plain.cast(pa.int64()).to_pylist()
        return [missing if each is None else np.datetime64(each, "us") for each in micros]
    if pa.types.is_decimal(found) and kind == "numeric":
        plain = plain.cast(pa.float64())
    if pa.types.is_float32(found) and kind not in ("datetime", "numeric"):  # the text of 0.1 is not that of its float64
        return [None if each is None else np.float32(each) for each in plain.to_pylist()]
    return plain.to_pylist()  # type: ignore[no-any-return]


def _is_plain(kind: pa.DataType) -> bool:
    """Return whether values of a type are stored one by one; rows of the others can share or repeat them."""
    types = pa.types
    exact = (types.is_decimal, types.is_binary, types.is_large_binary, types.is_fixed_size_binary, types.is_null)
    checks = (types.is_integer, types.is_floating, types.is_boolean, types.is_string, types.is_large_string, *exact)
    times = (types.is_date, types.is_timestamp, types.is_time, types.is_duration)
    return isinstance(kind, pa.UuidType) or any(check(kind) for check in (*checks, *times))


def _require_plain(body: bytes, max_rows: int) -> None:
    """Raise RequestProblem if a message has compressed buffers, or if the messages have too many rows."""
    n_rows = n_levels = work = 0
    for message in pa.ipc.MessageReader.open_stream(body):
        head = message.metadata.to_pybytes()
        table = _follow(head, 0)  # Message: version, header_type, header, bodyLength
        kind = _field(head, table, 1)
        header_type = head[kind] if kind else 0
        if header_type not in (RECORD_BATCH, DICTIONARY_BATCH):
            continue
        batch = _follow(head, _required(_field(head, table, 2)))
        if header_type == DICTIONARY_BATCH:  # DictionaryBatch: id, data
            batch = _follow(head, _required(_field(head, batch, 1)))
        length = _field(head, batch, 0)  # RecordBatch: length, nodes, buffers, compression
        count = struct.unpack_from("<q", head, length)[0] if length else 0
        if _field(head, batch, 3):
            raise RequestProblem("invalid_request", "compressed Arrow streams are not supported: write it uncompressed")
        if header_type == RECORD_BATCH:
            n_rows += count
            work += WORK_A_BATCH + n_levels  # the levels of dictionaries are read again for each batch
        else:
            n_levels += count
        require_rows(max(n_rows, count), max_rows)
        if work > WORK_A_ROW * max_rows:
            raise RequestProblem("invalid_request", "too many Arrow batches: write larger ones")


def _follow(head: bytes, at: int) -> int:
    """Return the position that the offset at `at` refers to (FlatBuffers)."""
    return at + int(struct.unpack_from("<I", head, at)[0])


def _field(head: bytes, table: int, index: int) -> int:
    """Return the position of a field of a table, 0 if it has its default (FlatBuffers)."""
    vtable = table - struct.unpack_from("<i", head, table)[0]
    if vtable < 0:
        raise IndexError
    size = struct.unpack_from("<H", head, vtable)[0]
    if 4 + 2 * index >= size:
        return 0
    offset = struct.unpack_from("<H", head, vtable + 4 + 2 * index)[0]
    return table + offset if offset else 0


def _required(at: int) -> int:
    if not at:
        raise IndexError
    return at
