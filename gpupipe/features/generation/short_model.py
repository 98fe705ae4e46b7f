"""Short boosted trees: residuals of the existing features, and losses with and without further columns.

XGBoost if it is installed, otherwise scikit-learn's HistGradientBoosting. They are imported here rather than taken from
`gpupipe.models`, which is a sibling package.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np

from gpupipe.backends.base import Backend
from gpupipe.backends.float32_loss import NumberUnit
from gpupipe.backends.threads import limit_threads
from gpupipe.features.statistics.row_blocks import is_on_device
from gpupipe.typing import Array

MOST_ROUNDS = 100
PATIENCE = 10  # rounds without a smaller loss
LEARNING_RATE = 0.2
MAX_DEPTH = 6
MOST_BINS = 64
N_THREADS = 1  # the folds are trained in parallel, and sums do not depend on the machine
MOST_NATIVE_CODES = 250  # as `encode` gives integer ids to trees


@dataclass(frozen=True)
class ShortModel:
    """Boosted trees of a few rounds; `n_classes` is 0 for regression."""

    n_classes: int
    backend: Backend
    seed: int

    @property
    def library(self) -> str:
        """Name of the library that trains it."""
        return "xgboost" if find_spec("xgboost") else "scikit-learn"

    def fit_predict(
        self,
        X: Array,
        y: Array,
        new: Array,
        new_y: Array,
        is_code: Sequence[bool],
    ) -> Array:
        """Train until the loss on the rows `new` does not decrease, and return their predictions of the best round.

        `X` and `new` are float32, of numbers, which may be NaN, and category codes below `MOST_NATIVE_CODES`; `is_code`
        flags the columns of codes. `y` and `new_y` are float64 class codes or numbers. Predictions are float64, shape
        (n_new, n_outputs): probabilities of each class (of class 1 alone if there are two), or numbers.
        """
        train = self._train_xgboost if self.library == "xgboost" else self._train_sklearn
        offset, unit = NumberUnit() if self.n_classes else NumberUnit.of(y, has_units=True)
        return train(X, (y - offset) / unit, new, (new_y - offset) / unit, is_code) * unit + offset

    def losses(self, predictions: Array, y: Array) -> Array:
        """Return the loss of each row, shape (n_rows,): log loss, or squared error."""
        if not self.n_classes:
            squared: Array = (predictions[:, 0] - y) ** 2
            return squared
        p = predictions if self.n_classes > 2 else np.column_stack([1.0 - predictions[:, 0], predictions[:, 0]])
        losses: Array = -np.log(np.clip(p[np.arange(len(y)), y.astype(np.int64)], 1e-12, 1.0))
        return losses

    def residuals(self, predictions: Array, y: Array) -> Array:
        """Return the residuals, shape (n_rows, n_outputs): class indicator minus probability, or ranks in [-1, 1].

        Ranks keep a few large residuals of a regression from hiding the others.
        """
        if not self.n_classes:
            order = np.argsort(y - predictions[:, 0], kind="stable")
            ranks = np.empty(len(y))
            ranks[order] = np.linspace(-1.0, 1.0, len(y))
            return ranks[:, None]
        if self.n_classes == 2:
            residuals: Array = y[:, None] - predictions
            return residuals
        indicators: Array = y[:, None] == np.arange(self.n_classes)
        return indicators - predictions

    def _train_xgboost(
        self,
        X: Array,
        y: Array,
        new: Array,
        new_y: Array,
        is_code: Sequence[bool],
    ) -> Array:
        import xgboost as xgb

        types = ["c" if code else "q" for code in is_code]
        options: dict[str, Any] = {"feature_types": types, "enable_categorical": True, "nthread": N_THREADS}
        train = xgb.QuantileDMatrix(X, y, max_bin=MOST_BINS, **options)
        held = xgb.QuantileDMatrix(new, new_y, ref=train, max_bin=MOST_BINS, **options)
        params: dict[str, Any] = {
            "eta": LEARNING_RATE,
            "max_depth": MAX_DEPTH,
            "max_bin": MOST_BINS,
            "tree_method": "hist",
            "seed": self.seed,
            "nthread": N_THREADS,
            "verbosity": 0,
            "device": "cuda" if is_on_device(self.backend) else "cpu",
            "objective": "reg:squarederror",
        }
        if self.n_classes == 2:
            params |= {"objective": "binary:logistic", "eval_metric": "logloss"}
        elif self.n_classes:
            params |= {"objective": "multi:softprob", "num_class": self.n_classes, "eval_metric": "mlogloss"}
        booster = xgb.train(
            params, train, MOST_ROUNDS, evals=[(held, "held_out")], early_stopping_rounds=PATIENCE, verbose_eval=False
        )
        found = booster.predict(held, iteration_range=(0, int(booster.best_iteration) + 1)).astype(np.float64)
        predictions: Array = found.reshape(len(new), -1)
        return predictions

    def _train_sklearn(self, X: Array, y: Array, new: Array, new_y: Array, is_code: Sequence[bool]) -> Array:
        from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

        kind = HistGradientBoostingClassifier if self.n_classes else HistGradientBoostingRegressor
        model = kind(
            learning_rate=LEARNING_RATE,
            max_iter=MOST_ROUNDS,
            max_bins=255,
            early_stopping=False,
            random_state=self.seed,
            categorical_features=np.array(is_code, bool) if any(is_code) else None,
        )

        def shaped(found: Any) -> Array:
            if not self.n_classes:
                return np.asarray(found, np.float64)[:, None]
            full = np.zeros((len(new), self.n_classes))  # a fold may lack a class
            full[:, model.classes_.astype(np.int64)] = found
            return full[:, 1:] if self.n_classes == 2 else full

        best, found = np.inf, None
        with limit_threads(openmp=N_THREADS):
            model.fit(X, y)
            predict = model.staged_predict_proba if self.n_classes else model.staged_predict
            for staged in predict(new):
                predictions = shaped(staged)
                loss = float(self.losses(predictions, new_y).mean())
                if loss < best:
                    best, found = loss, predictions
        assert found is not None
        return found
