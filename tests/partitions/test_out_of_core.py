"""Partitions kept on disk: the same results as in memory, and no files remain."""

from __future__ import annotations

import gc
import os
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from gpupipe.backends import Backend
from gpupipe.errors import ConfigError, LimitError
from gpupipe.models import FitContext, fit
from gpupipe.models.matrix import fit_matrix
from gpupipe.models.progress import ProgressReport
from gpupipe.models.xgboost.settings import XGBoost
from gpupipe.partitions.matrix import PartitionedMatrix
from gpupipe.partitions.out_of_core.workers import KEPT_IN_MEMORY, FileStore, out_of_core_workers
from gpupipe.tasks import TargetSpec

Array = Any
N_CELLS = KEPT_IN_MEMORY  # of 8 bytes: large enough for a file


def test_arrays_are_read_back_unchanged_and_read_only(tmp_path: Path) -> None:
    store, rng = FileStore(tmp_path), np.random.default_rng(1)
    rows = np.asfortranarray(rng.normal(size=(N_CELLS // 4, 4)))
    texts = pa.table({"text": pa.array(["ä", None, "b"] * N_CELLS).dictionary_encode(), "x": np.arange(3 * N_CELLS)})
    kept = store.save({"rows": rows, "strided": rows[::2], "texts": texts, "name": "a"})
    assert kept is not None
    back = kept.load()
    np.testing.assert_array_equal(back["rows"], rows)
    np.testing.assert_array_equal(back["strided"], rows[::2])
    assert back["rows"].flags.f_contiguous and back["texts"].equals(texts) and back["name"] == "a"
    with pytest.raises(ValueError, match="read-only"):
        back["rows"][0, 0] = 0.0


def test_a_file_exists_while_its_value_is_referenced(tmp_path: Path) -> None:
    store = FileStore(tmp_path)
    kept = store.save(np.arange(N_CELLS))
    assert kept is not None
    values = kept.load()
    assert len(list(tmp_path.iterdir())) == 1
    assert store.n_bytes == pytest.approx(8 * N_CELLS, rel=0.01)
    del kept
    gc.collect()
    assert list(tmp_path.iterdir()) == [] and store.n_bytes == 0
    assert values[-1] == N_CELLS - 1  # the map outlives the name
    assert store.save(np.arange(8)) is None  # no file's worth


def test_a_pass_over_partitions_says_which_one_it_is_at(backend: Backend, tmp_path: Path) -> None:
    seen: list[ProgressReport | None] = []
    with out_of_core_workers(backend, "why", tmp_path) as workers:
        labels = [f"counts of partition {i} of 3" for i in (1, 2, 3)]

        def look(backend: Backend, value: int) -> None:
            seen.append(workers.progress())

        workers.map(look, [[1], [2], [3]], labels)
        assert workers.progress() is None
    unit = "counts of partition"
    assert seen == [ProgressReport(i, 3, unit, is_one_pass=True) for i in (1, 2, 3)]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount a small disk")
def test_a_full_disk_is_one_clear_error(tmp_path: Path, small_disk: Path) -> None:
    store = FileStore(small_disk)
    with pytest.raises(LimitError, match=r"the disk is full.*are free\n.*where.*\n.*free space"):
        store.save(np.zeros(1 << 20))
    assert list(small_disk.iterdir()) == []


def test_no_temporary_files_remain(tmp_path: Path, backend: Backend) -> None:
    with pytest.raises(ZeroDivisionError), out_of_core_workers(backend, "asked for", tmp_path) as workers:
        handle = workers.submit(_ones, N_CELLS)
        assert workers.gather([handle])[0].sum() == N_CELLS
        assert workers.usage()[0].bytes_spilled > 0
        raise ZeroDivisionError
    assert list(tmp_path.iterdir()) == []


def _ones(backend: Backend, n: int) -> Array:
    return np.ones(n)


@pytest.mark.parametrize("in_files", [False, True], ids=["bins in memory", "bins in files"])
@pytest.mark.parametrize("settings", [{}, {"early_stopping_rounds": 3, "eval_metric": "auc"}], ids=["all", "early"])
@pytest.mark.parametrize("n_classes", [2, 3, 0])
def test_xgboost_learns_the_same_from_files_as_from_memory(
    tmp_path: Path, backend: Backend, in_files: bool, settings: dict[str, Any], n_classes: int, monkeypatch: Any
) -> None:
    monkeypatch.setattr("gpupipe.partitions.out_of_core.boosting.binned_bytes", lambda *_: (0, in_files))
    rng = np.random.default_rng(5)
    X = np.asfortranarray(rng.integers(0, 60, size=(6000, 5)), np.float32)  # few values: their edges are exact
    score = X[:, 1] - 2 * (X[:, 0] % 3) + rng.normal(size=6000)
    y = np.digitize(score, np.quantile(score, np.linspace(0, 1, n_classes + 1)[1:-1])) if n_classes else score
    task: Any = {2: "binary", 3: "multiclass", 0: "regression"}[n_classes]
    weights = None if n_classes == 2 else rng.exponential(size=6000)
    context = FitContext(backend, task, 3, n_classes, {0: 60}, list("abcde"), weights=weights)
    settings = {**settings, "eval_metric": None if n_classes != 2 else settings.get("eval_metric")}
    model = XGBoost(n_estimators=8, class_weight="balanced" if n_classes else None, **settings)
    expected = fit(model, X, y.astype(np.float64), context)
    with out_of_core_workers(backend, "asked for", tmp_path) as workers:
        parts = [workers.submit(_part, X[a:b]) for a, b in ((0, 2500), (2500, 2500), (2500, 6000))]
        matrix = PartitionedMatrix(tuple(parts), workers, (2500, 0, 3500), 5)
        found = fit_matrix(matrix, model, y.astype(np.float64), context)
    assert found.classes == expected.classes
    for name in ("probability", "value"):
        ours, theirs = (getattr(m.predict(X), name) for m in (found, expected))
        if theirs is not None:
            np.testing.assert_allclose(ours, theirs, atol=2e-3)


def test_several_targets_are_learned_one_after_the_other(backend: Backend, tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    X = np.asfortranarray(rng.integers(0, 30, (3_000, 3)), dtype=np.float32)
    y = np.column_stack([X[:, 0] * 100.0, X[:, 1] ** 2]) + rng.normal(size=(3_000, 2))
    y[:, 1] += 1.7e9  # float32 would lose the squares
    targets = (TargetSpec("regression", name="u"), TargetSpec("regression", name="v"))
    context = FitContext(backend, "multioutput", 3, feature_names=list("abc"), targets=targets)
    expected = fit(XGBoost(n_estimators=10), X, y, context).predict(X).output
    bounds = (0, 1_000, 2_500, 3_000)
    with out_of_core_workers(backend, "asked for", tmp_path) as workers:
        handles = [workers.submit(_part, X[start:stop]) for start, stop in pairwise(bounds)]
        matrix = PartitionedMatrix(tuple(handles), workers, tuple(np.diff(bounds)), 3)
        found = fit_matrix(matrix, XGBoost(n_estimators=10), y, context).predict(X).output
        with pytest.raises(ConfigError, match="multi_output_tree needs the training rows in the memory of one process"):
            fit_matrix(matrix, XGBoost(multi_strategy="multi_output_tree"), y, context)
    origin = np.array([0.0, 1.7e9])
    np.testing.assert_allclose(found - origin, expected - origin, rtol=1e-4, atol=0.05)
    assert np.corrcoef(found[:, 1], y[:, 1])[0, 1] > 0.99


def _part(backend: Backend, rows: Array) -> Array:
    return np.asfortranarray(rows)
