"""Scale of the targets of trees that predict several: trained in units of their spread, predicted in their own.

The splits of such trees are chosen by the sum of the losses of all targets. In their own units, a target with large
numbers would choose them alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from gpupipe.typing import Array

SCALED = frozenset({"reg:squarederror"})
"""Objectives whose predictions are proportional to the targets, and that do not measure relative errors."""


class OutputScale(NamedTuple):
    """Center and scale of each target, float64, shape (n_targets,), on the host."""

    center: Array
    scale: Array

    @staticmethod
    def of(y: Array, weights: Array | None) -> OutputScale:
        """Return mean and standard deviation, by weight, of targets on the host, shape (n, n_targets)."""
        import numpy as np

        center = np.average(y, axis=0, weights=weights)
        scale = np.sqrt(np.average((y - center) ** 2, axis=0, weights=weights))
        return OutputScale(center, np.where(scale > 0, scale, 1.0))

    def apply(self, y: Array) -> Array:
        """Return targets in units of their scale."""
        found: Array = (y - self.center) / self.scale
        return found


def rescale_outputs(raw: bytes, scale: OutputScale) -> bytearray:
    """Return a Booster that was trained on scaled targets as one that predicts in their own units.

    Leaves and base scores are multiplied by the scale; the gains of splits stay those of scaled targets. `raw` is the
    Booster as UBJ.
    """
    import numpy as np

    from gpupipe.artifact.untrusted.ubjson import UbjsonReader, render

    document = UbjsonReader(raw).document()
    learner: Any = document["learner"]
    sizes = learner["learner_model_param"]
    base = np.array([float(text) for text in sizes["base_score"].strip("[]").split(",")])
    moved = (scale.center + scale.scale * base).astype(np.float32)
    sizes["base_score"] = f"[{','.join(f'{value:.9E}' for value in moved)}]"
    for tree in learner["gradient_booster"]["model"]["trees"]:
        for name in ("leaf_weights", "base_weights"):
            vectors = tree[name].reshape(-1, len(scale.scale)) * scale.scale
            tree[name] = vectors.astype(">f4").reshape(-1)
    return render(document)
