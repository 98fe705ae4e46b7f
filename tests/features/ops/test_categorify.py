"""categorify: code 0 for null, 1 for unseen, 2 for rare, and the levels in order from 3."""

from __future__ import annotations

import pandas as pd
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import examples

LEVELS = st.lists(st.sampled_from(["c", "a", "b", "z", "é", None]), min_size=1, max_size=40)


def strings(levels: list) -> pd.DataFrame:
    return pd.DataFrame({"c": pd.array(levels, dtype="string")})


@examples(50)
@given(levels=LEVELS, served=LEVELS, k=st.integers(1, 4))
def test_ids_are_those_that_are_documented_at_fit_and_at_serve(fit, levels: list, served: list, k: int) -> None:
    made = fit(strings(levels), [{"categorify": {"columns": "c", "min_frequency": k}}])
    counts = pd.Series(levels, dtype="string").value_counts()
    places = {level: 3 + i for i, level in enumerate(sorted(counts.index[counts >= k], key=str.encode))}

    def expected(rows: list) -> list[int]:
        return [0 if v is None else places.get(v, 2 if v in counts else 1) for v in rows]

    assert made.training["c"].tolist() == expected(levels)
    assert made.serve(strings(served))["c"].tolist() == expected(served)
    assert made.features.categorical == {0: 3 + len(places)}


def test_whole_numbers_are_in_the_order_of_numbers(fit) -> None:
    made = fit({"c": ["10", "9", "-2"]}, [{"categorify": "c"}])
    assert made.training["c"].tolist() == [5, 4, 3]


def test_levels_after_max_categories_are_rare(fit) -> None:
    made = fit(strings(["a", "b", "b", "c", "c"]), [{"categorify": {"columns": "c", "max_categories": 2}}])
    assert made.training["c"].tolist() == [2, 3, 3, 4, 4]


def test_what_was_learned_can_be_read(fit) -> None:
    made = fit(strings(["a", "b", "b"]), [{"categorify": {"columns": "c", "max_categories": 1}}])
    assert made.features.states == ({"op": "Categorify", "column": "c", "levels": ["b"]},)
