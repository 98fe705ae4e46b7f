"""list_hash against the hash of hash_bucket, item by item."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

import gpupipe as gp
from gpupipe.table.hash_buckets import bucket_codes
from gpupipe.table.schema import FIRST_LEVEL

TEXTS = [["red", "blue", "red", None], None, [], ["日本", "blue"]]


@pytest.mark.parametrize("value", ["count", "binary"])
@pytest.mark.parametrize("lists", [TEXTS, [[1, 2, 2.5, 1e20], [7], None]])
def test_counts_of_hashed_items(lists: list[Any], value: str) -> None:
    frame = pd.DataFrame({"x": pd.Series(lists, dtype=object)})
    found = gp.FeatureProgram([{"list_hash": {"columns": "x", "buckets": 5, "value": value}}], view="dense")
    expected = np.zeros((len(lists), 5), np.float32)
    texts = {2.5: "2.5", 1: "1", 2: "2", 7: "7", 1e20: "100000000000000000000"}
    for row, items in enumerate(lists):
        for item in items or ():
            if item is not None:
                (code,) = bucket_codes([texts.get(item, item)], 5)
                expected[row, code - FIRST_LEVEL] += 1
    if value == "binary":
        expected = np.minimum(expected, 1)
    np.testing.assert_array_equal(found.fit_transform(frame), expected)
    np.testing.assert_array_equal(found.transform(frame.iloc[:1]), expected[:1])
