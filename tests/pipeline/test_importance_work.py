"""Work of permutation importances: what is reduced to stay within the limit, and what the run says about it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from gpupipe.config import parse_config
from gpupipe.pipeline.records import importances_and_plots
from gpupipe.pipeline.records.importance_work import LEAST_COLUMNS, ImportanceWork, choose_work
from gpupipe.pipeline.run import run_pipeline

WHOLE = ImportanceWork(n_rows=5_000, repeats=3, n_columns=33, n_models=8)  # predicts 500,000 rows
SMALL = replace(WHOLE, n_rows=400)


def per_model(seconds: float) -> Callable[[int], float]:
    return lambda n_models: seconds * n_models


@pytest.mark.parametrize(
    ("whole", "row_seconds", "expected"),
    [
        (WHOLE, per_model(0.0), {}),
        (WHOLE, per_model(1.25e-6), {}),
        (WHOLE, per_model(2.5e-6), {"n_rows": 2_500}),
        (WHOLE, per_model(6.25e-6), {"n_rows": 1_000}),
        (WHOLE, per_model(1e-5), {"n_rows": 1_000, "n_models": 5}),
        (WHOLE, per_model(1e-4), {"n_rows": 500, "n_models": 1}),
        (WHOLE, per_model(2.5e-4), {"n_rows": 200, "n_models": 1}),
        (WHOLE, per_model(3e-4), {"n_rows": 200, "n_models": 1, "repeats": 2}),
        (WHOLE, per_model(7.5e-4), {"n_rows": 200, "n_models": 1, "repeats": 2, "n_columns": 16}),
        (WHOLE, per_model(1.0), {"n_rows": 200, "n_models": 1, "repeats": 2, "n_columns": 10}),
        (replace(WHOLE, n_columns=4, repeats=1), per_model(1.0), {"n_rows": 200, "n_models": 1}),
        (SMALL, per_model(1.5625e-5), {}),
        (SMALL, per_model(3.2e-5), {"n_models": 3}),
        (replace(SMALL, n_models=1), lambda n_models: 2.5e-4, {"n_rows": 200}),
    ],
)
def test_rows_are_reduced_first_then_models_repeats_and_columns(
    whole: ImportanceWork, row_seconds: Callable[[int], float], expected: dict[str, int]
) -> None:
    found = choose_work(whole, row_seconds, 5.0)
    assert found == replace(whole, **expected)
    is_least = found.n_columns <= LEAST_COLUMNS
    assert is_least or row_seconds(found.n_models) * found.predicted_rows <= 5.0 * 1.05  # columns are whole


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (WHOLE, ""),
        (replace(WHOLE, n_rows=1_000), "1,000 of 5,000 test rows"),
        (
            replace(WHOLE, n_models=1, repeats=2, n_columns=16),
            "1 of 8 models of each member, 2 shuffles instead of 3, 16 of 33 columns",
        ),
    ],
)
def test_the_description_has_what_was_reduced(found: ImportanceWork, expected: str) -> None:
    assert found.describe(WHOLE) == expected


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(2_000, 3)), columns=["a", "b", "c"])
    frame["y"] = 3 * frame["a"] + frame["b"]
    path = tmp_path_factory.mktemp("table") / "table.parquet"
    frame.to_parquet(path)
    return path


@pytest.mark.parametrize(("limit", "stated", "rows"), [(5.0, {}, 500), (1e-6, {}, 200), (1e-6, {"repeats": 3}, 500)])
def test_a_run_says_on_how_many_rows_it_measured_unless_the_work_is_stated(
    table: Path, tmp_path: Path, limit: float, stated: dict[str, int], rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importances_and_plots, "LIMIT_SECONDS", limit)
    settings = {
        "source": {"path": str(table), "target": "y"},
        "split": {"test_size": 0.25},
        "models": ["ridge"],
        "report": {"plots": False},
        "evaluate": {"metrics": ["r2"], **({"importance": stated} if stated else {})},
    }
    run = run_pipeline(parse_config({"name": "x", **settings}), tmp_path / "run")
    page = re.sub(r"\s+", " ", (run.path / "report.html").read_text(encoding="utf-8"))
    assert f"on {rows:,} test rows when the values of a column" in page
    noted = "importances measured on 200 of 500 test rows" in json.dumps(run.timeline.to_json())
    assert noted == (rows == 200)
    assert run.importances["column"].iloc[0] == "a"
