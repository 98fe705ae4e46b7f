"""hash_bucket: the same bucket for the same level on every machine and in every version."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpupipe.errors import ConfigError
from tests.examples import examples

# Models saved by this release are used by later ones, so these numbers must never change.
BUCKETS = {"a": 442, "b": 831, "Zürich": 85, "": 3, "17850": 695, "two year": 685}


def test_the_bucket_of_a_level_never_changes(fit) -> None:
    made = fit({"c": list(BUCKETS)}, [{"hash_bucket": "c"}])
    assert made.training["c"].tolist() == list(BUCKETS.values())


@examples(30)
@given(
    levels=st.lists(st.text(st.characters(exclude_categories=["Cs"])) | st.none(), min_size=1, max_size=20),
    served=st.lists(st.text(st.characters(exclude_categories=["Cs"])) | st.none(), min_size=1, max_size=20),
    buckets=st.sampled_from([2, 10, 1000]),
)
def test_seen_and_unseen_levels_have_a_bucket(fit, levels: list, served: list, buckets: int) -> None:
    op = [{"hash_bucket": {"columns": "c", "buckets": buckets}}]
    made = fit({"c": pd.array(levels, dtype="string")}, op, schema={"c": "category"})
    alone = fit({"c": pd.array(served, dtype="string")}, op, schema={"c": "category"})
    got = made.serve({"c": pd.array(served, dtype="string")})["c"]
    assert got.tolist() == alone.training["c"].tolist()
    assert all(v == 0 if level is None else 3 <= v < 3 + buckets for v, level in zip(got, served, strict=True))


def test_buckets_are_about_equally_full(fit) -> None:
    made = fit({"c": [f"user-{i}" for i in range(4000)]}, [{"hash_bucket": {"columns": "c", "buckets": 8}}],
               schema={"c": "category"})  # fmt: skip
    counts = np.bincount(made.training["c"].astype(int), minlength=11)
    assert counts[:3].sum() == 0
    assert counts[3:].min() > 420
    assert made.features.categorical == {0: 11}


def test_buckets_can_be_encoded_like_any_category(fit) -> None:
    levels = [str(i % 50) for i in range(200)]
    hashed = {"hash_bucket": {"columns": "c", "buckets": 4}}
    made, ids = fit({"c": levels}, [hashed, {"frequency_encode": "c"}]), fit({"c": levels}, [hashed]).training["c"]
    assert made.names == ["c_frequency"]  # it replaces the ids
    np.testing.assert_allclose(made.training["c_frequency"], ids.map(ids.value_counts(normalize=True)), rtol=1e-6)


def test_what_was_imputed_falls_into_the_bucket_of_its_level(fit) -> None:
    ops = [{"impute": {"columns": "c", "strategy": "most_frequent"}}, {"hash_bucket": "c"}]
    made = fit({"c": ["a", "a", "b", None]}, ops)
    assert made.training["c"].tolist() == [BUCKETS["a"], BUCKETS["a"], BUCKETS["b"], BUCKETS["a"]]
    assert made.serve({"c": pd.array([None, "b"], dtype="string")})["c"].tolist() == [BUCKETS["a"], BUCKETS["b"]]


@pytest.mark.parametrize("buckets", [4, 8])
def test_a_column_is_hashed_once(fit, buckets: int) -> None:
    again = {"hash_bucket": {"columns": "c", "buckets": buckets}}
    with pytest.raises(ConfigError, match=r"(?s)'c' is made by another op.*hash each input column once"):
        fit({"c": ["a", "b"]}, [{"hash_bucket": {"columns": "c", "buckets": 4}}, again])


def test_a_column_that_has_the_name_of_the_hashed_one_is_not_taken_for_it(fit) -> None:
    with pytest.raises(ConfigError, match="'c#4' already"):
        fit({"c": ["a", "b"], "c#4": ["x", "y"]}, [{"hash_bucket": {"columns": "c", "buckets": 4}}])
