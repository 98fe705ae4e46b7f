"""A small table in every format, in the variants that writers produce."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from datetime import datetime, timedelta
from functools import partial
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.feather as feather
import pyarrow.orc as orc
import pyarrow.parquet as pq

N_ROWS = 60
TARGET = "churned"
LEARNED = f"target: {TARGET}, positive: 'yes'"
"""Remaining settings of a `source:` section."""

WORDS = {
    "csv": (b'"', b'""', b"\n", b"\r", b"\r\n", b"\0", b",", b";", b"\t", b"|", b"\xff", b"\xe9", b"\xef\xbb\xbf", b"'",
            b"\xff\xfe", b"1e999", b"99999999999999999999", b"-9223372036854775808", b"1.234,56", b"nan", b"inf", b"#",
            b"<script>", b"=1+1", b"\x1b[2J", b"\xe2\x80\xa8", b"a,b,c\n", b'"a\nb"', b"true", b"2020-13-45", b" "),
    "jsonl": (b'"', b"\\", b"{", b"}", b"[", b"]", b"\n", b":", b",", b"null", b"\0", b"\xff", b"1e999", b"-", b"[[[[",
              b"99999999999999999999", b'{"a":', b"\\ud800", b"\\u0000", b"{}", b"[]\n", b"true", b'"x":1,', b"NaN"),
}  # fmt: skip


def table() -> pa.Table:
    """Return the table: numbers, nulls, levels, texts, times, booleans, and a learnable target."""
    rng = Random(3)
    begin = datetime(2024, 1, 1)
    tenure = [rng.randrange(70) for _ in range(N_ROWS)]
    return pa.table(
        {
            "customer": [f"C-{i:04}" for i in range(N_ROWS)],
            "tenure": pa.array(tenure, pa.int32()),
            "charges": pa.array([None if i % 9 == 4 else round(rng.gauss(60, 20), 2) for i in range(N_ROWS)]),
            "city": [rng.choice(["Basel", "Genève", "Zürich", "Chur, GR", 'the "Hill"']) for _ in range(N_ROWS)],
            "plan": [None if i % 13 == 5 else rng.choice(["basic", "plus"]) for i in range(N_ROWS)],
            "paperless": [rng.random() < 0.5 for _ in range(N_ROWS)],
            "since": pa.array([begin + timedelta(hours=37 * i) for i in range(N_ROWS)], pa.timestamp("us")),
            TARGET: ["yes" if months < 25 else "no" for months in tenure],
        }
    )


def written(name: str) -> dict[str, bytes]:
    """Return file name to content for the table in a format."""
    return {file: write(table()) for file, write in WRITERS[name].items()}


def _csv(data: pa.Table, encoding: str = "utf8", ends: str = "\n", **options: Any) -> bytes:
    sink = io.BytesIO()
    pa_csv.write_csv(data, sink, pa_csv.WriteOptions(**options))
    return sink.getvalue().decode().replace("\n", ends).encode(encoding)


def _gzipped(data: pa.Table) -> bytes:
    import gzip

    return gzip.compress(_csv(data), mtime=0)


def _json_lines(data: pa.Table) -> bytes:
    return "".join(json.dumps(row, default=str) + "\n" for row in data.to_pylist()).encode()


def _parquet(data: pa.Table, **options: Any) -> bytes:
    sink = io.BytesIO()
    pq.write_table(data, sink, **options)
    return sink.getvalue()


def _orc(data: pa.Table, **options: Any) -> bytes:
    sink = io.BytesIO()
    orc.write_table(data, sink, **options)
    return sink.getvalue()


def _feather(data: pa.Table, **options: Any) -> bytes:
    sink = io.BytesIO()
    feather.write_feather(_with_codes(data), sink, **options)
    return sink.getvalue()


def _stream(data: pa.Table) -> bytes:
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, data.schema) as writer:
        writer.write_table(data)
    return sink.getvalue()


def _with_codes(data: pa.Table) -> pa.Table:
    """Return the table with dictionary-encoded cities."""
    at = data.column_names.index("city")
    return data.set_column(at, "city", data["city"].dictionary_encode())


WRITERS: dict[str, dict[str, Callable[[pa.Table], bytes]]] = {
    "csv": {
        "plain.csv": partial(_csv, quoting_style="needed"),
        "quoted.csv": partial(_csv, quoting_style="all_valid", ends="\r\n"),
        "semicolon.csv": partial(_csv, delimiter=";", encoding="utf-8-sig"),
        "packed.csv.gz": _gzipped,
    },
    "jsonl": {"plain.jsonl": _json_lines},
    "parquet": {
        "snappy.parquet": partial(_parquet, row_group_size=25),
        "plain.parquet": partial(_parquet, compression="none", use_dictionary=False, write_page_checksum=True),
        "zstd.parquet": partial(_parquet, compression="zstd", data_page_version="2.0", write_page_index=True),
        "gzip.parquet": partial(_parquet, compression="gzip", use_deprecated_int96_timestamps=True, version="1.0"),
        "lz4.parquet": partial(_parquet, compression="lz4", write_statistics=False, store_schema=False),
        "brotli.parquet": partial(_parquet, compression="brotli", column_encoding="PLAIN", use_dictionary=False),
    },
    "orc": {
        "plain.orc": partial(_orc, compression="uncompressed"),
        "zlib.orc": partial(_orc, compression="zlib", dictionary_key_size_threshold=1.0),
    },
    "arrow": {
        "lz4.arrow": partial(_feather, compression="lz4"),
        "plain.arrow": partial(_feather, compression="uncompressed", chunksize=25),
        "stream.arrows": _stream,
    },
}
