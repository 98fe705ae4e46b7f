"""Fitted models of a run on a device: trained there, or on the host after a fallback.

Matrices and predictions stay on the device as far as possible. The exported form needs no GPU and no GPU library.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from gpupipe.models.fitted.base import FittedModel
from gpupipe.models.fitted.prediction import Prediction, join_predictions
from gpupipe.models.scikit_learn.fitted import FittedSklearn
from gpupipe.models.xgboost.fitted import FittedXGBoost
from gpupipe.tasks import CLASSIFICATION, TargetSpec
from gpupipe.typing import ArrayNamespace

if TYPE_CHECKING:
    from gpupipe.backends.base import Backend
    from gpupipe.backends.gpu.translation import EstimatorRefusal
    from gpupipe.tensors.receipt import Receipt
    from gpupipe.typing import Array

# cuML copies its input row-major to predict; with blocks, that copy takes a small part of the device memory.
BLOCK_ROWS = 1 << 20
# Relative error of the inverse distance to the nearest neighbor; a weighted mean is then within the parity tolerance.
WEIGHT_ERROR = 1e-4


@dataclass(frozen=True, repr=False)
class DeviceModel(FittedModel):
    """A model trained on a device, by a library of the device."""

    backend: Backend | None = None
    name: str = ""  # class name of the scikit-learn or XGBoost estimator that it corresponds to
    kind: type[FittedModel] = FittedSklearn  # class of its portable form

    def predict(self, X: Array) -> Prediction:
        """Predict the rows of `X`, float32, shape (n, d), on the device, where the predictions stay."""
        assert self.backend is not None
        X = self.backend.to_device(X)
        starts = range(0, max(1, X.shape[0]), BLOCK_ROWS)
        blocks = [self._predict_block(X[start : start + BLOCK_ROWS]) for start in starts]
        return join_predictions(blocks, self.backend.xp)

    def portable(self) -> FittedModel:
        """Return the model that predicts on the host; the conversion is made once."""
        return self._portable

    def importances(self) -> dict[str, float] | None:
        """Return the estimator's importance of each column, measured by the library of the device."""
        values = getattr(self.estimator, "feature_importances_", None)
        if values is None or self.kind is not FittedSklearn:
            return self._portable.importances()
        shares = self._host(values).astype("float64")
        shares = shares / (shares.sum() or 1.0)  # they sum to 1 in scikit-learn
        return {name: float(share) for name, share in zip(self._names(len(shares)), shares, strict=True)}

    def column_weights(self, X: Array) -> Array | None:
        """Return the weight of each column, measured by the library of the device if it can; `X` is on the host."""
        own = getattr(self.estimator, "feature_importances_", None)
        is_own = own is not None and self.kind is FittedSklearn
        return super().column_weights(X) if is_own else self._portable.column_weights(X)

    @cached_property
    def _portable(self) -> FittedModel:
        from gpupipe.backends.gpu.portable import to_scikit_learn

        twin = to_scikit_learn(self.name, self.estimator, self._host)
        return self.kind.of(twin, self.task, self.feature_names, self.n_classes, self.classes)

    def _predict_block(self, X: Array) -> Prediction:
        assert self.backend is not None
        to_device = self.backend.to_device  # no copy as long as the library returns device arrays
        if self.task in CLASSIFICATION:
            return self._classification(to_device(self.estimator.predict_proba(X)), self.backend.xp)
        if self.task == "regression":
            return Prediction(self.task, value=to_device(self.estimator.predict(X)).astype("f8").reshape(-1))
        if self.task == "embedding":
            return Prediction(self.task, embedding=to_device(self.estimator.transform(X)))
        return self._nearest_center(X)

    def _nearest_center(self, X: Array) -> Prediction:
        # Not cuML's `transform`, which returns squared distances up to release 26.08.
        label = self.estimator.predict(X)
        distance = ((X - self.estimator.cluster_centers_[label]) ** 2).sum(axis=1) ** 0.5
        return Prediction(self.task, label=label.astype("int32"), distance=distance.astype("f8"))

    def _host(self, values: Array) -> Array:
        assert self.backend is not None
        return self.backend.to_host(values)


@dataclass(frozen=True, repr=False)
class DeviceForest(DeviceModel):
    """A cuML random forest. It takes no missing values: rows with missing values are predicted on the host."""

    def predict(self, X: Array) -> Prediction:
        """Predict the rows of `X` on the device; with missing values, fall back to the host and log it.

        The predictions are on the device in both cases.
        """
        assert self.backend is not None
        X = self.backend.to_device(X)
        missing = missing_columns(X, self._names(X.shape[1]), self.backend.xp)
        if not missing:
            return super().predict(X)
        self.backend.fall_back(missing_text(missing), "predict", MISSING_FIX)
        return self._portable.predict(matrix_on_host(X, self.backend)).mapped(self.backend.to_device)


@dataclass(frozen=True, repr=False)
class DeviceNeighbors(DeviceModel):
    """cuML nearest neighbors, with float32 distances; those of scikit-learn are float64."""

    def unstable_rows(self, X: Array) -> Array:
        """Return a mask of the rows whose neighbors or weights are ambiguous within the rounding error of float32.

        cuML 26.10 computes a squared Euclidean distance as x·x + a·a - 2 x·a, each term a sum of d float32 products, so
        the error is up to (d + 2) 2**-24 (|x| + |a|)**2, where |a| <= |x| + distance. Other metrics sum differences.
        """
        import numpy as np

        twin = self._portable.estimator
        k, n_trained = twin.n_neighbors, twin.n_samples_fit_
        distance = twin.kneighbors(X, min(k + 1, n_trained))[0].astype("float64")
        rounding = (X.shape[1] + 2) * 2.0**-24
        if twin.effective_metric_ == "euclidean":
            length = np.sqrt((X.astype("float64") ** 2).sum(axis=1))[:, None]
            error = rounding * (2 * length + distance) ** 2
            distance = distance**2
        elif twin.effective_metric_ == "cosine":
            error = np.full_like(distance, 2 * rounding)
        else:
            error = 2 * rounding * distance
        unstable = np.zeros(len(X), bool)
        if n_trained > k:
            unstable |= distance[:, k] - distance[:, k - 1] <= error[:, k] + error[:, k - 1]
        if twin.weights == "distance":
            unstable |= error[:, 0] > WEIGHT_ERROR * distance[:, 0]
        return unstable


@dataclass(frozen=True, repr=False)
class DeviceXGBoost(DeviceModel):
    """An XGBoost Booster on a device; its portable form has the same trees."""

    kind: type[FittedModel] = FittedXGBoost

    @cached_property
    def _live(self) -> FittedXGBoost:
        booster = self.estimator.get_booster()
        return FittedXGBoost(booster, self.task, self.feature_names, self.n_classes, self.classes, targets=self.targets)

    @cached_property
    def _portable(self) -> FittedModel:
        import xgboost

        # The saved form has no device, so that it is on the host once it is read again.
        trees = xgboost.Booster(model_file=self._live.estimator.save_raw(raw_format="ubj"))
        return replace(self._live, estimator=trees)

    def _predict_block(self, X: Array) -> Prediction:
        assert self.backend is not None
        return self._live.prediction(self.backend.to_device(self._live.scores(X)), self.backend.xp)


@dataclass(frozen=True, repr=False)
class HostModel(FittedModel):
    """A model that fell back to the host; its estimator is a `FittedModel` on the host.

    `backend` is that of the device, where the matrices are; `refusal` is the reason for the fallback.
    """

    backend: Backend | None = None
    refusal: EstimatorRefusal | None = None

    def predict(self, X: Array) -> Prediction:
        """Predict the rows of `X` on the host and log it; the matrix is copied there, and the predictions back."""
        assert self.backend is not None and self.refusal is not None
        self.backend.fall_back(self.refusal.what, "predict", self.refusal.fix)
        return self.portable().predict(matrix_on_host(X, self.backend)).mapped(self.backend.to_device)

    def portable(self) -> FittedModel:
        model: FittedModel = self.estimator
        return model

    @property
    def receipts(self) -> tuple[Receipt, ...]:
        return self.portable().receipts

    @property
    def history(self) -> tuple[Mapping[str, float], ...]:
        return self.portable().history

    @property
    def models(self) -> tuple[FittedModel, ...]:
        return self.portable().models

    @property
    def n_outputs(self) -> int:
        return self.portable().n_outputs

    @property
    def most_models(self) -> int:
        return self.portable().most_models

    @property
    def row_seconds(self) -> float:
        return self.portable().row_seconds

    def of_first_models(self, n: int) -> FittedModel:
        return replace(self, estimator=self.portable().of_first_models(n))

    def of_targets(self, targets: tuple[TargetSpec, ...]) -> FittedModel:
        model = self.portable().of_targets(targets)
        return replace(self, estimator=model, task=model.task, targets=model.targets)

    def columns_read(self) -> tuple[int, ...]:
        return self.portable().columns_read()

    def of_columns(self, columns: Sequence[int]) -> FittedModel:
        model = self.portable().of_columns(columns)
        return replace(self, estimator=model, feature_names=model.feature_names)

    def importances(self) -> dict[str, float] | None:
        return self.portable().importances()

    def column_weights(self, X: Array) -> Array | None:
        return self.portable().column_weights(X)


MISSING_FIX = 'add the feature op `- impute: {columns: "@numeric"}`, or use the model xgboost'


def missing_columns(X: Array, names: tuple[str, ...], xp: ArrayNamespace) -> list[str]:
    """Return the names of the columns of `X` that contain NaN; `xp` is the array namespace of `X`."""
    return [name for j, name in enumerate(names) if bool(xp.isnan(X[:, j]).any())]


def missing_text(columns: list[str]) -> str:
    """Return the reason for a fallback because of missing values in `columns`."""
    more = f" and {len(columns) - 5} more" if len(columns) > 5 else ""
    return f"cuML's random forest takes no missing values; found some in {', '.join(columns[:5])}{more}"


def matrix_on_host(X: Array, backend: Backend) -> Array:
    """Return a column-major matrix on the device as a column-major matrix on the host."""
    return backend.to_host(X.T).T  # the transpose is row-major, so the copy keeps the layout
