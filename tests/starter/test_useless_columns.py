"""Detection of columns without information."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

from gpupipe.starter.useless_columns import is_named_as_identifier

Init = Callable[..., Any]


def test_each_useless_column_is_dropped_with_its_reason(frame: pd.DataFrame, init: Init) -> None:
    n = len(frame)
    generator = np.random.default_rng(1)
    made = init(
        frame.assign(
            key=[f"id_{i:05}" for i in range(n)],
            row=np.arange(1, n + 1),
            customer=generator.permutation(10 * n)[:n],
            clientID=generator.permutation(10**9 + np.arange(n) ** 3),
            empty=None,
            constant="EUR",
            note=[" ".join(generator.integers(0, 10**9, 8).astype(str)) for _ in range(n)],
        )
    )
    customers = pd.read_csv(made.source["path"])["customer"]
    low, high = customers.min(), customers.max()
    reasons = {name: made.comment_on(f"- {name}") for name in made.source["drop"]}
    assert reasons == {
        "key": "identifier: all values differ",
        "row": f"row number, 1 to {n}",
        "customer": f"identifier: 300 unique integers from {low} to {high}",
        "clientID": "identifier: 300 different values in 300 rows",
        "empty": "empty",
        "constant": "always 'EUR'",
        "note": "free text",
    }


@pytest.mark.parametrize("kind", ["integer", "text", "mixed"])
@pytest.mark.parametrize("has_number", [False, True])
def test_identifiers_are_found_in_spite_of_repeated_rows(init: Init, kind: str, has_number: bool) -> None:
    generator = np.random.default_rng(6)
    n = 1_200
    key = generator.choice(10**7, n, replace=False)
    keys = {"integer": key, "text": [f"{k:x}" for k in key], "mixed": [f"B{k}" if k % 2 else str(k) for k in key]}
    table = pd.DataFrame({"ref": keys[kind], "x": generator.normal(size=n)})
    table["y"] = table["x"] + generator.normal(size=n)
    table = pd.concat([table, table.iloc[[5, 9]]], ignore_index=True)
    if has_number:  # so that no two rows are equal
        table["row"] = np.arange(len(table))
    assert "ref" in init(table).source["drop"]


def test_a_column_with_a_handful_of_values_is_dropped(init: Init) -> None:
    generator = np.random.default_rng(2)
    n = 2_000
    rare = np.where(np.arange(n) < 3, 1.0, np.nan)
    flag = np.where(np.arange(n) < 3, 1, 0)
    made = init(
        pd.DataFrame({"x": generator.normal(size=n), "rare": rare, "flag": flag, "y": generator.integers(0, 2, n)})
    )
    assert made.comment_on("- rare") == "empty in all but 3 rows"
    assert made.comment_on("- flag") == "0 in all but 3 rows"


def test_unique_measurements_are_kept(frame: pd.DataFrame, init: Init) -> None:
    generator = np.random.default_rng(3)
    made = init(frame.assign(weight=generator.permutation(50_000)[: len(frame)], width=generator.random(len(frame))))
    assert "drop" not in made.source


def test_only_uninformative_names_and_numbers_are_dropped(init: Init) -> None:
    generator = np.random.default_rng(4)
    n = 2_000
    shop, name = generator.integers(0, 300, n), generator.integers(0, 900, n)
    account, area = (generator.permutation(np.unique(generator.integers(0, 10**8, 2 * n)))[:n] for _ in range(2))
    effect = generator.normal(size=300)[shop] + 3 * area / 10**8
    made = init(
        pd.DataFrame(
            {
                "x": generator.normal(size=n).round(3),
                "shop": [f"shop {i}" for i in shop],
                "surname": [f"name {i}" for i in name],
                "account": account,
                "area": area,
                "y": np.where(effect + generator.normal(size=n) > 1.5, "Yes", "No"),
            }
        )
    )
    assert made.source["drop"] == ["surname", "account"]
    assert made.comment_on("- surname").endswith("distinct texts, uninformative about y given the other columns")


def test_a_split_marker_is_dropped_and_offered(frame: pd.DataFrame, init: Init) -> None:
    part = np.where(frame.index % 5 == 0, "test", np.where(frame.index % 5 == 1, "valid", "train"))
    made = init(frame.assign(part=part))
    assert made.comment_on("- part").startswith("split marker: ")
    assert "# split: {column: {name: part, train: [train], test: [test]}}" in made.text.splitlines()


def test_a_part_without_targets_is_not_offered_to_test_on(frame: pd.DataFrame, init: Init) -> None:
    part = np.where(frame.index % 5 == 0, "test", np.where(frame.index % 5 == 1, "valid", "train"))
    made = init(frame.assign(part=part, y=frame["y"].where(part != "test")))
    assert "test: [valid]" in made.text
    assert "60 of 300 rows have no y and are dropped." in made.text


def test_columns_with_names_like_patterns_are_dropped_literally(frame: pd.DataFrame, init: Init) -> None:
    made = init(frame.assign(**{"x*": "same", "[city]": "same", "@all": "same"}))
    assert made.source["drop"] == ["x[*]", "[[]city]", "[@]all"]


@pytest.mark.parametrize(
    ("name", "is_id"),
    [("customerID", True), ("obs_id", True), ("Row Number", True), ("paid", False), ("width", False), ("KEY", True)],
)
def test_identifiers_are_recognized_by_whole_words(name: str, is_id: bool) -> None:
    assert is_named_as_identifier(name) == is_id
