"""Few rows from memory, encoded cell by cell, compared with the same rows as a table, messages included."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpupipe import Model, Pipeline, load_model
from gpupipe.errors import GpupipeError
from gpupipe.inference.prediction.few_rows import MOST_ROWS, FewRowsEncoder
from gpupipe.table.schema import FIRST_LEVEL, Column, Schema
from tests.examples import examples
from tests.raw_values import START, VALUES, mixed_frame

pytestmark = pytest.mark.filterwarnings("ignore::gpupipe.PredictionWarning")
GOOD: dict[str, Any] = {
    "price": 9.5, "single": 0.25, "count": 3, "flag": True, "plan": "a", "city": "c1", "start": START,
    "day": "03/11/2021", "epoch": 1_600_000_000,
}  # fmt: skip


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Model:
    """Return a model with an input of every kind and storage except texts, and rules that refuse and that warn."""
    frame = mixed_frame(200).drop(columns="note")
    pipeline = Pipeline(
        frame,
        target="left",
        schema={"day": {"kind": "datetime", "format": "%d/%m/%Y"}, "epoch": {"kind": "datetime", "format": "s"}},
        data={"count": {"range": [0, 20]}, "price": {"range": [None, 90], "otherwise": "warn"}},
        features=[
            {"impute": {"columns": ["price", "count"], "strategy": "median", "indicator": True}},
            {"standardize": ["price", "single"]},
            {"hash_bucket": {"columns": ["city"], "buckets": 16}},
            {"encode": ["plan", "flag"]},
            {"cyclic": {"columns": ["start", "day", "epoch"], "parts": ["hour", "weekday"]}},
        ],
        models=["logistic_regression"],
        report={"enabled": False},
        evaluate={"importance": False},
    )
    return load_model(pipeline.run(tmp_path_factory.mktemp("few") / "run", quiet=True).path)


@pytest.fixture(scope="module")
def by_tables(model: Model) -> Model:
    """Return the model without the encoder of few rows."""
    found = replace(model)
    vars(found)["few_rows"] = None
    return found


Outcomes = Callable[[Any], tuple[Any, Any]]


@pytest.fixture(scope="module")
def outcomes(model: Model, by_tables: Model) -> Outcomes:
    """Return the function from rows to their outcomes, cell by cell and as a table."""
    return lambda data: (outcome(model, data), outcome(by_tables, data))


def outcome(model: Model, data: Any) -> Any:
    """Return all that a user gets for some rows: bits, report, warnings, notes, or the message of the error."""
    found: tuple[Any, ...]
    with warnings.catch_warnings(record=True) as raised:
        warnings.simplefilter("always")
        try:
            found = model.predict_proba(data).tobytes(), model.transform(data).tobytes(), model.last_prediction_report
        except GpupipeError as error:
            found = type(error).__name__, str(error)
    return *found, [str(each.message) for each in raised], [str(note) for note in model.backend.take_notes()]


def rows_with(changes: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    return [{**GOOD, **change} for change in changes]


FORMS: dict[str, Any] = {
    "dict": lambda rows: rows[0],
    "list": lambda rows: rows,
    "series": lambda rows: pd.Series(rows[0]),
    "frame": pd.DataFrame,
    "objects": lambda rows: pd.DataFrame(rows, dtype=object),
    "arrow": pa.Table.from_pylist,
}
VALUE = st.one_of(st.sampled_from(VALUES), st.floats(), st.integers(), st.text(max_size=3), st.datetimes())


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
@examples(300)
@given(
    changes=st.lists(st.dictionaries(st.sampled_from(list(GOOD)), VALUE, max_size=2), min_size=1, max_size=3),
    alike=st.booleans(),
)
def test_few_rows_are_those_of_a_table(
    outcomes: Outcomes, form: str, changes: list[dict[str, Any]], alike: bool
) -> None:
    rows = rows_with(changes[:1] * len(changes) if alike else changes)
    try:
        data = FORMS[form](rows)
    except (pa.ArrowException, OverflowError, TypeError, ValueError):
        return  # no such table
    found, expected = outcomes(data)
    assert found == expected


TYPED: dict[str, tuple[str, Any]] = {
    "float32": ("plan", np.array([0.1, 2.5, np.nan], np.float32)),
    "float16": ("single", np.array([0.1, 2.5, np.nan], np.float16)),
    "uint64": ("count", np.array([1, 2, 3], np.uint64)),
    "Int64": ("count", pd.array([1, None, 3], "Int64")),
    "boolean": ("flag", pd.array([True, None, False], "boolean")),
    "category": ("plan", pd.Categorical(["a", None, "2.5"])),
    "category of numbers": ("plan", pd.Categorical([1, None, 2.5])),
    "string": ("plan", pd.array(["a", None, "z"], "string")),
    "ns": ("start", pd.array(["2021-01-01T00:00:00.000000001", None, "1960-01-01"], "datetime64[ns]")),
    "s": ("start", np.array(["9999-01-01", "NaT", "0001-01-01"], "datetime64[s]")),
    "zone": ("start", pd.date_range("2021-10-31", periods=3, freq="h", tz="Europe/Berlin")),
    "timedelta": ("price", pd.to_timedelta([1500, None, -1500], "ns")),
    "period": ("plan", pd.period_range("2024-01", periods=3, freq="M")),
    "sparse": ("price", pd.arrays.SparseArray([1.0, 0.0, np.nan])),
    "arrow": ("price", pd.Series([1.0, None, 2.5], dtype=pd.ArrowDtype(pa.float32()))),
    "decimals": ("price", [Decimal("0.1"), None, Decimal("1E+3")]),
    "objects": ("plan", ["a", 1, None]),
    "large": ("count", [2**63, 2**63, 2**63]),
    "zones": ("start", [START.replace(tzinfo=UTC), None, START]),
}


@pytest.mark.parametrize("n", [1, 3])
@pytest.mark.parametrize("name", TYPED)
def test_types_of_frames_are_those_of_a_table(model: Model, by_tables: Model, name: str, n: int) -> None:
    column, values = TYPED[name]
    frame = pd.DataFrame(rows_with([{}] * 3)).assign(**{column: values}).iloc[:n]
    assert outcome(model, frame) == outcome(by_tables, frame)


ARROW_TYPES = [
    *(pa.int8(), pa.uint64(), pa.float16(), pa.float32(), pa.float64(), pa.decimal128(9, 2), pa.bool_(), pa.null()),
    *(pa.string(), pa.large_string(), pa.string_view(), pa.binary()),
    *(pa.dictionary(pa.int8(), pa.string()), pa.dictionary(pa.int8(), pa.int64())),
    *(pa.timestamp("ns"), pa.timestamp("s", "Asia/Tokyo"), pa.date32(), pa.date64(), pa.time32("s"), pa.duration("ns")),
]


@pytest.mark.parametrize("column", ["price", "count", "plan", "start", "epoch"])
def test_types_of_arrow_are_those_of_a_table(model: Model, by_tables: Model, column: str) -> None:
    table = pa.Table.from_pylist(rows_with([{}] * 2))
    for kind in ARROW_TYPES:
        values = pa.array([1, None]).cast(kind) if not pa.types.is_nested(kind) and _casts(kind) else _made(kind)
        data = table.set_column(table.column_names.index(column), column, values)
        for n in (1, 2):
            assert outcome(model, data.slice(0, n)) == outcome(by_tables, data.slice(0, n)), kind


def test_the_earliest_nanosecond_is_a_time(model: Model, by_tables: Model) -> None:
    # NumPy takes it for a missing time.
    earliest = pa.array([-(2**63)], pa.int64()).view(pa.timestamp("ns"))
    table = pa.Table.from_pylist(rows_with([{}]))
    data = table.set_column(table.column_names.index("start"), "start", earliest)
    assert outcome(model, data) == outcome(by_tables, data)
    missing = data.set_column(data.column_names.index("start"), "start", pa.nulls(1, pa.timestamp("ns")))
    assert outcome(model, data) != outcome(model, missing)


def _casts(kind: pa.DataType) -> bool:
    try:
        pa.array([1, None]).cast(kind)
    except pa.ArrowException:
        return False
    return True


def _made(kind: pa.DataType) -> pa.Array:
    values = pa.array(["1", None]) if pa.types.is_dictionary(kind) else pa.array([0, None], pa.int32())
    return values.dictionary_encode() if pa.types.is_dictionary(kind) else values.cast(pa.float32()).cast(pa.float64())


@pytest.mark.parametrize("kind", ["Int8", "UInt64", "Int128", "Float32", "Float64", "String", "Categorical", "Binary"])
def test_polars_frames_are_read_as_tables(model: Model, by_tables: Model, kind: str) -> None:
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame(rows_with([{"plan": "0.1" if "Float" in kind else "1"}, {"plan": None}]))
    for column in ("city", "price"):
        data = frame.with_columns(frame["plan"].cast(getattr(polars, kind)).alias(column))
        for n in (1, 2):
            assert outcome(model, data[:n]) == outcome(by_tables, data[:n])


def test_ids_in_a_frame_of_numbers_stay_integers() -> None:
    key = Column("key", "categorical", "int64", storage="int8", levels=(str(2**53 + 1),))
    encoder = FewRowsEncoder(Schema((key, Column("x", "numeric", "float64", storage="float32"))), (), strip=False)
    for n in (1, 2):
        table = encoder.encode(pd.DataFrame({"key": [2**53 + 1] * n, "x": [0.5] * n}))
        assert table is not None
        assert table.column("key").tolist() == [FIRST_LEVEL] * n


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.string_view()])
def test_dictionaries_of_many_rows_are_decoded(model: Model, by_tables: Model, kind: pa.DataType) -> None:
    values = pa.DictionaryArray.from_arrays(pa.array([0, 1, None] * 4), pa.array(["1", "2"]).cast(kind))
    data = pa.Table.from_pylist(rows_with([{}] * 12))
    data = data.set_column(data.column_names.index("plan"), "plan", values)
    assert outcome(model, data) == outcome(by_tables, data)


def test_explanations_and_reasons_are_those_of_a_table(model: Model, by_tables: Model) -> None:
    rows = rows_with([{"plan": "z"}, {"price": None}])
    assert model.explain(rows).values.tobytes() == by_tables.explain(rows).values.tobytes()
    assert model.predict_table(pd.DataFrame(rows), explain=2).equals(
        by_tables.predict_table(pd.DataFrame(rows), explain=2)
    )


def test_which_rows_are_encoded_cell_by_cell(model: Model) -> None:
    encoder = model.few_rows
    assert encoder is not None
    assert all(encoder.encode(FORMS[form](rows_with([{}] * 2))) is not None for form in FORMS if form != "objects")
    frame = pd.DataFrame(rows_with([{}] * (MOST_ROWS + 1)))
    assert encoder.encode(frame.iloc[:MOST_ROWS]) is not None
    others: dict[str, Any] = {
        "too many": frame,
        "no rows": frame.iloc[:0],
        "a path": "rows.csv",
        "a column is absent": frame[["price"]].iloc[:1],
        "a column twice": pd.concat([frame, frame[["price"]]], axis=1).iloc[:1],
        "a rule is violated": rows_with([{"count": 21}]),
        "a rule warns": rows_with([{"price": 91.0}]),
        "a value is refused": rows_with([{"price": "dear"}]),
        "a name that is a number": {**GOOD, 1: 2},
        "columns in a dict": {name: [value] for name, value in GOOD.items()},
    }
    assert {name: encoder.encode(data) for name, data in others.items()} == dict.fromkeys(others)
