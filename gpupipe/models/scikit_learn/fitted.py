"""Fitted scikit-learn model, stored as a skops file."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import chain
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpupipe.backends.threads import limit_threads, thread_limits
from gpupipe.models.files.description import Description
from gpupipe.models.fitted.base import PRODUCT_SECONDS, FittedModel, tree_seconds
from gpupipe.models.fitted.prediction import Prediction
from gpupipe.models.fitted.row_blocks import predict_in_blocks
from gpupipe.models.fitted.row_estimator import RowEstimator
from gpupipe.models.fitted.tree_sums import walk_name
from gpupipe.models.scikit_learn.kinds import OURS, check_estimator
from gpupipe.models.scikit_learn.rows.forest import FORESTS, explained_forest, forest_means, predict_in_order
from gpupipe.models.scikit_learn.rows.hist_boosting import (
    HIST_BOOSTING,
    boosting_scores,
    explained_boosting,
    inverse_link,
)
from gpupipe.models.scikit_learn.rows.ordered_outputs import OrderedOutputs, ordered_outputs
from gpupipe.models.scikit_learn.skops import read_skops, write_skops
from gpupipe.tasks import CLASSIFICATION

if TYPE_CHECKING:
    from gpupipe.models.contributions.base import Explainer
    from gpupipe.typing import Array, HostArray
    from gpupipe_kernels.engines import HostEngine

# Some estimators copy their input as float64; with blocks of rows, the copy roughly fits into the cache.
BLOCK_ROWS = 131_072
# Fewer rows are repeated and stored in columns: NumPy and BLAS add in another order for a single row than for many. It
# makes differences rarer; `ordered_outputs` excludes them.
FEW_ROWS = 8


@dataclass(frozen=True, repr=False)
class FittedSklearn(FittedModel):
    """A scikit-learn estimator, stored as a skops file, whose types are checked before anything is loaded."""

    library = "scikit-learn"
    file = "estimator.skops"

    @staticmethod
    def read(data: bytes, expected: Description, where: str) -> Any:
        """Return the estimator in the content of a file.

        Raise ArtifactError if the file is malformed, or names a type that is not allowed; ValueError if the estimator
        does not match the model, or has unsafe state.
        """
        estimator = read_skops(data, where)
        check_estimator(estimator, expected)
        return estimator

    @property
    def row_seconds(self) -> float:
        """Nominal seconds for a row: of trees, of the distances to all training rows, or of the columns."""
        estimator = self.estimator
        name, n_columns = type(estimator).__name__, max(1, len(self.feature_names))
        if name in FORESTS:
            trees, level_seconds = [tree.tree_.node_count for tree in estimator.estimators_], 3.5e-9
        elif name in HIST_BOOSTING:
            trees, level_seconds = [len(tree.nodes) for tree in chain.from_iterable(estimator._predictors)], 1.7e-8
        else:
            return PRODUCT_SECONDS * getattr(estimator, "n_samples_fit_", 0) * n_columns + super().row_seconds
        return tree_seconds(len(trees), sum(trees), level_seconds)

    def predict(self, X: Array) -> Prediction:
        """Predict the rows of `X`, in blocks."""
        ordered = self._ordered
        # Narrow matrices: see gpupipe.models.linear.settings. Setting the limit takes 10 ms.
        with limit_threads(blas=1) if ordered is None or ordered.uses_blas else nullcontext():
            if ordered is None:
                return self._by_library(X)
            return self._of_outputs(predict_in_blocks(ordered.outputs, X))

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_ordered"}  # functions have no pickle

    @cached_property
    def _ordered(self) -> OrderedOutputs | None:
        return ordered_outputs(self.estimator, "numpy")

    def _by_library(self, X: Array) -> Prediction:
        import numpy as np

        if 0 < len(X) < FEW_ROWS:
            repeated = np.asfortranarray(X[np.arange(FEW_ROWS) % len(X)])
            return self._by_library(repeated).mapped(itemgetter(slice(len(X))))
        name, method = type(self.estimator).__name__, "predict_proba" if self.task in CLASSIFICATION else "predict"
        predict = (
            partial(predict_in_order, self.estimator, method) if name in FORESTS else getattr(self.estimator, method)
        )
        return self._of_outputs(_blocked(predict, X, copy=name not in OURS))

    def _of_outputs(self, outputs: Array) -> Prediction:
        """Return the prediction from probabilities, values, distances from the centers, or coordinates."""
        import numpy as np

        if self.task in CLASSIFICATION:
            return self._classification(outputs)
        if self.task == "embedding":
            with np.errstate(over="ignore"):
                return Prediction(self.task, embedding=outputs.astype(np.float32))
        if self.task == "clustering":
            return Prediction(self.task, label=outputs.argmin(axis=1).astype(np.int32), distance=outputs.min(axis=1))
        return Prediction(self.task, value=outputs.reshape(-1).astype(np.float64, copy=False))

    def row_estimator(self, engine: HostEngine) -> RowEstimator:
        """Return a walk of trees or sums in the order of the columns; scikit-learn's prediction of other models."""
        import numpy as np

        walk = self._tree_walk(engine)
        if walk is not None:
            return RowEstimator(walk_name(engine), walk)
        if (ordered := ordered_outputs(self.estimator, engine)) is not None:
            outputs = ordered.outputs
            return RowEstimator(ordered.name, lambda X: self._of_outputs(outputs(X)))
        limits = thread_limits(blas=1)

        def predict(X: Array) -> Prediction:
            with limits():
                return self._by_library(np.asfortranarray(X))

        return RowEstimator("scikit-learn", predict)

    def explainer(self, background: Callable[[], HostArray]) -> Explainer:
        """Return exact Shapley values of trees, naive Bayes and linear classifiers; sampled ones of other models."""
        from gpupipe.models.contributions.trees import TreeExplainer
        from gpupipe.models.linear.contributions import (
            LinearExplainer,
            NaiveBayesExplainer,
            calibrated_coefficients,
        )

        name, trees = type(self.estimator).__name__, None
        if name == "GaussianNB":
            return NaiveBayesExplainer(self.estimator, background(), self.n_margins)
        if self.task == "binary" and type(self._innermost).__name__ == "LinearSVC":
            coef, intercept = calibrated_coefficients(self.estimator)
            return LinearExplainer(coef, intercept, background(), "log-odds", self.n_margins)
        if name in FORESTS:
            trees = explained_forest(self.estimator, self.task in CLASSIFICATION)
        elif name in HIST_BOOSTING:
            trees = explained_boosting(self.estimator)
        return super().explainer(background) if trees is None else TreeExplainer(trees, self.n_margins, background)

    def _tree_walk(self, engine: HostEngine) -> Callable[[Any], Prediction] | None:
        estimator, name = self.estimator, type(self.estimator).__name__
        if name in FORESTS:
            means = forest_means(estimator, engine)
            return lambda X: self._of_outputs(means(X))
        scores = boosting_scores(estimator, engine) if name in HIST_BOOSTING else None
        if scores is None:
            return None
        link = inverse_link(estimator)
        return lambda X: self._of_outputs(link(scores(X)))

    def importances(self) -> dict[str, float] | None:
        """Return coefficients, impurity decreases or total gains; None if the estimator has none.

        A forest that was trained on a device has none: only its splits and leaves are copied to the host.
        """
        import numpy as np

        estimator = self._innermost
        values = getattr(estimator, "feature_importances_", None)
        if values is None:
            values = getattr(estimator, "coef_", None)
        if values is None and hasattr(estimator, "_predictors"):
            values = _total_gains(estimator)
        if values is None or not np.isfinite(values).all():
            return None
        if values.ndim == 2:
            values = values[0] if len(values) == 1 else np.abs(values).mean(axis=0)
        if self.feature_names and len(values) != len(self.feature_names):  # columns of an earlier pipeline step
            return None
        return {name: float(value) for name, value in zip(self._names(len(values)), values, strict=True)}

    def column_weights(self, X: Array) -> Array | None:
        """Return the weight of each column; coefficients are multiplied by the standard deviation of their columns."""
        import numpy as np

        own = super().column_weights(X)
        if own is None or not hasattr(self._innermost, "coef_"):
            return own
        importance: Array | None = own * X.std(axis=0, dtype=np.float64)
        return importance

    @property
    def _innermost(self) -> Any:
        """The estimator inside a calibration, or the estimator itself."""
        calibrated = getattr(self.estimator, "calibrated_classifiers_", None)
        return calibrated[0].estimator if calibrated else self.estimator

    def _write(self, path: Path) -> None:
        write_skops(self.estimator, path)

    def _write_quickly(self, path: Path) -> None:
        write_skops(self.estimator, path, compressed=False)


def _total_gains(boosting: Any) -> Array:
    """Return the total gain of the splits on each column, which scikit-learn 1.9 does not provide."""
    import numpy as np

    gains = np.zeros(boosting.n_features_in_)
    for predictor in chain.from_iterable(boosting._predictors):
        splits = predictor.nodes[predictor.nodes["is_leaf"] == 0]
        np.add.at(gains, splits["feature_idx"], splits["gain"])
    if boosting._preprocessor is not None:  # it reorders the columns, categories first
        is_category = np.asarray(boosting.is_categorical_)
        gains[np.concatenate([np.flatnonzero(is_category), np.flatnonzero(~is_category)])] = gains.copy()
    return gains


def _blocked(predict: Callable[[Array], Array], X: Array, copy: bool) -> Array:
    """Return ``predict(X)``, computed by blocks of rows; with `copy`, on copies that it may write to."""
    import numpy as np

    blocks = (X[start : start + BLOCK_ROWS] for start in range(0, max(1, len(X)), BLOCK_ROWS))
    found = [predict(block.copy() if copy else block) for block in blocks]
    return found[0] if len(found) == 1 else np.concatenate(found)
