"""Fitted XGBoost model: a Booster that predicts without scikit-learn."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from gpupipe.artifact.untrusted.ubjson import render
from gpupipe.errors import ArtifactError
from gpupipe.models.files.description import Description
from gpupipe.models.fitted.base import FittedModel, tree_seconds
from gpupipe.models.fitted.prediction import Prediction
from gpupipe.models.fitted.row_estimator import RowEstimator
from gpupipe.models.fitted.tree_sums import walk_name
from gpupipe.models.xgboost.document import read_model, rewrite_model
from gpupipe.tasks import CLASSIFICATION, Task
from gpupipe.typing import ArrayNamespace

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpupipe.models.contributions.base import Explainer
    from gpupipe.models.fitted.row_estimator import RowEstimator
    from gpupipe.models.xgboost.trees import XGBoostTrees
    from gpupipe.typing import Array, HostArray
    from gpupipe_kernels.engines import HostEngine

# Rows times trees that a walk predicts before the Booster does. They take less time than the import of XGBoost, which
# imports scikit-learn, SciPy and pandas.
WALKED = 1 << 20
# Before this version, a Booster has one base score, and reads the list of a newer file as another number.
OLDEST = 3, 1

NODES = 64  # of a tree with the default depth of 6


@dataclass(frozen=True, repr=False)
class FittedXGBoost(FittedModel):
    """An XGBoost Booster, stored as UBJ, XGBoost's binary JSON."""

    library = "xgboost"
    file = "estimator.ubj"

    @classmethod
    def of(
        cls, estimator: Any, task: Task, feature_names: tuple[str, ...], n_classes: int, classes: tuple[int, ...]
    ) -> Self:
        return cls(estimator.get_booster(), task, feature_names, n_classes, classes)

    @staticmethod
    def read(data: bytes, expected: Description, where: str) -> Any:
        """Return the `StoredBooster` in the content of a file; only checked fields reach XGBoost.

        Raise ValueError if the trees are invalid, or do not match the model.
        """
        document = read_model(data, expected)
        from gpupipe.models.xgboost.trees import is_exact

        booster = document["learner"]["gradient_booster"]
        n_trees = len(booster.get("gbtree", booster)["model"]["trees"]) if is_exact(document) else 0
        return StoredBooster(bytes(render(document)), where, n_trees, document, expected.n_models)

    def with_library(self) -> FittedModel:
        """Return the model whose predictions are XGBoost's for any number of rows."""
        estimator = self.estimator
        return replace(self, estimator=estimator.booster) if isinstance(estimator, StoredBooster) else self

    def row_estimator(self, engine: HostEngine) -> RowEstimator:
        """Return a walk of the trees; for dart on processors other than x86-64, XGBoost's own prediction."""
        from gpupipe.models.xgboost.rows import tree_scores

        trees = self.trees()
        if trees is None:
            return RowEstimator("XGBoost", self.predict)
        scores, prediction = tree_scores(trees, engine), self.prediction
        return RowEstimator(walk_name(engine), lambda X: prediction(scores(X)))

    def trees(self) -> XGBoostTrees | None:
        """Return the trees for a walk; None if only XGBoost itself has their digits."""
        from gpupipe.models.xgboost.trees import XGBoostTrees, is_exact

        stored = self.estimator
        document = stored.take_document() if isinstance(stored, StoredBooster) else None
        if document is None:
            document = read_model(self._raw, self._description)
        return XGBoostTrees.of(document) if is_exact(document) else None

    def explainer(self, background: Callable[[], HostArray]) -> Explainer:
        """Return exact Shapley values of the trees, as XGBoost defines them."""
        from gpupipe.models.contributions.trees import ExplainedTrees, TreeExplainer, scale_of
        from gpupipe.models.xgboost.trees import XGBoostTrees

        trees = XGBoostTrees.of(read_model(self._raw, self._description))
        explained = ExplainedTrees(trees.packed, trees.base.astype("float64"), scale_of(trees.link))
        return TreeExplainer(explained, self.n_margins, background)

    @property
    def n_rounds(self) -> int:
        booster = read_model(self._raw, self._description)["learner"]["gradient_booster"]["name"]
        return self._n_rounds if booster == "gbtree" and not self.targets else 0  # dart drops earlier trees as well

    @property
    def _n_rounds(self) -> int:
        return int(self._rounds()[1] or self.estimator.num_boosted_rounds())

    @property
    def row_seconds(self) -> float:
        """Nominal seconds for a row, with trees of `NODES` nodes: their number is not read."""
        n_trees = self._n_rounds * (max(1, self.n_outputs) if self.task != "multiclass" else len(self.classes))
        return tree_seconds(n_trees, NODES * n_trees, 2e-9)

    def predict(self, X: Array) -> Prediction:
        stored = self.estimator
        if isinstance(stored, StoredBooster) and stored.takes_walk(len(X)):
            stored.walk = stored.walk or self.row_estimator("numpy")
            return stored.walk(X)
        return self.prediction(self.scores(X))

    def scores(self, X: Array) -> Array:
        """Return the output of the Booster for `X`, float32: values or probabilities, on the device of `X`."""
        scores: Array = self.estimator.inplace_predict(X, iteration_range=self._rounds())
        return scores

    def prediction(self, scores: Array, xp: ArrayNamespace | None = None) -> Prediction:
        """Return the prediction of an output of `scores`; `xp` is its array namespace, None: ``numpy``."""
        import numpy as np

        result = scores.astype("f8", copy=False)
        if self.task == "multioutput":
            return Prediction(self.task, outputs=result, targets=self.targets)
        if self.task not in CLASSIFICATION:
            return Prediction(self.task, value=result)
        if self.task == "binary" and result.ndim == 1:
            return Prediction(self.task, probability=result)
        # A multiclass target may have had only two classes in the training rows.
        of_each = result if result.ndim == 2 else (xp or np).column_stack([1 - result, result])
        return self._classification(of_each, xp)

    def _rounds(self) -> tuple[int, int]:
        """Return the range of rounds to predict with: up to the best one after early stopping, else all (0, 0)."""
        best = self.estimator.attr("best_iteration")
        return (0, 0) if best is None else (0, int(best) + 1)

    def importances(self) -> dict[str, float]:
        """Return the mean gain of the splits on each column."""
        gain = self.estimator.get_score(importance_type="gain")
        names = self._names(self.estimator.num_features())
        return {name: float(gain.get(f"f{j}", 0.0)) for j, name in enumerate(names)}

    @property
    def _raw(self) -> bytes:
        return bytes(self.estimator.save_raw(raw_format="ubj"))

    @property
    def _description(self) -> Description:
        return Description(self.task, self.feature_names, self.n_classes, self.classes, targets=self.targets)

    def _write(self, path: Path) -> None:
        data = self._raw
        try:
            rewrite_model(data, self._description)
        except ValueError as error:
            raise ArtifactError(
                f"this version of gpupipe cannot load models of the installed XGBoost: {error}",
                where=str(path),
                fix="install a version of XGBoost that gpupipe was tested with, or update gpupipe",
            ) from error
        path.write_bytes(data)  # not by XGBoost: a full disk is an OSError here


class StoredBooster:
    """A Booster in the content of a checked file. Its attributes are those of the Booster.

    Until the Booster has been used, a walk of the trees predicts small tables: its digits are the same, and a command
    that scores some rows ends before XGBoost would have been imported.

    `data` is what XGBoost reads, the checked fields of a file as UBJ, and `document` the same fields, parsed. `n_trees`
    is 0 if only XGBoost itself has the digits of the model. `n_models` are read together, as those of an ensemble.
    """

    def __init__(
        self, data: bytes, where: str, n_trees: int, document: Mapping[str, Any] | None = None, n_models: int = 1
    ) -> None:
        self._data = data
        self._where = where
        self._n_trees = n_trees
        self._document = document
        self._budget = WALKED // n_models
        self.walk: RowEstimator | None = None

    @cached_property
    def booster(self) -> Any:
        """The Booster; raise ArtifactError if XGBoost is not installed, or rejects the file."""
        try:
            import xgboost
        except ImportError as error:
            what = f"the model needs XGBoost, except to predict few rows: {error}"
            raise ArtifactError(what, where=self._where, fix="pip install 'gpupipe[cpu]'") from error
        self._document = None
        if tuple(map(int, xgboost.__version__.split(".")[:2])) < OLDEST:
            what = f"XGBoost {xgboost.__version__} would read the base scores of this model wrongly"
            raise ArtifactError(what, where=self._where, fix=f"pip install 'xgboost-cpu>={'.'.join(map(str, OLDEST))}'")
        try:
            with warnings.catch_warnings():  # files of other XGBoost versions; the manifest records the version
                warnings.filterwarnings("ignore", category=UserWarning, module="xgboost")
                return xgboost.Booster(model_file=bytearray(self._data))
        except xgboost.core.XGBoostError as error:
            fix = "export the model again"
            raise ArtifactError(f"not an XGBoost model: {error}", where=self._where, fix=fix) from error

    def take_document(self) -> Mapping[str, Any] | None:
        """Return the parsed fields, which are then released; None the next time, and once XGBoost has read them."""
        document, self._document = self._document, None
        return document

    def takes_walk(self, n_rows: int) -> bool:
        """Return whether a walk is to predict `n_rows` rows; they count towards `WALKED`."""
        if not self._n_trees or "booster" in vars(self):
            return False
        self._budget -= n_rows * self._n_trees
        return self._budget >= 0

    def save_raw(self, raw_format: str = "ubj") -> bytes:
        """Return the model in a format of XGBoost; in UBJ, the stored content."""
        return self._data if raw_format == "ubj" else bytes(self.booster.save_raw(raw_format=raw_format))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # of a copy that is being unpickled
            raise AttributeError(name)
        return getattr(self.booster, name)

    def __getstate__(self) -> Mapping[str, Any]:
        return vars(self) | {"walk": None, "_document": None}
