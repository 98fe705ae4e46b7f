"""Offset and unit of a target during training, where float32 would lose its values.

XGBoost, LightGBM, CatBoost and models on a GPU hold targets, residuals or their sums in float32, which has 24 bits. Of
a target such as 1.7e9 plus minutes they see one or two values. A training on ``(y - offset) / unit`` is the same
regression for models with a `ModelSettings.target_invariance`, and the prediction is converted back in
float64. Other targets are left alone, so that the bits of their models do not change.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from gpupipe.backends.float32_loss import NumberUnit
from gpupipe.tasks import REGRESSION

if TYPE_CHECKING:
    from gpupipe.models.base import ModelSettings
    from gpupipe.models.context import FitContext
    from gpupipe.models.fitted.base import FittedModel
    from gpupipe.typing import Array


@dataclass(frozen=True)
class TargetScale:
    """Offset and unit of each target of a training; of classes, 0 and 1.

    `units` has one for each target; one for a single target, also of several quantiles.
    """

    units: tuple[NumberUnit, ...]

    @staticmethod
    def of(model: ModelSettings, y: Array | None, context: FitContext) -> TargetScale | None:
        """Return the scale on which `model` learns the target, shape (n,) or (n, n_targets); None for its own."""
        if context.start is not None:  # the units that it has learned
            known = tuple(NumberUnit(*unit) for unit in context.start.units)
            return TargetScale(known) if known else None
        tasks = [target.task for target in context.targets] or [context.task]
        if y is None or not any(task in REGRESSION or task == "quantile" for task in tasks):
            return None
        units = []
        for i, task in enumerate(tasks):
            invariance = model.target_invariance(task) if task in REGRESSION or task == "quantile" else "none"
            own = y[:, i] if context.targets else y
            units.append(NumberUnit() if invariance == "none" else NumberUnit.of(own, invariance == "affine"))
        return TargetScale(tuple(units)) if not all(unit.is_plain for unit in units) else None

    def apply(self, y: Array) -> Array:
        """Return targets in the units of the training, float64."""
        import numpy as np

        offset, unit = np.array(self.units).T if y.ndim > 1 else self.units[0]
        return np.asarray((y - offset) / unit)

    def describe(self, context: FitContext) -> str:
        """Return the note about the scale."""
        names = [target.name for target in context.targets] or ["the target"]
        parts = [
            f"{name} minus {unit.offset:,.12g}" + (f", in units of {unit.unit:.3g}" if unit.unit != 1.0 else "")
            for name, unit in zip(names, self.units, strict=True)
            if not unit.is_plain
        ]
        return f"trained on {'; '.join(parts)}: float32 would lose the differences of its values"


def fit_on_scale(
    scale: TargetScale, y: Array, context: FitContext, fit_one: Callable[[Array, FitContext], FittedModel]
) -> FittedModel:
    """Return a model that `fit_one` trains on the scaled target, and that predicts in the units of the target.

    `y` is float64, shape (n,) or (n, n_targets). The validation rows of `context` are scaled like `y`, and its
    out-of-bag predictions are reported in the target's units.
    """
    from gpupipe.models.composites.scaled_target import FittedScaledTarget

    held, report = context.validation, context.report_out_of_bag
    if held is not None:
        held = replace(held, y=scale.apply(held.y))

    def report_scaled(found: Any) -> None:
        assert report is not None
        report(found * scale.units[0].unit + scale.units[0].offset)

    own = replace(context, validation=held, report_out_of_bag=None if report is None else report_scaled)
    own = replace(own, start=None if context.start is None else context.start.unscaled)
    fitted = fit_one(scale.apply(y), own)
    return FittedScaledTarget(
        (fitted,),
        context.task,
        tuple(context.feature_names),
        notes=(*fitted.notes, scale.describe(context)),
        backend=context.device_backend,
        targets=fitted.targets,
        units=scale.units,
    )
