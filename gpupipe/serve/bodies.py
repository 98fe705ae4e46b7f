"""Request and response bodies of ``/predict``: JSON, JSON lines and Arrow streams.

A response has the form of its request:

=====================================  =====================================================
request                                response
=====================================  =====================================================
``{"age": 31, "plan": "a"}``           ``{"prediction": "no", "probability_no": 0.8, ...}``
``[{"age": 31, "plan": "a"}, ...]``    ``[{"prediction": "no", ...}, ...]``
``{"columns": {"age": [31], ...}}``    ``{"columns": {"prediction": ["no"], ...}}``
JSON lines, one object per line        JSON lines, one object per line
Arrow stream                           Arrow stream
=====================================  =====================================================

A cell is never an object, so a column that is itself named ``columns`` does not make a row ambiguous. Explanations are
further outputs: objects in JSON, structs in Arrow streams.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import repeat
from typing import Any

import orjson

from gpupipe.serve.coalescer import Columns
from gpupipe.serve.problems import Headers, RequestProblem
from gpupipe.serve.served_model import ServedModel
from gpupipe.table.exact_texts import MOST_DIGITS

JSON = b"application/json"
LINES = b"application/x-ndjson"
ARROW = b"application/vnd.apache.arrow.stream"
TYPES = (JSON, LINES, ARROW)
DIGITS = bytes.maketrans(b"0123456789", b"0" * 10)
LARGE_INTEGER = b"0" * 19  # the digits of 2**63

Row = Mapping[str, Any]
Explanations = Mapping[str, list[dict[str, Any]]]  # further outputs, by name
Encode = Callable[[ServedModel, Columns, Explanations], bytes]


@dataclass(frozen=True)
class RequestRows:
    """Rows of a request, with the form of their answer.

    Attributes
    ----------
    rows : sequence of mapping
    content_type : bytes
        Type of the answer.
    encode : callable
        Returns the body of the answer.
    """

    rows: Sequence[Row]
    content_type: bytes
    encode: Encode


def read_rows(body: bytes, content_type: bytes, model: ServedModel, max_rows: int) -> RequestRows:
    """Return the rows of a request body.

    Raises
    ------
    RequestProblem
        If the type is not supported, or the body is malformed or has more than `max_rows` rows.
    """
    kind = content_type.partition(b";")[0].strip().lower() if content_type else JSON
    if kind == JSON:
        return _json_rows(parse_json(body), max_rows)
    if kind == LINES or kind in (b"application/jsonl", b"application/x-jsonlines"):
        return RequestRows(_lines(body, max_rows), LINES, _encode_lines)
    if kind == ARROW:
        try:
            from gpupipe.serve.arrow_bodies import encode_arrow, read_arrow
        except ImportError:
            raise RequestProblem("unsupported_type", "Arrow bodies are not supported: install pyarrow") from None
        names = dict.fromkeys((*model.scorer.inputs, *(rule.column for rule in model.scorer.rules)))
        return RequestRows(read_arrow(body, list(names), max_rows), ARROW, encode_arrow)
    raise RequestProblem(
        "unsupported_type",
        f"expected the Content-Type {', '.join(t.decode() for t in TYPES[:-1])} or {ARROW.decode()}",
        headers=[(b"accept", b", ".join(TYPES))],
    )


def loads(body: bytes) -> Any:
    """Return a JSON value with integers of any size; raise orjson.JSONDecodeError if it is malformed.

    orjson 3.11 reads integers of more than 64 bits as floats.
    """
    found = orjson.loads(body)
    if LARGE_INTEGER in body.translate(DIGITS):
        with suppress(RecursionError, ValueError):
            return json.loads(body, parse_int=lambda text: int(text) if len(text) <= MOST_DIGITS else float(text))
    return found


def parse_json(body: bytes) -> Any:
    """Return the value of a JSON body; raise RequestProblem if it is malformed."""
    try:
        return loads(body)
    except orjson.JSONDecodeError as error:
        text = str(error) if body else "the body is empty"
        raise RequestProblem("not_json", f"the body is not valid JSON: {text}") from None


def require_rows(n_rows: int, max_rows: int, kind: str = "request") -> None:
    """Raise RequestProblem if a request has too many rows."""
    if n_rows > max_rows:
        raise RequestProblem("too_large", f"expected at most {max_rows:,} rows per {kind}; found {n_rows:,}")


def _json_rows(found: Any, max_rows: int) -> RequestRows:
    if type(found) is dict:
        columns = found.get("columns")
        if type(columns) is dict:
            return RequestRows(_rows_of_columns(columns, max_rows), JSON, _encode_columns)
        return RequestRows((found,), JSON, _encode_object)
    if type(found) is list:
        require_rows(len(found), max_rows)
        for position, row in enumerate(found):
            if type(row) is not dict:
                raise _not_a_row(row, f"row {position:,} of the list (rows are counted from 0)")
        return RequestRows(found, JSON, _encode_list)
    raise RequestProblem(
        "invalid_request",
        'expected an object (one row), a list of objects, or {"columns": {NAME: [...]}}; ' + f"found {_name(found)}",
    )


def _rows_of_columns(columns: dict[str, Any], max_rows: int) -> list[Row]:
    lengths = set()
    for name, values in columns.items():
        if type(values) is not list:
            raise RequestProblem(
                "invalid_request", f"column {name!r}: expected a list of values; found {_name(values)}"
            )
        lengths.add(len(values))
    if len(lengths) > 1:
        found = f"{min(lengths):,} to {max(lengths):,} values"
        raise RequestProblem("invalid_request", f"columns differ in length: {found}")
    require_rows(max(lengths, default=0), max_rows)
    return rows_of(columns)


def rows_of(columns: Mapping[str, Sequence[Any]]) -> list[Row]:
    """Return the rows of columns of equal length."""
    names = tuple(columns)
    return [dict(zip(names, values, strict=True)) for values in zip(*columns.values(), strict=True)]


def _lines(body: bytes, max_rows: int) -> list[Row]:
    lines = body.split(b"\n")
    while lines and not lines[-1].strip():
        lines.pop()
    require_rows(len(lines), max_rows)
    rows: list[Row] = []
    for number, line in enumerate(lines, 1):
        try:
            row = loads(line)
        except orjson.JSONDecodeError as error:
            raise RequestProblem("not_json", f"line {number} is not valid JSON: {error}") from None
        if type(row) is not dict:
            raise _not_a_row(row, f"line {number}")
        rows.append(row)
    return rows


def _not_a_row(value: Any, where: str) -> RequestProblem:
    return RequestProblem("invalid_request", f"{where}: expected an object (one row); found {_name(value)}")


def _name(value: Any) -> str:
    if value is None:
        return "null"
    return {dict: "an object", list: "a list", str: "a string", bool: "a boolean"}.get(type(value), "a number")


def _encode_object(model: ServedModel, columns: Columns, explanations: Explanations) -> bytes:
    found = dict(zip(model.output_names, [column[0] for column in columns], strict=True))
    if explanations:
        found |= {name: each[0] for name, each in explanations.items()}
    return orjson.dumps(found)


def _objects(model: ServedModel, columns: Columns, explanations: Explanations) -> list[dict[str, Any]]:
    names = (*model.output_names, *explanations)
    return list(map(dict, map(zip, repeat(names), zip(*columns, *explanations.values(), strict=True))))


def _encode_list(model: ServedModel, columns: Columns, explanations: Explanations) -> bytes:
    return orjson.dumps(_objects(model, columns, explanations))


def _encode_lines(model: ServedModel, columns: Columns, explanations: Explanations) -> bytes:
    objects = _objects(model, columns, explanations)
    return b"".join([orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE) for row in objects])


def _encode_columns(model: ServedModel, columns: Columns, explanations: Explanations) -> bytes:
    return orjson.dumps({"columns": {**dict(zip(model.output_names, columns, strict=True)), **explanations}})


def response_headers(content_type: bytes, length: int, further: Headers) -> Headers:
    """Return the headers of a response."""
    return [(b"content-type", content_type), (b"content-length", b"%d" % length), *further]
