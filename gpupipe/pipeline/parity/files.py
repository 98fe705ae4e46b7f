"""Files of a parity record: rows as JSON (``parity_rows.json``), arrays as npz (``parity.npz``)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from gpupipe.artifact import ArtifactReader, ArtifactWriter
from gpupipe.pipeline.model.format_1 import is_format_1, read_parity_rows
from gpupipe.pipeline.parity.record import ParityRecord
from gpupipe.pipeline.parity.rows import TrialRows
from gpupipe.typing import Array

ROWS, ARRAYS = "parity_rows.json", "parity.npz"
DTYPES = {
    "row": "int64", "features": "float32", "predicted": "bool", "outputs": "float64", "label": "int32",
    "target": "float64", "numbers": "float64",
}  # fmt: skip
MATRICES = ("features", "outputs", "numbers")
OF_TARGETS = ("label", "target")  # with several targets, matrices
NUMBER = pa.float64()
TYPES = {str(kind): kind for kind in (NUMBER, pa.string(), pa.bool_(), pa.timestamp("us"))}


def write_record(writer: ArtifactWriter, recorded: ParityRecord) -> None:
    """Write a record. Numeric inputs are columns of the array ``numbers``, other inputs are JSON lists."""
    trial = recorded.trial
    inputs = dict(zip(trial.inputs.column_names, trial.inputs.columns, strict=True))
    numbers = [values.to_numpy() for values in inputs.values() if values.type == NUMBER]
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

    Raises
    ------
    KeyError, TypeError, ValueError
        If the files are malformed.
    """
    if is_format_1(reader):
        cases, inputs, arrays = read_parity_rows(reader)
    else:
        rows, arrays = reader.json(ROWS), reader.arrays(ARRAYS)
        cases = rows["cases"]
        _check_arrays(arrays, len(cases))
        inputs = pa.table(dict(_inputs(rows["inputs"], arrays["numbers"])))
    trial = TrialRows(inputs, cases, arrays["row"], arrays["target"], metrics)
    return ParityRecord(trial, *(arrays[name] for name in ("features", "predicted", "outputs", "label")))


def _check_arrays(arrays: Mapping[str, Array], n_rows: int) -> None:
    for name, dtype in DTYPES.items():
        array, ndim = arrays[name], 1 + (name in MATRICES)
        is_shaped = array.ndim == ndim or (array.ndim == 2 and name in OF_TARGETS)
        if array.dtype != dtype or not is_shaped or len(array) != n_rows:
            found = f"{array.dtype} of shape {array.shape}"
            raise ValueError(f"{name}: expected {dtype} with {ndim} dimensions and {n_rows} rows; found {found}")


def _inputs(described: list[dict[str, Any]], numbers: Array) -> Iterator[tuple[str, pa.Array]]:
    columns = iter(numbers.T)
    for column in described:
        kind = TYPES[column["type"]]
        if kind == NUMBER:
            yield column["name"], pa.array(next(columns), kind, from_pandas=True)  # NaN is null
        else:
            yield column["name"], pa.array(column["values"], kind)
