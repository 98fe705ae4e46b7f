"""Validation of the replies from the child process of an untrusted model.

The ``read_`` functions raise ValueError, KeyError or TypeError if a reply is malformed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from typing import Any

from pydantic import TypeAdapter

from gpupipe.errors import ArtifactError, ConfigError, DataError, DeviceError, GpupipeError, SchemaError
from gpupipe.models import Prediction
from gpupipe.pipeline.goal import Goal
from gpupipe.pipeline.model.prediction_report import N_EXAMPLES, ColumnReport, PredictionReport
from gpupipe.pipeline.parity.verification import Verification
from gpupipe.pipeline.untrusted.messages import unpack_array
from gpupipe.table.schema import KINDS
from gpupipe.units import GIB

FLOATS, INTEGERS = ("<f4", "<f8"), ("<i4", "<i8")
ERRORS = {each.__name__: each for each in (ArtifactError, ConfigError, DataError, DeviceError, SchemaError)}
UNEXPECTED, TOO_LARGE = "unexpected", "LimitError"  # child errors that the model is to blame for
VERIFICATION = TypeAdapter(Verification)
MOST_LEVEL = 1 << 20  # characters of a level, which is a cell of the rows that were sent

Reply = Mapping[str, Any]
Parts = Sequence[memoryview]


def read_prediction(reply: Reply, parts: Parts, goal: Goal, n_rows: int) -> Prediction:
    """Return the prediction for `n_rows` rows by a model with `goal`."""
    by_task: dict[str, dict[str, tuple[tuple[str, ...], tuple[int | None, ...]]]] = {
        "binary": {"probability": (FLOATS, (n_rows,))},
        "multiclass": {"probability": (FLOATS, (n_rows, goal.n_classes))},
        "regression": {"value": (FLOATS, (n_rows,))},
        "ranking": {"value": (FLOATS, (n_rows,))},
        "quantile": {"quantiles": (FLOATS, (n_rows, goal.n_outputs))},
        "multioutput": {"outputs": (FLOATS, (n_rows, goal.n_outputs))},
        "clustering": {"label": (INTEGERS, (n_rows,)), "distance": (FLOATS, (n_rows,))},
        "embedding": {"embedding": (FLOATS, (n_rows, None))},
    }
    expected = by_task[goal.task]
    described = {each["name"]: (each, part) for each, part in zip(reply["arrays"], parts, strict=True)}
    if set(described) != set(expected) or len(parts) != len(expected):
        raise ValueError(f"arrays: expected {', '.join(expected)}; found {', '.join(map(repr, described)):.200}")
    arrays = {name: unpack_array(*described[name], *allowed) for name, allowed in expected.items()}
    return Prediction(goal.task, **arrays, targets=goal.specs)


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
        parts = {"what": error.what, "where": error.where, "fix": error.fix}
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
    return ERRORS[kind](what, where=place, fix=fix)


DO_NOT_USE = "do not use this model; if you trust its author, check its files with `gpupipe verify`"


def out_of_memory(where: str, memory_bytes: int) -> ArtifactError:
    """Return the error of a model that needs more memory than its limit."""
    # Must not match `gpupipe.backends.out_of_memory.WORDS`, or callers would retry with fewer rows.
    return ArtifactError(
        f"the untrusted model exceeded its memory limit of {memory_bytes / GIB:,.2f} GiB",
        where=where,
        fix="if you trust its author, allow more memory: --limit memory=SIZE (limits={'memory': ...} in Python)",
    )
