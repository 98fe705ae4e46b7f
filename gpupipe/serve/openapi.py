"""OpenAPI 3.1 document of a server: the rows of its model, with their rules, and every status that a path can have."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, get_args

from gpupipe.models.fitted.contributions.base import Scale
from gpupipe.rules import ColumnRules
from gpupipe.serve.bodies import ARROW, LINES
from gpupipe.serve.drift_document import drift_schema, has_drift
from gpupipe.serve.explanations import PARAMETER, ExplainedOutput, explained_outputs, is_explainable
from gpupipe.serve.inference import BINARY, DATATYPES, NUMBERS, TEXT, datatype_of
from gpupipe.serve.model_schema import describe_columns
from gpupipe.serve.problems import CODES
from gpupipe.serve.served_model import ServedModel
from gpupipe.serve.settings import ServeSettings
from gpupipe.table.schema import declare, expected_time
from gpupipe.table.time_texts import is_strict, json_pattern, pattern_of
from gpupipe.units import TICKS_PER_SECOND

Json = dict[str, Any]

ALWAYS = ("invalid_http", "read_timeout", "headers_too_large", "internal", "unavailable")
OF_BODIES = ("not_json", "invalid_request", "too_large", "unsupported_type", "invalid_rows", "too_many_requests")
OUTPUT_TYPES = {"text": "string", "boolean": "boolean", "integer": "integer", "number": "number"}


def openapi_document(model: ServedModel, settings: ServeSettings, has_token: bool) -> Json:
    """Return the document.

    Parameters
    ----------
    model : ServedModel
    settings : ServeSettings
    has_token : bool
        True if requests need a bearer token.
    """
    common = [*ALWAYS, *(["unknown_host"] if settings.is_loopback or settings.allowed_hosts else [])]
    guarded = [*common, *(["unauthorized"] if has_token else [])]
    security: Json = {"security": [{"bearer": []}]} if has_token else {}
    of_model = [*guarded, "not_found"]  # after a reload, the version is another
    model_path = f"/v2/models/{model.name}"
    paths: Json = {
        "/predict": {"post": {**_predict(model, settings, guarded), **security}},
        "/schema": _get("Columns, rules and outputs of the model", _object_schema(), guarded, security),
        "/metrics": _get("Metrics in Prometheus' text format", {"type": "string"}, guarded, security, "text/plain"),
        "/openapi.json": _get("This document", _object_schema(), guarded, security),
        "/": _get("Start page", {"type": "string"}, common, {}, "text/html"),
        "/v2": _get("Metadata of the server", _object_schema("name", "version", "extensions"), guarded, security),
        "/v2/health/live": _get("Liveness", _object_schema("live"), common, {}),
        "/v2/health/ready": _get("Readiness", _object_schema("ready"), common, {}),
    }
    if has_drift(model, settings):
        paths["/drift"] = _get("Predicted rows compared with the training rows", drift_schema(), guarded, security)
    for path in (model_path, f"{model_path}/versions/{model.version}"):
        paths[path] = _get(
            "Metadata of the model", _object_schema("name", "versions", "inputs", "outputs"), of_model, security
        )
        paths[f"{path}/ready"] = _get("Readiness of the model", _object_schema("name", "ready"), of_model, security)
        paths[f"{path}/infer"] = {"post": {**_infer(guarded), **security}}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": f"Predictions of {model.name}",
            "version": model.version,
            "description": "Null is a missing value. Infinite numbers count as missing. Times without a zone are UTC.",
        },
        "paths": paths,
        "components": {
            "schemas": _schemas(model, settings),
            **({"securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}}} if has_token else {}),
        },
    }


def _schemas(model: ServedModel, settings: ServeSettings) -> Json:
    row = _row_schema(model)
    outputs = {
        output.name: {"enum": list(output.labels)} if output.labels else {"type": OUTPUT_TYPES[output.type]}
        for output in model.outputs
    }
    explained = {output.name: _ref("Explanation") for output in _explained(model, settings)}
    many: Json = {"type": "array", "maxItems": settings.max_rows}
    return {
        "Row": row,
        "Rows": {**many, "items": _ref("Row")},
        "Columns": {
            "type": "object",
            "description": "Lists of equal length.",
            "required": ["columns"],
            "properties": {
                "columns": {
                    "type": "object",
                    "required": row["required"],
                    "properties": {name: {**many, "items": cell} for name, cell in row["properties"].items()},
                }
            },
        },
        "Prediction": {"type": "object", "required": list(outputs), "properties": outputs | explained},
        "Predictions": {"type": "array", "items": _ref("Prediction")},
        "PredictionColumns": {
            "type": "object",
            "required": ["columns"],
            "properties": {
                "columns": {
                    "type": "object",
                    "required": list(outputs),
                    "properties": {
                        name: {"type": "array", "items": kind} for name, kind in (outputs | explained).items()
                    },
                }
            },
        },
        **({"Explanation": _explanation_schema(model)} if explained else {}),
        "Error": {
            "type": "object",
            "required": ["error", "code", "problems"],
            "properties": {
                "error": {"type": "string", "description": "What is wrong, for people."},
                "code": {"enum": list(CODES)},
                "problems": {
                    "type": "array",
                    "description": "The wrong cells; rows are counted from 0.",
                    "items": {
                        "type": "object",
                        "required": ["row", "column", "value", "rule"],
                        "properties": {
                            "row": {
                                "type": "integer",
                                "minimum": 0,
                                "description": "Number of the row, from 0, as in `error`.",
                            },
                            **{name: {"type": "string"} for name in ("column", "value", "rule")},
                        },
                    },
                },
                "id": {"type": "string", "description": "Identifies the log entry of an internal error."},
            },
        },
        "InferenceRequest": _inference_request(model),
        "InferenceResponse": _inference_response(model),
    }


def _explained(model: ServedModel, settings: ServeSettings) -> tuple[ExplainedOutput, ...]:
    return explained_outputs(model) if is_explainable(model, settings) else ()


def _explanation_schema(model: ServedModel) -> Json:
    number: Json = {"type": "number"}
    labels = [label for output in explained_outputs(model) for label in output.goal.labels]
    return {
        "type": "object",
        "description": "base + the contributions of the columns + others = margin",
        "required": ["base", "margin", "scale", "columns", "others"],
        "properties": {
            **(
                {"label": {"enum": list(dict.fromkeys(labels)), "description": "Class of the margin."}}
                if labels
                else {}
            ),
            "base": {**number, "description": "Expected margin."},
            "margin": {**number, "description": "The output that is explained, before calibration."},
            "scale": {"enum": list(get_args(Scale)), "description": "What the margin is."},
            "columns": {
                "type": "array",
                "description": "The columns with the largest absolute contributions, largest first.",
                "items": {
                    "type": "object",
                    "required": ["column", "contribution"],
                    "properties": {
                        "column": {"type": "string"},
                        "value": {"description": "The value that was sent."},
                        "contribution": number,
                    },
                },
            },
            "others": {**number, "description": "Sum of the contributions of all other columns."},
        },
    }


def _explain_parameter(model: ServedModel, settings: ServeSettings) -> Json:
    most, rows = len(model.scorer.inputs), settings.max_explained_rows
    text = f"Explain each prediction by this number of columns; a request then has at most {rows:,} rows."
    return {
        "name": PARAMETER,
        "in": "query",
        "description": text,
        "schema": {"type": "integer", "minimum": 1, "maximum": most},
    }


def _row_schema(model: ServedModel) -> Json:
    columns = describe_columns(model)
    refused = [rule for rule in model.scorer.rules if rule.rules.otherwise == "refuse"]
    cells = {}
    for column in columns:
        rules = [rule.rules for rule in refused if rule.column == column["name"]]
        parts = [_cell_schema(column), *(_rule_schema(column, each) for each in rules)]
        parts = [part for part in parts if part]
        cells[column["name"]] = parts[0] if len(parts) == 1 else {"allOf": parts}
    return {"type": "object", "required": [column["name"] for column in columns], "properties": cells}


def _cell_schema(column: Json) -> Json:
    kind, time_format = column["kind"], column["time_format"]
    null = ["null"] if column["nullable"] else []
    if kind == "numeric":
        return {"type": ["number", *null]}
    if kind == "boolean":
        return {"type": ["boolean", *null]}
    if kind == "datetime":
        types = ["number"] if time_format in TICKS_PER_SECOND else ["string"]
        types += ["integer"] if is_strict(time_format) and pattern_of(time_format).is_digits else []
        pattern = json_pattern(time_format)
        about: Json = {"description": f"Expected: {expected_time(time_format)}"}
        return {"type": [*types, *null], **about, **({"pattern": pattern} if pattern else {})}
    cell: Json = {"type": ["string", *null]}
    if column["levels"]:
        cell["examples"] = column["levels"][:10]
        cell["description"] = "Levels that training has not seen are predicted too; the model treats them alike."
    return cell


def _rule_schema(column: Json, rules: ColumnRules) -> Json:
    """Return the schema of the rules of a column that JSON Schema can express."""
    found: Json = {}
    if rules.dtype is not None and rules.kind == "numeric" and "int" in rules.dtype and declare(rules.dtype):
        found["type"] = ["integer", *(["null"] if column["nullable"] else [])]
    if rules.range is not None and rules.range_kind == "numeric":
        low, high = rules.range
        found |= {"minimum": low} if low is not None else {}
        found |= {"maximum": high} if high is not None else {}
    if rules.set is not None:
        found["enum"] = [*rules.set, *([None] if column["nullable"] else [])]
    if rules.regex is not None and _compiles(rules.regex):
        found["pattern"] = f"^(?:{rules.regex})$"
    return found


def _compiles(regex: str) -> bool:
    try:
        re.compile(regex)
    except re.error:
        return False
    return True


def _predict(model: ServedModel, settings: ServeSettings, codes: Iterable[str]) -> Json:
    forms = [_ref("Row"), _ref("Rows"), _ref("Columns")]
    answers = [_ref("Prediction"), _ref("Predictions"), _ref("PredictionColumns")]
    lines, arrow = LINES.decode(), ARROW.decode()
    return {
        "summary": "Predict one row or several",
        "description": "The answer has the form of the request: an object for an object, a list for a list.",
        "operationId": "predict",
        **({"parameters": [_explain_parameter(model, settings)]} if _explained(model, settings) else {}),
        "requestBody": {
            "required": True,
            "content": {
                "application/json": {"schema": {"anyOf": forms}},
                lines: {"schema": {"type": "string", "description": "One object per line."}},
                arrow: {"schema": {"type": "string", "description": "Uncompressed Arrow IPC stream."}},
            },
        },
        "responses": {
            "200": {
                "description": "The predictions, in the order of the rows.",
                "content": {
                    "application/json": {"schema": {"anyOf": answers}},
                    lines: {"schema": {"type": "string"}},
                    arrow: {"schema": {"type": "string"}},
                },
            },
            **_errors((*codes, *OF_BODIES, "not_explainable")),
        },
    }


def _infer(codes: Iterable[str]) -> Json:
    return {
        "summary": "Predict tensors (Open Inference Protocol V2)",
        "requestBody": {
            "required": True,
            "content": {
                "application/json": {"schema": _ref("InferenceRequest")},
                BINARY.decode(): {"schema": {"type": "string", "description": "JSON, then the binary tensors."}},
            },
        },
        "responses": {
            "200": {
                "description": "The outputs.",
                "content": {
                    "application/json": {"schema": _ref("InferenceResponse")},
                    BINARY.decode(): {"schema": {"type": "string"}},
                },
            },
            **_errors((*codes, *OF_BODIES, "not_found")),
        },
    }


def _inference_request(model: ServedModel) -> Json:
    tensor = {
        "type": "object",
        "required": ["name", "datatype", "shape"],
        "properties": {
            "name": {"enum": list(model.scorer.inputs)},
            "datatype": {"enum": [TEXT, *NUMBERS]},
            "shape": {"type": "array", "items": {"type": "integer", "minimum": 0}, "minItems": 1, "maxItems": 2},
            "data": {"type": "array"},
            "parameters": {"type": "object", "properties": {"binary_data_size": {"type": "integer", "minimum": 0}}},
        },
    }
    output = {
        "type": "object",
        "required": ["name"],
        "properties": {
            "name": {"enum": list(model.output_names)},
            "parameters": {"type": "object", "properties": {"binary_data": {"type": "boolean"}}},
        },
    }
    return {
        "type": "object",
        "required": ["inputs"],
        "properties": {
            "id": {"type": "string"},
            "inputs": {"type": "array", "items": tensor, "description": "One tensor per column."},
            "outputs": {"type": "array", "items": output},
            "parameters": {"type": "object", "properties": {"binary_data_output": {"type": "boolean"}}},
        },
    }


def _inference_response(model: ServedModel) -> Json:
    datatypes = sorted({datatype_of(model, output) for output in model.outputs} | set(DATATYPES.values()))
    output = {
        "type": "object",
        "required": ["name", "datatype", "shape"],
        "properties": {
            "name": {"enum": list(model.output_names)},
            "datatype": {"enum": datatypes},
            "shape": {"type": "array", "items": {"type": "integer"}},
            "data": {"type": "array"},
            "parameters": {"type": "object"},
        },
    }
    return {
        "type": "object",
        "required": ["model_name", "model_version", "outputs"],
        "properties": {
            **{name: {"type": "string"} for name in ("model_name", "model_version", "id")},
            "outputs": {"type": "array", "items": output},
        },
    }


def _get(
    summary: str, schema: Json, codes: Iterable[str], security: Json, media_type: str = "application/json"
) -> Json:
    content = {media_type: {"schema": schema}}
    responses = {"200": {"description": f"{summary}.", "content": content}, **_errors(codes)}
    return {"get": {"summary": summary, "responses": responses, **security}}


def _errors(codes: Iterable[str]) -> Json:
    by_status: dict[int, list[str]] = {}
    for code in codes:
        by_status.setdefault(CODES[code].status, []).append(f"{code}: {CODES[code].text}")
    content = {"application/json": {"schema": _ref("Error")}}
    return {
        str(status): {"description": " ".join(texts), "content": content} for status, texts in sorted(by_status.items())
    }


def _object_schema(*required: str) -> Json:
    return {"type": "object", "required": list(required)} if required else {"type": "object"}


def _ref(name: str) -> Json:
    return {"$ref": f"#/components/schemas/{name}"}
