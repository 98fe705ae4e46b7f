"""Outputs of scikit-learn's estimators that predict by products of matrices, with all additions in one order.

BLAS adds the columns of a row in an order that depends on the number of rows, on the position of the row and on the
processor, and NumPy's sums in one that depends on the memory layout. Here columns are added from left to right in
float64, so that the bits of a row never depend on the rows that travel with it. Checked against scikit-learn 1.9.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gpupipe.models.fitted.base import class_probability, logistic
from gpupipe.models.linear.fitted import Coefficients
from gpupipe.models.linear.rows import linear_scores
from gpupipe.models.scikit_learn.rows.neighbors import neighbor_means

if TYPE_CHECKING:
    from gpupipe.typing import Array
    from gpupipe_kernels.engines import HostEngine

    Outputs = Callable[[Array], Array]


@dataclass(frozen=True)
class OrderedOutputs:
    """The outputs of an estimator, and what computes them."""

    name: str  # as in `RowEstimator`
    # From rows, float32, shape (n, d), to float64, shape (n, k): probabilities of the classes, values, distances from
    # the centers, or coordinates.
    outputs: Outputs
    uses_blas: bool  # whether it calls BLAS, for what does not show in the outputs


def ordered_outputs(estimator: Any, engine: HostEngine) -> OrderedOutputs | None:
    """Return the outputs of an estimator for any number of rows; None if scikit-learn has to predict.

    Rows with NaN or infinity are refused with scikit-learn's message.
    """
    make = MAKERS.get(type(estimator).__name__)
    made = make and make(estimator, engine)
    if made is None:
        return None
    name, outputs = made

    def checked(X: Array) -> Array:
        import numpy as np

        if not np.isfinite(X).all():
            from sklearn.utils import assert_all_finite

            assert_all_finite(X, estimator_name=type(estimator).__name__, input_name="X")
        return outputs(X)

    return OrderedOutputs(name, checked, type(estimator).__name__ in NEIGHBORS)


def _pca(pca: Any, engine: HostEngine) -> tuple[str, Outputs]:
    import numpy as np

    from gpupipe_kernels.rows.column_sums import sum_terms

    components = np.asarray(pca.components_, np.float64)
    if pca.whiten:
        deviation = np.sqrt(pca.explained_variance_)
        components = components / np.maximum(deviation, np.finfo(deviation.dtype).eps)[:, None]
    origin = sum_terms(np.multiply, np.asarray(pca.mean_, np.float64)[None, :], components)[0]
    return _products(engine), linear_scores(Coefficients(components, -origin), engine)


def _kmeans(kmeans: Any, engine: HostEngine) -> tuple[str, Outputs]:
    import numpy as np

    from gpupipe_kernels.rows.column_sums import sum_terms

    centers = np.asarray(kmeans.cluster_centers_, np.float64)

    def distances(X: Array) -> Array:
        found: Array = np.sqrt(sum_terms(_squared_difference, X, centers))
        return found

    return "sums in NumPy", distances


def _gaussian_nb(bayes: Any, engine: HostEngine) -> tuple[str, Outputs]:
    import numpy as np

    from gpupipe_kernels.rows.column_sums import sum_terms

    mean, variance = np.asarray(bayes.theta_, np.float64), np.asarray(bayes.var_, np.float64)
    with np.errstate(divide="ignore"):  # classes of no weight
        constant = np.log(bayes.class_prior_) - 0.5 * np.log(2.0 * np.pi * variance).sum(axis=1)

    def outputs(X: Array) -> Array:
        terms = sum_terms(lambda x, mean, variance: (x - mean) ** 2 / variance, X, mean, variance)
        return class_probability(constant - 0.5 * terms)

    return "sums in NumPy", outputs


def _linear_svc(calibration: Any, engine: HostEngine) -> tuple[str, Outputs] | None:
    """Return the outputs of `CalibratedClassifierCV` of one ``LinearSVC``; None for other calibrations."""
    import numpy as np

    from gpupipe_kernels.rows.column_sums import sum_columns

    fitted = calibration.calibrated_classifiers_
    if len(fitted) != 1 or fitted[0].method != "sigmoid" or type(fitted[0].estimator).__name__ != "LinearSVC":
        return None
    if any(type(each).__name__ != "_SigmoidCalibration" for each in fitted[0].calibrators):
        return None
    machine = fitted[0].estimator
    sigmoids = fitted[0].calibrators
    n_classes = len(calibration.classes_)
    coef = np.asarray(machine.coef_, np.float64)
    if len(machine.classes_) != n_classes or not len(sigmoids) == len(coef) == (1 if n_classes == 2 else n_classes):
        return None
    slopes, offsets = np.array([[float(each.a_), float(each.b_)] for each in sigmoids]).T
    margins = linear_scores(Coefficients(coef, np.zeros(len(coef)) + machine.intercept_), engine)

    def outputs(X: Array) -> Array:
        found: Array = logistic(-(slopes * margins(X) + offsets))
        if n_classes == 2:
            return np.concatenate([1.0 - found, found], axis=1)
        total = sum_columns(found)
        shares: Array = np.where(total > 0, found / np.where(total > 0, total, 1.0), 1.0 / n_classes)
        return shares

    return _products(engine), outputs


def _neighbors(neighbors: Any, engine: HostEngine) -> tuple[str, Outputs] | None:
    outputs = neighbor_means(neighbors)
    return None if outputs is None else ("neighbors in NumPy", outputs)


def _squared_difference(x: Array, center: Array) -> Array:
    difference = x - center
    difference *= difference
    return difference


def _products(engine: HostEngine) -> str:
    return "compiled dot product" if engine == "numba" else "dot product in NumPy"


NEIGHBORS = ("KNeighborsClassifier", "KNeighborsRegressor")
MAKERS: dict[str, Callable[[Any, HostEngine], tuple[str, Outputs] | None]] = {
    "CalibratedClassifierCV": _linear_svc,
    "GaussianNB": _gaussian_nb,
    "KMeans": _kmeans,
    **dict.fromkeys(NEIGHBORS, _neighbors),
    "PCA": _pca,
}
