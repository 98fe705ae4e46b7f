"""`multi_hot` of a column of lists compared with Arrow and NumPy by hand, and with pandas.

    python -m benchmarks.lists [--rows N] [--repeat N]

Each row has 5 of 50 tags. All three learn the 40 most frequent tags and write a float32 matrix of all rows, one after
the other in each round, in one process. The ratios are medians of those of the rounds.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Callable
from time import perf_counter
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from gpupipe import FeatureProgram

N_TAGS, N_ITEMS = 50, 5
N_KEPT = 40


def make_table(n_rows: int) -> pa.Table:
    """Return the table of lists."""
    rng = np.random.default_rng(0)
    codes = rng.binomial(N_TAGS - 1, 0.4, n_rows * N_ITEMS).astype(np.int32)
    tags = pa.array([f"tag {i:02d}" for i in range(N_TAGS)])
    items = pa.DictionaryArray.from_arrays(pa.array(codes), tags).cast(pa.string())
    return pa.table({"tags": pa.ListArray.from_arrays(np.arange(0, len(codes) + 1, N_ITEMS, dtype=np.int32), items)})


def by_gpupipe(table: pa.Table) -> Any:
    """Return the matrix of `multi_hot`."""
    op = {"multi_hot": {"columns": "tags", "max_levels": N_KEPT}}
    return FeatureProgram([op], view="codes", device="cpu").fit_transform(table)


def by_arrow(table: pa.Table) -> Any:
    """Return the matrix of Arrow and NumPy."""
    lists = table["tags"].combine_chunks()
    items = pc.list_flatten(lists).dictionary_encode()
    codes, rows = items.indices.to_numpy(), pc.list_parent_indices(lists).to_numpy()
    n = len(items.dictionary)
    pairs = np.unique(rows.astype(np.int64) * n + codes)
    order = np.argsort(-np.bincount(pairs % n, minlength=n), kind="stable")[:N_KEPT]
    kept = order[np.argsort(items.dictionary.take(pa.array(order)).to_numpy(zero_copy_only=False))]
    slots = np.full(n, -1)
    slots[kept] = np.arange(len(kept))
    slot = slots[codes]
    matrix = np.zeros((len(kept), len(lists)), np.float32)
    matrix[slot[slot >= 0], rows[slot >= 0]] = 1
    return matrix.T


def by_pandas(table: pa.Table) -> Any:
    """Return the matrix of pandas."""
    items = table["tags"].to_pandas().explode()
    counts = items.groupby(level=0).unique().explode().value_counts()
    kept = sorted(counts.index[:N_KEPT])
    items = items[items.isin(kept)]
    crossed = pd.crosstab(items.index, items).reindex(range(table.num_rows), fill_value=0)
    return (crossed[kept] > 0).to_numpy(np.float32)


def main(arguments: list[str] | None = None) -> None:
    """Measure all three, and print the seconds and the ratios."""
    parser = argparse.ArgumentParser(description="multi_hot compared with Arrow and pandas.")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--repeat", type=int, default=5)
    options = parser.parse_args(arguments)
    table = make_table(options.rows)
    contenders: dict[str, Callable[[pa.Table], Any]] = {"gpupipe": by_gpupipe, "arrow": by_arrow, "pandas": by_pandas}
    rounds: list[dict[str, float]] = []
    for _ in range(options.repeat):
        seconds, matrices = {}, {}
        for name, run in contenders.items():
            start = perf_counter()
            matrices[name] = run(table)
            seconds[name] = perf_counter() - start
        for name in ("arrow", "pandas"):
            np.testing.assert_array_equal(matrices["gpupipe"], matrices[name])
        rounds.append(seconds)
    medians = {name: round(statistics.median(each[name] for each in rounds), 3) for name in contenders}
    ratios = {
        name: round(statistics.median(each["gpupipe"] / each[name] for each in rounds), 2)
        for name in ("arrow", "pandas")
    }
    print(json.dumps({"rows": options.rows, "seconds": medians, "ratios": ratios}))


if __name__ == "__main__":
    main()
