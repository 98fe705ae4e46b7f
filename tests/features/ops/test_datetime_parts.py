"""datetime_parts against pandas' .dt."""

from __future__ import annotations

from datetime import datetime

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpupipe.errors import ConfigError
from tests.examples import examples

PARTS = {
    "year": lambda t: t.dt.year,
    "quarter": lambda t: t.dt.quarter,
    "month": lambda t: t.dt.month,
    "day": lambda t: t.dt.day,
    "day_of_year": lambda t: t.dt.day_of_year,
    "weekday": lambda t: t.dt.day_of_week,
    "hour": lambda t: t.dt.hour,
    "minute": lambda t: t.dt.minute,
    "second": lambda t: t.dt.second,
    "is_weekend": lambda t: (t.dt.day_of_week >= 5).where(t.notna()).astype(float),
    "is_month_start": lambda t: t.dt.is_month_start.where(t.notna()).astype(float),
    "is_month_end": lambda t: t.dt.is_month_end.where(t.notna()).astype(float),
    "elapsed_days": lambda t: (t - t.min()) / pd.Timedelta(days=1),
}
TIMES = st.lists(st.datetimes(datetime(1800, 1, 1), datetime(2200, 1, 1)) | st.none(), min_size=1, max_size=20)


@examples(50)
@given(times=TIMES)
def test_every_part_matches_pandas_before_1970_as_well(fit, times: list) -> None:
    column = pd.Series(times, dtype="datetime64[us]")
    op = {"datetime_parts": {"columns": "t", "parts": list(PARTS)}}
    made = fit({"t": column}, [op], view="codes")
    assert made.names == [f"t_{part}" for part in PARTS]
    for part, reference in PARTS.items():
        expected = np.asarray(reference(column), float)
        if part.startswith("is_"):
            expected = np.where(column.isna(), np.nan, expected)
        np.testing.assert_allclose(made.training[f"t_{part}"], expected, rtol=1e-6, err_msg=part)


def test_elapsed_days_at_serve_count_from_the_first_time_of_the_fit(fit) -> None:
    made = fit({"t": pd.to_datetime(["2024-01-03", "2024-01-01"])}, [
        {"datetime_parts": {"columns": "t", "parts": ["elapsed_days"]}}
    ])  # fmt: skip
    assert made.serve({"t": pd.to_datetime(["2023-12-31 12:00", "2024-01-11 00:00"])})["t_elapsed_days"].tolist() == [
        -0.5,
        10,
    ]


def test_parts_can_be_scaled_like_any_number(fit) -> None:
    frame = {"t": pd.to_datetime(["2024-01-01", "2024-03-01", "NaT"])}
    made = fit(frame, [{"datetime_parts": {"columns": "t", "parts": ["month"]}}, {"min_max": "t_month"}])
    assert made.names == ["t_month"]
    assert made.training["t_month"].tolist() == [0, 1, 0.5]
    assert "t_month: 1 null imputed by the median" in made.notes


def test_a_part_that_has_the_name_of_a_column_is_an_error(fit) -> None:
    frame = {"t": pd.to_datetime(["2024-01-01"]), "t_year": [1.0]}
    with pytest.raises(ConfigError, match="column 't_year' already exists"):
        fit(frame, [{"datetime_parts": "t"}])


def test_a_number_has_no_parts(fit) -> None:
    with pytest.raises(
        ConfigError, match=r"(?s)datetime_parts takes datetime columns; 'x' is numeric.*select other columns"
    ):
        fit({"x": [1.0]}, [{"datetime_parts": "x"}])


@pytest.mark.parametrize(
    ("values", "advice"),
    [
        (["03/11/2011", "02/25/2011"], "{kind: datetime, format: '%m/%d/%Y'}}$"),
        (["03/11/2011", "25/11/2011"], "{kind: datetime, format: '%d/%m/%Y'}}$"),
        (["03/11/2011", "04/11/2011"], "format: '%m/%d/%Y'}}; '03/11/2011' could also be '%d/%m/%Y'"),
        (["12-Mar-2011", "13-Mar-2011"], "format: '%d-%b-%Y'}}"),
        ([f"{day}.12.2011" for day in range(10, 20)] + ["open"], "format: '%d.%m.%Y'}}, and correct .*'open'"),
        (["Bonn", "Ulm"], "'x' contains no dates; its values are 'Bonn', 'Ulm'"),
        ([1_300_000_000, 1_400_000_000], "format: 's'}}"),
        ([1_300_000_000_000, 1_400_000_000_000], "format: 'ms'}}"),
    ],
)
@pytest.mark.parametrize("kind", ["category", "text"])
def test_the_advice_names_the_format_of_the_values(fit, values: list, advice: str, kind: str) -> None:
    schema = {"x": kind} if isinstance(values[0], str) else {}
    with pytest.raises(ConfigError, match=advice):
        fit({"x": values, "y": range(len(values))}, [{"datetime_parts": "x"}], schema=schema)
