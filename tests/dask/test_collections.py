"""Dask DataFrames as sources, feature programs of them, and predictions of them, on workers and without a cluster."""

from __future__ import annotations

import logging
import os
import pickle
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock, patch

import dask
import dask.array
import dask.bag
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from distributed import Client, LocalCluster, wait
from hypothesis import given, settings
from hypothesis import strategies as st
from tornado.iostream import IOStream

import gpupipe as gp
from gpupipe.backends import Backend
from gpupipe.errors import ClusterError, ConfigError, DataError, SchemaError
from gpupipe.io.dask_table import DaskTable
from gpupipe.io.settings import TableSource
from gpupipe.partitions.dask_rows import encode_collection
from gpupipe.partitions.encode import encode_chunks
from gpupipe.partitions.source_chunks import read_chunks
from gpupipe.partitions.table import PartitionedTable
from gpupipe.rules.model_rules import ServedRules
from gpupipe.rules.settings import ColumnRules
from gpupipe.table.blocks import Table
from gpupipe.table.encode import encode
from gpupipe.table.frames import frame_to_arrow
from gpupipe.table.schema import declare
from tests.inline_workers import InlineWorkers

N_ROWS = 3_000
OPS: list[Any] = [{"target_encode": {"columns": ["city", "grade"], "folds": 3}}, {"impute": "@numeric"}]
QUIET: dict[str, Any] = {"report": {"enabled": False}, "evaluate": {"importance": False}}


def customers(n_rows: int = N_ROWS, n_numbers: int = 2) -> pd.DataFrame:
    """Return rows of all kinds, with nulls, and an index that is not the position."""
    rng = np.random.default_rng(7)
    frame = pd.DataFrame({f"x{i}": rng.normal(size=n_rows) for i in range(n_numbers)})
    frame.loc[rng.random(n_rows) < 0.1, "x0"] = np.nan
    frame["count"] = rng.integers(0, 9, n_rows)
    frame["city"] = pd.Series(rng.choice(np.array(["Bern", "Rom", "Wien", None], object), n_rows), dtype="string")
    frame["grade"] = pd.Categorical(rng.choice(["low", "high"], n_rows), categories=["unused", "low", "high"])
    frame["member"] = rng.random(n_rows) < 0.5
    frame["day"] = pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 300, n_rows), unit="D")
    frame["id"] = np.arange(n_rows) + 1_000
    frame["left"] = np.where(frame["x1"] + rng.normal(size=n_rows) > 0, "yes", "no")
    return frame.set_index(pd.Index(np.arange(n_rows) * 2, name="at"))


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    """Two workers, whose scheduler is in this process."""
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0", silence_logs=logging.CRITICAL) as made:
        yield made


@pytest.fixture
def client(cluster: LocalCluster) -> Iterator[Client]:
    with Client(cluster) as client:
        yield client


@pytest.fixture
def stored(tmp_path: Path) -> Path:
    customers().to_parquet(tmp_path / "customers.parquet", row_group_size=700)
    return tmp_path / "customers.parquet"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> gp.Model:
    """A classifier of customers."""
    pipeline = gp.Pipeline(customers(), target="left", drop="id", models=["logistic_regression"], **QUIET)
    return pipeline.run(tmp_path_factory.mktemp("model") / "run", quiet=True).model


def equal(a: Any, b: Any) -> bool:
    a, b = np.asarray(a), np.asarray(b)
    return a.shape == b.shape and a.dtype == b.dtype and a.tobytes("F") == b.tobytes("F")


# Sources.


@pytest.mark.cluster
@pytest.mark.slow
def test_features_equal_those_of_the_file_and_the_table_stays_on_the_workers(client, tmp_path) -> None:
    n_rows, path = 60_000, tmp_path / "wide.parquet"
    customers(n_rows, n_numbers=24).to_parquet(path, row_group_size=7_000)
    frame = client.persist(dd.read_parquet(path, split_row_groups=True))
    wait(frame)
    table_bytes = int(frame.memory_usage(deep=True).sum().compute())
    moved: list[int] = []

    def counting(method: Any) -> Any:
        def call(stream: IOStream, data: Any) -> Any:
            n = method(stream, data)
            moved.append(n or 0)
            return n

        return call

    pipeline = gp.Pipeline(frame, target="left", cluster=client)
    # All bytes that the sockets of scheduler and client send and receive, each counted at both ends.
    with (
        patch.object(IOStream, "read_from_fd", counting(IOStream.read_from_fd)),
        patch.object(IOStream, "write_to_fd", counting(IOStream.write_to_fd)),
    ):
        X, y = pipeline.features(view="codes")  # numbers as they are, so that few statistics are gathered
        wait([X.persist(), y.persist()])
    assert sum(moved) < 2.5e6 < table_bytes / 4
    expected, expected_y = gp.Pipeline(path, target="left").features(view="codes")
    assert not np.isnan(X.shape).any() and X.chunks[0] == y.chunks[0]
    assert equal(X.compute(), expected) and equal(y.compute(), expected_y)


@pytest.mark.cluster
@pytest.mark.slow
def test_a_run_writes_the_files_of_a_run_on_the_frame(client, stored, tmp_path) -> None:
    """Lazy partitions, the current client, identifiers and a filter."""
    given: dict[str, Any] = {"target": "left", "where": "count > 1", "models": ["logistic_regression"], **QUIET}
    lazy = dd.read_parquet(stored, split_row_groups=True)
    done = gp.Pipeline({"frame": lazy, "id": "id"}, **given).run(tmp_path / "lazy", quiet=True)
    alone = gp.Pipeline({"frame": customers(), "id": "id"}, **given).run(tmp_path / "alone", quiet=True)
    for name in ("metrics.json", "predictions.parquet", "model/program.npz", "model/levels.json"):
        assert (done.path / name).read_bytes() == (alone.path / name).read_bytes(), name
    assert f"scheduler: {client.scheduler.address}" in (done.path / "config.yaml").read_text()
    assert done.predictions["id"].isin(customers()["id"]).all()
    assert client.status == "running" and Client.current() is client


@pytest.mark.cluster
@pytest.mark.slow
def test_partitions_of_a_worker_that_is_lost_are_computed_again(client, stored, tmp_path) -> None:
    fallen = str(tmp_path / "fallen")

    def die_once(part: pd.DataFrame) -> pd.DataFrame:
        if len(part) and not os.path.exists(fallen):
            open(fallen, "w").close()
            os._exit(1)
        return part

    lazy = dd.read_parquet(stored, split_row_groups=True)
    X, _ = gp.Pipeline(lazy.map_partitions(die_once, meta=lazy._meta), target="left").features()
    assert os.path.exists(fallen)
    assert equal(X.compute(), gp.Pipeline(stored, target="left").features()[0])


@pytest.mark.cluster
@pytest.mark.slow
def test_xgboost_trains_on_the_arrays_in_place(client, stored) -> None:
    xgboost = pytest.importorskip("xgboost")
    import xgboost.dask as on_dask

    frame = client.persist(dd.read_parquet(stored, split_row_groups=True))
    X, y = gp.Pipeline(frame, target="left", cluster=client).features(view="codes")
    params = {"objective": "binary:logistic", "max_depth": 3, "nthread": 1, "verbosity": 0}
    with xgboost.config_context(verbosity=0):
        done = on_dask.train(client, params, on_dask.DaskDMatrix(client, X, y), num_boost_round=5)
        margins = done["booster"].predict(xgboost.DMatrix(X.compute()))
    assert ((margins > 0.5) == y.compute()).mean() > 0.7


# How frames come: one process computes the partitions.


@st.composite
def divided_frames(draw: st.DrawFn) -> tuple[pd.DataFrame, list[pd.DataFrame]]:
    """Return a frame with the dtypes that its partitions have together, and its partitions, some without rows."""
    n = draw(st.integers(1, 12))
    texts = st.one_of(st.none(), st.sampled_from(["a", "B", "NA", "", "z z"]))
    numbers = st.one_of(st.none(), st.sampled_from([0.0, -1.5, 2.0, 1e30, 2.0**60]))
    columns = {
        "number": pd.Series(draw(st.lists(numbers, min_size=n, max_size=n)), dtype="float64"),
        "whole": pd.Series(draw(st.lists(st.integers(-5, 2**40), min_size=n, max_size=n)), dtype="int64"),
        "text": pd.Series(draw(st.lists(texts, min_size=n, max_size=n)), dtype="object"),
        "flag": pd.Series(draw(st.lists(st.one_of(st.none(), st.booleans()), min_size=n, max_size=n)), dtype="object"),
        "kind": pd.Categorical(draw(st.lists(texts, min_size=n, max_size=n)), categories=["z z", "a", "B", "NA", ""]),
        "time": pd.Series(
            draw(st.lists(st.sampled_from([pd.NaT, pd.Timestamp("2020-02-29 12:00")]), min_size=n, max_size=n)),
            dtype="datetime64[ns]",
        ),
    }
    frame = pd.DataFrame(columns)
    cuts = sorted(draw(st.lists(st.integers(0, n), max_size=3)))
    parts = [frame.iloc[a:b] for a, b in zip([0, *cuts], [*cuts, n], strict=True)]
    if draw(st.booleans()):  # partitions of whole numbers only, but not all of them: then the frame is one of integers
        # Nulls alone have no dtype: they would not keep the column one of floats.
        first = next((i for i, part in enumerate(parts) if part["number"].notna().any()), None)
        parts = [
            part.assign(number=part["number"].astype("int64")) if i != first and _is_whole(part) else part
            for i, part in enumerate(parts)
        ]
    return frame, parts


def _is_whole(part: pd.DataFrame) -> bool:
    values = part["number"]
    return bool(values.notna().all() and (values == values.round()).all() and (values.abs() < 2**53).all())


def collection(parts: list[pd.DataFrame], meta: pd.DataFrame) -> Any:
    return dd.from_map(lambda part: part, parts, meta=meta.iloc[:0], enforce_metadata=False)


def whole(table: PartitionedTable) -> dict[str, Any]:
    return {name: table.column(name) for name in table.places}


@settings(max_examples=25, deadline=None)
@given(divided_frames())
def test_partitions_encode_to_the_table_of_all_rows(backend: Backend, given_frame: Any) -> None:
    """For feature programs texts stay as they are; pipelines read markers of missing values as null."""
    frame, parts = given_frame
    workers = InlineWorkers(backend, 2, copies=True)
    with dask.config.set({"dataframe.convert-string": False}):
        table = collection(parts, frame)
        found = encode_collection(DaskTable(table), workers, {})
        _assert_same(found, encode(frame_to_arrow(frame), backend))
        read = encode_chunks(read_chunks(TableSource(frame=table), workers, 2), workers, {})
        alone = encode_chunks(read_chunks(TableSource(frame=collection([frame], frame)), workers, 1), workers, {})
        _assert_same(read, gp_read(frame, backend))
        _assert_same(alone, gp_read(frame, backend))


def gp_read(frame: pd.DataFrame, backend: Backend) -> Table:
    from gpupipe.io.source_reader import read_arrow

    return encode(read_arrow(TableSource(frame=frame)).table, backend)


def _assert_same(found: PartitionedTable, expected: Table) -> None:
    assert [(c.name, c.kind, c.levels, c.storage) for c in found.schema] == [
        (c.name, c.kind, c.levels, c.storage) for c in expected.schema
    ]
    assert found.n_rows == expected.n_rows
    for name, values in whole(found).items():
        assert equal(values, expected.column(name)), name


def test_partitions_that_differ_are_errors_that_name_one(backend: Backend) -> None:
    frame, workers = customers(30), InlineWorkers(backend)
    parts = [frame.iloc[:10], frame.iloc[10:].drop(columns="city")]
    for read in (
        lambda table: read_chunks(TableSource(frame=table), workers, 1),
        lambda table: encode_collection(DaskTable(table), workers, {}),
    ):
        with pytest.raises(DataError) as caught:
            read(collection(parts, frame))
        assert "'city'" in caught.value.what and "partition 2" in caught.value.where
        with pytest.raises(SchemaError):
            read(collection([frame, frame.assign(x1="text")], frame))


# Feature programs.


@pytest.mark.cluster
@pytest.mark.slow
def test_a_program_fitted_on_workers_is_that_of_the_frame(client) -> None:
    frame = customers()
    X, y, weights = frame.drop(columns=["left", "id"]), frame["left"], frame["count"] + 1.0
    partitioned = dd.from_pandas(frame, npartitions=4).persist()
    rows = partitioned.drop(columns=["left", "id"])
    alone, ours = gp.FeatureProgram(OPS), gp.FeatureProgram(OPS)
    expected = alone.fit_transform(X, y, weights)
    found = ours.fit_transform(rows, partitioned["left"], partitioned["count"] + 1.0)
    assert isinstance(found, dask.array.Array) and equal(found.compute(), expected)
    assert pickle.dumps(ours.fitted_.program) == pickle.dumps(alone.fitted_.program)
    assert list(ours.feature_names_in_) == list(X.columns)
    lazy = pickle.loads(pickle.dumps(ours)).transform(rows)
    assert lazy.numblocks == (4, 1) and lazy.dtype == "float32"
    assert equal(lazy.compute(), alone.transform(X))
    # XGBoost and cuML take frames too: names and index are those of the rows
    names = list(ours.get_feature_names_out())
    assert list(dd.from_dask_array(lazy, columns=names).columns) == names


def test_a_program_refuses_what_it_would_have_to_gather() -> None:
    frame = dd.from_pandas(customers(20).drop(columns="left"), npartitions=2)
    fitted = gp.FeatureProgram().fit(frame.compute(scheduler="sync"))
    with pytest.raises(ConfigError):
        fitted.set_output(transform="pandas").transform(frame)
    with pytest.raises(DataError, match="from_dask_array"):
        gp.FeatureProgram().fit(dask.array.ones((4, 2)))
    with pytest.raises(ValueError, match="feature names"):  # message of scikit-learn
        gp.FeatureProgram().fit(frame[["x0"]].compute(scheduler="sync")).transform(frame[["x1"]])


# Predictions.


@pytest.fixture
def rows() -> Any:
    """Customers with known divisions, one of whose partitions is empty; computed in this thread."""
    with dask.config.set(scheduler="sync"):
        found = dd.from_pandas(customers(), npartitions=5)
        yield found[found["x1"].notnull() & ~((found.index >= 1_200) & (found.index < 2_400))]


def test_predictions_are_lazy_and_those_of_the_frame(model: gp.Model, rows: Any) -> None:
    frame = rows.compute()
    for lazy, expected in (
        (model.predict(rows), model.predict_table(frame).to_pandas()["prediction"]),
        (
            model.predict_proba(rows),
            pd.DataFrame(model.predict_proba(frame), columns=["probability_no", "probability_yes"]),
        ),
        (model.predict_table(rows), model.predict_table(frame).to_pandas()),
        (model.predict_table(rows, explain=1), model.predict_table(frame, explain=1).to_pandas()),
        (model.transform(rows, as_frame=True), model.transform(frame, as_frame=True)),
    ):
        found = lazy.compute()
        assert lazy.divisions == rows.divisions and lazy.npartitions == rows.npartitions
        assert found.equals(expected.set_axis(frame.index))
        types = (lazy.dtype, found.dtype) if found.ndim == 1 else (list(lazy.dtypes), list(found.dtypes))
        assert types[0] == types[1]
    assert list(model.predict(rows).compute()) == list(model.predict(frame))
    assert equal(model.transform(rows).compute(), model.transform(frame))


def test_columns_are_kept_as_they_are(model: gp.Model, rows: Any) -> None:
    found = model.predict_table(rows, keep=["id", "gra*"])
    assert list(found.columns)[:3] == ["id", "grade", "prediction"]
    kept = found[["id", "grade"]].compute()
    assert kept.equals(rows[["id", "grade"]].compute()) and found["grade"].dtype == "category"
    with pytest.raises(ConfigError):
        model.predict_table(rows.rename(columns={"id": "prediction"}), keep=["prediction"])


TASKS: dict[str, dict[str, Any]] = {
    "two targets": {"target": ["x1", "count"], "models": ["ridge"]},
    "clusters": {"models": ["kmeans"]},
    "embedding": {"models": [{"pca": {"n_components": 2}}]},
}


@pytest.mark.slow
@pytest.mark.parametrize("task", TASKS)
def test_each_task_has_the_columns_of_its_table(task: str, rows: Any, tmp_path: Path) -> None:
    settings = {**QUIET, **TASKS[task], "drop": "id"}
    found = gp.Pipeline(customers(300), **settings).run(tmp_path / "run", quiet=True).model
    frame = rows.compute()
    lazy = found.predict_table(rows)
    assert list(lazy.columns) == list(lazy.compute().columns)
    assert lazy.compute().equals(found.predict_table(frame).to_pandas().set_axis(frame.index))
    expected = found.predict(frame)
    assert (found.predict(rows).compute().to_numpy() == expected).all()


@pytest.mark.cluster
@pytest.mark.slow
def test_workers_predict_with_the_model_that_is_sent(model: gp.Model, client: Client) -> None:
    frame = customers()
    found = model.predict_proba(dd.from_pandas(frame, npartitions=3))
    assert equal(found.compute().to_numpy(), model.predict_proba(frame))


def test_what_needs_all_rows_is_refused(model: gp.Model, rows: Any) -> None:
    derivation = Mock(inputs=(), ops=(Mock(),))
    history = replace(model, features=replace(model.features, derivation=derivation))
    ruled = replace(model, rules=(ServedRules("id", declare("int"), ColumnRules(unique=True)),))
    for other in (history, ruled):
        with pytest.raises(ConfigError):
            other.predict(rows)
    with pytest.raises(DataError):
        model.explain(rows)
    with pytest.raises(SchemaError):
        model.predict(rows[["x0"]])
    lag: Any = {"lag": {"key": "city", "time": "day", "columns": ["x1"]}}
    with pytest.raises(ConfigError):
        gp.Pipeline(rows, target="left", features=[lag]).features()
    with pytest.raises(ConfigError):
        gp.FeatureProgram([lag]).fit(rows)


# Clients.


def test_a_client_is_needed_and_said_to_be(rows: Any) -> None:
    with pytest.raises(ConfigError, match=r"distributed\.Client"):
        gp.Pipeline(rows, target="left").features()
    with pytest.raises(ConfigError, match=r"distributed\.Client"):
        gp.FeatureProgram().fit(rows)
    with pytest.raises(ConfigError):
        gp.Pipeline(dask.bag.from_sequence([1]), target="left")


@pytest.mark.cluster
@pytest.mark.slow
def test_clients_that_cannot_be_used_are_refused(cluster: LocalCluster, stored: Path) -> None:
    lazy = dd.read_parquet(stored, split_row_groups=True)
    with Client(cluster, set_as_default=False) as closed:
        pipeline, lost = gp.Pipeline(lazy, target="left", cluster=closed), closed.persist(lazy)
    with pytest.raises(ClusterError):
        pipeline.features()
    with pytest.raises(ConfigError):
        gp.Pipeline(lazy, target="left", cluster=closed)
    with (
        Client(cluster, set_as_default=False) as ours,
        Client(processes=False, n_workers=1, dashboard_address=":0", set_as_default=False) as threads,
    ):
        for elsewhere in (lost, threads.persist(lazy)):
            with pytest.raises(ConfigError):
                gp.Pipeline(elsewhere, target="left", cluster=ours).features()
        with pytest.raises(ConfigError, match="processes=True"):
            gp.Pipeline(lazy, target="left", cluster=threads)
