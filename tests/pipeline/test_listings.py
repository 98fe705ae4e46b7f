"""The number of file system requests of a run, and of the commands that inspect its files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import fsspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from gpupipe.config import Config, parse_config
from gpupipe.inference.scoring.local import score
from gpupipe.inference.scoring.scoring_settings import ScoringSettings
from gpupipe.pipeline.run import run_pipeline
from gpupipe.plan.data_check import check_data
from gpupipe.plan.run_plan import make_plan
from gpupipe.starter.source_table import read_source_table

N_FILES, N_ROWS = 3, 40


class CountingFileSystem(MemoryFileSystem):
    """Files in memory, and the requests for them that a remote file system would send."""

    protocol = "counted"
    store: ClassVar[dict[str, Any]] = {}
    pseudo_dirs: ClassVar[list[str]] = [""]
    requests: ClassVar[Counter[str]] = Counter()

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        return super()._strip_protocol(path.replace("counted://", "memory://"))

    def find(self, path: str, *args: Any, **options: Any) -> Any:
        self.requests["list"] += 1
        return super().find(path, *args, **options)

    def info(self, path: str, **options: Any) -> Any:
        self.requests["info"] += 1
        return super().info(path, **options)

    def open(self, path: str, *args: Any, **options: Any) -> Any:
        self.requests["open"] += 1
        return super().open(path, *args, **options)


@pytest.fixture
def requests(tmp_path: Path) -> Iterator[Counter[str]]:
    """Write two tables, and return the requests made since then."""
    fsspec.register_implementation("counted", CountingFileSystem, clobber=True)
    system, draw = fsspec.filesystem("counted"), np.random.default_rng(0)
    for i in range(N_FILES):
        x = draw.normal(size=N_ROWS)
        rows = {"id": np.arange(N_ROWS) + i * N_ROWS, "x": x, "key": np.arange(N_ROWS), "y": (x > 0).astype(int)}
        for folder, names in (("rows", rows), ("further", ("key", "x"))):
            if folder == "rows" or not i:
                path = f"{folder}-{i}.parquet"
                pq.write_table(pa.table({name: rows[name] for name in names}), tmp_path / path)
                system.pipe(f"/{folder}/{path}", (tmp_path / path).read_bytes())
    CountingFileSystem.requests.clear()
    yield CountingFileSystem.requests
    system.rm("/rows", recursive=True)
    system.rm("/further", recursive=True)


def settings(**changes: Any) -> Config:
    source = {"path": "counted://rows", "target": "y", "drop": ["id"], "cache": False}
    return parse_config({"source": source, "models": ["logistic_regression"], "report": {"enabled": False}} | changes)


def test_a_run_lists_its_files_once_and_asks_for_each_once_per_reading(tmp_path: Path, requests: Counter[str]) -> None:
    run_pipeline(settings(), tmp_path / "run")
    readings = 3 * N_FILES  # footers, rows, and the column in a sample that may be an identifier
    assert requests == {"list": 1, "info": 1 + readings, "open": readings}


def test_each_table_of_a_run_is_listed_once(tmp_path: Path, requests: Counter[str]) -> None:
    further = {"further": {"path": "counted://further", "on": "key", "prefix": "of_", "cardinality": "many_to_one"}}
    run_pipeline(settings(tables=further), tmp_path / "run")
    assert requests["list"] == 2


def test_plan_check_init_and_predict_list_their_files_once(tmp_path: Path, requests: Counter[str]) -> None:
    model = run_pipeline(settings(), tmp_path / "run").path / "model"
    for look in (
        lambda: make_plan(settings()),
        lambda: check_data(settings()),
        lambda: read_source_table("counted://rows"),
        lambda: score(model, "counted://rows", tmp_path / "scores.csv", ScoringSettings(ids=["id"])),
    ):
        requests.clear()
        look()
        assert requests["list"] == 1


def test_a_file_added_during_a_run_is_ignored(tmp_path: Path, requests: Counter[str]) -> None:
    system = fsspec.filesystem("counted")

    class Copier:
        def __getattr__(self, name: str) -> Any:
            content = system.cat("/rows/rows-0.parquet")
            return lambda *args: system.pipe("/rows/rows-9.parquet", content)

    run = run_pipeline(settings(), tmp_path / "run", [Copier()])
    assert system.exists("/rows/rows-9.parquet")
    assert pq.read_metadata(run.path / "predictions.parquet").num_rows == round(0.2 * N_FILES * N_ROWS)
