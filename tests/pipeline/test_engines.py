"""Tests of the choice of an engine: it depends on the work and the setting, never on what ran before."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from gpupipe.backends import choose
from gpupipe.config import parse_config
from gpupipe.io.input_files import InputFiles
from gpupipe.pipeline.result import Run
from gpupipe.pipeline.run import run_pipeline
from gpupipe.training.checkpoints.keys import inputs_key

ROWS = 2_000
FEATURES = [
    {"yeo_johnson": ["income", "debt"]},
    {"log1p": ["visits"]},
    {"cyclic": {"columns": ["hour"], "period": 24}},
    {"haversine": {"from": ["lat", "lon"], "to": ["to_lat", "to_lon"], "as": "km"}},
]
RUNS = """
import hashlib, json, sys
from pathlib import Path
from gpupipe.config import parse_config
from gpupipe.pipeline.run import run_pipeline

document, folder, steps = json.loads(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:]
made = []
for i, step in enumerate(steps):
    if step == "warm":  # as `gpupipe kernels warm` does for these features
        from gpupipe_kernels.reduce.numba import engine
        engine.warm()
        continue
    run = run_pipeline(parse_config(document | json.loads(step)), folder / str(i))
    made.append(hashlib.sha256((run.path / "predictions.parquet").read_bytes()).hexdigest())
print(json.dumps(made))
"""


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of rows with every kind of feature on which interpreters differ in the last digits."""
    draw = np.random.default_rng(5)
    columns = {
        "income": draw.lognormal(3, 1, ROWS), "debt": draw.normal(0, 50, ROWS), "visits": draw.exponential(20, ROWS),
        "hour": draw.uniform(0, 24, ROWS), "lat": draw.uniform(40, 60, ROWS), "lon": draw.uniform(0, 20, ROWS),
        "to_lat": draw.uniform(40, 60, ROWS), "to_lon": draw.uniform(0, 20, ROWS),
    }  # fmt: skip
    rows = pd.DataFrame(columns)
    odds = np.log(rows.income) + np.sin(rows.hour / 4) + (rows.lat - rows.to_lat) / 10 + draw.normal(0, 1, ROWS)
    rows["y"] = (odds > odds.median()).astype(int)
    path = tmp_path_factory.mktemp("engines") / "rows.parquet"
    rows.to_parquet(path)
    return path


def document(table: Path, **changes: Any) -> dict[str, Any]:
    given = {
        "seed": 4,
        "device": "cpu",
        "source": {"path": str(table), "target": "y", "cache": False},
        "features": FEATURES,
        "models": [{"logistic_regression": {}}],
        "evaluate": {"importance": False},
        "report": {"enabled": False},
    }
    return given | changes


def predictions_of(table: Path, folder: Path, *steps: str, cache: Path | None = None) -> list[str]:
    """Return the hash of the predictions of each run, in one fresh process."""
    folder.mkdir()
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    if cache is not None:
        environment["NUMBA_CACHE_DIR"] = str(cache)
    command = [sys.executable, "-c", RUNS, json.dumps(document(table)), str(folder), *steps]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found: list[str] = json.loads(done.stdout.splitlines()[-1])
    return found


def test_predictions_do_not_depend_on_what_was_compiled_before(table: Path, tmp_path: Path) -> None:
    """With ``engine: numba``, both engines are chosen at this size; those of reductions give the same bits.

    It runs with compiled code only: compiling it again for an empty cache takes half a minute.
    """
    auto, numba = "{}", '{"engine": "numba"}'
    found = predictions_of(table, tmp_path / "empty", auto, cache=tmp_path / "cache")
    found += predictions_of(table, tmp_path / "warm", "warm", auto, numba, auto)
    assert len(found) == 4 and len(set(found)) == 1


@pytest.fixture(scope="module")
def run(table: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    return run_pipeline(parse_config(document(table)), tmp_path_factory.mktemp("run") / "run")


def test_the_timeline_has_the_chosen_engine(run: Run) -> None:
    stages = json.loads((run.path / "timeline.json").read_text())["stages"]
    (features,) = (stage for stage in stages if stage["name"] == "features")
    assert features["engines"] == {"reductions": "numpy"}


def test_the_engine_is_part_of_a_checkpoint_key(table: Path) -> None:
    settings = [parse_config(document(table, engine=engine)) for engine in ("auto", "numba")]
    keys = [inputs_key(each, choose("cpu"), InputFiles.find(each.source)) for each in settings]
    assert keys[1].changed(keys[0].parts) == ["the settings"]
