"""`Scorer.explain`: the bits of `Model.explain`, from raw values."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gpupipe as gp
from gpupipe_kernels.shapley.loops import add_interactions, add_values
from gpupipe_kernels.shapley.warm_up import warm
from tests.pipeline.test_scorer import parity_rows, train

CASES = [
    ("multiclass", "xgboost"), ("regression", "random_forest"),
    ("regression", "ridge"), ("binary", "knn"),
]  # fmt: skip


@pytest.mark.parametrize(("task", "name"), CASES, ids=lambda part: part)
def test_explanations_have_the_bits_of_the_batch_path(tmp_path: Path, task: str, name: str) -> None:
    model = train(tmp_path, task, name)
    rows = parity_rows(model)[:40]
    expected = model.explain(rows)
    for engine in ("numpy", "numba"):
        scorer = gp.load_scorer(model.folder, engine=engine)
        found = scorer.explain(rows)
        assert repr(found) == repr(expected) and found.columns == expected.columns
        assert np.array_equal(found.values, expected.values) and np.array_equal(found.base, expected.base)
        assert np.array_equal(scorer.explain(rows[3]).values, expected.values[3:4])
    assert scorer.explain([]).values.shape == (0, *expected.values.shape[1:])


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> gp.Model:
    return train(tmp_path_factory.mktemp("explained"), "binary", "xgboost", data={"calls": {"range": [0, 20]}})


def test_the_margin_is_the_log_odds_of_the_prediction(model: gp.Model) -> None:
    scorer, rows = model.scorer(), parity_rows(model)[:20]
    probability = scorer.predict_proba(rows)[:, 1]
    np.testing.assert_allclose(scorer.explain(rows).margins, np.log(probability / (1 - probability)), rtol=1e-5)


def test_threads_share_a_scorer_from_the_first_explanation_on(model: gp.Model) -> None:
    scorer, rows = gp.load_scorer(model.folder), parity_rows(model)[:32]
    assert not scorer.has_explanations
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda row: scorer.explain(row).values[0], rows * 4))
    assert np.array_equal(found, np.tile(model.explain(rows).values, (4, 1)))


def test_no_explanation_after_the_preparation_compiles_code(model: gp.Model) -> None:
    warm()
    scorer = gp.load_scorer(model.folder)
    scorer.prepare_explanations()
    rows = parity_rows(model)[:40]
    for given in (rows[0], rows[:2], rows):
        scorer.explain(given)
    assert scorer.has_explanations
    assert [len(loop.signatures) for loop in (add_values, add_interactions)] == [1, 1]


def test_rows_are_checked_as_for_predictions(model: gp.Model) -> None:
    scorer = model.scorer()
    row = parity_rows(model)[0]
    for wrong in (row | {"calls": 21}, row | {"usage": "much"}, {"usage": 3}):
        problems: list[Any] = []
        for method in (scorer.predict, scorer.explain):
            with pytest.raises(gp.RowError) as refused:
                method(wrong)
            problems.append(refused.value.problems)
        assert problems[0] == problems[1]


def test_clusters_are_refused(tmp_path: Path) -> None:
    scorer = train(tmp_path, "clustering", "kmeans").scorer()
    with pytest.raises(gp.DataError, match="clustering"):
        scorer.prepare_explanations()
