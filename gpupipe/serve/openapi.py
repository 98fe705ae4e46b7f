"""OpenAPI 3.1 document of a server: its paths, with every status that each can have."""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import quote

from gpupipe.serve.bodies import ARROW, LINES
from gpupipe.serve.body_schemas import TYPES, Json, array, body_schemas, explained_names, ref
from gpupipe.serve.drift_document import has_drift
from gpupipe.serve.explanations import PARAMETER
from gpupipe.serve.inference import BINARY
from gpupipe.serve.problems import CODES
from gpupipe.serve.served_model import ServedModel
from gpupipe.serve.settings import ServeSettings

ALWAYS = ("invalid_http", "read_timeout", "headers_too_large", "internal", "unavailable")
OF_BODIES = ("not_json", "invalid_request", "unequal_lengths", "too_large", "unsupported_type", "invalid_rows")
ABOUT = (
    "Null is a missing value. Infinite numbers count as missing. Times without a zone are UTC. Numbers, times and "
    "booleans in another type with the same meaning, such as the text '3', are read too. Bodies may be compressed: "
    "Content-Encoding gzip or deflate."
)
DOCUMENTS = (  # path, what it has, and the schema
    ("/schema", "Columns, rules and outputs of the model", "ModelSchema"),
    ("/drift", "Predicted rows compared with the training rows", "Drift"),
    ("/metrics", "Metrics in Prometheus' text format", "text/plain"),
    ("/openapi.json", "This document", "object"),
    ("/", "Start page", "text/html"),
    ("/v2", "Metadata of the server", "ServerMetadata"),
    ("/v2/health/live", "Liveness", "Live"),
    ("/v2/health/ready", "Readiness", "Ready"),
    ("/v2/models/stats", "Statistics of all models in Triton's form", "Statistics"),
)
OPEN = ("/", "/v2/health/live", "/v2/health/ready")  # paths without a token
NAMES = {"/": "page", "/v2": "server_metadata", "/openapi.json": "openapi", "/v2/models/stats": "statistics"}
OF_MODEL = (  # what follows the path of the model, the name, what it has, and the schema
    ("", "metadata", "Metadata of the model", "ModelMetadata"),
    ("/ready", "ready", "Readiness of the model", "ModelReady"),
    ("/config", "configuration", "Configuration of the model in Triton's form", "ModelConfiguration"),
    ("/stats", "statistics", "Statistics of the model in Triton's form", "Statistics"),
)
# A parameter, so that clients that were generated before a reload work after it
VERSION: Json = {"name": "version", "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}


def openapi_document(model: ServedModel, settings: ServeSettings, has_token: bool) -> Json:
    """Return the document; `has_token`: requests need a bearer token."""
    common = [*ALWAYS, *(["unknown_host"] if settings.is_loopback or settings.allowed_hosts else [])]
    guarded = [*common, *(["unauthorized"] if has_token else [])]
    security: Json = {"security": [{"bearer": []}]} if has_token else {}
    of_bodies = [*guarded, *OF_BODIES, "foreign_origin", "too_many_requests"]
    paths: Json = {
        "/predict": {"post": _predict(model, settings, [*of_bodies, "not_explainable"]) | security},
        "/v2/repository/index": {"post": _index(of_bodies) | security},
    }
    for path, summary, schema in DOCUMENTS:
        if path != "/drift" or has_drift(model, settings):
            name, is_open = NAMES.get(path, path.rpartition("/")[2]), path in OPEN
            operation = _get(name, summary, schema, common if is_open else guarded)
            paths[path] = {"get": operation | ({} if is_open else security)}
    of_model = f"/v2/models/{quote(model.name, safe='')}"
    versions: Json = {"parameters": [VERSION]}
    for start, suffix, further in ((of_model, "", {}), (f"{of_model}/versions/{{version}}", "_of_version", versions)):
        for end, name, summary, schema in OF_MODEL:
            operation = _get(f"model_{name}{suffix}", summary, schema, [*guarded, "not_found"])
            paths[start + end] = {"get": operation | further | security}
        paths[f"{start}/infer"] = {"post": _infer(f"infer{suffix}", [*of_bodies, "not_found"]) | further | security}
    schemes = {"securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}}} if has_token else {}
    return {
        "openapi": "3.1.0",
        "info": {"title": f"Predictions of {model.name}", "version": model.version, "description": ABOUT},
        "paths": paths,
        "components": {"schemas": body_schemas(model, settings), **schemes},
    }


def _get(name: str, summary: str, schema: str, codes: Iterable[str]) -> Json:
    is_text = schema.startswith("text/")
    found = TYPES["string"] if is_text else TYPES.get(schema) or ref(schema)
    content = {schema if is_text else "application/json": found}
    return {"operationId": f"get_{name}", "summary": summary, "responses": _responses(f"{summary}.", content, codes)}


def _predict(model: ServedModel, settings: ServeSettings, codes: Iterable[str]) -> Json:
    # `oneOf`: of the alternatives of `anyOf`, a generator for TypeScript makes one class.
    forms = {"oneOf": [ref("Row"), ref("Rows"), ref("Columns")]}
    answers = {"oneOf": [ref("Prediction"), ref("Predictions"), ref("PredictionColumns")]}
    lines, arrow = TYPES["file"] | {"description": "One object per line."}, TYPES["file"]
    most, rows = len(model.scorer.inputs), settings.max_explained_rows
    explain = {
        "name": PARAMETER,
        "in": "query",
        "description": f"Explain each prediction by this number of columns; a request then has at most {rows:,} rows.",
        "schema": {"type": "integer", "minimum": 1, "maximum": most},
    }
    content, answer = (
        {"application/json": schema, LINES.decode(): lines, ARROW.decode(): arrow} for schema in (forms, answers)
    )
    return {
        "operationId": "predict",
        "summary": "Predict one row or several",
        "description": "The answer has the form of the request: an object for an object, a list for a list.",
        **({"parameters": [explain]} if explained_names(model, settings) else {}),
        "requestBody": _request(content),
        "responses": _responses("The predictions, in the order of the rows.", answer, codes),
    }


def _infer(name: str, codes: Iterable[str]) -> Json:
    # The request has one type here, as in the document of the protocol: two make a client that cannot be imported.
    answer = {"application/json": ref("InferenceResponse"), BINARY.decode(): TYPES["file"]}
    return {
        "operationId": name,
        "summary": "Predict tensors (Open Inference Protocol V2)",
        "description": "Tensors may also be binary, as application/octet-stream, by the extension binary_tensor_data.",
        "requestBody": _request({"application/json": ref("InferenceRequest")}),
        "responses": _responses("The outputs.", answer, codes),
    }


def _index(codes: Iterable[str]) -> Json:
    answer = {"application/json": array(ref("IndexedModel"))}
    return {
        "operationId": "get_repository_index",
        "summary": "Index of Triton's model repository: the model",
        "requestBody": _request({"application/json": ref("IndexRequest")}, is_required=False),
        "responses": _responses("The model.", answer, codes),
    }


def _request(content: Json, is_required: bool = True) -> Json:
    return {"required": is_required, "content": {kind: {"schema": schema} for kind, schema in content.items()}}


def _responses(summary: str, content: Json, codes: Iterable[str]) -> Json:
    by_status: dict[int, list[str]] = {}
    for code in codes:
        by_status.setdefault(CODES[code].status, []).append(f"{code}: {CODES[code].text}")
    found = {"200": {"description": summary, "content": {kind: {"schema": each} for kind, each in content.items()}}}
    error = {"application/json": {"schema": ref("Error")}}
    errors = {
        str(status): {"description": " ".join(by_status[status]), "content": error} for status in sorted(by_status)
    }
    return found | errors
