"""Sums in the order of the columns, compared with scikit-learn's predictions and with naive neighbors."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from sklearn.cluster import KMeans
from sklearn.decomposition import PCA
from sklearn.metrics import pairwise_distances
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor

from gpupipe.models import MODELS, fit
from gpupipe.models.scikit_learn.fitted import FittedSklearn
from gpupipe.models.scikit_learn.rows import neighbors
from gpupipe.models.scikit_learn.rows.ordered_outputs import ordered_outputs
from gpupipe_kernels.rows.column_sums import sum_terms
from tests.models.fitted.row_checks import check_rows

RNG = np.random.default_rng(8)
X = RNG.normal(size=(400, 20)).astype(np.float32)
QUERIES = np.asfortranarray(RNG.normal(size=(150, 20)), dtype=np.float32)
NUMBERS, CODES = X[:, 0] - X[:, 5], np.digitize(X[:, 0], [-1, 0, 1]) * 2


@pytest.mark.parametrize("params", [{}, {"n_components": 3}, {"n_components": 4, "whiten": True}], ids=str)
def test_pca_has_the_coordinates_of_scikit_learn(params: dict[str, Any]) -> None:
    pca = PCA(**params).fit(X + 3)
    model = FittedSklearn(pca, "embedding")
    found = model.predict(QUERIES).arrays["embedding"]
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, pca.transform(QUERIES), atol=2e-5)
    assert check_rows(model, QUERIES) == "compiled dot product"


def test_coordinates_far_from_zero_are_exact_to_float32() -> None:
    """A product of float32 whose origin is subtracted afterwards loses the digits of small components."""
    far = X + np.float32(10_000)
    pca = PCA().fit(far.astype(np.float64))
    found = FittedSklearn(pca, "embedding").predict(far).arrays["embedding"]
    np.testing.assert_allclose(found, pca.transform(far.astype(np.float64)), rtol=1e-6, atol=1e-6)


def test_kmeans_has_the_clusters_and_distances_of_scikit_learn() -> None:
    kmeans = KMeans(7, n_init=1, random_state=0).fit(X)
    model = FittedSklearn(kmeans, "clustering")
    found, distance = model.predict(QUERIES), kmeans.transform(QUERIES)
    assert found.arrays["label"].tolist() == distance.argmin(axis=1).tolist()
    np.testing.assert_allclose(found.arrays["distance"], distance.min(axis=1), rtol=1e-5)
    check_rows(model, QUERIES)


def test_naive_bayes_has_the_probabilities_of_scikit_learn() -> None:
    bayes = GaussianNB().fit(X, CODES)
    model = FittedSklearn(bayes, "multiclass", (), 7, (0, 2, 4, 6))
    found = model.predict(QUERIES).arrays["probability"]
    np.testing.assert_allclose(found[:, ::2], bayes.predict_proba(QUERIES), rtol=1e-4, atol=1e-12)
    assert (found[:, 1::2] == 0).all()
    check_rows(model, QUERIES)
    without = GaussianNB(priors=[0.5, 0.5, 0, 0]).fit(X, CODES)
    assert (FittedSklearn(without, "multiclass", (), 4, (0, 1, 2, 3)).predict(QUERIES).output[:, 2:] == 0).all()


@pytest.mark.parametrize("task", ["binary", "multiclass"])
def test_linear_svc_has_the_probabilities_of_scikit_learn(task: str, tables: dict[str, Any]) -> None:
    data = tables[task]
    model = fit(MODELS.get("linear_svc")(), data.X, data.y, data.context)
    proba = model.estimator.predict_proba(data.X_test)
    np.testing.assert_allclose(model.predict(data.X_test).output, proba[:, 1] if task == "binary" else proba, atol=1e-6)
    assert check_rows(model, data.X_test) == "compiled dot product"


METRICS: list[dict[str, Any]] = [
    {"metric": "euclidean"}, {"metric": "cosine"}, {"metric": "manhattan"}, {"metric": "minkowski", "p": 3},
    {"metric": "chebyshev"}, {"metric": "canberra"}, {"metric": "braycurtis"}, {"metric": "hamming"},
]  # fmt: skip


@pytest.mark.parametrize("weights", ["uniform", "distance"])
@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric["metric"])
def test_neighbors_are_those_of_scikit_learn(metric: dict[str, Any], weights: str) -> None:
    params = {**metric, "weights": weights, "n_neighbors": 3, "algorithm": "brute"}
    near = np.round(QUERIES, 1) if metric["metric"] == "hamming" else QUERIES
    train = np.round(X, 1) if metric["metric"] == "hamming" else X
    if metric["metric"] == "hamming":  # scikit-learn decides between equal distances in another way
        params["n_neighbors"] = len(train)
    regressor = KNeighborsRegressor(**params).fit(train, NUMBERS)
    found = FittedSklearn(regressor, "regression").predict(near).output
    np.testing.assert_allclose(found, regressor.predict(near), rtol=1e-4, atol=1e-6)
    classifier = KNeighborsClassifier(**params).fit(train, CODES)
    shares = FittedSklearn(classifier, "multiclass", (), 7, (0, 2, 4, 6)).predict(near).output
    np.testing.assert_allclose(shares[:, ::2], classifier.predict_proba(near), rtol=1e-4, atol=1e-6)
    check_rows(FittedSklearn(regressor, "regression"), near)


@pytest.mark.parametrize("metric", ["euclidean", "cosine", "manhattan"])
@pytest.mark.parametrize("k", [1, 5])
def test_of_equally_near_rows_the_first_count(metric: str, k: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(neighbors, "BLOCK_CELLS", 3_000)
    rng = np.random.default_rng(2)
    train = rng.integers(0, 2, (900, 16)).astype(np.float32)
    train[:, 3:] = 0  # 8 rows, each about 110 times
    train[:, 0] *= 1e3
    near = np.concatenate([train[:40], rng.normal(size=(9, 16)).astype(np.float32), np.zeros((1, 16), np.float32)])
    y = rng.random(900)
    model = FittedSklearn(KNeighborsRegressor(k, algorithm="brute", metric=metric).fit(train, y), "regression")
    distance = pairwise_distances(near.astype(np.float64), train.astype(np.float64), metric)
    if metric == "cosine":
        distance[:, ~train.any(axis=1)] = 1.0
    first = np.argsort(distance.round(9), axis=1, kind="stable")[:, :k]
    # All rows are about 1 from a row of zeros, and rounding decides.
    is_clear = near.any(axis=1) | (metric != "cosine")
    np.testing.assert_allclose(model.predict(near).output[is_clear], y[first][is_clear].mean(axis=1), rtol=1e-12)
    check_rows(model, near)


def test_a_neighbor_that_equals_the_row_decides_alone() -> None:
    model = FittedSklearn(KNeighborsRegressor(5, weights="distance", algorithm="brute").fit(X, NUMBERS), "regression")
    assert model.predict(X).output.tolist() == NUMBERS.astype(np.float64).tolist()


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_rows_that_scikit_learn_refuses_are_refused_with_its_message(value: float) -> None:
    model = FittedSklearn(PCA(2).fit(X), "embedding")
    rows = QUERIES.copy()
    rows[1, 1] = value
    for predict in (model.predict, model.row_estimator("numpy")):
        with pytest.raises(ValueError, match=r"Input X contains (NaN|infinity)"):
            predict(rows)


def test_a_model_that_has_predicted_is_pickled() -> None:
    model = FittedSklearn(PCA(2).fit(X), "embedding")
    expected = model.predict(QUERIES).output
    assert pickle.loads(pickle.dumps(model)).predict(QUERIES).output.tobytes() == expected.tobytes()


def test_parameters_of_another_width_are_refused() -> None:
    with pytest.raises(ValueError, match="expected parameters of 20 columns"):
        sum_terms(np.multiply, X, np.ones((3, 1)))


def test_estimators_of_other_kinds_are_left_to_scikit_learn() -> None:
    for estimator in (
        KNeighborsRegressor(metric="sqeuclidean", algorithm="brute").fit(X, NUMBERS),
        KNeighborsRegressor(weights=np.sqrt, algorithm="brute").fit(X, NUMBERS),
        KNeighborsRegressor(algorithm="brute").fit(X.astype(np.float64), NUMBERS),
    ):
        assert ordered_outputs(estimator, "numpy") is None
        assert FittedSklearn(estimator, "regression").row_estimator("numpy").name == "scikit-learn"
