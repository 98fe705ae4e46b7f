"""Fitted model of a target that was trained in other units."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpupipe.models.composites.parts import FittedParts
from gpupipe.models.files.model_files import ModelFiles, PrefixedFiles
from gpupipe.models.fitted.base import FittedModel
from gpupipe.models.fitted.prediction import Prediction
from gpupipe.models.fitted.row_estimator import RowEstimator
from gpupipe.typing import ArrayNamespace

if TYPE_CHECKING:
    from gpupipe.models.contributions.base import Explainer
    from gpupipe.typing import Array, HostArray
    from gpupipe_kernels.engines import HostEngine


@dataclass(frozen=True, repr=False)
class FittedScaledTarget(FittedParts):
    """A trained model whose predictions are converted, in float64, to the units of the target; see `FittedParts`.

    `units` are the offset and unit of each target: a prediction is ``offset + unit * value``.
    """

    library = "scaled target"
    prefix = "scaled"

    units: tuple[tuple[float, float], ...] = field(default=(), kw_only=True)

    @property
    def model(self) -> FittedModel:
        """The model of the scaled target."""
        return self.estimator[0]

    def with_seen_rows(self, files: ModelFiles) -> FittedModel:
        inner = self.model.with_seen_rows(PrefixedFiles(files, self.file_prefix(0)))
        return replace(self, estimator=(inner,))

    @property
    def target_units(self) -> tuple[tuple[float, float], ...]:
        return self.units

    @property
    def unscaled(self) -> FittedModel:
        return self.model

    @property
    def n_outputs(self) -> int:
        return self.model.n_outputs

    def columns_read(self) -> tuple[int, ...]:
        return self.model.columns_read()

    def of_columns(self, columns: Sequence[int]) -> FittedModel:
        own = self.model.of_columns(columns)
        return replace(self, estimator=(own,), feature_names=own.feature_names)

    @property
    def history(self) -> tuple[Mapping[str, float], ...]:
        return self.model.history

    def _joined(self, parts: list[Prediction], xp: ArrayNamespace) -> Prediction:
        (found,) = parts
        offset, unit = self.of_columns_of(target.width for target in self.targets)
        if self.targets:
            return found.mapped(lambda output: output * xp.asarray(unit) + xp.asarray(offset))
        return found.mapped(lambda output: output * unit[0] + offset[0])

    def of_columns_of(self, widths: Any) -> tuple[HostArray, HostArray]:
        """Return offset and unit of each column, float64, if the target i has ``widths[i]``; no widths: one column."""
        import numpy as np

        units = np.array(self.units, np.float64)
        counts = list(widths)
        offset, unit = (np.repeat(units, counts, axis=0) if counts else units).T
        return offset, unit

    def _rows(self, engine: HostEngine) -> RowEstimator:
        import numpy as np

        inner, joined = self.model.row_estimator(engine), self._joined
        return RowEstimator(inner.name, lambda X: joined([inner(X)], np))

    def explainer(self, background: Callable[[], HostArray]) -> Explainer:
        """Return the explanations of the model, in the units of the target."""
        from gpupipe.models.composites.contributions import ScaledExplainer

        inner = self.portable().models[0]
        if len(self.targets) > 1:
            apart = len(inner.models) == len(self.targets)
            widths = [model.n_margins for model in inner.models] if apart else [each.width for each in self.targets]
            offset, unit = self.of_columns_of(widths)
        else:
            offset, unit = self.of_columns_of([inner.n_margins])
        return ScaledExplainer(inner.explainer(background), offset, unit)

    def importances(self) -> dict[str, float] | None:
        return self.model.importances()

    def column_weights(self, X: Array) -> Array | None:
        return self.model.column_weights(X)

    def save(self, folder: str | Path, *, quick: bool = False) -> dict[str, Any]:
        return super().save(folder, quick=quick) | {"units": [list(unit) for unit in self.units]}


def read_units(values: Sequence[Sequence[float]], n_targets: int) -> tuple[tuple[float, float], ...]:
    """Return offset and unit of each target from lists of finite numbers; raise ValueError if they are invalid."""
    if len(values) != n_targets:
        raise ValueError(f"expected units of {n_targets:,} targets; found {len(values):,}")
    if any(len(pair) != 2 or pair[1] <= 0 for pair in values):
        raise ValueError("expected units as pairs of an offset and a positive unit")
    return tuple((float(offset), float(unit)) for offset, unit in values)
