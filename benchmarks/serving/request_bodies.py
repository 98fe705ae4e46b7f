"""Bodies of requests for the rows of a workload, written to files with a body per line."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

ONE = "one row, /predict"
BATCH = "100 rows, /predict"
INFER = "one row, V2 infer"
N_BATCH = 100
DATATYPES = {"numeric": "FP64", "boolean": "BOOL"}  # of the Open Inference Protocol; others are BYTES


def write_bodies(rows: Sequence[Mapping[str, Any]], kinds: Mapping[str, str], folder: Path) -> dict[str, Path]:
    """Write the bodies of each scenario and return their files.

    Parameters
    ----------
    rows : sequence of dict
    kinds : mapping of str to str
        The kind of each column.
    folder : Path
    """
    encoded = [json_row(row) for row in rows]
    batches = [encoded[i : i + N_BATCH] for i in range(0, len(encoded) - N_BATCH + 1, N_BATCH)]
    complete = [row for row in encoded if None not in row.values()]  # the protocol has no nulls
    scenarios: dict[str, Iterator[Any]] = {
        ONE: iter(encoded),
        BATCH: iter(batches),
        INFER: ({"inputs": [_tensor(name, kinds[name], row[name]) for name in row]} for row in complete),
    }
    files = {}
    for i, (name, bodies) in enumerate(scenarios.items()):
        files[name] = folder / f"{i}.jsonl"
        files[name].write_text("".join(json.dumps(body) + "\n" for body in bodies), encoding="utf8")
    return files


def json_row(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row with times as ISO 8601 texts."""
    return {name: value.isoformat() if isinstance(value, datetime) else value for name, value in row.items()}


def _tensor(name: str, kind: str, value: Any) -> dict[str, Any]:
    return {"name": name, "shape": [1], "datatype": DATATYPES.get(kind, "BYTES"), "data": [value]}
