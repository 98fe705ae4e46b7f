"""Files of a parity record: rows as JSON (``parity_rows.json``), arrays as npz (``parity.npz``)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from gpupipe.arrow_numpy import number_array, to_numpy, value_array
from gpupipe.artifact import ArtifactReader, ArtifactWriter
from gpupipe.inference.parity.arrays import ARRAYS, DTYPES, read_parity_arrays
from gpupipe.inference.parity.record import ParityRecord, TrialRows
from gpupipe.model_parts.format_1 import is_format_1, read_parity_rows
from gpupipe.typing import Array

ROWS = "parity_rows.json"
NUMBER = pa.float64()
TYPES = {str(kind): kind for kind in (NUMBER, pa.string(), pa.bool_(), pa.timestamp("us"))}
SHAPE = {"cases": [str], "inputs": [{"name": str, "type": {*TYPES}, "values?": [(str, int, bool, None)]}]}


def write_record(writer: ArtifactWriter, recorded: ParityRecord) -> None:
    """Write a record. Numeric inputs are columns of the array ``numbers``, other inputs are JSON lists."""
    trial = recorded.trial
    inputs = dict(zip(trial.inputs.column_names, trial.inputs.columns, strict=True))
    numbers = [to_numpy(values) for values in inputs.values() if values.type == NUMBER]
    arrays = {
        "row": trial.rows, "features": recorded.X, "predicted": recorded.predicted, "outputs": recorded.outputs,
        "label": recorded.labels, "target": trial.target, "numbers": np.reshape(numbers, (-1, len(trial.cases))).T,
    }  # fmt: skip
    described = [{"name": name, "type": str(values.type), **_listed(values)} for name, values in inputs.items()]
    writer.json(ROWS, {"cases": trial.cases, "inputs": described}, compact=True)
    writer.arrays(ARRAYS, {name: np.asarray(values, DTYPES[name]) for name, values in arrays.items()})


def _listed(values: pa.ChunkedArray) -> dict[str, list[Any]]:
    if values.type == NUMBER:
        return {}
    return {"values": (values.cast(pa.int64()) if pa.types.is_timestamp(values.type) else values).to_pylist()}


def read_record(reader: ArtifactReader, metrics: tuple[str, ...]) -> ParityRecord:
    """Return the record written by `write_record`, with the names of the `metrics` to compare.

    Raise KeyError, TypeError or ValueError if the files are malformed.
    """
    if is_format_1(reader):
        cases, inputs, arrays = read_parity_rows(reader)
    else:
        rows, arrays = reader.json(ROWS, SHAPE), read_parity_arrays(reader)
        cases = rows["cases"]
        if len(cases) != len(arrays["row"]):
            raise ValueError(f"expected {len(arrays['row'])} cases; found {len(cases)}")
        inputs = pa.table(dict(_inputs(rows["inputs"], arrays["numbers"])))
    trial = TrialRows(inputs, cases, arrays["row"], arrays["target"], metrics)
    return ParityRecord(trial, *(arrays[name] for name in ("features", "predicted", "outputs", "label")))


def _inputs(described: list[dict[str, Any]], numbers: Array) -> Iterator[tuple[str, pa.Array]]:
    columns = iter(numbers.T)
    for column in described:
        kind = TYPES[column["type"]]
        if kind == NUMBER:
            values = next(columns)
            yield column["name"], number_array(values, np.isnan(values))
        else:
            yield column["name"], value_array(column["values"], kind)
