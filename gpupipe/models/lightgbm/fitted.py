"""Fitted LightGBM model: its trees, which predict without LightGBM."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from gpupipe.models.files.description import Description
from gpupipe.models.fitted.base import FittedModel, tree_seconds
from gpupipe.models.fitted.prediction import Prediction
from gpupipe.models.fitted.row_blocks import BlockPredictor
from gpupipe.models.fitted.row_estimator import RowEstimator
from gpupipe.models.fitted.tree_sums import walk_name
from gpupipe.models.lightgbm.rows import tree_outputs
from gpupipe.tasks import CLASSIFICATION, Task

if TYPE_CHECKING:
    from gpupipe.models.contributions.base import Explainer
    from gpupipe.models.lightgbm.trees import LightGBMTrees
    from gpupipe.typing import Array, HostArray
    from gpupipe_kernels.engines import HostEngine


class LightGBMText:
    """A text model of LightGBM, and the function that walks its trees."""

    def __init__(self, data: bytes, trees: LightGBMTrees) -> None:
        self.data, self.trees = data, trees

    @cached_property
    def outputs(self) -> BlockPredictor:
        """LightGBM's predictions, float64, shape (n, n_outputs), of rows, float32, shape (n, d)."""
        return BlockPredictor(partial(tree_outputs, self.trees), len(self.trees.packed.trees))

    def __getstate__(self) -> dict[str, Any]:
        return {"data": self.data, "trees": self.trees}


@dataclass(frozen=True, repr=False)
class FittedLightGBM(FittedModel):
    """The trees of a LightGBM Booster, stored as LightGBM's text model.

    The same code predicts after training and after loading; its predictions equal LightGBM's to the last bit.
    """

    library = "lightgbm"
    file = "estimator.txt"

    @classmethod
    def of(
        cls, estimator: Any, task: Task, feature_names: tuple[str, ...], n_classes: int, classes: tuple[int, ...]
    ) -> Self:
        expected = Description(task, feature_names, n_classes, classes)
        text = cls.read(estimator.booster_.model_to_string().encode(), expected, "")
        return cls(text, task, feature_names, n_classes, classes)

    @staticmethod
    def read(data: bytes, expected: Description, where: str) -> LightGBMText:
        """Return the model in the content of a file.

        Raise ValueError if the trees are invalid, or do not match the model.
        """
        from gpupipe.models.lightgbm.trees import read_trees

        return LightGBMText(data, read_trees(data, expected))

    @property
    def n_rounds(self) -> int:
        return int(len(self.estimator.trees.packed.trees) // self.estimator.trees.n_outputs)

    @property
    def row_seconds(self) -> float:
        packed = self.estimator.trees.packed
        return tree_seconds(len(packed.trees), len(packed.nodes), 1.2e-8)

    def predict(self, X: Array) -> Prediction:
        return self._prediction(self.estimator.outputs(X))

    def row_estimator(self, engine: HostEngine) -> RowEstimator:
        """Return a walk of the trees."""
        outputs, prediction = tree_outputs(self.estimator.trees, engine), self._prediction
        return RowEstimator(walk_name(engine), lambda X: prediction(outputs(X)))

    def explainer(self, background: Callable[[], HostArray]) -> Explainer:
        """Return exact Shapley values of the trees, as LightGBM defines them."""
        import numpy as np

        from gpupipe.models.contributions.trees import ExplainedTrees, TreeExplainer, scale_of
        from gpupipe.models.lightgbm.trees import read_trees

        expected = Description(self.task, self.feature_names, self.n_classes, self.classes)
        trees = read_trees(self.estimator.data, expected, with_cover=True)
        explained = ExplainedTrees(trees.packed, np.zeros(trees.n_outputs), scale_of(trees.link))
        return TreeExplainer(explained, self.n_margins, background)

    def _prediction(self, outputs: Array) -> Prediction:
        import numpy as np

        if self.task not in CLASSIFICATION:
            return Prediction(self.task, value=outputs[:, 0])
        if self.task == "binary":
            return Prediction(self.task, probability=outputs[:, 0])
        # A multiclass target may have had only two classes in the training rows.
        of_each = outputs if outputs.shape[1] > 1 else np.column_stack([1.0 - outputs[:, 0], outputs[:, 0]])
        return self._classification(of_each)

    def importances(self) -> dict[str, float]:
        """Return the total gain of the splits on each column."""
        gains = self.estimator.trees.gains
        return dict(zip(self._names(len(gains)), gains.tolist(), strict=True))

    def _write(self, path: Path) -> None:
        path.write_bytes(self.estimator.data)
