"""Detection of integers that are identifiers, and of long-tailed numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

Init = Callable[..., Any]

ROWS = 3_000


def test_integers_that_may_be_categories_stay_numbers_with_a_hint(init: Init) -> None:
    generator = np.random.default_rng(0)
    district, rooms = generator.integers(1, 41, ROWS), generator.integers(1, 9, ROWS)
    price = generator.normal(size=41)[district] + 0.3 * rooms
    made = init(pd.DataFrame({"district": district, "rooms": rooms, "y": price + 0.2 * generator.normal(size=ROWS)}))
    assert "schema" not in made.source
    (hint,) = [line for line in made.text.splitlines() if "categorical" in line]
    assert hint.startswith("  #   district: categorical  # as categories they explain ")


def test_a_number_with_a_nonlinear_effect_stays_a_number(init: Init) -> None:
    generator = np.random.default_rng(0)
    age = generator.integers(18, 90, ROWS)
    made = init(pd.DataFrame({"age": age, "y": -(((age - 50) / 20) ** 2) + 0.3 * generator.normal(size=ROWS)}))
    assert "categorical" not in made.text


def test_long_tails_are_logged(init: Init) -> None:
    generator = np.random.default_rng(0)
    spend, height = np.exp(3 + 2 * generator.normal(size=ROWS)), generator.normal(170, 10, ROWS)
    made = init(pd.DataFrame({"spend": spend, "height": height, "y": np.log(spend) + generator.normal(size=ROWS)}))
    assert made.values["features"] == [{"log1p": ["spend"]}, {"auto": "@all"}]


def test_a_long_tail_with_a_linear_effect_stays_unchanged(init: Init) -> None:
    spend = np.exp(3 + np.random.default_rng(0).normal(size=ROWS))
    made = init(
        pd.DataFrame({"spend": spend, "y": np.where(spend > np.quantile(spend, 0.97), "Yes", "No")}).assign(
            spend=spend * np.random.default_rng(1).uniform(0.5, 2, ROWS)
        )
    )
    assert made.values["features"] == [{"auto": "@all"}]
