"""Single rows give the bits of a table, whatever they contain and however many threads ask."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gpupipe import Model, Pipeline, Scorer, load_config, load_model, load_scorer
from gpupipe.errors import DataError
from gpupipe.inference.drift.cell_counter import CellCounter
from gpupipe.inference.drift.detection import input_columns, load_reference
from gpupipe.inference.drift.row_cell_counter import PredictedRows, RowCellCounter
from gpupipe.inference.scorer.rare_values import encode_by_table
from gpupipe.io.source_reader import plain_arrow
from gpupipe.pipeline.run import run_pipeline
from gpupipe.table.frames import rows_to_arrow
from gpupipe.table.schema import Column
from gpupipe_kernels.engines import HostEngine
from tests.examples import examples
from tests.raw_values import START, VALUES, mixed_frame

pytestmark = pytest.mark.filterwarnings("ignore::gpupipe.PredictionWarning")
CHURN = Path(__file__).parents[2] / "configs" / "churn.yaml"
N, N_THREADS = 30_000, 16
EXTREMES = [0.0, -0.0, 1e-310, 2.0**125, -(2.0**125), 1e300, -np.inf, np.inf, np.nan, 1e-30, 16_777_217.0]


@pytest.fixture(scope="module")
def churn_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    changes = ["source.rows=4000", "models=[xgboost]", "models.xgboost.n_estimators=40", "report.plots=false"]
    return run_pipeline(load_config(CHURN, changes), tmp_path_factory.mktemp("churn") / "run").path


@pytest.mark.slow
def test_rows_in_threads_equal_a_table(churn_model: Path) -> None:
    model, scorer = load_model(churn_model), load_scorer(churn_model)
    rng = np.random.default_rng(21)
    columns = {column.name: random_values(column, rng) for column in scorer.columns}
    rows = [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
    cuts = [0, *np.sort(rng.integers(0, N + 1, 400)).tolist(), N]

    def score(cut: tuple[int, int]) -> tuple[Any, Any]:
        part = rows[slice(*cut)]
        return scorer.features(part), scorer.predict_proba(part)

    with ThreadPoolExecutor(N_THREADS) as threads:
        features, probabilities = zip(*threads.map(score, pairwise(cuts)), strict=True)
    table = pa.table(columns)
    assert np.concatenate(features).tobytes() == model.transform(table).tobytes()
    assert np.concatenate(probabilities).tobytes() == model.predict_proba(table).tobytes()


def random_values(column: Column, rng: np.random.Generator) -> list[Any]:
    """Return values for each row that satisfy the rules of the model: nulls, unseen levels and extremes among them."""
    if column.name == "tenure":
        return rng.integers(0, 73, N).tolist()
    if column.levels is not None:
        unseen = [] if column.name == "Contract" else ["unseen", "é", column.levels[0] + " "]
        known = [*column.levels, *unseen, None, " NA ", ""]
        return [known[code] for code in rng.integers(0, len(known), N)]
    values: list[Any]
    if column.kind == "datetime":
        values = [START + timedelta(microseconds=micros) for micros in rng.integers(-(2**54), 2**54, N).tolist()]
    elif column.dtype == "int64":
        values = rng.integers(-(2**24), 2**24, N).tolist()
    else:
        values = np.where(rng.random(N) < 0.7, rng.normal(50, 40, N), rng.choice(EXTREMES, N)).tolist()
    return [None if is_null else value for value, is_null in zip(values, rng.random(N) < 0.1, strict=True)]


@pytest.fixture(scope="module")
def mixed_model(tmp_path_factory: pytest.TempPathFactory) -> Model:
    """Return a model with an input of every kind and storage."""
    frame = mixed_frame(240)
    pipeline = Pipeline(
        frame,
        target="left",
        schema={
            "note": "text",
            "day": {"kind": "datetime", "format": "%d/%m/%Y"},
            "epoch": {"kind": "datetime", "format": "s"},
        },
        features=[
            {"impute": {"columns": ["price", "count"], "strategy": "median", "indicator": True}},
            {"standardize": ["price", "single"]},
            {"hash_bucket": {"columns": ["city"], "buckets": 16}},
            {"encode": ["plan", "flag"]},
            {"text_hash": {"columns": "note", "buckets": 8}},
            {"cyclic": {"columns": ["start", "day", "epoch"], "parts": ["hour", "weekday"]}},
            {"datetime_parts": {"columns": ["start", "epoch"], "parts": ["day"], "zone": "Europe/Berlin"}},
        ],
        models=["logistic_regression"],
    )
    return load_model(pipeline.run(tmp_path_factory.mktemp("mixed") / "run", quiet=True).path)


GOOD: dict[str, Any] = {
    "price": 9.5, "single": 0.25, "count": 3, "flag": True, "plan": "a", "city": "c1", "start": START,
    "day": "03/11/2021", "epoch": 1_600_000_000, "note": "call me",
}  # fmt: skip
VALUE = st.one_of(st.sampled_from(VALUES), st.floats(), st.integers(), st.text(max_size=3), st.datetimes())


@pytest.mark.parametrize("engine", ["numpy", "numba"])
@examples(60)
@given(changed=st.dictionaries(st.sampled_from(list(GOOD)), VALUE, min_size=1, max_size=3))
def test_a_row_has_the_features_of_a_table_or_both_refuse_it(
    mixed_model: Model, engine: HostEngine, changed: Mapping[str, Any]
) -> None:
    row = {**GOOD, **changed}
    assert features_of(scorer_of(mixed_model, engine).features, row) == features_of(mixed_model.transform, row)


@examples(60)
@given(changed=st.dictionaries(st.sampled_from(list(GOOD)), VALUE, min_size=1, max_size=3))
@example(changed={"note": " NA ", "city": "", "price": 2.0**126})
def test_a_row_is_counted_in_the_cells_of_a_table(mixed_model: Model, changed: Mapping[str, Any]) -> None:
    row = {**GOOD, **changed}
    scorer, reference = scorer_of(mixed_model, "numpy"), load_reference(mixed_model)
    try:
        cells = scorer.encode([row])
    except DataError:
        return
    by_row = RowCellCounter(reference.columns, (), scorer.encoder, (), encode_by_table)
    counts = np.zeros(by_row.n_cells, np.int64)
    assert len(list(by_row.count_steps(PredictedRows(cells.records, (), [row]), counts))) == len(reference.columns)
    by_table = CellCounter(input_columns(reference, mixed_model), mixed_model.backend.host, 1)
    expected = by_table.by_column(by_table.count(plain_arrow(rows_to_arrow([row], mixed_model.inputs))))
    assert {name: each.tolist() for name, each in by_row.by_column(counts)[0].items()} == {
        name: each.tolist() for name, each in expected.items()
    }


SCORERS: dict[tuple[int, str], Scorer] = {}


def scorer_of(model: Model, engine: HostEngine) -> Scorer:
    key = id(model), engine
    if key not in SCORERS:
        SCORERS[key] = model.scorer(engine)
    return SCORERS[key]


def features_of(compute: Any, row: Mapping[str, Any]) -> bytes | str:
    """Return the bits of the features of a row, or "refused"."""
    try:
        return bytes(np.asarray(compute([row])).tobytes())
    except (DataError, pa.ArrowException):
        return "refused"
