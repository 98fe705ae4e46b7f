from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from gpupipe.files.jsonfile import dumps, write_json

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=20,
)


def without_nan(value: Any) -> Any:
    return json.loads(json.dumps(value), parse_constant=lambda _: None)


def refuse(constant: str) -> None:
    raise AssertionError(f"{constant} is not JSON")


@given(VALUES)
def test_every_value_is_read_back_except_that_nan_and_infinity_become_null(value: Any) -> None:
    assert json.loads(dumps(value), parse_constant=refuse) == without_nan(value)


def test_numpy_values_are_written_as_plain_ones(tmp_path: Path) -> None:
    value = {
        "auc": np.float32(0.5), "n": np.int64(3), "nan": np.float64("nan"), "inf": -math.inf, "flag": np.bool_(True),
        "counts": np.array([[1, 2], [3, 4]]), "pair": (1, np.float32("nan")), "path": Path("a/b"),
    }  # fmt: skip
    write_json(tmp_path / "v.json", value)
    assert json.loads((tmp_path / "v.json").read_text()) == {
        "auc": 0.5, "n": 3, "nan": None, "inf": None, "flag": True,
        "counts": [[1, 2], [3, 4]], "pair": [1, None], "path": "a/b",
    }  # fmt: skip


def test_keys_stay_in_the_order_in_which_they_were_given() -> None:
    assert list(json.loads(dumps({"b": 1, "a": {"z": 1, "y": 2}}))) == ["b", "a"]
    assert dumps({"b": 1, "a": 2}) == '{"b": 1, "a": 2}'


def test_a_path_that_is_not_unicode_is_written_and_read_back(tmp_path: Path) -> None:
    name = b"caf\xe9.csv".decode("utf-8", "surrogateescape")
    write_json(tmp_path / "v.json", {"path": name})
    assert json.loads((tmp_path / "v.json").read_text(encoding="utf-8")) == {"path": name}
