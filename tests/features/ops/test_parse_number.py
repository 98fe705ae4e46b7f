"""parse_number: one text has one value on every road, and what is not a number is missing and counted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import dask.dataframe as dd
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

import gpupipe as gp
from gpupipe.backends import choose
from gpupipe.config import load_config
from gpupipe.errors import ConfigError
from gpupipe.features import OPS
from gpupipe.features.history.tables import DerivationSources, HistoryRows
from gpupipe.features.ops.parse_number import ParseNumber
from gpupipe.io.column_settings import ColumnSettings
from gpupipe.model_parts.part_checks import read_schema
from gpupipe.plan.data_check import check_data
from gpupipe.table.encode import encode
from gpupipe.table.number_texts import NumberFormat, guess_format, read_seconds
from gpupipe.table.schema import declare
from tests.examples import examples

BACKEND = choose("cpu")
TEXTS = ["$1,234.50", "($5.20)", "7", "$ 300", None, "9 EUR", "<5", "-$2"]
NUMBERS = [1234.5, -5.2, 7.0, 300.0, np.nan, np.nan, np.nan, -2.0]


def parsed(texts: Any, **settings: Any) -> tuple[list[float], list[str]]:
    """Return the numbers of a column called ``price``, and the warnings."""
    arrow = pa.table({"price": pa.array(texts)})
    table = encode(arrow, BACKEND, {"price": declare("text")})
    sources = DerivationSources(HistoryRows.of_arrow(table, arrow, "the table"), {}, BACKEND)
    op: Any = OPS.get("parse_number").model_validate({"columns": "price", **settings})
    (made,) = op.derive(sources)
    assert made.name == "price_number" and made.values.dtype == np.float32
    return made.values.tolist(), sources.warnings


def test_texts_are_numbers_in_their_unit_and_others_are_missing_and_counted() -> None:
    found, warnings = parsed(TEXTS, units="$")
    np.testing.assert_array_equal(found, np.array(NUMBERS, np.float32))
    (warning,) = warnings
    assert warning.startswith(
        "parse_number: 2 of 7 texts of 'price' are not numbers in $ and become missing: '9 EUR', '<5'"
    )
    assert parsed(["<5", "7"])[1][0].count("'<5', a band") == 1
    assert parsed(["<5", "≥ 2 kg", "65+", "10-20", "3 to 4 kg", "7", "9-8", "<a"], units="kg", bands="limit")[0] == (
        pytest.approx([5, 2, 65, 15, 3.5, 7, np.nan, np.nan], nan_ok=True)
    )
    assert parsed(["5", " ", None, "1,000"]) == (
        [5.0, pytest.approx(np.nan, nan_ok=True), pytest.approx(np.nan, nan_ok=True), 1000.0],
        [],
    )


def test_a_feature_program_warns_as_a_run_does() -> None:
    program = gp.FeatureProgram([{"parse_number": {"columns": "price", "units": "$"}}])
    with pytest.warns(gp.RunWarning, match="2 of 7 texts of 'price'"):
        program.fit(pd.DataFrame({"price": TEXTS}))


@pytest.mark.parametrize(
    ("settings", "texts", "numbers"),
    [
        ({"units": ["kg", "kgs"]}, ["2 kg", "3 kgs"], [2, 3]),
        ({"units": {"kg": 1, "g": 0.001}}, ["2 kg", "500 g"], [2, 0.5]),
        ({"units": {"%": 0.01}}, ["50%", "0.5"], [0.5, 0.5]),
        ({"decimal": ",", "units": "€"}, ["1.234,50 €", "7"], [1234.5, 7]),
        ({}, ["1e39", "5"], [np.nan, 5]),
    ],
)
def test_settings(settings: dict[str, Any], texts: list[str], numbers: list[float]) -> None:
    np.testing.assert_array_equal(parsed(texts, **settings)[0], np.array(numbers, np.float32))


@pytest.mark.parametrize("unit", [{"kg": 0}, {"": 1}, " kg", {"kg": float("inf")}])
def test_units_without_a_factor_are_refused(unit: Any) -> None:
    with pytest.raises(ValidationError, match="factors that are not 0"):
        ParseNumber.model_validate({"columns": "a", "units": unit})


@pytest.fixture(scope="module", params=["op", "schema"])
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> gp.Model:
    """Return a ridge regression whose prediction is a line of the parsed number."""
    texts = [f"${1000 * i:,}" for i in range(1, 41)]
    frame = pd.DataFrame({"price": texts, "y": [float(i) for i in range(1, 41)]})
    ops: list[Any] = [{"parse_number": {"columns": "price", "units": "$"}}]
    settings: Any = {"schema": {"price": "text"}, "split": {"test_size": 0.2}, "report": {"enabled": False}}
    if request.param == "schema":
        ops, settings = [{"impute": "price"}], {**settings, "schema": {"price": {"kind": "number", "units": "$"}}}
    run = gp.Pipeline(frame, target="y", features=ops, models=["ridge"], **settings).run(
        tmp_path_factory.mktemp("run") / "run", quiet=True
    )
    return gp.load_model(run.path)


@pytest.mark.filterwarnings("ignore:column .price.. every row is null:gpupipe.user_warnings.PredictionWarning")
def test_a_text_has_one_value_on_every_road_and_in_any_company(model: gp.Model, tmp_path: Path) -> None:
    texts = ["$1,500", "1500", "$ 1500.00", "€1,500", "(1,500)", None, "1500 rpm"]
    frame = pd.DataFrame({"price": texts})
    expected = np.asarray(model.predict(frame))
    assert len(set(expected[:3])) == 1 and expected[3] == expected[5] == expected[6]
    frame.to_csv(tmp_path / "t.csv", index=False)
    frame.to_parquet(tmp_path / "t.parquet")
    frame.to_json(tmp_path / "t.jsonl", orient="records", lines=True)
    scorer, records = model.scorer(), [{"price": text} for text in texts]
    roads = {
        "csv": model.predict(str(tmp_path / "t.csv")),
        "parquet": model.predict(str(tmp_path / "t.parquet")),
        "json lines": model.predict(str(tmp_path / "t.jsonl")),
        "polars": model.predict(pl.from_pandas(frame)),
        "arrow": model.predict(pa.Table.from_pandas(frame)),
        "dict": model.predict({"price": texts}),
        "dask": model.predict(dd.from_pandas(frame, npartitions=3)).compute(),
        "row by row": [model.predict(frame.iloc[[i]])[0] for i in range(len(frame))],
        "scorer": scorer.predict(records),
        "scorer by row": [scorer.predict(row) for row in records],
    }
    for road, found in roads.items():
        np.testing.assert_array_equal(np.asarray(found), expected, err_msg=road)
    numbers = pd.DataFrame({"price": [1500.0, 1500]})
    np.testing.assert_array_equal(model.predict(numbers), expected[:2])
    assert scorer.predict({"price": 1500}) == expected[0]


def test_onnx_refuses_the_op_by_name(model: gp.Model, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"of price, which (reads texts|schema declares)"):
        model.to_onnx(tmp_path / "m.onnx")
    with pytest.raises(ConfigError, match="of price, which"):
        model.to_sql("duckdb")


@pytest.mark.parametrize("kind", ["text", "categorical"])
def test_a_check_advises_the_op_and_is_silent_once_it_is_there(kind: str, tmp_path: Path) -> None:
    prices = [f"${1000 + i % 30:,}" for i in range(90)]
    pd.DataFrame({"price": prices, "x": np.arange(90.0), "y": [0, 1, 1] * 30}).to_csv(tmp_path / "t.csv", index=False)
    source = f"source: {{path: '{tmp_path}/t.csv', target: y, schema: {{price: {kind}}}}}\nmodels: [gaussian_nb]\n"
    said = []
    for features in ("", "features: [{parse_number: {columns: price, units: $}}]\n"):
        (tmp_path / "c.yaml").write_text(source + features)
        said.append(" ".join(check_data(load_config(tmp_path / "c.yaml")).warnings))
    assert '- parse_number: {"columns": "price", "units": "$"}' in said[0]
    assert "price" not in said[1]


FORM: dict[str, Any] = {"kind": "number", "units": {"kmpl": 1, "km/kg": 1.4}}


def test_a_declared_column_is_a_number_and_texts_in_other_units_are_missing_and_said(tmp_path: Path) -> None:
    texts = ["19.7 kmpl", "26.6 km/kg", "5", "9 mpg", None, "-2 kmpl"] * 10
    frame = pd.DataFrame({"mileage": texts, "y": np.arange(60.0)})
    frame.to_csv(tmp_path / "t.csv", index=False)
    frame.to_parquet(tmp_path / "t.parquet")
    said = "column 'mileage': 1 distinct text is not numbers in kmpl, km/kg and missing: '9 mpg'; list further units"
    expected = np.array([19.7, 26.6 * 1.4, 5, np.nan, np.nan, -2] * 10, np.float32)
    for file in ("t.csv", "t.parquet"):
        pipe = gp.Pipeline(str(tmp_path / file), target="y", features=[], schema={"mileage": FORM})
        with pytest.warns(gp.RunWarning, match=said):
            X, _ = pipe.features(view="codes")
        np.testing.assert_allclose(np.sort(X[:, 0]), np.sort(expected), rtol=1e-6)
    program = gp.FeatureProgram([], view="codes", schema={"mileage": FORM})
    with pytest.warns(UserWarning, match=said):
        matrix = program.fit_transform(frame[["mileage"]])
    np.testing.assert_allclose(matrix[:, 0], expected, rtol=1e-6)
    frame[["mileage"]].to_parquet(tmp_path / "x.parquet")
    for settings in (FORM, {"kind": "text"}, {"kind": "number", "decimal": "."}, {"kind": "int"}):
        stated = ColumnSettings(**settings)  # as in the record of an event table
        assert ColumnSettings.model_validate(stated.model_dump(mode="json")).declared() == stated.declared()
    loaded = encode(pa.table({"mileage": texts}), BACKEND, {"mileage": ColumnSettings(**FORM).declared()})
    restored = read_schema(loaded.schema.to_json(), {})
    np.testing.assert_array_equal(
        encode(pa.table({"mileage": texts}), BACKEND, frozen=restored).column("mileage"), loaded.column("mileage")
    )


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"kind": "text", "units": "kg"}, "units, decimal, bands and duration are for kind: number; got kind: text"),
        ({"kind": "number", "units": {"kg": 0}}, "factors that are not 0"),
        ({"kind": "number", "units": "kg", "duration": "s"}, "a duration names its units: remove units"),
    ],
)
def test_declarations_that_mean_nothing_are_refused(settings: Any, words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        ColumnSettings(**settings)
    with pytest.raises(ConfigError, match=words):
        gp.FeatureProgram([], schema={"a": settings}).fit(pd.DataFrame({"a": ["1"]}))


def test_a_target_is_not_read_from_texts_and_a_damaged_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="the target 'a' must have numbers in every table"):
        gp.Pipeline(pd.DataFrame({"a": ["1 kg"], "b": [1]}), target="a", schema={"a": FORM}).features()
    for text in ("{}", '[{"a": "b"}, ".", false, ""]', '[{}, ".", false, "lustrum"]', "[", '[{}, ".", 1, ""]'):
        with pytest.raises(ValueError, match=r"expected the format|Expecting"):
            read_schema([{"name": "a", "kind": "numeric", "dtype": "string", "number_format": text}], {})


@examples(200)
@given(st.lists(st.integers(0, 59), min_size=4, max_size=4), st.sampled_from(["-", ""]), st.data())
def test_durations_are_those_of_pandas(parts: list[int], sign: str, data: st.DataObject) -> None:
    days, hours, minutes, seconds = parts
    chosen = data.draw(st.lists(st.sampled_from(range(4)), min_size=1, max_size=4, unique=True).map(sorted))
    words = [("days", "D", "day"), ("h", "hours", "hr"), ("min", "minutes", "m"), ("s", "sec", "seconds")]
    said = " ".join(f"{parts[i]} {data.draw(st.sampled_from(words[i]))}" for i in chosen)
    clock = f"{hours:02}:{minutes:02}:{seconds:02}"
    iso = "P" + f"{days}D" * (0 in chosen) + f"T{hours}H{minutes}M{seconds}.5S"
    for text in (said, clock, f"{days} days {clock}", iso):
        expected = pd.Timedelta(text).total_seconds()
        assert read_seconds(sign + text) == pytest.approx(-expected if sign else expected)


@pytest.mark.parametrize(
    ("text", "days"),
    [
        ("1 year", 365.2425),
        ("P1Y2M", 365.2425 + 2 * 30.436875),
        ("2 wks. and 1 day", 15),
        ("1,5 h", None),
        ("10+ years", 3652.425),
        ("< 1 year", 365.2425),
        ("3-5 weeks", 28),
        ("7", 7),
        ("12:30", None),
        ("5 M", None),
        ("5 minutes 1 hour", None),
        ("1 day 1 day", None),
        ("P", None),
        ("3 lustra", None),
    ],
)
def test_a_duration_has_one_reading(text: str, days: float | None) -> None:
    found = NumberFormat(duration="d", has_bands=True).parse(text)
    assert found == pytest.approx(np.nan if days is None else days, nan_ok=True)


def test_init_proposes_durations_if_nearly_all_texts_are(tmp_path: Path) -> None:
    years = ["< 1 year", "1 year", *(f"{i} years" for i in range(2, 10)), "10+ years"]
    assert guess_format(years) == NumberFormat(has_bands=True, duration="s")
    assert guess_format(["3 weeks", "1 year", "2 days"]) == NumberFormat(duration="s")
    assert guess_format(["3 weeks", "1 year", "later", "soon"]) is None
    assert guess_format(["5 min", "7 min"]) == NumberFormat({"min": 1.0})
