"""Models of a run whose features are on a device: trained there, or on the host because the device could not.

They predict a matrix where it is, as far as they can, and what they say of it is there too. What is kept on disk is
their portable form, which needs no device and no package of one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from gpupipe.models.fitted.base import FittedModel, Prediction
from gpupipe.models.fitted.scikit_learn import FittedSklearn
from gpupipe.models.fitted.xgboost import FittedXGBoost
from gpupipe.tasks import CLASSIFICATION
from gpupipe.typing import ArrayNamespace

if TYPE_CHECKING:
    from gpupipe.backends.base import Backend
    from gpupipe.backends.gpu.translation import EstimatorRefusal
    from gpupipe.tensors.receipt import Receipt
    from gpupipe.typing import Array

# cuML copies what it predicts row by row: in blocks, that copy is a small part of the device's memory.
BLOCK_ROWS = 1 << 20
# Relative, of the inverse distance to the nearest neighbour: a weighted mean is then within the tolerance of parity.
WEIGHT_ERROR = 1e-4


@dataclass(frozen=True, repr=False)
class DeviceModel(FittedModel):
    """A model trained on a device, in the device's library.

    Attributes
    ----------
    backend : Backend
        Of the device.
    name : str
        The class name of scikit-learn or XGBoost that the estimator stands for.
    kind : type of FittedModel
        What its portable form is.
    """

    backend: Backend | None = None
    name: str = ""
    kind: type[FittedModel] = FittedSklearn

    def predict(self, X: Array) -> Prediction:
        """Predict the rows of `X`, float32, shape (n, d), on the device, where the predictions stay."""
        assert self.backend is not None
        X = self.backend.to_device(X)
        starts = range(0, max(1, X.shape[0]), BLOCK_ROWS)
        blocks = [self._predict_block(X[start : start + BLOCK_ROWS]) for start in starts]
        return join_predictions(blocks, self.backend.xp)

    def portable(self) -> FittedModel:
        """Return the model as the host predicts with it; converted once."""
        return self._portable

    def importances(self) -> dict[str, float] | None:
        """Return the estimator's own importance of each column, as the device's library measured it."""
        values = getattr(self.estimator, "feature_importances_", None)
        if values is None or self.kind is not FittedSklearn:
            return self._portable.importances()
        shares = self._host(values).astype("float64")
        shares = shares / (shares.sum() or 1.0)  # scikit-learn's add up to 1
        return {name: float(share) for name, share in zip(self._names(len(shares)), shares, strict=True)}

    def column_weights(self, X: Array) -> Array | None:
        """Return what each column weighs, by the device's own measure where it has one; `X` is on the host."""
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
        there = self.backend.to_device  # nothing to move, as long as the library answers where it was asked
        if self.task in CLASSIFICATION:
            return self._classification(there(self.estimator.predict_proba(X)), self.backend.xp)
        if self.task == "regression":
            return Prediction(self.task, value=there(self.estimator.predict(X)).astype("f8").reshape(-1))
        if self.task == "embedding":
            return Prediction(self.task, embedding=there(self.estimator.transform(X)))
        return self._nearest_centre(X)

    def _nearest_centre(self, X: Array) -> Prediction:
        # Not cuML's `transform`: up to its release 26.08 it gives squares of distances.
        label = self.estimator.predict(X)
        distance = ((X - self.estimator.cluster_centers_[label]) ** 2).sum(axis=1) ** 0.5
        return Prediction(self.task, label=label.astype("int32"), distance=distance.astype("f8"))

    def _host(self, values: Array) -> Array:
        assert self.backend is not None
        return self.backend.to_host(values)


@dataclass(frozen=True, repr=False)
class DeviceForest(DeviceModel):
    """A random forest of cuML's. It takes no missing values; where they come up later, its host twin predicts."""

    def predict(self, X: Array) -> Prediction:
        """Predict the rows of `X` on the device if nothing is missing in them, else on the host, and say so.

        The predictions are on the device in either case.
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
    """Nearest neighbours of cuML's, whose distances are float32; scikit-learn's are float64."""

    def unstable_rows(self, X: Array) -> Array:
        """Return the rows whose neighbours, or their weights, are within the rounding error of float32.

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
    """A Booster on a device; its portable form is the same trees."""

    kind: type[FittedModel] = FittedXGBoost

    @cached_property
    def _live(self) -> FittedXGBoost:
        booster = self.estimator.get_booster()
        return FittedXGBoost(booster, self.task, self.feature_names, self.n_classes, self.classes)

    @cached_property
    def _portable(self) -> FittedModel:
        import xgboost

        # What is written holds no device; read again, it is the host's.
        trees = xgboost.Booster(model_file=self._live.estimator.save_raw(raw_format="ubj"))
        return replace(self._live, estimator=trees)

    def _predict_block(self, X: Array) -> Prediction:
        assert self.backend is not None
        return self._live.prediction(self.backend.to_device(self._live.scores(X)), self.backend.xp)


@dataclass(frozen=True, repr=False)
class HostModel(FittedModel):
    """A model that the device could not train: its estimator is a `FittedModel` of the host.

    Attributes
    ----------
    backend : Backend
        Of the device, where the matrices are.
    refusal : EstimatorRefusal
        Why it is on the host.
    """

    backend: Backend | None = None
    refusal: EstimatorRefusal | None = None

    def predict(self, X: Array) -> Prediction:
        """Predict the rows of `X` on the host, and say so; the matrix is moved there, and the predictions back."""
        assert self.backend is not None and self.refusal is not None
        self.backend.fall_back(self.refusal.what, "predict", self.refusal.fix)
        return self.portable().predict(matrix_on_host(X, self.backend)).mapped(self.backend.to_device)

    def portable(self) -> FittedModel:
        """Return the model as it was trained on the host."""
        model: FittedModel = self.estimator
        return model

    @property
    def receipts(self) -> tuple[Receipt, ...]:
        """Of the host's training."""
        return self.portable().receipts

    @property
    def history(self) -> tuple[Mapping[str, float], ...]:
        """Of the host's training."""
        return self.portable().history

    def importances(self) -> dict[str, float] | None:
        """Return the importances of the host's model."""
        return self.portable().importances()

    def column_weights(self, X: Array) -> Array | None:
        """Return the weights of the host's model."""
        return self.portable().column_weights(X)


MISSING_FIX = 'impute them: `- impute: {columns: "@numeric"}` among the features, or use the model xgboost'


def missing_columns(X: Array, names: tuple[str, ...], xp: ArrayNamespace) -> list[str]:
    """Return the names of the columns of `X` that hold NaN; `xp` is the array namespace of `X`."""
    return [name for j, name in enumerate(names) if bool(xp.isnan(X[:, j]).any())]


def missing_text(columns: list[str]) -> str:
    """Return in words what is missing where."""
    more = f" and {len(columns) - 5} more" if len(columns) > 5 else ""
    return f"cuML's random forest takes no missing values, and there are some in {', '.join(columns[:5])}{more}"


def matrix_on_host(X: Array, backend: Backend) -> Array:
    """Return a column-major matrix of the device as one of the host, column-major too."""
    return backend.to_host(X.T).T  # rows of the transpose are columns: the copy need not turn them


def join_predictions(parts: Sequence[Prediction], xp: ArrayNamespace | None = None) -> Prediction:
    """Return the predictions of blocks of rows as one; `xp` is the namespace of their arrays, None: ``numpy``."""
    if len(parts) == 1:
        return parts[0]
    import numpy as np

    arrays = [part.arrays for part in parts]
    return Prediction(
        parts[0].task, **{name: (xp or np).concatenate([part[name] for part in arrays]) for name in arrays[0]}
    )
