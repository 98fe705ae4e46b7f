"""In-memory frames as tables of a pipeline: the same results as from files with the same rows."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import gpupipe as gp
from gpupipe.backends import choose
from gpupipe.datasets.churn import customers, events
from gpupipe.errors import ConfigError, DataError, SchemaError
from gpupipe.pipeline import run as run_module
from gpupipe.pipeline.run import run_pipeline
from gpupipe.timeline.safe_points import StopSignal
from tests.inline_workers import InlineWorkers

pytestmark = pytest.mark.filterwarnings("ignore:text column .* dropped")

ROWS = 600
TABLE = customers(ROWS, 7)
RESUMED = "loaded from a checkpoint"
SETTINGS: dict[str, Any] = {
    "target": "Churn",
    "positive": "Yes",
    "drop": "customerID",
    "features": [{"impute": {"columns": "@numeric", "indicator": True}}, {"encode": "@categorical"}],
    "models": ["logistic_regression", {"hist_gradient_boosting": {"max_iter": 5}}],
    "evaluate": {"importance": {"repeats": 1}},
    "report": {"enabled": False},
}


class Exporter:
    """A table of an unknown library that speaks Arrow's PyCapsule protocol."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return TABLE.__arrow_c_stream__(requested_schema)


FRAMES: dict[str, Callable[[], Any]] = {
    "pandas.DataFrame": TABLE.to_pandas,
    "polars.DataFrame": lambda: pl.from_arrow(TABLE),
    "polars.LazyFrame": lambda: pl.from_arrow(TABLE).lazy(),
    "pyarrow.Table": lambda: TABLE,
    "duckdb.DuckDBPyRelation": lambda: duckdb.from_arrow(TABLE),
    "pyarrow.RecordBatchReader": TABLE.to_reader,
    f"{__name__.partition('.')[0]}.Exporter": Exporter,
}


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("rows") / "churn.parquet"
    pq.write_table(TABLE, path)
    return path


@pytest.fixture(scope="module")
def of_file(file: Path, tmp_path_factory: pytest.TempPathFactory) -> gp.Run:
    return gp.Pipeline(file, **SETTINGS).run(tmp_path_factory.mktemp("file") / "run")


@pytest.fixture(scope="module")
def of_frame(tmp_path_factory: pytest.TempPathFactory) -> gp.Run:
    return gp.Pipeline(TABLE.to_pandas(), **SETTINGS).run(tmp_path_factory.mktemp("frame") / "run")


@pytest.mark.parametrize("kind", FRAMES)
def test_a_frame_of_any_library_is_read_as_its_file(kind: str, file: Path) -> None:
    pipe = gp.Pipeline(FRAMES[kind](), **SETTINGS)
    assert pipe.config.source.label == f"{kind}, 600 rows x {TABLE.num_columns} columns"
    for found, expected in zip(pipe.features(), gp.Pipeline(file, **SETTINGS).features(), strict=True):
        np.testing.assert_array_equal(found, expected)


def test_a_run_on_a_frame_is_the_run_on_its_file(of_frame: gp.Run, of_file: gp.Run) -> None:
    assert of_frame.document == of_file.document
    pd.testing.assert_frame_equal(of_frame.predictions, of_file.predictions)
    pd.testing.assert_frame_equal(of_frame.importances, of_file.importances)


def test_the_settings_of_the_source_apply_to_a_frame(file: Path, tmp_path: Path) -> None:
    hook = tmp_path / "hook.py"
    hook.write_text("def double(frame):\n    frame['Age'] = frame['Age'] * 2\n    return frame\n")
    section = {"prepare": f"{hook}:double", "columns": ["Age", "tenure", "City", "Contract"]}
    more = {"where": "tenure > 3", "schema": {"tenure": "categorical"}, "drop": ["Contract"]}
    pipes = [
        gp.Pipeline({key: table, **section}, **SETTINGS | more)
        for key, table in (("path", file), ("frame", TABLE.to_pandas()), ("path", pl.from_arrow(TABLE)))
    ]
    expected, *found = [pipe.features() for pipe in pipes]
    assert len(expected[0]) < ROWS
    for X, y in found:
        np.testing.assert_array_equal(X, expected[0])
        np.testing.assert_array_equal(y, expected[1])


def test_further_tables_can_be_frames(tmp_path: Path) -> None:
    regions = pa.table({"City": TABLE["City"].unique().to_pylist(), "rank": range(len(TABLE["City"].unique()))})
    regions = regions.filter(regions["City"].is_valid())
    files = {"regions": regions, "events": events(4000, 7)}
    for name, table in files.items():
        pq.write_table(table, tmp_path / f"{name}.parquet")

    def pipe(given: Callable[[str], Any]) -> gp.Pipeline:
        tables = {
            "regions": {"path": given("regions"), "on": "City", "cardinality": "many_to_one"},
            "events": {"path": given("events"), "on": "customerID", "cardinality": "one_to_many"},
        }
        history = {"table": "events", "columns": "amount", "functions": ["mean", "count"]}
        ops = [{"impute": ["tenure", "rank"]}, {"aggregate": history}]
        return gp.Pipeline(TABLE, **SETTINGS | {"drop": None, "tables": tables, "features": ops})

    in_memory, on_disk = pipe(lambda name: files[name].to_pandas()), pipe(lambda name: tmp_path / f"{name}.parquet")
    np.testing.assert_array_equal(in_memory.features()[0], on_disk.features()[0])
    assert "2 further tables" in repr(in_memory)
    described = gp.Pipeline.from_yaml(in_memory.run(tmp_path / "run").path / "config.yaml")
    with pytest.raises(ConfigError, match=r"a table in memory(.|\n)*tables=\{NAME: frame\}"):
        described.features(TABLE)
    np.testing.assert_array_equal(described.features(TABLE, tables=files)[0], on_disk.features()[0])


def test_rows_are_those_of_the_moment_when_they_were_given() -> None:
    frame = pd.DataFrame({"x": np.arange(20.0), "z": np.arange(20.0), "y": np.tile([0, 1], 10)})
    pipe = gp.Pipeline(frame, target="y", features=[{"standardize": "x"}])
    before = pipe.features()[0].copy()
    frame.loc[3, "x"] = 1e6
    np.testing.assert_array_equal(pipe.features()[0], before)


def test_a_written_configuration_describes_the_frame_and_takes_it_again(
    of_frame: gp.Run, file: Path, tmp_path: Path
) -> None:
    written = of_frame.path / "config.yaml"
    assert "frame: pandas.DataFrame, 600 rows x 25 columns" in written.read_text()
    again = gp.Pipeline.from_yaml(written)
    for use in (again.run, again.plan, again.features):
        with pytest.raises(ConfigError, match=r"a table in memory(.|\n)*DataFrame, 600 rows(.|\n)*run\(data=frame\)"):
            use()
    for i, data in enumerate((TABLE, file, [file], TABLE.to_pydict())):
        assert again.run(tmp_path / str(i), data=data).document == of_frame.document
    named = gp.Pipeline.from_yaml(written, overrides=[f"source.path={file}"])
    np.testing.assert_array_equal(named.features()[0], again.features(TABLE)[0])


def test_other_data_keep_all_other_settings(file: Path, tmp_path: Path) -> None:
    fewer = TABLE.slice(0, 200)
    fewer.to_pandas().to_csv(tmp_path / "fewer.csv", index=False)
    schema = {"City": "categorical"}  # in so few rows it could be text
    pipe = gp.Pipeline({"path": file, "format": "parquet"}, **SETTINGS, schema=schema)
    of_csv, of_table = pipe.features(tmp_path / "fewer.csv"), pipe.features(fewer.drop_columns(["customerID"]))
    assert len(of_csv[0]) == 200
    np.testing.assert_array_equal(of_csv[0], of_table[0])
    train, test = pipe.tensors(data=fewer)
    assert (len(train), len(test)) == (160, 40)
    assert len(pipe.features()[0]) == ROWS


def test_a_run_resumes_with_equal_rows_and_with_no_others(tmp_path: Path) -> None:
    def stopped(config: gp.Config) -> None:
        stop_signal = StopSignal()

        def watch(where: str) -> None:
            if where == "before train hist_gradient_boosting":
                raise InterruptedError

        stop_signal.watch(watch)
        with pytest.raises(InterruptedError):
            run_pipeline(config, tmp_path / "run", stop_signal=stop_signal)

    def notes(run: gp.Run) -> str:
        return str(next(stage["notes"] for stage in run.plan() if stage["name"] == "train logistic_regression"))

    frame = TABLE.to_pandas()
    stopped(gp.Pipeline(frame, **SETTINGS).config)
    assert RESUMED in notes(gp.Pipeline(frame.copy(), **SETTINGS).run(tmp_path / "run", resume=True))
    stopped(gp.Pipeline(frame, **SETTINGS).config)
    frame.loc[5, "tenure"] = 70
    assert RESUMED not in notes(gp.Pipeline(frame, **SETTINGS).run(tmp_path / "run", resume=True))


def test_a_plan_knows_the_rows_of_a_frame() -> None:
    many = pa.concat_tables([TABLE] * 50)
    plan = gp.Pipeline(many, **SETTINGS).plan()
    assert (plan.n_rows, plan.is_exact, plan.error) == (50 * ROWS, True, None)


@pytest.mark.parametrize("where", ["on disk", "on workers"])
def test_rows_in_partitions_give_the_same_run(
    where: str, of_frame: gp.Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    more: dict[str, Any] = {}
    if where == "on disk":
        monkeypatch.setattr("gpupipe.pipeline.memory.ENOUGH", 1 << 60)
        monkeypatch.setattr("gpupipe.plan.run_plan.SHARE", 0.0)  # nothing fits
    else:
        more = {"cluster": {"scheduler": "local"}}
        monkeypatch.setattr(run_module, "workers_of", lambda config: nullcontext(InlineWorkers(choose("cpu"), 2)))
    run = gp.Pipeline(TABLE, **SETTINGS | more).run(tmp_path / "run")
    assert run.document["best"] == of_frame.document["best"]
    assert run.metrics == pytest.approx(of_frame.metrics, abs=1e-6)
    assert "the driver encodes tables in memory" in (run.path / "log.jsonl").read_text()


def test_frames_that_cannot_be_used_are_data_errors(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"cannot convert column 'a' of dtype object to an Arrow array"):
        gp.Pipeline(pd.DataFrame({"a": [1, object()]}), target="a")
    with pytest.raises(SchemaError, match="'a'"):
        gp.Pipeline(pd.DataFrame([[1, 2]], columns=["a", "a"]), target="a")
    with pytest.raises(DataError, match=r"there are no rows\n  where: pandas.DataFrame, 0 rows x 1 column\n"):
        gp.Pipeline(pd.DataFrame({"a": []}), target="a").run(tmp_path / "run")
    with pytest.raises(
        SchemaError, match=r"no such column: Chrn\n.*pyarrow.Table, 600 rows(.|\n)*did you mean 'Churn'"
    ):
        gp.Pipeline(TABLE, target="Chrn").run(tmp_path / "run")
