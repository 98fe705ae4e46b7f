"""Features of a Dask DataFrame compared with its files: ``python -m benchmarks.collections [--rows N] [--turns N]``.

Generated customers are written as Parquet. On the same two workers, with one thread each, `gpupipe.Pipeline.features`
computes the matrix of

``files``       the Parquet file, read by gpupipe
``persisted``   a ``dask.dataframe`` of the file in the memory of the workers
``lazy``        the same, which Dask reads while gpupipe converts it

in turn, after one turn that is not counted. Scheduler and client run in this process: every byte that its sockets send
or receive is counted. The exit code is 1 if the matrices differ in a bit.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any
from unittest.mock import patch

import dask
import dask.dataframe
import pyarrow as pa
import pyarrow.parquet as pq
from distributed import Client, LocalCluster, wait
from tornado.iostream import IOStream

import gpupipe as gp
from gpupipe.bench.measurement import describe_machine
from gpupipe.files.jsonfile import write_json
from gpupipe.io.file_formats import load_generator
from gpupipe.units import GIB, MIB

ROWS = 5_000_000
TURNS = 3
WORKERS = 2
CHUNK = 500_000
GROUP = 250_000
HASHED_ROWS = 100_000
KEPT = 20  # columns besides the target
MEMORY = 3 * GIB  # per worker
TARGET = "Churn"


def write_customers(path: Path, n_rows: int) -> None:
    """Write the generated customers as one Parquet file: 19 columns, an identifier and the target."""
    generate = load_generator("churn")
    writer = None
    for start in range(0, n_rows, CHUNK):
        table = generate(min(CHUNK, n_rows - start), 7, None, start)
        names = [name for name in table.column_names if name != TARGET][: KEPT - 1]
        table = plain(table.select([*names, TARGET]))
        writer = writer or pq.ParquetWriter(path, table.schema)
        writer.write_table(table, row_group_size=GROUP)
    assert writer is not None
    writer.close()


def plain(table: pa.Table) -> pa.Table:
    """Return the table with plain strings, as other programs write them."""
    columns = [c.cast(c.type.value_type) if pa.types.is_dictionary(c.type) else c for c in table.columns]
    return pa.table(columns, names=table.column_names)


@contextmanager
def counted_bytes() -> Iterator[list[int]]:
    """Yield a list with one element: the bytes that the sockets of this process have sent and received since."""
    count = [0]

    def counting(method: Callable[..., Any]) -> Callable[..., Any]:
        def call(stream: IOStream, data: Any) -> Any:
            n = method(stream, data)
            count[0] += n or 0
            return n

        return call

    with (
        patch.object(IOStream, "read_from_fd", counting(IOStream.read_from_fd)),
        patch.object(IOStream, "write_to_fd", counting(IOStream.write_to_fd)),
    ):
        yield count


def digest(client: Client, X: Any) -> str:
    """Return a hash of a matrix and its row order, which the workers compute by rows: chunks end at other rows."""
    chunks = [dask.delayed(sha256_of)(chunk) for chunk in X.rechunk({0: HASHED_ROWS}).to_delayed().ravel()]
    found = client.compute(chunks, sync=True)
    return sha256(b"".join(found)).hexdigest()


def sha256_of(chunk: Any) -> bytes:
    """Return the hash of an array."""
    return sha256(chunk.tobytes()).digest()


def cpu_seconds(client: Client) -> float:
    """Return the processor time that the workers and this process have used."""
    return float(sum(client.run(time.process_time).values())) + time.process_time()


def measure(client: Client, source: Any) -> dict[str, Any]:
    """Return seconds, bytes through this process, and the hash of the matrix."""
    with counted_bytes() as count:
        before, start = cpu_seconds(client), time.perf_counter()
        X, y = gp.Pipeline(source, target=TARGET, drop="customerID", cluster=client, device="cpu").features()
        wait([X.persist(), y.persist()])
        seconds, n_bytes = time.perf_counter() - start, count[0]
    cpu = cpu_seconds(client) - before
    return {"seconds": seconds, "cpu_seconds": cpu, "bytes": n_bytes, "shape": X.shape, "digest": digest(client, X)}


def compare(path: Path, turns: int) -> dict[str, Any]:
    """Return the measurements of all sources, in turn on the same workers."""
    found: dict[str, list[dict[str, Any]]] = {"files": [], "persisted": [], "lazy": []}
    with (
        LocalCluster(n_workers=WORKERS, threads_per_worker=1, memory_limit=MEMORY, dashboard_address=":0") as cluster,
        Client(cluster) as client,
    ):
        lazy = dask.dataframe.read_parquet(path, split_row_groups=2)
        persisted = client.persist(lazy)
        wait(persisted)
        table_bytes = int(client.compute(lazy.memory_usage(deep=True).sum(), sync=True))
        for turn in range(turns + 1):
            for name, source in (("files", path), ("persisted", persisted), ("lazy", lazy)):
                done = measure(client, source)
                said = f"{done['seconds']:.1f} s, {done['cpu_seconds']:.1f} s of CPU, {done['bytes'] / MIB:.1f} MiB"
                print(f"turn {turn}: {name}: {said}", file=sys.stderr)
                if turn:
                    found[name].append(done)
    seconds, cpu = (
        {name: statistics.median(done[key] for done in runs) for name, runs in found.items()}
        for key in ("seconds", "cpu_seconds")
    )
    return {
        "table_bytes": table_bytes, "partitions": lazy.npartitions, "samples": found,
        "seconds": seconds, "cpu_seconds": cpu,
        "of_files": {name: seconds[name] / seconds["files"] for name in seconds},
        "cpu_of_files": {name: cpu[name] / cpu["files"] for name in cpu},
        "bytes": {name: max(done["bytes"] for done in runs) for name, runs in found.items()},
        "is_equal": len({done["digest"] for runs in found.values() for done in runs}) == 1,
    }  # fmt: skip


def main() -> int:
    """Run the benchmark and print the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--turns", type=int, default=TURNS)
    parser.add_argument("--output", type=Path, help="file for the measurements as JSON")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "customers.parquet")
        write_customers(path, given.rows)
        found = {"rows": given.rows, **compare(path, given.turns)}
    if given.output:
        write_json(given.output, {"machine": describe_machine(), **found})
    print(f"{given.rows:,} rows, {found['table_bytes'] / MIB:,.0f} MiB in pandas, {found['partitions']} partitions")
    for name, seconds in found["seconds"].items():
        print(
            f"{name:<10} {seconds:6.1f} s ({found['of_files'][name]:.2f}), "
            f"{found['cpu_seconds'][name]:6.1f} s of CPU ({found['cpu_of_files'][name]:.2f}), "
            f"{found['bytes'][name] / MIB:6.1f} MiB through scheduler and client"
        )
    print("equal to the last bit" if found["is_equal"] else "the matrices differ")
    return 0 if found["is_equal"] else 1


if __name__ == "__main__":
    raise SystemExit(main())
