"""Predictions of the same rows in batches of many sizes, for every model whose rows are exact.

``python -m tests.models.fitted.batch_sweep`` prints the result of `sweep` without trees, as JSON.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import product
from operator import itemgetter
from typing import Any

import numpy as np

from gpupipe.backends.cpu.backend import CpuBackend
from gpupipe.models import MODELS, FitContext, FittedModel, Prediction, fit
from tests.models.composites.ensembles import ensemble_of, fit_member

N, D, N_CLASSES = 1_100, 23, 10
SIZES = (1, 2, 3, 7, 9, 64, 1_000)
LAYOUTS = ((0, "F"), (97, "C"))  # the first row of a batch, and its order in memory
# Networks and estimators of users are exact up to rounding; "best" is an ensemble, as below.
WITHOUT_PROMISE = {"best", "estimator", "ft_transformer", "mlp", "tabm"}
TREES: dict[str, dict[str, Any]] = {
    "catboost": {"iterations": 3, "depth": 2},
    "extra_trees": {"n_estimators": 3},
    "hist_gradient_boosting": {"max_iter": 3},
    "lightgbm": {"n_estimators": 3},
    "random_forest": {"n_estimators": 3},
    "xgboost": {"n_estimators": 3},
}
VARIANTS: list[tuple[str, str, dict[str, Any]]] = [
    ("embedding", "pca", {"n_components": 1, "whiten": True}),
    ("embedding", "pca", {"n_components": 3}),
    ("regression", "knn", {"metric": "cosine"}),
    ("regression", "knn", {"metric": "manhattan", "n_neighbors": 20}),
    ("regression", "knn", {"algorithm": "kd_tree", "weights": "distance", "n_neighbors": 20}),
    ("regression", "knn", {"weights": "distance"}),
    ("binary", "knn", {"weights": "distance", "n_neighbors": 1}),
]


def cases(with_trees: bool) -> list[tuple[str, str, dict[str, Any]]]:
    """Return task, name and parameters of each model; trees call no BLAS."""
    names = sorted(set(MODELS.names()) - WITHOUT_PROMISE - (set() if with_trees else set(TREES)))
    tasks = ("binary", "multiclass", "regression", "quantile", "clustering", "embedding")
    every = [(task, name, TREES.get(name, {})) for name in names for task in tasks if task in MODELS.get(name).tasks]
    return every + VARIANTS


def table(task: str) -> tuple[Any, Any, FitContext]:
    """Return rows, some of them equal, with columns far from 0; a target; and the context of a training."""
    rng = np.random.default_rng(5)
    X = rng.normal(size=(N, D)).astype(np.float32)
    X[:, 3:9] = rng.integers(0, 2, (N, 6))
    X[:, 0] *= 100
    X[:, 1] += 1_000
    X[500:600] = X[:100]
    score = X[:, 2] + X[:, 3] - X[:, 10] + rng.normal(0, 0.3, N)
    y = {
        "binary": (score > 0).astype(np.float64),
        "multiclass": np.digitize(score, np.linspace(-2, 2, N_CLASSES - 1)).astype(np.float64),
        "regression": score.astype(np.float64),
        "quantile": score.astype(np.float64),
    }.get(task)
    n_classes = {"binary": 2, "multiclass": N_CLASSES}.get(task, 0)
    quantiles = (0.1, 0.9) if task == "quantile" else ()
    names = [f"c{j}" for j in range(D)]
    context = FitContext(CpuBackend(), task, 7, n_classes, {}, names, quantiles=quantiles)  # type: ignore[arg-type]
    return np.asfortranarray(X), y, context


def models(with_trees: bool) -> Iterator[tuple[str, FittedModel, Any]]:
    """Yield a title, a fitted model, and rows."""
    for task, name, params in cases(with_trees):
        X, y, context = table(task)
        yield f"{task} {name} {params}", fit(MODELS.get(name)(**params), X, y, context), X
    X, y, context = table("binary")
    members = [
        fit_member("a", "linear_svc", 0.5, range(D), (X, y), context, 2),
        fit_member("b", "knn", 0.3, range(2, 20), (X, y), context, 1),
        fit_member("c", "gaussian_nb", 0.2, range(D), (X, y), context, 1),
    ]
    yield "ensemble", ensemble_of(members, context), X


def differences(model: FittedModel, X: Any) -> list[str]:
    """Return the batches whose rows differ from those of the whole table, by batches and by row estimators."""
    expected = model.predict(X)
    ways: dict[str, Any] = {
        "batch": model.predict,
        "row estimator": model.row_estimator("numpy"),
    }  # compiled ones: see the other tests
    found = []
    for way, predict in ways.items():
        for size, (start, order) in product(SIZES, LAYOUTS):
            rows = (np.asfortranarray if order == "F" else np.ascontiguousarray)(X[start : start + size])
            if not is_same(predict(rows), expected.mapped(itemgetter(slice(start, start + size)))):
                found.append(f"{way}: {size} rows from {start}, order {order}")
    return found


def explanation_differences(model: FittedModel, X: Any) -> list[str]:
    """Return the batches whose contributions or margins differ from those of five rows."""
    if model.task in ("clustering", "embedding"):
        return []
    explainer = model.explainer(lambda: np.ascontiguousarray(X[::400]))
    expected, found = explainer.contributions(X[:5]), []
    for start, stop in ((0, 1), (1, 2), (1, 4)):
        part = explainer.contributions(np.asfortranarray(X[start:stop]))
        for name in ("values", "margins"):
            if getattr(part, name).tobytes() != getattr(expected, name)[start:stop].tobytes():
                found.append(f"{name} of an explanation: rows {start} to {stop}")
    return found


def is_same(found: Prediction, expected: Prediction) -> bool:
    """Return whether two predictions have the same bytes."""
    return all(np.asarray(found.arrays[k]).tobytes() == np.asarray(v).tobytes() for k, v in expected.arrays.items())


def sweep(with_trees: bool = True) -> dict[str, Any]:
    """Return the kernels of BLAS, the models, and the differences of each."""
    from threadpoolctl import threadpool_info

    found = {title: differences(model, X) + explanation_differences(model, X) for title, model, X in models(with_trees)}
    kernels = sorted({str(library["architecture"]) for library in threadpool_info() if "architecture" in library})
    return {"kernels": kernels, "models": list(found), "differences": {k: v for k, v in found.items() if v}}


if __name__ == "__main__":
    print(json.dumps(sweep(with_trees=False)))
