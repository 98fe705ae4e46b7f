"""bucketize against np.digitize and scikit-learn's KBinsDiscretizer."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from pydantic import ValidationError
from sklearn.preprocessing import KBinsDiscretizer

import gpupipe as gp
from gpupipe.errors import ConfigError
from tests.examples import examples

NULL = float("nan")
QUARTERS = st.integers(-40, 40).map(lambda i: i / 4)
NUMBERS = st.lists(QUARTERS | st.just(NULL), min_size=1, max_size=40)


@examples(50)
@given(x=NUMBERS, edges=st.lists(QUARTERS, min_size=1, max_size=6, unique=True).map(sorted))
def test_a_value_belongs_to_the_bin_whose_left_edge_it_has_reached(fit, x, edges: list[float]) -> None:
    op = {"bucketize": {"columns": "x", "edges": edges}}
    got = fit({"x": x}, [op], view="codes", schema={"x": "float"}).training["x"]
    np.testing.assert_array_equal(got, np.where(np.isnan(x), np.nan, np.digitize(np.nan_to_num(x), edges)))


@pytest.mark.parametrize("strategy", ["uniform", "quantile", "kmeans"])
@examples(25)
@given(seed=st.integers(0, 1000), bins=st.integers(2, 12), n=st.integers(30, 200))
def test_bins_match_scikit_learn(fit, strategy: str, seed: int, bins: int, n: int) -> None:
    # If a quantile equals the value of a row, that row's bin depends on the last digit of an interpolation.
    assume(strategy != "quantile" or all((n - 1) * i % bins for i in range(1, bins)))
    rng = np.random.default_rng(seed)
    x = rng.triangular(1e6, 1e6 + 1, 1e6 + 9, n) if strategy == "kmeans" else rng.lognormal(2, 1, n)
    # Of empty clusters, scikit-learn moves those that are equally far in the order of a partition.
    assume(strategy != "kmeans" or np.histogram(x, bins)[0].all())
    got = fit({"x": x}, [{"bucketize": {"columns": "x", "bins": bins, "strategy": strategy}}]).training["x"]
    method = {"quantile_method": "linear"} if strategy == "quantile" else {}
    binner = KBinsDiscretizer(bins, encode="ordinal", strategy=strategy, **method)
    np.testing.assert_array_equal(got, binner.fit_transform(x[:, None])[:, 0])


def test_a_value_that_repeats_makes_no_empty_quantile_bins(fit) -> None:
    made = fit({"x": [0.0] * 50 + [1.0, 2.0, 3.0]}, [{"bucketize": {"columns": "x", "bins": 10}}, {"one_hot": "x"}])
    assert (made.training.sum() > 0).all()


@pytest.mark.parametrize("lowest", [0.0, -7.5, 1e6])
def test_the_smallest_value_is_in_the_first_bin_even_if_quantiles_equal_it(fit, lowest: float) -> None:
    x = lowest + np.array([0.0] * 30 + [float(i) for i in range(1, 31)] + [NULL])
    made = fit({"x": x}, [{"bucketize": {"columns": "x", "bins": 4}}], view="codes")
    edges = np.unique(np.nanquantile(x, [0.25, 0.5, 0.75]))[1:]  # the first one is the minimum
    expected = np.where(np.isnan(x), np.nan, np.searchsorted(edges, x, side="right"))
    np.testing.assert_array_equal(made.training["x"], expected)
    assert made.serve({"x": [lowest - 9, NULL]})["x"].fillna(-1).tolist() == [0, -1]


@pytest.mark.parametrize("strategy", ["uniform", "quantile"])
@pytest.mark.parametrize("x", [[5.0] * 9, [5.0], [NULL, 5.0], [NULL, NULL]])
def test_a_constant_has_one_bin_without_edges(fit, strategy: str, x: list[float]) -> None:
    op = {"bucketize": {"columns": "x", "bins": 4, "strategy": strategy}}
    made = fit({"x": x}, [op], view="codes", schema={"x": "float"})
    np.testing.assert_array_equal(made.training["x"], np.where(np.isnan(x), np.nan, 0.0))
    assert made.serve({"x": [4.0, 6.0, NULL]})["x"].fillna(-1).tolist() == [0, 0, -1]


@pytest.mark.parametrize("view", ["dense", "codes", "embedding"])
@pytest.mark.parametrize("later", ["one_hot", "target_encode", "frequency_encode", "encode", "categorify", "auto"])
def test_a_later_encoding_replaces_the_number_of_the_bin(fit, view: str, later: str) -> None:
    frame, y = {"x": np.arange(40.0), "other": np.arange(40.0)}, np.tile([0, 1], 20)
    bins = {"bucketize": {"columns": "x", "bins": 4}}
    made = fit(frame, [bins, {later: "x"}], y=y, view=view)
    alone = {"categorify": ["x"], "target_encode": ["x_target"], "frequency_encode": ["x_frequency"]}
    hot = [f"x=[{low}, {high})" for low, high in [("-inf", 9.75), (9.75, 19.5), (19.5, 29.25), (29.25, "inf")]]
    ids = later in ("encode", "auto") and view != "dense"
    assert [name for name in made.names if name != "other"] == alone.get("categorify" if ids else later, hot)


def test_an_imputed_bin_has_the_number_of_its_level(fit) -> None:
    ops = [
        {"bucketize": {"columns": "x", "edges": [2.5]}},
        {"impute": {"columns": "x", "strategy": "most_frequent", "indicator": True}},
    ]
    made = fit({"x": [1.0, 3.0, 4.0, NULL]}, ops, view="codes").training
    assert made.to_dict("list") == {"x": [0.0, 1.0, 1.0, 1.0], "x_missing": [0.0, 0.0, 0.0, 1.0]}


def test_nulls_fall_into_the_bin_of_the_imputed_value(fit) -> None:
    x = np.array([0.1, 0.2, 0.3, 0.4, 0.5, NULL])
    bins = {"bucketize": {"columns": "x", "bins": 4, "strategy": "uniform"}}
    got = fit({"x": x}, [{"impute": "x"}, bins]).training["x"]
    assert got[5] == got[2]  # 0.3 is the median, which is an edge
    assert got.notna().all()


def test_of_two_imputations_the_first_one_fills(fit) -> None:
    def impute(value: float) -> dict:
        return {"impute": {"columns": "x", "strategy": "constant", "value": value}}

    got = fit({"x": [1.0, None]}, [impute(9), impute(-9), {"bucketize": {"columns": "x", "edges": [0, 5]}}])
    assert got.training["x"].tolist() == [1, 2]


def test_edges_that_print_alike_have_different_labels(fit) -> None:
    edges = [1_000_000.25, 1_000_000.5, 1_000_000.75]
    x = [1_000_000.0, 1_000_000.3, 1_000_000.6, 1_000_000.9]
    made = fit({"x": x}, [{"bucketize": {"columns": "x", "edges": edges}}, {"one_hot": "x"}])
    np.testing.assert_array_equal(made.training, np.eye(4))


def test_bins_can_be_encoded_like_any_category(fit) -> None:
    x = np.array([1.0, 2.0, 3.0, 4.0, NULL, 5.0])
    y = np.array([0, 0, 1, 1, 1, 0])
    bins = {"bucketize": {"columns": "x", "edges": [2.5]}}
    hot = fit({"x": x}, [bins, {"one_hot": "x"}]).training
    assert hot["x=[-inf, 2.5)"].tolist() == [1, 1, 0, 0, 0, 0]
    assert hot["x=[2.5, inf)"].tolist() == [0, 0, 1, 1, 0, 1]
    assert hot["x=(null)"].tolist() == [0, 0, 0, 0, 1, 0]
    encoded = fit({"x": x}, [bins, {"target_encode": {"columns": "x", "smoothing": 0}}], y=y).serve({"x": x})
    np.testing.assert_allclose(encoded["x_target"], [0, 0, 2 / 3, 2 / 3, 1, 2 / 3], rtol=1e-6)


def test_bins_for_new_rows_match_the_fit_and_the_outer_ones_are_open(fit) -> None:
    made = fit({"x": np.arange(100.0)}, [{"bucketize": {"columns": "x", "bins": 4}}])
    assert made.serve({"x": [-1e9, 30, 60, 1e9]})["x"].tolist() == [0, 1, 2, 3]


def test_a_bin_that_no_training_row_fell_into_has_no_column_and_is_not_rare(fit) -> None:
    ops = [{"bucketize": {"columns": "x", "edges": [1, 2, 3]}}, {"one_hot": {"columns": "x", "min_frequency": 2}}]
    made = fit({"x": [0.0, 0.0, 1.0, 1.0, 3.0]}, ops)
    assert made.names == ["x=[-inf, 1)", "x=[1, 2)", "x=(rare)"]
    assert made.serve({"x": [2.0, 3.0]})["x=(rare)"].tolist() == [0, 1]


def test_a_changed_number_cannot_be_bucketized(fit) -> None:
    with pytest.raises(
        ConfigError, match=r"(?s)'x' has been changed by log1p \(features\[0\]\).*move bucketize before"
    ):
        fit({"x": [1.0, 2.0]}, [{"log1p": "x"}, {"bucketize": {"columns": "x", "bins": 2}}])


@pytest.mark.parametrize("bad", [{}, {"edges": [1], "bins": 3}, {"edges": [2, 1]}, {"edges": [1, 1]}, {"edges": []}])
def test_invalid_edges_and_bins_are_rejected(fit, bad: dict) -> None:
    with pytest.raises(ValidationError):
        fit(pd.DataFrame({"x": [1.0]}), [{"bucketize": {"columns": "x", **bad}}])


FINE = {
    "integers": np.arange(19_999_990.0, 20_000_010.0),
    "seconds": 1.7e9 + np.arange(1000) * 0.3,
    "cents": 1e8 + np.arange(100) / 100,
    "identifiers": 2.0**52 + np.arange(40.0),
}


@pytest.mark.parametrize("name", FINE)
def test_edges_are_compared_in_float64(fit, name: str) -> None:
    x = FINE[name]
    edges = x[[3, 4, 11, -2]].tolist()
    got = fit({"x": x}, [{"bucketize": {"columns": "x", "edges": edges}}], view="codes").training["x"]
    np.testing.assert_array_equal(got, np.digitize(x, edges))


@pytest.mark.parametrize("name", FINE)
def test_equal_shares_are_those_of_pandas(fit, name: str) -> None:
    x = np.random.default_rng(4).permutation(FINE[name])
    fitted = fit({"x": x}, [{"bucketize": {"columns": "x", "bins": 10}}], view="codes")
    expected = pd.qcut(x, 10, labels=False)
    counts, wanted = (np.bincount(np.asarray(codes, int)) for codes in (fitted.training["x"], expected))
    assert len(counts) == 10
    assert (np.abs(counts - wanted) <= 1).all()
    assert not fitted.features.warnings  # nothing is read in float32


def test_an_imputed_value_has_its_bin_in_float64(fit) -> None:
    x = [20_000_001.0, 20_000_001.0, 20_000_003.0, NULL]  # the median is the edge
    ops = [{"impute": "x"}, {"bucketize": {"columns": "x", "edges": [20_000_001]}}]
    assert fit({"x": x}, ops, view="codes").training["x"].tolist() == [1, 1, 1, 1]
    ops[1] = {"bucketize": {"columns": "x", "edges": [20_000_002]}}
    assert fit({"x": x}, ops, view="codes").training["x"].tolist() == [0, 0, 1, 0]


def test_empty_clusters_begin_again_at_the_farthest_values_and_weights_are_repeated_rows() -> None:
    x = np.concatenate([np.linspace(0, 1, 50), [100.0, 160.0]])
    op = {"bucketize": {"columns": "x", "bins": 4, "strategy": "kmeans"}}
    program = gp.FeatureProgram([op], view="codes")
    got = program.fit_transform(pd.DataFrame({"x": x}))[:, 0]
    assert got[-2:].tolist() == [got[-3] + 1, got[-3] + 2] and set(got) == {0, 1, 2, 3}  # none is empty
    weights = np.random.default_rng(0).integers(1, 5, len(x))
    once = program.fit(pd.DataFrame({"x": x}), sample_weight=weights.astype(float)).transform(pd.DataFrame({"x": x}))
    repeated = program.fit(pd.DataFrame({"x": np.repeat(x, weights)})).transform(pd.DataFrame({"x": x}))
    np.testing.assert_array_equal(once, repeated)


def test_fewer_rows_than_bins_are_separate_clusters() -> None:
    op = {"bucketize": {"columns": "x", "bins": 5, "strategy": "kmeans"}}
    found = gp.FeatureProgram([op], view="codes").fit_transform(pd.DataFrame({"x": [9.0, 1.0, 9.5]}))
    assert found[:, 0].tolist() == [1, 0, 2]
