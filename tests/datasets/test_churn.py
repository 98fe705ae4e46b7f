"""The churn generator: the same rows for any chunking, realistic values, and files with the same table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from threadpoolctl import threadpool_limits

from gpupipe.datasets.churn import customer_batches, customers, events, write
from gpupipe.datasets.churn.customers import MOST_IDS
from gpupipe.errors import ConfigError, SchemaError
from tests.examples import examples

ROWS = 40_000  # three blocks of the generator on the host
NUMERIC = ["tenure", "MonthlyCharges", "TotalCharges", "DataUsageGB", "SupportCalls", "Age"]


@pytest.fixture(scope="module")
def table() -> pa.Table:
    return customers(ROWS).combine_chunks()


@pytest.fixture(scope="module")
def frame(table: pa.Table) -> pd.DataFrame:
    return table.to_pandas()


@pytest.fixture(scope="module")
def event_frame() -> pd.DataFrame:
    return events(ROWS).to_pandas()


@given(start=st.integers(0, ROWS), rows=st.integers(0, ROWS))
@examples(10)
def test_a_slice_made_alone_equals_the_slice_of_the_whole(table: pa.Table, start: int, rows: int) -> None:
    rows = min(rows, ROWS - start)

    assert customers(rows, start=start).combine_chunks().equals(table.slice(start, rows).combine_chunks())


@pytest.mark.parametrize("batch_rows", [999, 16_384, 16_385, 33_000, ROWS, 10**6])
def test_batches_of_any_size_hold_the_same_rows(table: pa.Table, batch_rows: int) -> None:
    batches = list(customer_batches(ROWS, batch_rows=batch_rows))

    assert pa.Table.from_batches(batches).combine_chunks().equals(table)
    assert {len(batch) for batch in batches[:-1]} <= {batch_rows}
    assert len(batches[-1]) <= batch_rows


@given(columns=st.lists(st.sampled_from(customers(0).column_names), unique=True, min_size=1))
@examples(10)
def test_choosing_columns_does_not_change_their_values(table: pa.Table, columns: list[str]) -> None:
    assert customers(1_000, columns=columns).combine_chunks().equals(table.select(columns).slice(0, 1_000))


def test_another_seed_gives_other_values_of_the_same_population(frame: pd.DataFrame) -> None:
    other = customers(ROWS, seed=8).to_pandas()

    assert (other["tenure"] == frame["tenure"]).mean() < 0.1
    assert (other["Churn"] == "Yes").mean() == pytest.approx((frame["Churn"] == "Yes").mean(), abs=0.01)
    ours, theirs = (
        f.assign(y=f["Churn"] == "Yes").groupby("City", observed=True)["y"].mean().head(50) for f in (frame, other)
    )
    assert np.corrcoef(ours, theirs)[0, 1] > 0.7


def test_the_first_customer_of_seed_7_does_not_change(table: pa.Table) -> None:
    first = table.slice(0, 1).to_pylist()[0]

    assert first["customerID"] == "0000-AAAAH"
    assert (first["tenure"], first["Contract"], first["City"]) == (9, "Month-to-month", "city_0144")
    assert first["TotalCharges"] == pytest.approx(782.87, abs=0.02)


def test_categorical_columns_are_dictionaries_with_the_same_levels_in_every_batch() -> None:
    batches = list(customer_batches(ROWS, batch_rows=10_000))

    for name in ("Region", "City", "Churn"):
        assert batches[0].schema.field(name).type == pa.dictionary(pa.int32(), pa.string())
        assert all(batch.column(name).dictionary.equals(batches[0].column(name).dictionary) for batch in batches)


def test_the_columns_are_those_of_a_churn_table(frame: pd.DataFrame) -> None:
    kinds = frame.dtypes.map(lambda dtype: "category" if isinstance(dtype, pd.CategoricalDtype) else dtype.kind)
    categorical = [name for name in frame.columns if kinds[name] == "category"]
    one_hot = [name for name in categorical if name not in ("City", "Churn")]

    assert frame.shape[1] == 25
    assert len(one_hot) == 15
    assert sum(frame[name].nunique() for name in one_hot) == 44
    assert frame["City"].nunique() > 1_900
    assert frame["customerID"].is_unique


def test_values_are_missing_where_they_should_be(frame: pd.DataFrame) -> None:
    missing = frame.isna().mean()

    assert missing[missing > 0].index.tolist() == ["MonthlyCharges", "TotalCharges", "DataUsageGB", "Age"]
    assert missing["MonthlyCharges"] == pytest.approx(0.02, abs=0.005)
    assert frame.loc[frame["tenure"] == 0, "TotalCharges"].isna().all()


def test_some_levels_are_rare_and_cities_are_many(frame: pd.DataFrame) -> None:
    assert 0 < (frame["Region"] == "Overseas").mean() < 0.01
    cities = frame["City"].value_counts()
    assert cities.iloc[0] > 20 * cities.iloc[-1]


def test_sign_up_times_agree_with_tenure(frame: pd.DataFrame) -> None:
    months = (pd.Timestamp("2025-01-01") - frame["signup_ts"]).dt.total_seconds() / 2_629_800

    assert (months - frame["tenure"]).between(-0.1, 1.1).all()


def test_between_a_quarter_and_a_third_churn_and_models_can_tell_who(frame: pd.DataFrame) -> None:
    y = (frame["Churn"] == "Yes").to_numpy()
    assert 0.25 < y.mean() < 0.35

    categorical = [name for name in frame.select_dtypes("category") if name not in ("City", "Churn")]
    X = frame[NUMERIC + categorical]
    linear = make_pipeline(
        make_column_transformer(
            (make_pipeline(SimpleImputer(strategy="median"), StandardScaler()), NUMERIC), (OneHotEncoder(), categorical)
        ),
        LogisticRegression(max_iter=200),
    )
    trees = HistGradientBoostingClassifier(max_iter=40, categorical_features="from_dtype", random_state=0)
    train, test = slice(0, 30_000), slice(30_000, None)
    for model, low, high in ((linear, 0.78, 0.85), (trees, 0.79, 0.86)):
        with threadpool_limits(1):  # a few thousand rows: threads would only wait for each other
            model.fit(X[train], y[train])
        auc = roc_auc_score(y[test], model.predict_proba(X[test])[:, 1])
        assert low < auc < high


def test_events_of_a_slice_of_the_customers_equal_the_slice_of_all_events(event_frame: pd.DataFrame) -> None:
    ids = customers(5_000, columns=["customerID"], start=14_000).column(0).to_pandas()
    expected = event_frame[event_frame["customerID"].isin(ids)].reset_index(drop=True)

    found = events(5_000, start=14_000).to_pandas()

    pd.testing.assert_frame_equal(
        found.astype({"customerID": "str"}), expected.astype({"customerID": "str"}), check_dtype=False
    )


def test_choosing_event_columns_does_not_change_their_values() -> None:
    chosen = events(500, columns=["amount", "customerID"])

    assert chosen.equals(events(500).select(["amount", "customerID"]))


def test_events_are_ordered_and_between_sign_up_and_snapshot(frame: pd.DataFrame, event_frame: pd.DataFrame) -> None:
    signup = frame.set_index("customerID")["signup_ts"]
    since = event_frame["customerID"].astype("str").map(signup)

    assert (event_frame["event_ts"] >= since).all()
    assert event_frame["event_ts"].between(pd.Timestamp("2024-01-02"), pd.Timestamp("2025-01-01")).all()
    customer = event_frame["customerID"].cat.codes.diff().iloc[1:]
    elapsed = event_frame["event_ts"].diff().iloc[1:]
    assert ((customer > 0) | ((customer == 0) & (elapsed >= pd.Timedelta(0)))).all()


def test_some_customers_are_heavy_and_some_have_no_event(event_frame: pd.DataFrame) -> None:
    counts = event_frame.groupby("customerID", observed=False).size()

    assert 5 < counts.mean() < 15
    assert counts.max() > 20 * counts.mean()
    assert (counts == 0).mean() > 0.01


def test_amounts_belong_to_payments_and_usage_and_some_are_missing(event_frame: pd.DataFrame) -> None:
    present = event_frame["amount"].notna().groupby(event_frame["event_type"], observed=True).mean()

    assert present[["payment", "usage"]].between(0.97, 0.99).all()
    assert (present.drop(["payment", "usage"]) == 0).all()


def test_churners_fade_away(frame: pd.DataFrame, event_frame: pd.DataFrame) -> None:
    year = frame[frame["tenure"] >= 13]
    churned = event_frame["customerID"].astype("str").map(year.set_index("customerID")["Churn"].astype("str"))
    is_late = event_frame["event_ts"] > pd.Timestamp("2024-07-01")
    late = is_late.groupby(churned).mean()

    assert late["No"] == pytest.approx(0.5, abs=0.02)
    assert late["Yes"] < 0.25


def test_a_parquet_file_holds_the_table_with_plain_types(tmp_path: Path, table: pa.Table) -> None:
    write(tmp_path / "churn.parquet", 20_000)
    read = pa.parquet.read_table(tmp_path / "churn.parquet")

    assert {str(t) for t in read.schema.types} == {"string", "int64", "double", "timestamp[us]"}
    assert read.equals(table.slice(0, 20_000).cast(read.schema))


def test_a_csv_file_holds_the_table(tmp_path: Path, frame: pd.DataFrame) -> None:
    write(tmp_path / "churn.csv", 2_000)
    read = pd.read_csv(tmp_path / "churn.csv", parse_dates=["signup_ts"])

    pd.testing.assert_frame_equal(read, frame.head(2_000), check_dtype=False, check_categorical=False)


def test_a_long_file_is_written_in_several_row_groups(tmp_path: Path) -> None:
    write(tmp_path / "churn.parquet", 300_000)
    file = pa.parquet.ParquetFile(tmp_path / "churn.parquet")

    assert file.num_row_groups == 2
    assert file.metadata.num_rows == 300_000


def test_ids_stay_unique_when_rows_exceed_the_five_letters() -> None:
    early = customers(100, columns=["customerID"]).column(0)
    late = customers(100, columns=["customerID"], start=26**5).column(0)

    letters = [pc.utf8_slice_codeunits(ids.combine_chunks(), 5) for ids in (early, late)]
    assert letters[0].equals(letters[1])
    assert not set(early.to_pylist()) & set(late.to_pylist())


def test_an_unknown_column_is_named_with_the_nearest_one() -> None:
    with pytest.raises(SchemaError, match=r"no column 'Tenure'[\s\S]*did you mean 'tenure'"):
        customers(10, columns=["Tenure"])
    with pytest.raises(SchemaError, match=r"no column 'amounts'[\s\S]*did you mean 'amount'"):
        events(10, columns=["amounts"])


@pytest.mark.parametrize("arguments", [{"rows": -1}, {"rows": 1, "seed": -1}, {"rows": 1, "start": -1}])
def test_numbers_out_of_range_are_refused(arguments: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="use a number in this range"):
        customers(**arguments)


def test_events_of_more_customers_than_one_array_has_identifiers_for_are_refused() -> None:
    with pytest.raises(ConfigError, match="from 0 to 214,748,364"):
        events(MOST_IDS + 1)


def test_a_batch_of_no_rows_is_refused() -> None:
    with pytest.raises(ConfigError, match="at least one row"):
        list(customer_batches(10, batch_rows=0))


def test_an_unknown_file_format_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"use \.parquet or \.csv"):
        write(tmp_path / "churn.xlsx", 10)
