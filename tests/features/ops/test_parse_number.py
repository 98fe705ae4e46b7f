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
from pydantic import ValidationError

import gpupipe as gp
from gpupipe.backends import choose
from gpupipe.config import load_config
from gpupipe.errors import ConfigError
from gpupipe.features import OPS
from gpupipe.features.history.tables import DerivationSources, HistoryRows
from gpupipe.features.ops.parse_number import ParseNumber
from gpupipe.plan.data_check import check_data
from gpupipe.table.encode import encode
from gpupipe.table.schema import declare

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
    found, warnings = parsed(TEXTS, unit="$")
    np.testing.assert_array_equal(found, np.array(NUMBERS, np.float32))
    (warning,) = warnings
    assert warning.startswith(
        "parse_number: 2 of 7 texts of 'price' are not numbers in $ and become missing: '9 EUR', '<5'"
    )
    assert parsed(["<5", "7"])[1][0].count("'<5', a band") == 1
    assert parsed(["<5", "≥ 2 kg", "65+", "10-20", "3 to 4 kg", "7", "9-8", "<a"], unit="kg", bands="limit")[0] == (
        pytest.approx([5, 2, 65, 15, 3.5, 7, np.nan, np.nan], nan_ok=True)
    )
    assert parsed(["5", " ", None, "1,000"]) == (
        [5.0, pytest.approx(np.nan, nan_ok=True), pytest.approx(np.nan, nan_ok=True), 1000.0],
        [],
    )


@pytest.mark.parametrize(
    ("settings", "texts", "numbers"),
    [
        ({"unit": ["kg", "kgs"]}, ["2 kg", "3 kgs"], [2, 3]),
        ({"unit": {"kg": 1, "g": 0.001}}, ["2 kg", "500 g"], [2, 0.5]),
        ({"unit": {"%": 0.01}}, ["50%", "0.5"], [0.5, 0.5]),
        ({"decimal": ",", "unit": "€"}, ["1.234,50 €", "7"], [1234.5, 7]),
        ({}, ["1e39", "5"], [np.nan, 5]),
    ],
)
def test_settings(settings: dict[str, Any], texts: list[str], numbers: list[float]) -> None:
    np.testing.assert_array_equal(parsed(texts, **settings)[0], np.array(numbers, np.float32))


@pytest.mark.parametrize("unit", [{"kg": 0}, {"": 1}, " kg", {"kg": float("inf")}])
def test_units_without_a_factor_are_refused(unit: Any) -> None:
    with pytest.raises(ValidationError, match="factors that are not 0"):
        ParseNumber.model_validate({"columns": "a", "unit": unit})


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> gp.Model:
    """Return a ridge regression whose prediction is a line of the parsed number."""
    texts = [f"${1000 * i:,}" for i in range(1, 41)]
    frame = pd.DataFrame({"price": texts, "y": [float(i) for i in range(1, 41)]})
    ops: list[Any] = [{"parse_number": {"columns": "price", "unit": "$"}}]
    settings: Any = {"schema": {"price": "text"}, "split": {"test_size": 0.2}, "report": {"enabled": False}}
    run = gp.Pipeline(frame, target="y", features=ops, models=["ridge"], **settings).run(
        tmp_path_factory.mktemp("run") / "run", quiet=True
    )
    return gp.load_model(run.path)


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
    with pytest.raises(ConfigError, match="parse_number of price, which reads texts"):
        model.to_onnx(tmp_path / "m.onnx")


@pytest.mark.parametrize("kind", ["text", "categorical"])
def test_a_check_advises_the_op_and_is_silent_once_it_is_there(kind: str, tmp_path: Path) -> None:
    prices = [f"${1000 + i % 30:,}" for i in range(90)]
    pd.DataFrame({"price": prices, "x": np.arange(90.0), "y": [0, 1, 1] * 30}).to_csv(tmp_path / "t.csv", index=False)
    source = f"source: {{path: '{tmp_path}/t.csv', target: y, schema: {{price: {kind}}}}}\nmodels: [gaussian_nb]\n"
    said = []
    for features in ("", "features: [{parse_number: {columns: price, unit: $}}]\n"):
        (tmp_path / "c.yaml").write_text(source + features)
        said.append(" ".join(check_data(load_config(tmp_path / "c.yaml")).warnings))
    assert '- parse_number: {"columns": "price", "unit": "$"}' in said[0]
    assert "price" not in said[1]
