"""The choice of the target column and its positive label."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from gpupipe.errors import ConfigError
from gpupipe.starter.target import choose_positive

Init = Callable[..., Any]


@pytest.mark.parametrize(
    ("labels", "counts", "positive"),
    [
        (("No", "Yes"), {"No": 1, "Yes": 9}, "Yes"),
        ((1, 2), {"1": 7, "2": 3}, 2),
        ((1, 2), {"1": 3, "2": 7}, 1),
        ((0.0, 1.0), {"0.0": 3, "1.0": 7}, 1.0),
        (("benign", "tumour"), {"benign": 5, "tumour": 5}, "tumour"),
        ((0, 1), {}, 1),
        ((-1, 1), {}, 1),
        ((3, 7), {}, 7),
        (("<=50K", ">50K"), {"<=50K": 76, ">50K": 24}, ">50K"),
        (("false", "true"), {}, "true"),
    ],
)
def test_the_positive_label_is_affirmative_or_rarer(labels: tuple, counts: dict, positive: object) -> None:
    assert choose_positive(labels, counts).label == positive


@pytest.mark.parametrize(
    ("values", "task_line"),
    [
        ([True, False], "(binary)"),
        ([0, 1], "(binary)"),
        (["a", "b", "c"], "(multiclass)"),
        ([0, 1, 2, 3], "(multiclass)"),
        (list(range(20)), "(regression)"),
        ([1.5, 2.5, 3.5, 4.5], "(regression)"),
    ],
)
def test_the_task_is_stated(frame: pd.DataFrame, init: Init, values: list[object], task_line: str) -> None:
    made = init(frame.assign(y=np.random.default_rng(0).choice(np.array(values), len(frame))))
    assert task_line in made.text
    assert made.config.evaluate.metrics is not None


def test_integer_classes_are_declared_and_the_line_says_how_to_undo_it(frame: pd.DataFrame, init: Init) -> None:
    made = init(frame.assign(y=np.random.default_rng(0).integers(1, 6, len(frame))))
    assert made.source["schema"] == {"y": "categorical"}
    assert made.comment_on("y:") == "5 classes; remove this line if they are a quantity"


def test_counts_are_a_quantity(frame: pd.DataFrame, init: Init) -> None:
    visits = np.minimum(np.random.default_rng(0).geometric(0.5, len(frame)) - 1, 7)
    made = init(frame.assign(y=visits))
    assert "(regression)" in made.text


def test_a_rare_class_is_not_stratified(frame: pd.DataFrame, init: Init) -> None:
    made = init(frame.assign(y=np.where(frame.index < 3, "Yes", "No")))
    assert made.values["split"]["stratify"] is False
    assert "the rarest class has 3 rows" in made.text
    assert "imbalanced" in made.comment_on("target:")


def test_a_name_with_blanks_around_it_is_found(frame: pd.DataFrame, tmp_path: Path, init: Init) -> None:
    padded = frame.rename(columns={"y": " y ", "x": "x "})
    assert init(padded, "y").source["target"] == "y"
    padded.to_parquet(tmp_path / "padded.parquet")
    assert init(tmp_path / "padded.parquet", "y").source["target"] == " y "


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("ctiy", "did you mean 'city'?"),
        ("7", "no column '7'"),
        ("constant", "has the single value 1"),
        ("key", "has 300 different texts in 300 rows"),
        ("day", "is a datetime column"),
    ],
)
def test_a_target_that_cannot_be_learned_is_rejected(
    frame: pd.DataFrame, init: Init, target: str, message: str
) -> None:
    keys = [f"k{i}" for i in range(len(frame))]
    table = frame.assign(constant=1, key=keys, day=pd.date_range("2020-01-01", periods=len(frame)))
    with pytest.raises(ConfigError) as error:
        init(table, target)
    assert message in str(error.value)
