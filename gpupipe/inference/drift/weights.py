"""Weights of the input columns in a verdict: their importances in the run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpupipe.model_parts.part_checks import read_importances

EQUAL_WEIGHTS = "the run measured no importances: all columns weigh the same"


def importance_weights(manifest: Mapping[str, Any]) -> Mapping[str, float] | None:
    """Return the importance of each input column, negative ones as 0; None if none is positive."""
    found = read_importances(manifest.get("importances"))
    weights = (
        {} if found is None else {name: max(0.0, mean) for name, (mean, _) in found.columns.items() if mean == mean}
    )
    return weights if any(weights.values()) else None
