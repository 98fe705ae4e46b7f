"""Roads from rows to answers of one model: files, frames, dicts, the scorer, the server, Dask, chunks and ONNX.

Each road writes the values of the rows as its producers do: CSV as text, JSON as its own numbers and texts, Parquet
with types. A road returns one answer for each row, as float64.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from functools import cached_property
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from gpupipe import Model, Scorer
from gpupipe.inference.scoring.cluster import score_on_workers
from tests.inline_workers import InlineWorkers
from tests.properties.values import KINDS, arrow_table, is_without_text, text_of
from tests.serve.conftest import AppClient

Array = Any
Row = Mapping[str, Any]
BEYOND_MILLISECONDS = KINDS["extreme time"].scored  # seconds
ARROW_STREAM = "application/vnd.apache.arrow.stream"


@dataclass(frozen=True)
class Served:
    """A model, its scorer and its server, in this process."""

    model: Model
    folder: Path
    kinds: Sequence[str]

    @cached_property
    def scorer(self) -> Scorer:
        """The scorer, with NumPy: the compiled one starts slowly."""
        return self.model.scorer(engine="numpy")

    @cached_property
    def client(self) -> AppClient:
        """A client of the server."""
        return AppClient(self.model.folder)

    @cached_property
    def onnx(self) -> Any:
        """The exported file: a session and its inputs."""
        import onnxruntime

        found = self.model.to_onnx(self.folder / "model.onnx")
        return onnxruntime.InferenceSession(found.path, providers=["CPUExecutionProvider"]), found.inputs

    def close(self) -> None:
        """Stop the server, if there is one."""
        if "client" in self.__dict__:
            self.client.__exit__()

    def table(self, rows: Sequence[Row]) -> pa.Table:
        """Return rows as an Arrow table."""
        return arrow_table([KINDS[name] for name in self.kinds], rows)

    def cells(self, rows: Sequence[Row]) -> list[dict[str, Any]]:
        """Return rows as dicts of Python values."""
        return [{name: KINDS[name].plain(row[name]) for name in self.kinds} for row in rows]

    def answers(self, data: Any) -> Array:
        """Return the predictions of the model for data of any form."""
        return self.model.predict_table(data)["prediction"].to_numpy()


def arrow(served: Served, rows: Sequence[Row]) -> Array:
    """Predict an Arrow table."""
    return served.answers(served.table(rows))


def arrow_chunks(served: Served, rows: Sequence[Row]) -> Array:
    """Predict a stream of batches, each with separate dictionaries."""
    batches = [served.table(rows[at : at + 3]).combine_chunks().to_batches()[0] for at in range(0, len(rows), 3)]
    return served.answers(pa.RecordBatchReader.from_batches(batches[0].schema, batches))


def arrow_file(served: Served, rows: Sequence[Row]) -> Array:
    """Predict a file of Arrow."""
    table, path = served.table(rows), served.folder / "rows.arrow"
    with pa.ipc.new_file(path, table.schema) as out:
        out.write_table(table)
    return served.answers(path)


def parquet(served: Served, rows: Sequence[Row]) -> Array:
    """Predict a Parquet file; it has milliseconds where others have seconds."""
    table, path = _within_milliseconds(served.table(rows)), served.folder / "rows.parquet"
    pq.write_table(table, path, row_group_size=4)
    return served.answers(path)


def _within_milliseconds(table: pa.Table) -> pa.Table:
    """Return a table with times that milliseconds cannot hold as null, as every writer of Parquet needs them."""
    for position, column in enumerate(table.columns):
        if column.type == pa.timestamp("s"):
            ticks = column.cast(pa.int64()).combine_chunks()
            kept = pc.if_else(pc.is_in(ticks, pa.array(BEYOND_MILLISECONDS)), pa.scalar(None, pa.int64()), ticks)
            table = table.set_column(position, table.column_names[position], kept.view(column.type))
    return table


def write_csv(path: Path, cells: Sequence[Row]) -> Path:
    """Write rows to a CSV file as Python programs do."""
    with path.open("w", newline="", encoding="utf-8") as out:
        writer = csv.writer(out)
        writer.writerow(cells[0])
        writer.writerows([[text_of(value) for value in row.values()] for row in cells])
    return path


def csv_file(served: Served, rows: Sequence[Row]) -> Array:
    """Predict a CSV file."""
    return served.answers(write_csv(served.folder / "rows.csv", served.cells(rows)))


def csv_of_pandas(served: Served, rows: Sequence[Row]) -> Array:
    """Predict a CSV file that pandas wrote: integers in a column with nulls are floats, where these hold them."""
    frame = pd.DataFrame(served.cells(rows), dtype=object)
    frame = frame.mask(frame.map(is_without_text), None)
    for name in frame:
        known = frame[name].dropna()
        if len(known) < len(frame) and all(type(value) is int and abs(value) <= 2**53 for value in known):
            frame[name] = frame[name].astype(float)
    frame.to_csv(served.folder / "rows.csv", index=False)
    return served.answers(served.folder / "rows.csv")


def json_of(value: Any) -> str:
    """Return a cell as JSON: numbers with all digits, times in ISO 8601, what JSON lacks as null."""
    if is_without_text(value) or (isinstance(value, float) and np.isinf(value)):
        return "null"
    value = value.item() if isinstance(value, np.datetime64) else value
    if isinstance(value, datetime | date):
        return json.dumps(value.isoformat())
    return str(value) if isinstance(value, Decimal) else json.dumps(str(value) if isinstance(value, UUID) else value)


def json_objects(rows: Sequence[Row]) -> list[str]:
    """Return rows as JSON objects."""
    return ["{" + ", ".join(f"{json.dumps(name)}: {json_of(row[name])}" for name in row) + "}" for row in rows]


def write_json_lines(path: Path, cells: Sequence[Row]) -> Path:
    """Write rows to a file of JSON lines."""
    path.write_text("\n".join(json_objects(cells)) + "\n", encoding="utf-8")
    return path


def json_lines(served: Served, rows: Sequence[Row]) -> Array:
    """Predict a file of JSON lines."""
    return served.answers(write_json_lines(served.folder / "rows.jsonl", served.cells(rows)))


def nullable_frame(table: pa.Table) -> pd.DataFrame:
    """Return a pandas frame of the dtypes that hold nulls and all digits."""
    nullable = {kind: pd.api.types.pandas_dtype(str(kind).capitalize().replace("Uint", "UInt"))
                for kind in (pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint64())}  # fmt: skip
    frame = table.to_pandas(types_mapper={**nullable, pa.bool_(): pd.BooleanDtype()}.get)
    for name, column in zip(table.column_names, table.columns, strict=True):
        if column.type == pa.uuid():
            frame[name] = pd.Series(column.to_pylist(), dtype=object)
    return frame


def pandas_frame(served: Served, rows: Sequence[Row]) -> Array:
    """Predict a frame of pandas, whose index has nothing to say."""
    frame = nullable_frame(served.table(rows))
    return served.answers(frame.set_axis(range(len(frame), 0, -1)))


def pandas_arrow_frame(served: Served, rows: Sequence[Row]) -> Array:
    """Predict a frame of pandas with Arrow dtypes."""
    return served.answers(served.table(rows).to_pandas(types_mapper=pd.ArrowDtype))


def pandas_objects(served: Served, rows: Sequence[Row]) -> Array:
    """Predict a frame of pandas that holds Python objects."""
    return served.answers(pd.DataFrame(served.cells(rows), dtype=object))


def polars_frame(served: Served, rows: Sequence[Row]) -> Array:
    """Predict a frame of polars, which has milliseconds where others have seconds, and UUIDs as text."""
    import polars as pl

    table = _within_milliseconds(served.table(rows))
    for position, column in enumerate(table.columns):
        if column.type == pa.uuid():
            texts = [None if value is None else str(value) for value in column.to_pylist()]
            table = table.set_column(position, table.column_names[position], pa.array(texts))
    return served.answers(pl.from_arrow(table))


def dict_of_columns(served: Served, rows: Sequence[Row]) -> Array:
    """Predict a dict of lists."""
    cells = served.cells(rows)
    return served.answers({name: [row[name] for row in cells] for name in served.kinds})


def list_of_dicts(served: Served, rows: Sequence[Row]) -> Array:
    """Predict a list of rows."""
    return served.answers(served.cells(rows))


def single_dicts(served: Served, rows: Sequence[Row]) -> Array:
    """Predict one row at a time."""
    return np.concatenate([served.answers(row) for row in served.cells(rows)])


def scorer(served: Served, rows: Sequence[Row]) -> Array:
    """Score all rows at once."""
    return np.asarray(served.scorer.predict(served.cells(rows)), float)


def scorer_of_single_rows(served: Served, rows: Sequence[Row]) -> Array:
    """Score one row at a time."""
    return np.array([served.scorer.predict(row) for row in served.cells(rows)], float)


def _posted(served: Served, body: bytes, content_type: str) -> bytes:
    reply = served.client("/predict", body, headers={"content-type": content_type})
    assert reply.status == 200, reply.body.decode()
    return reply.body


def server_json(served: Served, rows: Sequence[Row]) -> Array:
    """Post a list of JSON objects."""
    body = "[" + ", ".join(json_objects(served.cells(rows))) + "]"
    found = json.loads(_posted(served, body.encode(), "application/json"))
    return np.array([row["prediction"] for row in found], float)


def server_columns(served: Served, rows: Sequence[Row]) -> Array:
    """Post columns in JSON."""
    cells = served.cells(rows)
    columns = [f"{json.dumps(name)}: [{', '.join(json_of(row[name]) for row in cells)}]" for name in served.kinds]
    body = '{"columns": {' + ", ".join(columns) + "}}"
    return np.array(json.loads(_posted(served, body.encode(), "application/json"))["columns"]["prediction"], float)


def server_lines(served: Served, rows: Sequence[Row]) -> Array:
    """Post JSON lines."""
    body = "\n".join(json_objects(served.cells(rows)))
    found = _posted(served, body.encode(), "application/x-ndjson").splitlines()
    return np.array([json.loads(row)["prediction"] for row in found], float)


def server_arrow(served: Served, rows: Sequence[Row]) -> Array:
    """Post an Arrow stream."""
    table, body = served.table(rows), io.BytesIO()
    with pa.ipc.new_stream(body, table.schema) as out:
        out.write_table(table)
    found: Array = pa.ipc.open_stream(_posted(served, body.getvalue(), ARROW_STREAM)).read_all()["prediction"]
    return found.to_numpy()


def dask_frame(served: Served, rows: Sequence[Row]) -> Array:
    """Predict a Dask DataFrame in partitions of two rows."""
    import dask.dataframe

    frame = dask.dataframe.from_pandas(nullable_frame(served.table(rows)), chunksize=2, sort=False)
    return served.model.predict(frame).compute(scheduler="sync").to_numpy()


def chunks_of_csv(served: Served, rows: Sequence[Row]) -> Array:
    """Predict a CSV file in chunks, as the workers of a cluster do."""
    return _scored_in_chunks(served, write_csv(served.folder / "rows.csv", served.cells(rows)))


def chunks_of_json_lines(served: Served, rows: Sequence[Row]) -> Array:
    """Predict a file of JSON lines in chunks."""
    return _scored_in_chunks(served, write_json_lines(served.folder / "rows.jsonl", served.cells(rows)))


def _scored_in_chunks(served: Served, path: Path) -> Array:
    folder = served.folder / "scored"
    folder.mkdir(exist_ok=True)
    for old in folder.iterdir():
        old.unlink()
    score_on_workers(served.model, str(path), folder, InlineWorkers(served.model.backend, 3))
    return pq.read_table(folder)["prediction"].to_numpy()


def onnx(served: Served, rows: Sequence[Row]) -> Array:
    """Run the exported file in ONNX Runtime."""
    session, inputs = served.onnx
    table = served.table(rows)
    found = session.run(["prediction"], {each.column.source: each.feed(table[each.column.source]) for each in inputs})
    return np.asarray(found[0], float).reshape(-1)


Road = Callable[[Served, Sequence[Row]], Array]
ROADS: tuple[Road, ...] = (
    arrow_chunks, arrow_file, parquet, csv_file, csv_of_pandas, json_lines, pandas_frame, pandas_arrow_frame,
    pandas_objects, polars_frame, dict_of_columns, list_of_dicts, single_dicts, scorer, scorer_of_single_rows,
    server_json, server_columns, server_lines, server_arrow, dask_frame, chunks_of_csv, chunks_of_json_lines,
)  # fmt: skip


def text_frame(served: Served, cells: Sequence[Row]) -> Array:
    """Predict an Arrow table with columns of text."""
    columns = {name: pa.array([text_of(row[name]) for row in cells], pa.string()) for name in served.kinds}
    return served.answers(pa.table(columns))


def text_csv(served: Served, cells: Sequence[Row]) -> Array:
    """Predict a CSV file of plain cells."""
    return served.answers(write_csv(served.folder / "rows.csv", cells))


def text_json_lines(served: Served, cells: Sequence[Row]) -> Array:
    """Predict a file of JSON lines of plain cells."""
    return served.answers(write_json_lines(served.folder / "rows.jsonl", cells))


def text_dicts(served: Served, cells: Sequence[Row]) -> Array:
    """Predict a list of dicts of plain cells, each value as text."""
    return served.answers([{name: text_of(value) for name, value in row.items()} for row in cells])


def text_scorer(served: Served, cells: Sequence[Row]) -> Array:
    """Score plain cells."""
    return np.asarray(served.scorer.predict([*cells]), float)


def text_server(served: Served, cells: Sequence[Row]) -> Array:
    """Post plain cells as JSON."""
    body = "[" + ", ".join(json_objects(cells)) + "]"
    found = json.loads(_posted(served, body.encode(), "application/json"))
    return np.array([row["prediction"] for row in found], float)


ODD_TEXT_ROADS: tuple[Road, ...] = (text_frame, text_csv, text_json_lines, text_dicts, text_scorer, text_server)
