"""Contributions of matrix columns to margins that are sums over the columns: exact Shapley values in closed form."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gpupipe.models.contributions.base import Contributions, Explainer, Method, Scale, as_multiclass

if TYPE_CHECKING:
    from gpupipe.typing import HostArray


def linear_contributions(
    coef: HostArray, intercept: HostArray, X: HostArray, background: HostArray
) -> tuple[HostArray, HostArray]:
    """Return the contributions to the margins of a linear model, and the mean margins of the background rows.

    The Shapley value of a column is its coefficient times the difference of its value from the background mean, if a
    column that is not known takes its values in the background rows independently of the others (Lundberg and Lee, "A
    unified approach to interpreting model predictions", NeurIPS 2017, corollary 1).

    `coef` has the shape (n_margins, d), and `intercept` (n_margins,), both float64. `X` and `background` are float32,
    shape (n, d), without NaN. The contributions are float64, shape (n, n_margins, d): infinite where a product of two
    huge numbers overflows, as the margin is. The means have the shape (n_margins,).
    """
    import numpy as np

    center = background.mean(axis=0, dtype=np.float64)
    with np.errstate(over="ignore", invalid="ignore"):  # as in FittedLinear.predict
        base: HostArray = coef @ center + intercept
        values: HostArray = (X.astype(np.float64) - center)[:, None, :] * coef + 0.0  # without -0.0
    return values, base


def naive_bayes_contributions(
    means: HostArray, variances: HostArray, priors: HostArray, X: HostArray, background: HostArray
) -> tuple[HostArray, HostArray]:
    """Return the contributions to the log-odds of Gaussian naive Bayes, and the mean log-odds of the background rows.

    Log-likelihoods of naive Bayes are sums over the columns, so the Shapley value of a column is its own term minus the
    mean of that term over the background rows.

    - `means`, `variances` (array of float64, shape (n_classes, d)): of the normal distribution of each column within
      each class: ``theta_`` and ``var_`` of scikit-learn
    - `priors` (array of float64, shape (n_classes,)): positive: ``class_prior_`` of scikit-learn
    - `X` (array of float32, shape (n, d)): rows without NaN, in any memory layout
    - `background`: array of float32, shape (n_background, d)

    Returns
    -------
    values : array of float64, shape (n, n_margins, d)
        Two classes: one margin, the log-odds of the second. More: one per class, the logarithm of its probability minus
        the mean logarithm over the classes; their softmax is the probability.
    base : array of float64, shape (n_margins,)
    """
    import numpy as np

    def contrasts(terms: HostArray) -> HostArray:
        """Return the margins, along the first axis, of terms of each class."""
        return terms[1:] - terms[:1] if len(terms) == 2 else terms - terms.mean(axis=0)

    def column_terms(rows: HostArray) -> HostArray:
        distances = (rows.astype(np.float64) - means[:, None, :]) ** 2 / variances[:, None, :]
        return contrasts(-0.5 * (distances + np.log(variances)[:, None, :]))

    center = column_terms(background).mean(axis=1)
    base: HostArray = center.sum(axis=1) + contrasts(np.log(priors))
    values: HostArray = (column_terms(X) - center[:, None, :]).transpose(1, 0, 2) + 0.0
    return values, base


def calibrated_coefficients(estimator: Any) -> tuple[HostArray, HostArray]:
    """Return the coefficients, (1, d), and the intercept, (1,), of the log-odds of a linear classifier of two classes.

    `estimator` is a ``CalibratedClassifierCV`` of ``LinearSVC``, with ``method="sigmoid"`` and ``ensemble=False``: the
    probability of the second class is the logistic function of a linear function of the margin.
    """
    import numpy as np

    (calibrated,) = estimator.calibrated_classifiers_
    (sigmoid,) = calibrated.calibrators
    coef = np.asarray(calibrated.estimator.coef_, np.float64)
    intercept = np.zeros(1) + np.asarray(calibrated.estimator.intercept_, np.float64)
    return -sigmoid.a_ * coef, -(sigmoid.a_ * intercept + sigmoid.b_)


class LinearExplainer(Explainer):
    """Closed form of the contributions to the margins of a linear model; see `linear_contributions`.

    Two classes have one margin, that of the second.
    """

    method: Method = "exact linear"

    def __init__(
        self, coef: HostArray, intercept: HostArray, background: HostArray, scale: Scale, n_margins: int
    ) -> None:
        self._coef = coef
        self._intercept = intercept
        self._background = background
        self._scale, self._n_margins = scale, n_margins

    def contributions(self, X: HostArray) -> Contributions:
        values, base = linear_contributions(self._coef, self._intercept, X, self._background)
        return as_multiclass(Contributions(values, base, self._scale), self._n_margins)


class NaiveBayesExplainer(Explainer):
    """Closed form of the contributions to the log-odds of Gaussian naive Bayes; see `naive_bayes_contributions`.

    `background` is float32, shape (n_background, d); `n_margins` is as in `LinearExplainer`.
    """

    method: Method = "exact linear"

    def __init__(self, estimator: Any, background: HostArray, n_margins: int) -> None:
        self._parameters = estimator.theta_, estimator.var_, estimator.class_prior_
        self._background, self._n_margins = background, n_margins

    def contributions(self, X: HostArray) -> Contributions:
        values, base = naive_bayes_contributions(*self._parameters, X, self._background)
        return as_multiclass(Contributions(values, base, "log-odds"), self._n_margins)
