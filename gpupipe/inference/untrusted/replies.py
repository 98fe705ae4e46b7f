"""Validation of the replies from the child process of an untrusted model.

The ``read_`` functions raise ValueError, KeyError or TypeError if a reply is malformed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from itertools import accumulate, pairwise
from typing import Any

from pydantic import TypeAdapter

from gpupipe.errors import ArtifactError, ConfigError, DataError, DeviceError, GpupipeError, SchemaError
from gpupipe.inference.drift.counted_column import counted_columns
from gpupipe.inference.drift.files import parse_reference
from gpupipe.inference.drift.reference import DriftReference
from gpupipe.inference.evaluation.held_out import HeldOutRows, check_held_out
from gpupipe.inference.parity.verification import Verification
from gpupipe.inference.prediction.prediction_report import N_EXAMPLES, ColumnReport, PredictionReport
from gpupipe.inference.untrusted.limits import DO_NOT_USE, out_of_memory
from gpupipe.inference.untrusted.messages import unpack_array
from gpupipe.model_parts.goal import Goal
from gpupipe.models import Prediction
from gpupipe.table.row_numbers import CellsError, RowNumbers
from gpupipe.table.schema import KINDS, Schema
from gpupipe.typing import Array

FLOATS, INTEGERS = ("<f4", "<f8"), ("<i4", "<i8")
ARRAYS = {field.name: FLOATS for field in fields(Prediction)} | {"label": INTEGERS}
CELL_DTYPES = ("<u2", "<u4", "<i8", *FLOATS)  # of the counts and edges of a reference
ERRORS = {each.__name__: each for each in (ArtifactError, ConfigError, DataError, DeviceError, SchemaError)}
UNEXPECTED, TOO_LARGE = "unexpected", "LimitError"  # child errors that the model is to blame for
VERIFICATION = TypeAdapter(Verification)
LINES = TypeAdapter(list[tuple[str, RowNumbers | None]])
MOST_LEVEL = 1 << 20  # characters of a level, which is a cell of the rows that were sent

Reply = Mapping[str, Any]
Parts = Sequence[memoryview]


def read_prediction(reply: Reply, parts: Parts, goal: Goal, n_rows: int) -> Prediction:
    """Return the prediction for `n_rows` rows by a model with `goal`."""
    arrays = {}
    for each, part in zip(reply["arrays"], parts, strict=True):
        dtypes, shape = ARRAYS[each["name"]], (None,) * len(each["shape"])
        arrays[each["name"]] = unpack_array(each, part, dtypes, shape)
    prediction = Prediction(goal.task, **arrays, targets=goal.specs)
    prediction.check(n_rows, goal.n_classes, goal.n_outputs)
    return prediction


def read_training_rows(schema: Schema, reply: Reply, parts: Parts) -> DriftReference:
    """Return the reference of a model whose encoded input columns are `schema`."""
    described = zip(reply["arrays"], parts, strict=True)
    arrays = {each["name"]: unpack_array(each, part, CELL_DTYPES, (None,)) for each, part in described}
    reference = parse_reference(reply["reference"], arrays)
    counted_columns(reference.columns, schema)  # raises if they do not belong together
    return reference


def read_held_out_rows(goal: Goal, reply: Reply, parts: Parts) -> HeldOutRows | None:
    """Return the held-out rows of a model with this goal; None if it has none."""
    described = zip(reply["arrays"], parts, strict=True)
    arrays = {each["name"]: unpack_array(each, part, ("<f8",), (None, None)) for each, part in described}
    return check_held_out(arrays, goal) if arrays else None


def read_counts(sizes: Sequence[int], n_rows: int, reply: Reply, parts: Parts) -> Array:
    """Return the counts of `n_rows` rows in the cells of columns, which have `sizes` cells."""
    ((described, part),) = zip(reply["arrays"], parts, strict=True)
    counts = unpack_array(described, part, ("<i8",), (sum(sizes),))
    is_valid = not ((counts < 0) | (counts > n_rows)).any()
    if not is_valid or any(counts[a:b].sum() != n_rows for a, b in pairwise(accumulate(sizes, initial=0))):
        raise ValueError(f"counts: expected each of {n_rows:,} rows in one cell of each column")
    return counts


def read_report(document: Any, n_rows: int) -> PredictionReport:
    """Return the report on `n_rows` rows."""
    if document["n_rows"] != n_rows or not isinstance(document["columns"], list):
        raise ValueError(f"report: expected {n_rows} rows; found {document['n_rows']!r:.40}")
    # Alarms are recomputed from the columns.
    return PredictionReport(n_rows, tuple(_column_report(each, n_rows) for each in document["columns"]))


def _column_report(document: Any, n_rows: int) -> ColumnReport:
    if set(document) != {field.name for field in fields(ColumnReport)}:
        raise ValueError("report: a column has unexpected entries")
    levels = document["unseen_levels"]
    is_valid = (
        isinstance(document["name"], str)
        and document["kind"] in (*KINDS, "raw")
        and _is_count(document["n_null"], n_rows)
        and all(document[key] is None or _is_count(document[key], n_rows) for key in ("n_unseen", "n_below", "n_above"))
        and all(document[key] is None or type(document[key]) in (int, float) for key in ("low", "high"))
        and all(
            document[key] is None or (type(document[key]) in (int, float) and 0 <= document[key] <= 1)
            for key in ("null_share", "unseen_share")
        )
        and isinstance(levels, list)
        and len(levels) <= N_EXAMPLES
        and all(isinstance(level, str) and len(level) <= MOST_LEVEL for level in levels)
    )
    if not is_valid:
        raise ValueError(f"report: column {document['name']!r:.40} is malformed")
    return ColumnReport(**{**document, "unseen_levels": tuple(levels)})


def _is_count(value: Any, most: float) -> bool:
    return type(value) is int and 0 <= value <= most


def write_verification(found: Verification) -> dict[str, Any]:
    """Return a verification as JSON values; floats become text, because JSON has neither NaN nor infinity."""
    values: dict[str, Any] = _float_texts(asdict(found))
    return values


def _float_texts(value: Any) -> Any:
    if isinstance(value, float):
        return repr(float(value))
    if isinstance(value, Mapping):
        return {key: _float_texts(item) for key, item in value.items()}
    return [_float_texts(item) for item in value] if isinstance(value, list | tuple) else value


def read_verification(document: Any) -> Verification:
    """Return the verification written by `write_verification`."""
    found = VERIFICATION.validate_python(document)
    if not found.columns:
        raise ValueError("verification: expected at least one column")
    return found


def _check_text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"expected text; found {value!r:.40}")
    return value


def write_error(error: Exception) -> dict[str, Any]:
    """Return an error as JSON values."""
    if isinstance(error, GpupipeError):
        kinds = [kind.__name__ for kind in type(error).__mro__ if kind.__name__ in (*ERRORS, TOO_LARGE)]
        parts: dict[str, Any] = {"what": error.what, "where": error.where, "fix": error.fix}
        if isinstance(error, CellsError):  # its rows are those of a chunk
            parts["lines"] = [[text, None if rows is None else asdict(rows)] for text, rows in error.lines]
        return {"error": {"kind": kinds[0] if kinds else UNEXPECTED, **parts}}
    is_memory = isinstance(error, MemoryError)
    what = f"{type(error).__name__}: {error}"
    return {"error": {"kind": TOO_LARGE if is_memory else UNEXPECTED, "what": what, "where": "", "fix": ""}}


def read_error(document: Any, where: str, memory_bytes: int) -> GpupipeError:
    """Return the error reported by the child.

    `document` has JSON values written by `write_error`. `where` is the model directory, and `memory_bytes` the memory
    limit of the child.
    """
    kind, what, place, fix = (_check_text(document[key]) for key in ("kind", "what", "where", "fix"))
    if kind == TOO_LARGE:
        return out_of_memory(where, memory_bytes)
    if kind == UNEXPECTED:
        return ArtifactError(f"the untrusted model failed unexpectedly: {what}", where=place or where, fix=DO_NOT_USE)
    if "lines" in document:
        return CellsError(LINES.validate_python(document["lines"]), where=place, fix=fix)
    return ERRORS[kind](what, where=place, fix=fix)
