"""Removal of columns from the features."""

from __future__ import annotations

import pandas as pd
import pytest

from gpupipe import FeatureProgram
from gpupipe.errors import ConfigError

FRAME = pd.DataFrame({"a": [1.0, 2.0, 3.0], "b": [2.0, 2.0, 5.0], "c": ["x", "y", "x"]})


def names(*ops: dict[str, object]) -> list[str]:
    return FeatureProgram(list(ops)).fit(FRAME).get_feature_names_out().tolist()


def test_features_derived_from_a_dropped_column_stay() -> None:
    ratio: dict[str, object] = {"arithmetic": {"ratio": ["a", "b"], "as": "a_per_b"}}

    assert names(ratio, {"drop": ["a", "b"]}) == names(ratio, {"drop": ["a", "b"]}, {"drop": []})
    assert "a_per_b" in names(ratio, {"drop": ["a", "b"]})
    assert not {"a", "b"} & set(names(ratio, {"drop": ["a", "b"]}))


def test_the_replacement_of_a_dropped_column_is_dropped_too() -> None:
    assert not [name for name in names({"one_hot": "c"}, {"drop": "c"}) if name.startswith("c")]


def test_a_dropped_column_cannot_be_selected() -> None:
    with pytest.raises(ConfigError, match="no column 'a'"):
        names({"drop": "a"}, {"standardize": "a"})
