"""Files of a reference in a model directory: counts and edges as arrays, names and levels as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from gpupipe.artifact import ArtifactReader, ArtifactWriter
from gpupipe.artifact.untrusted.shapes import check_shape
from gpupipe.inference.drift.reference import MOST_LEVELS, N_BINS, DriftColumn, DriftReference, MetricReference, n_cells
from gpupipe.typing import Array

NAME, ARRAYS = "drift.json", "drift.npz"
KINDS = ("numeric", "boolean", "categorical", "datetime", "text", "list", "raw")
EDGE_DTYPES = {"numeric": ("float32", "float64"), "datetime": ("int64",)}
COUNT_DTYPES = ("uint16", "uint32", "int64")
MOST_ROWS = 2**53
_COLUMN = {"name": str, "kind": {*KINDS}, "counts": {*COUNT_DTYPES}, "edges?": str, "n?": range(N_BINS + 2)}
_COLUMN |= {"levels?": [str], "hashed?": bool}
SHAPE = {"columns": [_COLUMN], "scores": [_COLUMN], "metrics": {...: [float]}, "time": str}


def write_reference(writer: ArtifactWriter, reference: DriftReference) -> None:
    """Write a reference, less than 0.5 kB for a usual column."""
    document, arrays = describe_reference(reference)
    writer.json(NAME, document, compact=True)
    writer.arrays(ARRAYS, arrays)


def describe_reference(reference: DriftReference) -> tuple[dict[str, Any], dict[str, Array]]:
    """Return a reference as JSON values and arrays by name.

    The arrays of all columns with the same dtype are one: an entry of an archive takes as much room as a column.
    """
    arrays: dict[str, list[Array]] = {}
    document = {
        "columns": [_describe(column, arrays) for column in reference.columns],
        "scores": [_describe(column, arrays) for column in reference.scores],
        "metrics": {name: [each.value, each.n_rows] for name, each in reference.metrics.items()},
        "time": reference.time,
    }
    return document, {key: np.concatenate(parts) for key, parts in arrays.items()}


def _describe(column: DriftColumn, arrays: dict[str, list[Array]]) -> dict[str, Any]:
    largest = int(column.counts.max(initial=0))
    dtype = next(d for d in COUNT_DTYPES if largest <= np.iinfo(d).max)
    arrays.setdefault(f"counts_{dtype}", []).append(column.counts.astype(dtype))
    values: dict[str, Any] = {"name": column.name, "kind": column.kind, "counts": dtype}
    if column.edges is not None:
        arrays.setdefault(f"edges_{column.edges.dtype}", []).append(column.edges)
        values |= {"edges": str(column.edges.dtype), "n": len(column.edges)}
    if column.levels is not None:
        values |= {"levels": list(column.levels), **({"hashed": True} if column.is_hashed else {})}
    return values


def read_reference(reader: ArtifactReader) -> DriftReference | None:
    """Return the reference of a model directory; None if the model was trained without one.

    Raise ArtifactError or ValueError if a file is malformed.
    """
    return parse_reference(reader.json(NAME), reader.arrays(ARRAYS)) if NAME in reader.names() else None


def parse_reference(document: Any, arrays: Mapping[str, Array]) -> DriftReference:
    """Return the reference of `describe_reference`; raise ValueError if it is malformed."""
    check_shape(document, SHAPE)
    rest = _Rest(arrays)
    columns, scores = (tuple(_read_columns(document[key], rest)) for key in ("columns", "scores"))
    rest.check_empty()
    metrics = {}
    for name, pair in document["metrics"].items():
        if len(pair) != 2 or type(pair[1]) is not int or pair[1] < 1:
            raise ValueError(f"metrics.{name:.40}: expected a finite number and a number of rows; found {pair!r:.80}")
        metrics[name] = MetricReference(float(pair[0]), pair[1])
    return DriftReference(columns, scores, metrics, document["time"])


class _Rest:
    """The unread ends of the arrays."""

    def __init__(self, arrays: Mapping[str, Array]) -> None:
        self.arrays = dict(arrays)
        for key, array in arrays.items():
            if array.ndim != 1 or str(array.dtype) != key.partition("_")[2]:
                raise ValueError(f"array {key!r:.40}: expected one dimension and the dtype of its name")

    def take(self, key: str, n: int) -> Array:
        """Return the next `n` elements of an array."""
        array: Array = self.arrays[key]
        if len(array) < n:
            raise ValueError(f"array {key}: expected {n} more elements; found {len(array)}")
        self.arrays[key] = array[n:]
        taken: Array = array[:n]
        return taken

    def check_empty(self) -> None:
        """Raise ValueError if elements are left."""
        if any(len(array) for array in self.arrays.values()):
            raise ValueError("the arrays have more elements than the columns")


def _read_columns(values: Sequence[Mapping[str, Any]], rest: _Rest) -> Sequence[DriftColumn]:
    if len({each["name"] for each in values}) < len(values):
        raise ValueError("expected columns with distinct names")
    return [_read_column(each, rest) for each in values]


def _read_column(values: Mapping[str, Any], rest: _Rest) -> DriftColumn:
    name, kind = values["name"], values["kind"]
    edges, levels = None, None
    if kind in EDGE_DTYPES:
        edges = _read_edges(values, EDGE_DTYPES[kind], rest)
    elif kind in ("boolean", "categorical"):
        levels = values.get("levels", [])
        if len(levels) > MOST_LEVELS:
            raise ValueError(f"column {name!r:.40}: expected at most {MOST_LEVELS} levels; found {len(levels):,}")
        if len(set(levels)) < len(levels):
            raise ValueError(f"column {name!r:.40}: a level occurs twice")
    counts = rest.take(f"counts_{values['counts']}", n_cells(edges, levels)).astype(np.int64)
    if counts.min() < 0 or counts.max() > MOST_ROWS // len(counts):
        raise ValueError(f"column {name!r:.40}: a count is out of range")
    levels = None if levels is None else tuple(levels)
    return DriftColumn(name, kind, counts, edges, levels, values.get("hashed", False))


def _read_edges(values: Mapping[str, Any], dtypes: Sequence[str], rest: _Rest) -> Array:
    dtype, n = values.get("edges"), values.get("n", 0)
    if dtype not in dtypes:
        raise ValueError(f"expected at most {N_BINS + 1} edges of {' or '.join(dtypes)}")
    edges = rest.take(f"edges_{dtype}", n)
    if not np.isfinite(edges).all() or (np.diff(edges) <= 0).any():
        raise ValueError("expected finite and ascending edges")
    return edges
