from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gpupipe.models.fitted.base import class_probability
from gpupipe.models.linear.fitted import Coefficients, FittedLinear
from tests.models.fitted.row_checks import check_rows, with_special


@pytest.mark.parametrize(
    ("task", "n_outputs", "classes"),
    [("binary", 1, (0, 1)), ("multiclass", 9, tuple(range(9))), ("multiclass", 1, (0, 2)), ("regression", 1, ())],
)
def test_a_row_equals_the_batch(task: Any, n_outputs: int, classes: tuple[int, ...]) -> None:
    rng = np.random.default_rng(n_outputs)
    n_classes = max(classes, default=-1) + 1
    for scale in (1.0, 1e300):
        coefficients = Coefficients(rng.normal(size=(n_outputs, 40)) * scale, rng.normal(size=n_outputs))
        model = FittedLinear(coefficients, task, (), n_classes, classes)
        X = np.asfortranarray(rng.normal(size=(100, 40)), np.float32)
        check_rows(model, X)
        check_rows(model, with_special(rng, X, 0.02))


def test_a_sum_of_negative_zeros_is_zero() -> None:
    model = FittedLinear(Coefficients(np.full((1, 3), -0.0), np.full(1, -0.0)), "regression")
    check_rows(model, np.ones((4, 3), np.float32))


def test_probabilities_of_a_row_do_not_depend_on_the_other_rows() -> None:
    """NumPy's sum over many classes adds in another order for one row than for many."""
    score = np.random.default_rng(0).normal(size=(50, 30))
    alone = [class_probability(np.asfortranarray(row[None])) for row in score]
    np.testing.assert_array_equal(np.concatenate(alone), class_probability(np.asfortranarray(score)))
