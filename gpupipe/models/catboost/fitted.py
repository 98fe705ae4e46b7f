"""Fitted CatBoost model: its trees, which predict without CatBoost."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Self

from gpupipe.models.catboost.rows import tree_sums
from gpupipe.models.files.description import Description
from gpupipe.models.fitted.base import FittedModel
from gpupipe.models.fitted.prediction import Prediction
from gpupipe.models.fitted.row_blocks import BlockPredictor
from gpupipe.models.fitted.row_estimator import RowEstimator
from gpupipe.models.fitted.tree_sums import walk_name
from gpupipe.tasks import Task

if TYPE_CHECKING:
    from gpupipe.models.catboost.trees import CatBoostTrees
    from gpupipe.models.contributions.base import Explainer
    from gpupipe.typing import Array, HostArray
    from gpupipe_kernels.engines import HostEngine

LEVEL_SECONDS = 3e-9  # nominal, of a tree and a row; see `FittedModel.row_seconds`


class CatBoostPredictor:
    """The trees of a model and the function that adds their leaves."""

    def __init__(self, trees: CatBoostTrees) -> None:
        self.trees = trees

    @cached_property
    def sums(self) -> BlockPredictor:
        """CatBoost's raw values, float64, shape (n, n_outputs), of rows, float32, shape (n, d)."""
        return BlockPredictor(partial(tree_sums, self.trees), len(self.trees.tree_depth))

    def __getstate__(self) -> dict[str, Any]:
        return {"trees": self.trees}


@dataclass(frozen=True, repr=False)
class FittedCatBoost(FittedModel):
    """The trees of a CatBoost model, stored as npz.

    The same code predicts after training and after loading. Its sums equal CatBoost's raw values to the last bit;
    probabilities are their logistic function or softmax, as those of linear models.
    """

    library = "catboost"
    file = "estimator.npz"

    @classmethod
    def of(
        cls, estimator: Any, task: Task, feature_names: tuple[str, ...], n_classes: int, classes: tuple[int, ...]
    ) -> Self:
        from gpupipe.models.catboost.json_model import trees_from_json

        with TemporaryDirectory() as folder:
            path = Path(folder) / "model.json"
            estimator.save_model(str(path), format="json")
            document = json.loads(path.read_bytes())
        trees = trees_from_json(document, estimator.feature_importances_.tolist())
        return cls(CatBoostPredictor(trees), task, feature_names, n_classes, classes)

    @staticmethod
    def read(data: bytes, expected: Description, where: str) -> CatBoostPredictor:
        """Return the model in the content of a file.

        Raise ValueError if the file is malformed, or its trees do not match the model.
        """
        from gpupipe.models.catboost.trees import read_trees

        return CatBoostPredictor(read_trees(data, expected))

    @property
    def row_seconds(self) -> float:
        return LEVEL_SECONDS * float(self.estimator.trees.tree_depth.sum())

    def predict(self, X: Array) -> Prediction:
        return self._prediction(self.estimator.sums(X))

    def row_estimator(self, engine: HostEngine) -> RowEstimator:
        """Return the sum of leaves of the trees."""
        sums, prediction = tree_sums(self.estimator.trees, engine), self._prediction
        return RowEstimator(walk_name(engine), lambda X: prediction(sums(X)))

    def explainer(self, background: Callable[[], HostArray]) -> Explainer:
        """Return exact Shapley values of the trees, as CatBoost defines them.

        The contribution of a statistic of several columns is divided equally among them.
        """
        from gpupipe.models.catboost.contributions import explained_catboost
        from gpupipe.models.contributions.trees import TreeExplainer

        return TreeExplainer(explained_catboost(self.estimator.trees, self.task), self.n_margins, background)

    def _prediction(self, sums: Array) -> Prediction:
        import numpy as np

        if self.estimator.trees.is_log[0]:
            with np.errstate(over="ignore"):
                return Prediction(self.task, value=np.exp(sums[:, 0]))
        return self._of_scores(sums)

    def importances(self) -> dict[str, float]:
        """Return the mean change of the prediction by each column, in percent of all."""
        values = self.estimator.trees.importance
        return dict(zip(self._names(len(values)), values.tolist(), strict=True))

    def _write(self, path: Path) -> None:
        import numpy as np

        np.savez(path, **self.estimator.trees.arrays)
