"""Bins, levels and files of a reference, compared with plain loops."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpupipe.artifact import ArtifactReader, ArtifactWriter
from gpupipe.inference.drift import files
from gpupipe.inference.drift.reference import (
    EDGE_SHARES,
    FEWEST_NAMED,
    MOST_LEVELS,
    N_BINS,
    DriftColumn,
    DriftReference,
    MetricReference,
    level_cells,
    number_edges,
    time_edges,
)

NUMBERS = st.one_of(
    st.integers(-5, 5).map(float), st.floats(-1e6, 1e6), st.floats(1e9, 1e9 + 1), st.sampled_from([0.0, -(2.0**125)])
)


@settings(max_examples=150, deadline=None)
@given(st.lists(NUMBERS, min_size=1, max_size=300), st.sampled_from(["float32", "float64"]))
def test_every_training_value_is_between_the_edges(values: list[float], storage: str) -> None:
    x = np.array(values, storage)
    edges = number_edges(np.quantile(x.astype(np.float64), EDGE_SHARES).tolist(), storage)
    assert 2 <= len(edges) <= N_BINS + 1
    assert (np.diff(edges) > 0).all()
    bins = (edges[None, :].astype(storage) <= x[:, None]).sum(axis=1)
    assert bins.min() == 1 and bins.max() <= len(edges) - 1
    distinct = len(np.unique(np.quantile(x.astype(np.float64), EDGE_SHARES)))
    if storage == "float64":
        assert len(edges) >= min(distinct, N_BINS)  # rounding merges no bins


@given(st.integers(-(2**60), 2**60), st.integers(0, 2**50))
def test_times_have_equal_bins(first: int, length: int) -> None:
    edges = time_edges(first, first + length)
    assert edges[0] == first and edges[-1] == first + length + 1 and (np.diff(edges) > 0).all()
    assert length < N_BINS or len(edges) == N_BINS + 1


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 90), min_size=1, max_size=400), st.booleans())
def test_levels_are_counted_as_good_and_turing_expect(rows: list[int], is_hashed: bool) -> None:
    counted = Counter(f"level {row}" for row in rows)
    levels = sorted(counted)
    named, cells = level_cells(levels, np.array([counted[level] for level in levels]), 3, is_hashed)
    once = 0 if is_hashed else sum(n == 1 for n in counted.values())
    assert cells[:2].tolist() == [3, once]
    is_named = [n for n in counted.values() if len(levels) <= MOST_LEVELS or n >= FEWEST_NAMED]
    assert len(named) == min(len(is_named), MOST_LEVELS)
    assert sorted((counted[level] for level in named), reverse=True) == [counted[level] for level in named]
    assert cells[3:].tolist() == [n if n > 1 or is_hashed else 0 for n in (counted[level] for level in named)]
    assert cells.sum() == len(rows) + 3


def reference(n_columns: int) -> DriftReference:
    rng = np.random.default_rng(0)
    columns = []
    for i in range(n_columns):
        x = rng.lognormal(0, 2, 20_000).astype("float32")
        edges = number_edges(np.quantile(x, EDGE_SHARES).tolist(), "float32")
        counts = np.array([5, 0, *np.histogram(x, edges)[0], 0])
        columns.append(DriftColumn(f"some_column_{i:03}", "numeric", counts, edges))
    levels = tuple(f"level {i}" for i in range(MOST_LEVELS))
    columns.append(DriftColumn("plan", "categorical", np.arange(MOST_LEVELS + 3), levels=levels))
    columns.append(DriftColumn("at", "datetime", np.arange(N_BINS + 3), time_edges(0, 10**15)))
    columns.append(DriftColumn("note", "text", np.array([7, 2**40])))
    return DriftReference(tuple(columns), (columns[0],), {"roc_auc": MetricReference(0.8, 100)}, "at")


def written(folder: Path, value: DriftReference) -> ArtifactReader:
    writer = ArtifactWriter(folder)
    files.write_reference(writer, value)
    writer.finish({})
    return ArtifactReader(folder)


def test_a_reference_is_read_as_written_and_small(tmp_path: Path) -> None:
    value = reference(97)
    reader = written(tmp_path / "model", value)
    found = files.read_reference(reader)
    assert found is not None
    assert (found.metrics, found.time) == (value.metrics, value.time)
    for old, new in zip((*value.columns, *value.scores), (*found.columns, *found.scores), strict=True):
        assert (old.name, old.kind, old.levels) == (new.name, new.kind, new.levels)
        np.testing.assert_array_equal(old.counts, new.counts)
        if old.edges is not None and new.edges is not None:
            np.testing.assert_array_equal(old.edges, new.edges)
            assert old.edges.dtype == new.edges.dtype
    assert sum((tmp_path / "model" / name).stat().st_size for name in (files.NAME, files.ARRAYS)) <= 50_000


Damage = Callable[[dict[str, Any], dict[str, np.ndarray]], object]
DAMAGES: dict[str, Damage] = {
    "descending edges": lambda d, a: a.update(edges_float32=a["edges_float32"][::-1].copy()),
    "infinite edges": lambda d, a: a["edges_float32"].__setitem__(3, np.inf),
    "missing counts": lambda d, a: a.update(counts_uint16=a["counts_uint16"][:-1]),
    "more counts": lambda d, a: a.update(counts_uint16=np.append(a["counts_uint16"], np.uint16(1))),
    "negative counts": lambda d, a: a["counts_int64"].__setitem__(0, -1),
    "huge counts": lambda d, a: a["counts_int64"].__setitem__(0, 2**62),
    "another dtype": lambda d, a: a.update(counts_uint16=a["counts_uint16"].astype(float)),
    "another shape": lambda d, a: a.update(counts_uint16=a["counts_uint16"][None]),
    "a name twice": lambda d, a: d["columns"][1].update(name=d["columns"][0]["name"]),
    "an unknown kind": lambda d, a: d["columns"][0].update(kind="list"),
    "too many edges": lambda d, a: d["columns"][0].update(n=10**9),
    "levels that repeat": lambda d, a: d["columns"][2].update(levels=["a"] * MOST_LEVELS),
    "metrics that are not finite": lambda d, a: d.update(metrics={"r2": [float("nan"), 3]}),
    "no time": lambda d, a: d.pop("time"),
}  # fmt: skip


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_reference_is_refused(tmp_path: Path, damage: Damage) -> None:
    reader = written(tmp_path / "model", reference(2))
    document, arrays = (
        copy.deepcopy(reader.json(files.NAME)),
        {k: v.copy() for k, v in reader.arrays(files.ARRAYS).items()},
    )
    damage(document, arrays)
    with pytest.raises((ValueError, KeyError, TypeError)):
        files.parse_reference(document, arrays)
