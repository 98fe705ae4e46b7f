"""Conversion of estimators fitted on a GPU to scikit-learn objects that predict the same on the host."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

ToHost = Callable[[Any], Any]


def to_scikit_learn(name: str, estimator: Any, to_host: ToHost) -> Any:
    """Return a scikit-learn estimator that predicts on the host as `estimator` does on the device.

    `name` is the scikit-learn class that `estimator`, a fitted cuML estimator, replaces. `to_host` converts a device
    array, a NumPy array or a number to NumPy. Linear models have ``coef_`` and ``intercept_`` only, which the artifact
    stores.
    """
    if hasattr(estimator, "coef_"):
        return SimpleNamespace(coef_=to_host(estimator.coef_), intercept_=to_host(estimator.intercept_))
    if name == "GaussianNB":
        return gaussian_nb(estimator, to_host)
    return estimator.as_sklearn()


def gaussian_nb(estimator: Any, to_host: ToHost) -> Any:
    """Return cuML's Gaussian naive Bayes as scikit-learn's; cuML has no such conversion."""
    import numpy as np
    from sklearn.naive_bayes import GaussianNB

    def numbers(values: Any) -> Any:
        return np.asarray(to_host(values), np.float64)

    twin = GaussianNB(priors=estimator.priors, var_smoothing=estimator.var_smoothing)
    twin.theta_, twin.var_ = numbers(estimator.theta_), numbers(estimator.sigma_)
    twin.class_count_, twin.class_prior_ = numbers(estimator.class_count_), numbers(estimator.class_prior_)
    twin.epsilon_ = float(to_host(estimator.epsilon_))
    twin.classes_ = np.asarray(to_host(estimator.classes_)).astype(np.int64)
    twin.n_features_in_ = twin.theta_.shape[1]
    return twin
