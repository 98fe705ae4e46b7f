"""Fitted models that consist of several models: one for each quantile or target; and their files."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, ClassVar, Self

from gpupipe.backends import machine
from gpupipe.models.fitted.base import FittedModel, in_order
from gpupipe.models.fitted.prediction import Prediction
from gpupipe.typing import ArrayNamespace

if TYPE_CHECKING:
    from gpupipe.backends.base import Backend
    from gpupipe.models.contributions.base import Explainer
    from gpupipe.models.fitted.row_estimator import RowEstimator
    from gpupipe.tensors.receipt import Receipt
    from gpupipe.typing import Array, HostArray
    from gpupipe_kernels.engines import HostEngine

OF_ALL = ("task", "feature_names", "n_classes")  # of a model's description: known from that of the whole


@dataclass(frozen=True, repr=False)
class FittedComposite(FittedModel):
    """A model whose `models` are others, with one set of files for each."""

    @property
    @abstractmethod
    def models(self) -> tuple[FittedModel, ...]:
        """The models, in order."""

    @property
    def receipts(self) -> tuple[Receipt, ...]:
        return tuple(chain.from_iterable(model.receipts for model in self.models))

    def row_estimator(self, engine: HostEngine) -> RowEstimator:
        """Return the row estimators of all models; trees of several models are walked at once."""
        if (portable := self.portable()) is not self:
            return portable.row_estimator(engine)
        return self._rows(engine) if self.feature_names else super().row_estimator(engine)

    @abstractmethod
    def _rows(self, engine: HostEngine) -> RowEstimator:
        """Return the row estimator of portable models with column names."""

    def with_library(self) -> FittedModel:
        """Return the models whose predictions are those of their libraries."""
        return self._mapped(lambda model: model.with_library())

    @property
    def most_models(self) -> int:
        return max(model.most_models for model in self.models)

    def of_first_models(self, n: int) -> FittedModel:
        return self._mapped(lambda model: model.of_first_models(n))

    @property
    def row_seconds(self) -> float:
        """The sum of those of all models."""
        return sum(model.row_seconds for model in self.models)

    def portable(self) -> FittedModel:
        """Return the models that predict on a machine without a GPU; the conversion is made once."""
        return self._portable

    @cached_property
    def _portable(self) -> FittedModel:
        return self._mapped(lambda model: model.portable())

    @abstractmethod
    def _mapped(self, change: Callable[[FittedModel], FittedModel]) -> Self:
        """Return the model of changed models; itself if nothing has changed."""

    def save(self, folder: str | Path, *, quick: bool = False) -> dict[str, Any]:
        if (portable := self.portable()) is not self:
            return portable.save(folder, quick=quick)
        Path(folder).mkdir(parents=True, exist_ok=True)
        return self._save_models(Path(folder), quick=quick)

    @abstractmethod
    def _save_models(self, folder: Path, *, quick: bool) -> dict[str, Any]:
        """Write the files of all models to an existing folder, and return the description."""


@dataclass(frozen=True, repr=False)
class FittedParts(FittedComposite):
    """A model that consists of several models over the same matrix. Its `estimator` is a tuple of `FittedModel`.

    `save` writes the files of each model under their own names with a prefix, such as ``quantile-2-estimator.ubj``.
    `backend` is that of the device where the predictions are; None on the host.
    """

    prefix: ClassVar[str]
    estimator: tuple[FittedModel, ...]
    backend: Backend | None = None

    @property
    def models(self) -> tuple[FittedModel, ...]:
        """The models, in order."""
        return self.estimator

    def predict(self, X: Array) -> Prediction:
        import numpy as np

        parts = [model.predict(X) for model in self.models]
        for model, part in zip(self.models, parts, strict=True):
            part.check(X.shape[0], model.n_classes, model.n_outputs)
        return self._joined(parts, np if self.backend is None else self.backend.xp)

    @abstractmethod
    def _joined(self, parts: list[Prediction], xp: ArrayNamespace) -> Prediction:
        """Return the prediction from those of the models."""

    def explainer(self, background: Callable[[], HostArray]) -> Explainer:
        """Return the margins of all models, one after the other."""
        from gpupipe.models.composites.contributions import PartsExplainer

        return PartsExplainer([model.explainer(background) for model in self.portable().models])

    @property
    def n_margins(self) -> int:
        """Number of margins of all models."""
        return sum(model.n_margins for model in self.models)

    @cached_property
    def _portable(self) -> FittedModel:
        found = self._mapped(lambda model: model.portable())
        return found if found.backend is None else replace(found, backend=None)

    def _mapped(self, change: Callable[[FittedModel], FittedModel]) -> Self:
        models = tuple(map(change, self.models))
        is_same = all(a is b for a, b in zip(models, self.models, strict=True))
        return self if is_same else replace(self, estimator=models)

    def unstable_rows(self, X: Array) -> Array:
        unstable = super().unstable_rows(X)
        for model in self.models:
            unstable |= model.unstable_rows(X)
        return unstable

    def _save_models(self, folder: Path, *, quick: bool) -> dict[str, Any]:
        models = save_parts({self.file_prefix(i): model for i, model in enumerate(self.models)}, folder, quick=quick)
        files = list(chain.from_iterable(model["files"] for model in models))
        return {**self._describe(files), "models": models}

    @classmethod
    def file_prefix(cls, position: int) -> str:
        """Return the prefix of the files of a model, by its position."""
        return f"{cls.prefix}-{position + 1}-"


def save_parts(models: Mapping[str, FittedModel], folder: Path, *, quick: bool) -> list[dict[str, Any]]:
    """Write the files of models, each with its prefix before their names; return the descriptions without `OF_ALL`.

    The models are written at the same time on the threads of the machine: forests take long to compress.
    """
    with ThreadPoolExecutor(machine.n_threads()) as pool:
        return list(pool.map(partial(_save_part, folder, quick=quick), models, models.values()))


def _save_part(folder: Path, prefix: str, model: FittedModel, *, quick: bool) -> dict[str, Any]:
    with TemporaryDirectory(dir=folder) as temporary:
        description = model.save(temporary, quick=quick)
        names = {name: prefix + name for name in description["files"]}
        for name, prefixed in names.items():
            Path(temporary, name).replace(folder / prefixed)
    own = {key: value for key, value in description.items() if key not in OF_ALL}
    return own | {"files": list(names.values())}


@dataclass(frozen=True, repr=False)
class FittedQuantiles(FittedParts):
    """A trained regression for each quantile, lowest first; see `FittedParts`.

    The predictions of a row are sorted, so that no quantile exceeds a higher one.
    """

    library = "quantiles"
    prefix = "quantile"

    @property
    def n_outputs(self) -> int:
        """Number of quantiles."""
        return len(self.estimator)

    def _joined(self, parts: list[Prediction], xp: ArrayNamespace) -> Prediction:
        return Prediction(self.task, quantiles=in_order(xp.stack([part.value for part in parts], axis=1), xp))

    def _rows(self, engine: HostEngine) -> RowEstimator:
        from gpupipe.models.composites.rows import quantile_rows

        return quantile_rows(self, engine)

    def importances(self) -> dict[str, float] | None:
        """Return the mean over the quantiles of the importances, or None if the models have none."""
        found = [model.importances() for model in self.models]
        total: dict[str, float] = {}
        for own in found:
            if own is None:
                return None
            for name, value in own.items():
                total[name] = total.get(name, 0.0) + value / len(found)
        return total


@dataclass(frozen=True, repr=False)
class FittedTargets(FittedParts):
    """A trained model for each of several targets, in their order; see `FittedParts`."""

    library = "targets"
    prefix = "target"

    def _joined(self, parts: list[Prediction], xp: ArrayNamespace) -> Prediction:
        return Prediction.of_targets(parts, xp)

    def _rows(self, engine: HostEngine) -> RowEstimator:
        from gpupipe.models.composites.rows import target_rows

        return target_rows(self, engine)

    def importances(self) -> dict[str, float] | None:
        """Return the mean over the targets of each column's share in the importances, or None if a model has none.

        Importances of different targets have no common scale. Those of linear models count by their absolute value.
        """
        found = [model.importances() for model in self.models]
        total: dict[str, float] = {}
        for own in found:
            if own is None:
                return None
            scale = len(found) * (sum(map(abs, own.values())) or 1.0)
            for name, value in own.items():
                total[name] = total.get(name, 0.0) + abs(value) / scale
        return total

    def column_weights(self, X: Array) -> Array | None:
        import numpy as np

        total = np.zeros(X.shape[1])
        for model in self.models:
            own = model.column_weights(X)
            if own is None:
                return None
            total += own / (own.sum() or 1.0) / len(self.models)
        return total
