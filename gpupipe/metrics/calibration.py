"""Calibration of probabilities: monotone maps, stored as a few numbers so that serving needs no library for them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from gpupipe.backends.weighted_quantiles import count_rows
from gpupipe.errors import DataError
from gpupipe.typing import Array, ArrayNamespace

if TYPE_CHECKING:
    from gpupipe.backends.base import Backend

FittedMethod = Literal["sigmoid", "isotonic", "temperature"]

LOG_STEEPEST = 5.0  # temperatures between e^-5 and e^5, as any calibrated model has
EPSILON = 1e-12  # probabilities are clipped to [EPSILON, 1 - EPSILON] before the logit


@dataclass(frozen=True)
class Calibration:
    """A monotone map of the probability of class 1, or of those of several classes."""

    method: FittedMethod
    # slope, intercept: sigmoid: coefficients of the logit; 1 and 0 are the identity. temperature: the slope is the
    # inverse of the temperature, by which logits, or logarithms of several probabilities, are multiplied.
    slope: float = 1.0
    intercept: float = 0.0
    # x, y: isotonic: break points; linear between them, constant outside.
    x: tuple[float, ...] = field(default=(), repr=False)
    y: tuple[float, ...] = field(default=(), repr=False)
    # isotonic with several classes: the map of each class against all others; rows are then divided by their sum.
    classes: tuple[Calibration, ...] = field(default=(), repr=False)

    def apply(self, probability: Array, backend: Backend | None = None) -> Array:
        """Return the calibrated probabilities, float64, same shape, on the device of `backend`; None: on the host."""
        import numpy as np

        xp = np if backend is None else backend.xp
        if probability.ndim > 1:
            return self._apply_to_classes(probability, backend, xp)
        if self.method == "isotonic":
            points = (np.asarray(self.x), np.asarray(self.y))
            return xp.interp(probability, *(points if backend is None else map(backend.to_device, points)))
        with np.errstate(over="ignore"):  # with a steep slope e^x is infinite and the probability 0
            return 1.0 / (1.0 + xp.exp(-(self.slope * _logit(probability, xp) + self.intercept)))

    def _apply_to_classes(self, probability: Array, backend: Backend | None, xp: ArrayNamespace) -> Array:
        from gpupipe_kernels.rows.column_sums import sum_columns

        if self.method == "temperature":
            scores = self.slope * xp.log(probability.astype("float64", copy=False).clip(EPSILON, None))
            masses = xp.exp(scores - scores.max(axis=1, keepdims=True))
            softmax: Array = masses / sum_columns(masses)
            return softmax
        columns = [each.apply(p, backend) for each, p in zip(self.classes, probability.T, strict=True)]
        found: Array = xp.stack(columns, axis=1)
        total = sum_columns(found)
        shares: Array = xp.where(total > 0, found / xp.where(total > 0, total, 1.0), 1.0 / len(self.classes))
        return shares

    def to_json(self) -> dict[str, Any]:
        """Return the calibration as JSON values."""
        if self.classes:
            return {"method": self.method, "classes": [each.to_json() for each in self.classes]}
        if self.method == "isotonic":
            return {"method": self.method, "x": list(self.x), "y": list(self.y)}
        if self.method == "temperature":
            return {"method": self.method, "slope": self.slope}
        return {"method": self.method, "slope": self.slope, "intercept": self.intercept}

    @staticmethod
    def from_json(value: dict[str, Any]) -> Calibration:
        """Return the calibration from the result of `to_json`."""
        if "classes" in value:
            return Calibration("isotonic", classes=tuple(map(Calibration.from_json, value["classes"])))
        if value["method"] == "temperature":
            return Calibration("temperature", slope=value["slope"])
        if value["method"] == "isotonic":
            return Calibration("isotonic", x=tuple(value["x"]), y=tuple(value["y"]))
        return Calibration("sigmoid", slope=value["slope"], intercept=value["intercept"])


def fit_calibration(
    probability: Array,
    y: Array,
    how: FittedMethod,
    *,
    sample_weight: Array | None = None,
) -> Calibration:
    """Fit a calibration on the host.

    sigmoid is J. Platt's, "Probabilistic outputs for support vector machines", 1999. isotonic is that of B. Zadrozny
    and C. Elkan, "Transforming classifier scores into accurate multiclass probability estimates", KDD 2002. temperature
    is that of C. Guo, G. Pleiss, Y. Sun and K. Q. Weinberger, "On calibration of modern neural networks", ICML 2017.
    Raise DataError if the rows have only one class.

    - `probability` (array of float64, shape (n,) or (n, k)): predictions for rows that the model was not trained on, of
      class 1 or of each class; on the host
    - `y` (array of int or float, shape (n,)): class codes
    - `how` ({"sigmoid", "isotonic", "temperature"}): sigmoid is for two classes
    """
    import numpy as np

    y = np.asarray(y).astype(np.int64)
    if not len(y) or y.min() == y.max():
        raise DataError(
            f"cannot calibrate probabilities: all {len(y):,} held-out rows have the same class",
            where=f"evaluate.calibrate: {how}",
            fix="set calibrate: none, or increase evaluate.validation",
        )
    weight = np.ones(len(y)) if sample_weight is None else np.asarray(sample_weight, np.float64)
    if how == "temperature":
        return _temperature(probability, y, weight)
    if probability.ndim > 1:
        # A probability of exactly 0 would cost a single row of that class an infinite log loss.
        least = 1.0 / (count_rows(weight) + 2)
        each = [_isotonic(p, (y == code).astype(np.float64), weight, least) for code, p in enumerate(probability.T)]
        return Calibration("isotonic", classes=tuple(each))
    return (_isotonic if how == "isotonic" else _sigmoid)(probability, y.astype(np.float64), weight)


def _temperature(probability: Array, y: Array, weight: Array) -> Calibration:
    """Fit the slope of the logarithms of probabilities by the log loss, which is convex in it."""
    import numpy as np
    from scipy.optimize import minimize_scalar
    from scipy.special import log_softmax

    p = probability if probability.ndim > 1 else np.column_stack([1.0 - probability, probability])
    scores, rows = np.log(p.astype(np.float64).clip(EPSILON, None)), np.arange(len(y))

    def loss(log_slope: float) -> float:
        return float(-weight @ log_softmax(np.exp(log_slope) * scores, axis=1)[rows, y])

    found = minimize_scalar(loss, bounds=(-LOG_STEEPEST, LOG_STEEPEST), method="bounded", options={"xatol": 1e-8})
    return Calibration("temperature", slope=float(np.exp(found.x)))


def _isotonic(probability: Array, y: Array, weight: Array, least: float = 0.0) -> Calibration:
    """Fit an isotonic map to probabilities between `least` and ``1 - least``."""
    import numpy as np
    from sklearn.isotonic import IsotonicRegression

    if y.min() == y.max():  # a class without rows keeps its probability
        return Calibration("isotonic", x=(0.0, 1.0), y=(0.0, 1.0))
    model = IsotonicRegression(y_min=least, y_max=1.0 - least, out_of_bounds="clip")
    fitted = model.fit(probability.astype(np.float64), y, sample_weight=weight)
    return Calibration("isotonic", x=tuple(fitted.X_thresholds_.tolist()), y=tuple(fitted.y_thresholds_.tolist()))


def _sigmoid(probability: Array, y: Array, weight: Array) -> Calibration:
    """Fit slope and intercept to Platt's smoothed targets, which keep them finite for separable classes."""
    import numpy as np
    from sklearn.linear_model import LogisticRegression

    positives, negatives = weight @ y, weight @ (1 - y)
    target = np.where(y > 0, (positives + 1) / (positives + 2), 1 / (negatives + 2))
    # A soft target is a pair of weighted rows, one of each class.
    logits = np.tile(_logit(probability, np), 2)[:, None]
    labels = np.repeat([1, 0], len(y))
    fitted = LogisticRegression(C=np.inf, solver="newton-cholesky", tol=1e-8).fit(
        logits, labels, sample_weight=np.concatenate([weight * target, weight * (1 - target)])
    )
    return Calibration("sigmoid", slope=float(fitted.coef_[0, 0]), intercept=float(fitted.intercept_[0]))


def _logit(probability: Array, xp: ArrayNamespace) -> Array:
    p = probability.astype("float64", copy=False).clip(EPSILON, 1 - EPSILON)
    return xp.log(p / (1 - p))
