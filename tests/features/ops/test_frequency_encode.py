"""frequency_encode against pandas' value_counts."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import examples

LEVELS = st.lists(st.sampled_from(["a", "b", "c", None]), min_size=1, max_size=40)


@examples(40)
@given(levels=LEVELS, served=LEVELS)
def test_a_level_becomes_its_share_of_the_training_rows(fit, levels: list, served: list) -> None:
    made = fit({"c": pd.array(levels, dtype="string")}, [{"frequency_encode": "c"}])
    shares = pd.Series(levels, dtype="string").value_counts(normalize=True, dropna=False)
    by_level = {level if isinstance(level, str) else None: share for level, share in shares.items()}
    np.testing.assert_allclose(made.training["c_frequency"], [by_level[v] for v in levels], rtol=1e-6)
    got = made.serve({"c": pd.array(served, dtype="string")})["c_frequency"]
    np.testing.assert_allclose(got, [by_level.get(v, 0.0) for v in served], rtol=1e-6)


def test_what_was_imputed_counts_to_its_level(fit) -> None:
    ops = [{"impute": {"columns": "c", "strategy": "most_frequent"}}, {"frequency_encode": "c"}]
    assert fit({"c": ["a", "a", "b", None]}, ops).training["c_frequency"].tolist() == [0.75, 0.75, 0.25, 0.75]


@pytest.mark.parametrize("buckets", [None, 2**16])
@examples(30)
@given(rows=st.lists(st.tuples(*[st.sampled_from(["a", "b", "c"])] * 3), min_size=1, max_size=40))
def test_a_cross_has_the_shares_of_its_combinations(fit, buckets: int | None, rows: list) -> None:
    frame = pd.DataFrame(rows, columns=["x", "y", "z"], dtype="string")
    cross = {"columns": ["x", "y", "z"], "as": "xyz", **({"buckets": buckets} if buckets else {})}
    got = fit(frame, [{"cross": cross}, {"frequency_encode": "xyz"}]).training["xyz_frequency"]
    shares = frame.value_counts(normalize=True)
    np.testing.assert_allclose(got, [shares[row] for row in rows], rtol=1e-6)
