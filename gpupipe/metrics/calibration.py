"""Calibration of probabilities: a monotone map, stored as a few numbers so that serving needs no library for it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from gpupipe.errors import DataError
from gpupipe.typing import Array, ArrayNamespace

if TYPE_CHECKING:
    from gpupipe.backends.base import Backend

EPSILON = 1e-12  # probabilities are clipped to [EPSILON, 1 - EPSILON] before the logit


@dataclass(frozen=True)
class Calibration:
    """A monotone map of the probability of class 1.

    Attributes
    ----------
    method : {"sigmoid", "isotonic"}
    slope, intercept : float
        sigmoid: coefficients of the logit; 1 and 0 are the identity.
    x, y : tuple of float
        isotonic: break points; linear between them, constant outside.
    """

    method: Literal["sigmoid", "isotonic"]
    slope: float = 1.0
    intercept: float = 0.0
    x: tuple[float, ...] = field(default=(), repr=False)
    y: tuple[float, ...] = field(default=(), repr=False)

    def apply(self, probability: Array, backend: Backend | None = None) -> Array:
        """Return the calibrated probabilities, float64, same shape, on the device of `backend`; None: on the host."""
        import numpy as np

        xp = np if backend is None else backend.xp
        if self.method == "isotonic":
            points = (np.asarray(self.x), np.asarray(self.y))
            return xp.interp(probability, *(points if backend is None else map(backend.to_device, points)))
        with np.errstate(over="ignore"):  # with a steep slope e^x is infinite and the probability 0
            return 1.0 / (1.0 + xp.exp(-(self.slope * _logit(probability, xp) + self.intercept)))

    def to_json(self) -> dict[str, Any]:
        """Return the calibration as JSON values."""
        if self.method == "isotonic":
            return {"method": self.method, "x": list(self.x), "y": list(self.y)}
        return {"method": self.method, "slope": self.slope, "intercept": self.intercept}

    @staticmethod
    def from_json(value: dict[str, Any]) -> Calibration:
        """Return the calibration from the result of `to_json`."""
        if value["method"] == "isotonic":
            return Calibration("isotonic", x=tuple(value["x"]), y=tuple(value["y"]))
        return Calibration("sigmoid", slope=value["slope"], intercept=value["intercept"])


def fit_calibration(
    probability: Array, y: Array, how: Literal["sigmoid", "isotonic"], *, sample_weight: Array | None = None
) -> Calibration:
    """Fit a calibration with scikit-learn, on the host.

    Parameters
    ----------
    probability : array of float64, shape (n,)
        Predictions for rows that the model was not trained on; on the host.
    y : array of 0 and 1, shape (n,)
    how : {"sigmoid", "isotonic"}
    sample_weight : array of float64, shape (n,), optional
        Weight of each row.

    Raises
    ------
    DataError
        If the rows have only one class.
    """
    import numpy as np

    y = (np.asarray(y) > 0).astype(np.float64)
    if y.min(initial=1.0) == y.max(initial=0.0):
        raise DataError(
            f"cannot calibrate probabilities: all {len(y):,} held-out rows have the same class",
            where=f"evaluate.calibrate: {how}",
            fix="set calibrate: none, or increase evaluate.validation",
        )
    weight = np.ones(len(y)) if sample_weight is None else np.asarray(sample_weight, np.float64)
    return (_isotonic if how == "isotonic" else _sigmoid)(probability, y, weight)


def _isotonic(probability: Array, y: Array, weight: Array) -> Calibration:
    import numpy as np
    from sklearn.isotonic import IsotonicRegression

    model = IsotonicRegression(y_min=0.0, y_max=1.0, out_of_bounds="clip")
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
