"""JSON Schemas of the bodies of a server: rows, predictions, explanations, tensors and errors.

They are components with names, because generators of clients make a class of each. Enumerations have values that are
different names in a program.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import Any, get_args

from gpupipe.inference.drift.severity import SEVERITIES
from gpupipe.inference.scorer.outputs import Output
from gpupipe.models.contributions.base import Scale
from gpupipe.rules import ColumnRules
from gpupipe.serve.explanations import ExplainedOutput, explained_outputs, is_explainable
from gpupipe.serve.inference import DATATYPES, NUMBERS, TEXT, datatype_of
from gpupipe.serve.model_schema import describe_columns
from gpupipe.serve.problems import CODES
from gpupipe.serve.served_model import ServedModel
from gpupipe.serve.settings import ServeSettings
from gpupipe.table.schema import declare, expected_time
from gpupipe.table.time_texts import SYNTAX, is_strict, json_pattern, pattern_of
from gpupipe.units import TICKS_PER_SECOND

Json = dict[str, Any]

TYPES: Json = {
    **{name: {"type": name} for name in ("string", "number", "boolean", "integer", "object")},
    "count": {"type": "integer", "minimum": 0},
    "file": {"type": "string", "format": "binary"},
    "any": {},
}
OUTPUT_TYPES = {"text": "string", "boolean": "boolean", "integer": "integer", "number": "number"}
SCHEMAS = {
    "Live": "live: boolean",
    "Ready": "ready: boolean",
    "ModelReady": "name: string, ready: boolean",
    "ModelSchema": "name: string, version: string, task: string, target: string | null, labels: any[], "
    "quantiles: number[], threshold: number | null, columns: InputColumn[], outputs: Output[], drift: boolean",
    "InputColumn": "name: string, kind: string, dtype: string, nullable: boolean",
    "Output": "name: string, type: string, target?: string",
    "Error": "error: string, code: string, problems: CellProblem[], id?: string",
    "CellProblem": "row: count, column: string, value: string, rule: string",
    "Explanation": "label?: any, base: number, margin: number, scale: string, columns: ExplainedColumn[], "
    "others: number, reasons?: Reason[]",
    "Reason": "column: string, code: string | null, text: string | null, contribution: number",
    "ExplainedColumn": "column: string, value?: any, contribution: number",
    "Drift": "model: string, version: string, max_rows: count, n_rows: count, severity: string, "
    "weighted_psi: number, columns: DriftColumn[], scores: DriftColumn[], notes: string[]",
    "DriftColumn": "name: string, kind: string, severity: string, psi: number, p_value: number, change: string, "
    "cells: string[], reference: count[], current: count[]",
    "ServerMetadata": "name: string, version: string, extensions: string[]",
    "ModelMetadata": "name: string, versions: string[], platform: string, inputs: TensorMetadata[], "
    "outputs: TensorMetadata[]",
    "TensorMetadata": "name: string, datatype: string, shape: integer[]",
    "InferenceRequest": "id?: string, inputs: InputTensor[], outputs?: RequestedOutput[], "
    "parameters?: InferenceParameters",
    "InferenceParameters": "binary_data_output?: boolean",
    "InputTensor": "name: string, datatype: string, shape: count[], data: any[]",
    "TensorParameters": "binary_data_size?: count",
    "RequestedOutput": "name: string, parameters?: OutputParameters",
    "OutputParameters": "binary_data?: boolean",
    "InferenceResponse": "model_name: string, model_version: string, id?: string, outputs: OutputTensor[]",
    "OutputTensor": "name: string, datatype: string, shape: count[], data?: any[], parameters?: TensorParameters",
    "ModelConfiguration": "name: string, platform: string, backend: string, max_batch_size: count, "
    "input: ConfiguredTensor[], output: ConfiguredTensor[]",
    "ConfiguredTensor": "name: string, data_type: string, dims: integer[]",
    "Statistics": "model_stats: ModelStatistics[]",
    "ModelStatistics": "name: string, version: string, last_inference: count, inference_count: count, "
    "execution_count: count, inference_stats: InferenceStatistics",
    "InferenceStatistics": "success: Duration, fail: Duration, queue: Duration, compute_input: Duration, "
    "compute_infer: Duration, compute_output: Duration",
    "Duration": "count: count, ns: count",
    "IndexRequest": "ready?: boolean",
    "IndexedModel": "name: string, version: string, state: string, reason: string",
}
"""Schemas of objects that are alike for all models: their properties, those with a question mark optional."""

UNSTATED = "JSON Schema cannot state this: status 400, code unequal_lengths, if it is not so."
LEVELS = "Levels that training has not seen are predicted too, if the rules allow them; the model treats them alike."
DESCRIPTIONS = {
    "Error.error": "What is wrong, for people.",
    "Error.problems": "The wrong cells.",
    "Error.id": "Identifies the log entry of an internal error.",
    "CellProblem.row": "Number of the row, from 0, as in `error`.",
    "Explanation.label": "Class of the margin.",
    "Explanation.base": "Expected margin. base + the contributions of the columns + others = margin.",
    "Explanation.margin": "The output that is explained, before calibration.",
    "Explanation.scale": "What the margin is.",
    "Explanation.columns": "The columns with the largest absolute contributions, largest first.",
    "Explanation.others": "Sum of the contributions of all other columns.",
    "Explanation.reasons": "The columns that move the row most toward the adverse outcome, strongest first.",
    "ExplainedColumn.value": "The value that was sent.",
    "Reason.code": "null if the column has no code.",
    "Drift.max_rows": "The largest number of rows that are compared: the last ones.",
    "Drift.n_rows": "The number of rows that are compared.",
    "Drift.columns": "The worst first.",
    "DriftColumn.psi": "Less the value expected without drift.",
    "DriftColumn.p_value": "Adjusted for the number of tests.",
    "DriftColumn.change": "The largest changes in words.",
    "DriftColumn.reference": "Training rows in each cell.",
    "DriftColumn.current": "Predicted rows in each cell.",
    "InferenceRequest.inputs": "A tensor for each input column, of equal length; further ones are ignored.",
    "InferenceRequest.outputs": "Default: all. Each at most once.",
    "InputTensor.shape": "[n] or [n, 1].",
    "InputTensor.data": f"Numbers, texts, booleans or null, as many as the shape says. {UNSTATED}",
    "OutputTensor.data": "The label or number of each row.",
}


def ref(name: str) -> Json:
    """Return a reference to a schema."""
    return {"$ref": f"#/components/schemas/{name}"}


def array(items: Json, **further: Any) -> Json:
    """Return the schema of an array."""
    return {"type": "array", "items": items, **further}


def record(properties: Json, optional: Collection[str] = (), **further: Any) -> Json:
    """Return the schema of an object, whose properties are required unless they are optional."""
    required = [name for name in properties if name not in optional]
    return {"type": "object", "required": required, "properties": properties, **further}


def body_schemas(model: ServedModel, settings: ServeSettings) -> dict[str, Json]:
    """Return the schemas of all bodies, by name."""
    cells = {column["name"]: _cell_schema(model, column) for column in describe_columns(model)}
    outputs = {output.name: _output_schema(output) for output in model.outputs}
    explained = {output.name: ref("Explanation") for output in explained_names(model, settings)}
    columns = {name: array(cell, maxItems=settings.max_rows) for name, cell in cells.items()}
    found = {name: _named(name, text) for name, text in SCHEMAS.items()}
    names = _choices(model.output_names)
    datatypes = sorted({datatype_of(model, output) for output in model.outputs} | set(DATATYPES.values()))
    for name, more in {
        "Error.code": {"enum": list(CODES)},
        "Explanation.scale": {"enum": list(get_args(Scale))},
        "Drift.severity": {"enum": list(SEVERITIES)},
        "DriftColumn.severity": {"enum": list(SEVERITIES)},
        "InferenceRequest.inputs": {"minItems": len(cells)},
        "InputTensor.datatype": {"enum": [TEXT, *NUMBERS]},
        "InputTensor.shape": {"minItems": 1, "maxItems": 2},
        "RequestedOutput.name": names,
        "OutputTensor.name": names,
        "OutputTensor.datatype": {"enum": datatypes},
    }.items():
        schema, _, field = name.partition(".")
        found[schema]["properties"][field] |= more
    found["InputTensor"]["properties"]["shape"]["items"] |= {"maximum": settings.max_rows}
    return {
        "Row": record(cells),
        "Rows": array(ref("Row"), maxItems=settings.max_rows),
        "Columns": record({"columns": ref("ColumnValues")}),
        "ColumnValues": record(columns, description=f"Lists of equal length. {UNSTATED}"),
        "Prediction": record(outputs | explained, explained),
        "Predictions": array(ref("Prediction")),
        "PredictionColumns": record({"columns": ref("PredictionValues")}),
        "PredictionValues": record({name: array(kind) for name, kind in (outputs | explained).items()}, explained),
        **found,
    }


def _named(name: str, text: str) -> Json:
    """Return the schema of an object from its properties as in `SCHEMAS`."""
    properties, optional = {}, []
    for each in text.split(", "):
        field, kind = each.split(": ")
        if field.endswith("?"):
            optional.append(field := field.rstrip("?"))
        base = kind.removesuffix(" | null").removesuffix("[]")
        is_nullable = "| null" in kind
        is_list = "[]" in kind
        found = dict(TYPES[base]) if base in TYPES else ref(base)
        found = {"type": [base, "null"]} if is_nullable else array(found) if is_list else found
        about = DESCRIPTIONS.get(f"{name}.{field}")
        properties[field] = found | ({"description": about} if about else {})
    return record(properties, optional)


def explained_names(model: ServedModel, settings: ServeSettings) -> tuple[ExplainedOutput, ...]:
    """Return what the server explains."""
    return explained_outputs(model) if is_explainable(model, settings) else ()


def _output_schema(output: Output) -> Json:
    kind: Json = {"type": OUTPUT_TYPES[output.type]}
    return kind | (_choices(output.labels) if output.type in ("text", "integer") and output.labels else {})


def _choices(values: Sequence[Any]) -> Json:
    """Return the enumeration of integers or texts, or the pattern of texts that would be one name in a program."""
    if all(type(value) is int for value in values):
        return {"enum": list(values)}
    if not all(isinstance(value, str) for value in values):
        return {}
    names = {re.sub("[^0-9A-Za-z]", "", value).lower() for value in values}
    if "" not in names and len(names) == len(values):
        return {"enum": list(values)}
    texts = "|".join(SYNTAX.sub(r"\\\g<0>", value) for value in values)
    return {"pattern": f"^(?:{texts})$"}


def _cell_schema(model: ServedModel, column: Json) -> Json:
    """Return the schema of a cell, with those of its rules that refuse it and that JSON Schema can state."""
    found = _kind_schema(column)
    for rule in model.scorer.rules:
        if rule.column == column["name"] and rule.rules.otherwise == "refuse":
            found |= _rule_schema(column, rule.rules, found)
    if None in found.get("enum", ()):
        del found["type"]  # with both, a generator for Python makes three classes
    return found


def _kind_schema(column: Json) -> Json:
    kind, time_format = column["kind"], column["time_format"]
    null = ["null"] if column["nullable"] else []
    if kind == "list":
        items = {"type": ["number" if column["dtype"] == "list<number>" else "string", "null"]}
        return _typed(["array", *null]) | {"items": items}
    if kind != "datetime":
        written = ["string"] if column["number_format"] else []
        found = _typed([{"numeric": "number", "boolean": "boolean"}.get(kind, "string"), *written, *null])
        return found | ({"examples": column["levels"][:10], "description": LEVELS} if column["levels"] else {})
    about: Json = {"description": f"Expected: {expected_time(time_format)}"}
    if time_format in TICKS_PER_SECOND:
        return _typed(["number", *null]) | about
    if is_strict(time_format) and (format_ := pattern_of(time_format)).is_digits:
        about |= {"minimum": 0, "maximum": 10**format_.width - 1}
        null = ["integer", *null]
    pattern = json_pattern(time_format)
    return _typed(["string", *null]) | about | ({"pattern": pattern} if pattern else {})


def _typed(types: list[str]) -> Json:
    return {"type": types if len(types) > 1 else types[0]}


def _rule_schema(column: Json, rules: ColumnRules, cell: Json) -> Json:
    found: Json = {}
    null = ["null"] if column["nullable"] else []
    if rules.dtype is not None and rules.kind == "numeric" and "int" in rules.dtype and declare(rules.dtype):
        found |= _typed(["integer", *null])
    if rules.range is not None and rules.range_kind == "numeric":
        low, high = rules.range
        found |= {"minimum": low} if low is not None else {}
        found |= {"maximum": high} if high is not None else {}
    if rules.set is not None:
        found |= _choices(rules.set)
        if null and "enum" in found:
            found["enum"] = [*found["enum"], None]
    if rules.regex is not None and "pattern" not in {*found, *cell} and _is_shared(rules.regex):
        found["pattern"] = f"^(?:{rules.regex})$"
    return found


def _is_shared(regex: str) -> bool:
    """Return whether a regular expression has the syntax of RE2 that JSON Schema shares."""
    return re.search(r"\(\?[^:]|\\[AzQEC]", regex) is None
