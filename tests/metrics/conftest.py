"""Predictions of real models for held-out rows of real data."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest


@pytest.fixture(scope="session")
def binary() -> tuple[Any, Any]:
    """Return truth and probability; three columns of breast cancer, so that the classes overlap."""
    from sklearn.datasets import load_breast_cancer
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import cross_val_predict

    data = load_breast_cancer()
    X = (data.data[:, 8:11] - data.data[:, 8:11].mean(axis=0)) / data.data[:, 8:11].std(axis=0)
    p = cross_val_predict(LogisticRegression(), X, data.target, method="predict_proba")[:, 1]
    return data.target.astype(np.float64), p


@pytest.fixture(scope="session")
def multiclass() -> tuple[Any, Any]:
    from sklearn.datasets import load_wine
    from sklearn.model_selection import cross_val_predict
    from sklearn.naive_bayes import GaussianNB

    data = load_wine()
    p = cross_val_predict(GaussianNB(), data.data[:, :3], data.target, method="predict_proba")
    return data.target.astype(np.float64), p


@pytest.fixture(scope="session")
def regression() -> tuple[Any, Any]:
    from sklearn.datasets import load_diabetes
    from sklearn.linear_model import Ridge
    from sklearn.model_selection import cross_val_predict

    data = load_diabetes()
    return data.target, cross_val_predict(Ridge(), data.data, data.target)
