"""Drift of the predicted rows for clients: ``/drift``."""

from __future__ import annotations

from typing import Any

from gpupipe.inference.drift.report import DriftReport
from gpupipe.serve.served_model import ServedModel
from gpupipe.serve.settings import ServeSettings

PARTS = (
    "severity", "verdict", "weighted_psi", "limits", "n_rows", "has_importances", "columns", "scores", "notes",
)  # fmt: skip
OF_PERIODS = ("since", "periods")


def has_drift(model: ServedModel, settings: ServeSettings) -> bool:
    """Return whether a server compares the rows that a model predicts."""
    return model.reference is not None and settings.drift == "on"


def drift_document(model: ServedModel, settings: ServeSettings, report: DriftReport) -> dict[str, Any]:
    """Return a report as JSON values: those of ``gpupipe drift --json`` that need neither labels nor periods."""
    found = report.to_json()
    for key in ("columns", "scores"):
        found[key] = [{name: v for name, v in each.items() if name not in OF_PERIODS} for each in found[key]]
    parts = {name: found[name] for name in PARTS}
    return {"model": model.name, "version": model.version, "max_rows": settings.drift_rows, **parts}
