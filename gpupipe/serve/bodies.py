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
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import repeat
from typing import Any

import orjson

from gpupipe.serve.coalescer import Columns
from gpupipe.serve.problems import Headers, RequestProblem
from gpupipe.serve.request_rows import Explanations, Row, require_rows, rows_of
from gpupipe.serve.served_model import ServedModel
from gpupipe.table.exact_texts import MOST_DIGITS

JSON = b"application/json"
LINES = b"application/x-ndjson"
ARROW = b"application/vnd.apache.arrow.stream"
TYPES = (JSON, LINES, ARROW)
DIGITS = bytes.maketrans(b"0123456789", b"0" * 10)
LARGE_INTEGER = b"0" * 19  # the digits of 2**63
# Python's `json` and Triton's client write these literals, which JSON does not have. Texts match first, and are kept.
NON_FINITE = re.compile(rb'("(?:[^"\\]++|\\.)*+"?)|-?Infinity|NaN', re.DOTALL)

Encode = Callable[[ServedModel, Columns, Explanations], bytes]


@dataclass(frozen=True)
class RequestRows:
    """Rows of a request, with the type of their answer, and the function that returns its body."""

    rows: Sequence[Row]
    content_type: bytes
    encode: Encode


def read_rows(body: bytes, content_type: bytes, model: ServedModel, max_rows: int) -> RequestRows:
    """Return the rows of a request body.

    Raise RequestProblem if the type is not supported, or the body is malformed or has more than `max_rows` rows.
    """
    kind = content_type.partition(b";")[0].strip().lower() if content_type else JSON
    if kind == JSON:
        return _json_rows(parse_json(body), model, max_rows)
    if kind == LINES or kind in (b"application/jsonl", b"application/x-jsonlines"):
        return RequestRows(_lines(body, max_rows), LINES, _encode_lines)
    if kind == ARROW:
        try:
            from gpupipe.serve.arrow_bodies import encode_arrow, read_arrow
        except ImportError:
            raise RequestProblem("unsupported_type", "Arrow bodies are not supported: install pyarrow") from None
        return RequestRows(read_arrow(body, model, max_rows), ARROW, encode_arrow)
    raise RequestProblem(
        "unsupported_type",
        f"expected the Content-Type {', '.join(t.decode() for t in TYPES[:-1])} or {ARROW.decode()}",
        headers=[(b"accept", b", ".join(TYPES))],
    )


def loads(body: bytes) -> Any:
    """Return a JSON value with integers of any size; raise orjson.JSONDecodeError if it is malformed.

    orjson 3.11 reads integers of more than 64 bits as floats, and refuses NaN and Infinity, which are null here.
    """
    try:
        found = orjson.loads(body)
    except orjson.JSONDecodeError:
        if b"NaN" not in body and b"Infinity" not in body:
            raise
        body = NON_FINITE.sub(lambda match: match[1] or b"null", body)
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


def _json_rows(found: Any, model: ServedModel, max_rows: int) -> RequestRows:
    if type(found) is dict:
        columns = found.get("columns")
        if type(columns) is dict:
            return RequestRows(_rows_of_columns(columns, model, max_rows), JSON, _encode_columns)
        is_row = any(map(found.__contains__, model.scorer.inputs))
        if not is_row and any(type(each) in (dict, list) for each in found.values()):
            raise _not_rows(f"an object with {_keys(found)}", model)  # a body of another server
        return RequestRows((found,), JSON, _encode_object)
    if type(found) is list:
        require_rows(len(found), max_rows)
        for position, row in enumerate(found):
            if type(row) is not dict:
                raise _not_a_row(row, f"row {position:,} of the list (rows are counted from 0)")
        return RequestRows(found, JSON, _encode_list)
    raise _not_rows(_name(found), model)


def _not_rows(found: str, model: ServedModel) -> RequestProblem:
    names = [orjson.dumps(name).decode() for name in model.scorer.inputs[:2]]
    row = "{" + ", ".join([f"{name}: VALUE" for name in names] + ["..."] * (len(model.scorer.inputs) > 2)) + "}"
    columns = row.replace("VALUE", "[VALUE, ...]")
    return RequestProblem(
        "invalid_request", f'expected a row {row}, a list of rows, or {{"columns": {columns}}}; found {found}'
    )


def _keys(found: dict[str, Any]) -> str:
    shown = ", ".join(orjson.dumps(key[:40]).decode() for key in list(found)[:3])
    return f"the key{'s' * (len(found) > 1)} {shown}{', ...' * (len(found) > 3)}"


def _rows_of_columns(columns: dict[str, Any], model: ServedModel, max_rows: int) -> list[Row]:
    lengths = set()
    for name, values in columns.items():
        if type(values) is not list:
            raise RequestProblem(
                "invalid_request", f"column {name!r}: expected a list of values; found {_name(values)}"
            )
        lengths.add(len(values))
    if len(lengths) > 1:
        found = f"{min(lengths):,} to {max(lengths):,} values"
        raise RequestProblem("unequal_lengths", f"columns differ in length: {found}")
    require_rows(max(lengths, default=0), max_rows)
    return rows_of(columns, model)


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
