"""Open Inference Protocol V2: tensors in JSON and in its binary extension, one tensor per column.

Specification: https://github.com/kserve/open-inference-protocol, and Triton's extension_binary_data.md. Inputs have the
shape [n] or [n, 1]. Numbers may be null in JSON and NaN in a binary tensor; texts may be null in JSON.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import orjson

from gpupipe.inference.scorer.outputs import Output
from gpupipe.serve.bodies import JSON, parse_json
from gpupipe.serve.coalescer import Columns
from gpupipe.serve.problems import Headers, RequestProblem
from gpupipe.serve.request_rows import require_rows, rows_of
from gpupipe.serve.served_model import ServedModel

BINARY = b"application/octet-stream"
HEADER_LENGTH = b"inference-header-content-length"
NUMBERS: Mapping[str, np.dtype[Any]] = {
    "BOOL": np.dtype("?"),
    "UINT8": np.dtype("u1"),
    "UINT16": np.dtype("<u2"),
    "UINT32": np.dtype("<u4"),
    "UINT64": np.dtype("<u8"),
    "INT8": np.dtype("i1"),
    "INT16": np.dtype("<i2"),
    "INT32": np.dtype("<i4"),
    "INT64": np.dtype("<i8"),
    "FP16": np.dtype("<f2"),
    "FP32": np.dtype("<f4"),
    "FP64": np.dtype("<f8"),
}
TEXT = "BYTES"
DATATYPES: Mapping[str, str] = {"text": TEXT, "boolean": "BOOL", "integer": "INT64", "number": "FP64"}
_LENGTH = struct.Struct("<I")


@dataclass(frozen=True)
class InferenceRequest:
    """A parsed request; `outputs` are the positions of the requested outputs, and whether they are binary."""

    rows: Sequence[Mapping[str, Any]]
    request_id: str | None
    outputs: Sequence[tuple[int, bool]]


def read_inference(body: bytes, header_length: bytes | None, model: ServedModel, max_rows: int) -> InferenceRequest:
    """Return the rows and the requested outputs of a request.

    Raise RequestProblem if the request is malformed, or has more than `max_rows` rows.
    """
    head, binary = _split(body, header_length)
    found = parse_json(head)
    if type(found) is not dict or type(found.get("inputs")) is not list:
        raise _invalid('expected an object with the list "inputs", a tensor for each column; /predict takes rows')
    request_id = found.get("id")
    if request_id is not None and type(request_id) is not str:
        raise _invalid('"id": expected a string')
    columns: dict[str, list[Any]] = {}
    at = 0
    n_rows = None
    for tensor in found["inputs"]:
        name, datatype, n, size = _describe(tensor)
        if name in columns:
            raise _invalid(f"input {name!r} occurs more than once")
        if n_rows is not None and n != n_rows:
            raise _unequal(f"inputs differ in length: {n_rows:,} and {n:,} rows")
        n_rows = n
        if size is None:
            columns[name] = _json_values(name, datatype, n, tensor.get("data"))
            require_rows(n, max_rows)
        else:
            if at + size > len(binary):
                raise _unequal(f"input {name!r}: expected {size:,} bytes; found {len(binary) - at:,}")
            columns[name] = _binary_values(name, datatype, n, binary[at : at + size], max_rows)
            at += size
    if at != len(binary):
        raise _invalid(f"{len(binary) - at:,} bytes after the tensors belong to no input")
    rows = rows_of(columns, model)
    return InferenceRequest(rows, request_id, _outputs(found, model))


def encode_inference(request: InferenceRequest, model: ServedModel, columns: Columns) -> tuple[bytes, bytes, Headers]:
    """Return the body of a response, its content type and further headers."""
    tensors, chunks = [], []
    for position, is_binary in request.outputs:
        output, values = model.outputs[position], columns[position]
        tensor: dict[str, Any] = {"name": output.name, "datatype": datatype_of(model, output), "shape": [len(values)]}
        if is_binary:
            chunk = _binary(tensor["datatype"], values)
            tensor["parameters"] = {"binary_data_size": len(chunk)}
            chunks.append(chunk)
        else:
            tensor["data"] = values
        tensors.append(tensor)
    found = {"model_name": model.name, "model_version": model.version, "outputs": tensors}
    if request.request_id is not None:
        found["id"] = request.request_id
    head = orjson.dumps(found)
    if not chunks:
        return head, JSON, []
    return head + b"".join(chunks), BINARY, [(HEADER_LENGTH, b"%d" % len(head))]


def datatype_of(model: ServedModel, output: Output) -> str:
    """Return the datatype of an output tensor."""
    if output.type == "integer" and max(output.labels, default=0) >= 2**63:
        return "UINT64"
    return "FP32" if model.scorer.goal.task == "embedding" else DATATYPES[output.type]


def model_metadata(model: ServedModel) -> dict[str, Any]:
    """Return the metadata of the model: its input and output tensors."""
    kinds = {column.source: column.kind for column in model.scorer.columns}
    datatypes = {"numeric": "FP64", "boolean": "BOOL"}
    return {
        "name": model.name,
        "versions": [model.version],
        "platform": "gpupipe",
        "inputs": [
            {"name": name, "datatype": datatypes.get(kinds[name], TEXT), "shape": [-1]} for name in model.scorer.inputs
        ],
        "outputs": [
            {"name": output.name, "datatype": datatype_of(model, output), "shape": [-1]} for output in model.outputs
        ],
    }


def model_configuration(model: ServedModel) -> dict[str, Any]:
    """Return the configuration of the model in Triton's form; the rows are a dimension of each tensor, not a batch."""
    found = model_metadata(model)
    tensors = {
        side: [
            {"name": name, "data_type": "TYPE_STRING" if kind == TEXT else f"TYPE_{kind}", "dims": shape}
            for name, kind, shape in map(dict.values, found[f"{side}s"])
        ]
        for side in ("input", "output")
    }
    return {"name": model.name, "platform": found["platform"], "backend": "gpupipe", "max_batch_size": 0, **tensors}


def _invalid(message: str) -> RequestProblem:
    return RequestProblem("invalid_request", message)


def _unequal(message: str) -> RequestProblem:
    return RequestProblem("unequal_lengths", message)


def _split(body: bytes, header_length: bytes | None) -> tuple[bytes, bytes]:
    if header_length is None:
        return body, b""
    if not header_length.isdigit() or (length := int(header_length[:20])) > len(body):
        raise _invalid("Inference-Header-Content-Length: expected the length of the JSON part of the body, in bytes")
    return body[:length], body[length:]


def _describe(tensor: Any) -> tuple[str, str, int, int | None]:
    """Return name, datatype, number of rows and, for a binary tensor, its number of bytes."""
    if type(tensor) is not dict or type(name := tensor.get("name")) is not str:
        raise _invalid('expected each input to be an object with a string "name"')
    datatype, shape = tensor.get("datatype"), tensor.get("shape")
    if type(datatype) is not str or (datatype != TEXT and datatype not in NUMBERS):
        raise _invalid(f"input {name!r}: expected a datatype of {TEXT}, {', '.join(NUMBERS)}")
    if (
        type(shape) is not list
        or len(shape) not in (1, 2)
        or any(type(n) is not int or n < 0 for n in shape)
        or shape[1:] not in ([], [1])
    ):
        raise _invalid(f"input {name!r}: expected the shape [n] or [n, 1]")
    parameters = tensor.get("parameters") or {}
    if type(parameters) is not dict:
        raise _invalid(f"input {name!r}: expected an object of parameters")
    if "shared_memory_region" in parameters:
        raise _invalid(f"input {name!r}: shared memory is not supported")
    size = parameters.get("binary_data_size")
    if size is not None and (type(size) is not int or size < 0):
        raise _invalid(f"input {name!r}: expected binary_data_size to be a number of bytes")
    return name, datatype, shape[0], size


def _json_values(name: str, datatype: str, n: int, data: Any) -> list[Any]:
    if type(data) is not list:
        raise _invalid(f'input {name!r}: expected the list "data", or binary_data_size')
    if data and type(data[0]) is list:  # shape [n, 1] as nested lists
        if any(type(row) is not list or len(row) != 1 for row in data):
            raise _invalid(f"input {name!r}: expected one value per row")
        data = [row[0] for row in data]
    if len(data) != n:
        raise _unequal(f"input {name!r}: expected {n:,} values, as its shape says; found {len(data):,}")
    kinds = {type(value) for value in data} - {type(None)}
    expected = {str} if datatype == TEXT else {bool} if datatype == "BOOL" else {int, float}
    if kinds - expected:
        raise _invalid(f"input {name!r}: expected values of the datatype {datatype}")
    return list(data)


def _binary_values(name: str, datatype: str, n: int, data: bytes, max_rows: int) -> list[Any]:
    if datatype == TEXT:
        require_rows(min(n, len(data) // _LENGTH.size), max_rows)
        return _texts(name, n, data)
    dtype = NUMBERS[datatype]
    if len(data) != n * dtype.itemsize:
        raise _unequal(f"input {name!r}: expected {n * dtype.itemsize:,} bytes; found {len(data):,}")
    require_rows(n, max_rows)
    if datatype == "BOOL":
        return (np.frombuffer(data, np.uint8) != 0).tolist()  # type: ignore[no-any-return]
    return np.frombuffer(data, dtype).tolist()  # type: ignore[no-any-return]


def _texts(name: str, n: int, data: bytes) -> list[Any]:
    values, at = [], 0
    try:
        for _ in range(n):
            (length,) = _LENGTH.unpack_from(data, at)
            at += 4 + length
            if at > len(data):
                raise _invalid(f"input {name!r}: a text is longer than its tensor")
            values.append(data[at - length : at].decode())
    except (struct.error, UnicodeDecodeError):
        raise _invalid(f"input {name!r}: expected {n:,} texts in UTF-8, each after its length (4 bytes)") from None
    if at != len(data):
        raise _invalid(f"input {name!r}: {len(data) - at:,} bytes after the last text")
    return values


def _outputs(found: dict[str, Any], model: ServedModel) -> list[tuple[int, bool]]:
    parameters = found.get("parameters") or {}
    if type(parameters) is not dict:
        raise _invalid('"parameters": expected an object')
    is_binary = _flag(parameters, "binary_data_output", False)
    wanted = found.get("outputs")
    if wanted is None or wanted == []:
        return [(position, is_binary) for position in range(len(model.outputs))]
    if type(wanted) is not list:
        raise _invalid('"outputs": expected a list')
    chosen: list[tuple[int, bool]] = []
    for output in wanted:
        name = output.get("name") if type(output) is dict else None
        if name not in model.output_names:
            raise _invalid(f"expected outputs among {', '.join(model.output_names[:20])}")
        settings = output.get("parameters") or {}
        if type(settings) is not dict:
            raise _invalid(f"output {name!r}: expected an object of parameters")
        for unsupported in ("classification", "shared_memory_region"):
            if unsupported in settings:
                raise _invalid(f"output {name!r}: the parameter {unsupported} is not supported")
        if any(model.output_names[position] == name for position, _ in chosen):
            raise _invalid(f"output {name!r} is requested more than once")
        chosen.append((model.output_names.index(name), _flag(settings, "binary_data", is_binary)))
    return chosen


def _flag(parameters: dict[str, Any], name: str, default: bool) -> bool:
    found = parameters.get(name, default)
    if type(found) is not bool:
        raise _invalid(f"{name}: expected true or false")
    return found


def _binary(datatype: str, values: list[Any]) -> bytes:
    if datatype != TEXT:
        return np.array(values, NUMBERS[datatype]).tobytes()
    texts = [value.encode() for value in values]
    return b"".join(_LENGTH.pack(len(text)) + text for text in texts)
