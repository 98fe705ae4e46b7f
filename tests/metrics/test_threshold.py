from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn import metrics as sk

from gpupipe.backends.cpu.backend import CpuBackend
from gpupipe.errors import DataError
from gpupipe.metrics import Costs, choose_threshold
from tests.examples import examples

HOST = CpuBackend()
SCORES: dict[str, Callable[[Any, Any], float]] = {
    "best_f1": sk.f1_score,
    "best_accuracy": sk.accuracy_score,
    "best_balanced_accuracy": sk.balanced_accuracy_score,
    "youden": lambda y, label: sk.recall_score(y, label) + sk.recall_score(y, label, pos_label=0) - 1,
}
ROWS = st.lists(st.tuples(st.booleans(), st.floats(0.0, 1.0)), min_size=2, max_size=30)


@pytest.mark.parametrize("how", SCORES)
@examples(30)
@given(rows=ROWS)
def test_no_other_cut_is_better(how: str, rows: list[tuple[bool, float]]) -> None:
    y, p = (np.array(column) for column in zip(*rows, strict=True))
    if y.all() or not y.any():
        return
    chosen = SCORES[how](y, p >= choose_threshold(y, p, how, backend=HOST))
    assert chosen >= max(SCORES[how](y, p >= cut) for cut in p) - 1e-12


@examples(100)
@given(rows=ROWS, wrong=st.tuples(st.floats(0.1, 9), st.floats(0.1, 9)), benefit=st.floats(-9, 0))
def test_no_other_cut_costs_less(rows: list[tuple[bool, float]], wrong: tuple[float, float], benefit: float) -> None:
    y, p = (np.array(column) for column in zip(*rows, strict=True))
    if y.all() or not y.any():
        return
    costs = Costs(false_positive=wrong[0], false_negative=wrong[1], true_positive=benefit)

    def total(called: Any) -> float:
        (_, fp), (fn, tp) = sk.confusion_matrix(y, called)
        return float(wrong[0] * fp + wrong[1] * fn + benefit * tp)

    cuts = [*p, *([1.0] if p.max() < 1.0 else [])]  # 1: no row is called positive
    chosen = total(p >= choose_threshold(y, p, "min_cost", costs, backend=HOST))
    assert chosen <= min(total(p >= cut) for cut in cuts) + 1e-9


@pytest.mark.parametrize(
    "costs",
    [{"false_positive": 0, "false_negative": 5}, {"false_positive": 1, "false_negative": 1, "true_positive": 2}],
)
def test_costs_that_make_one_answer_cheapest_are_refused(costs: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="must cost more"):
        Costs(**costs)


def test_the_threshold_is_the_midpoint_of_two_probabilities() -> None:
    assert choose_threshold(
        np.array([0, 0, 1, 1]), np.array([0.1, 0.2, 0.6, 0.9]), "best_f1", backend=HOST
    ) == pytest.approx(0.4)


def test_rows_of_one_class_are_refused() -> None:
    with pytest.raises(DataError, match="have the same class"):
        choose_threshold(np.ones(3), np.array([0.1, 0.2, 0.3]), "youden", backend=HOST)
