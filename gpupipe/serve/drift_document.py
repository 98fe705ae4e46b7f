"""Drift of the predicted rows for clients: ``/drift``."""

from __future__ import annotations

from typing import Any

from gpupipe.drift.report import DriftReport
from gpupipe.drift.severity import SEVERITIES
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
    """Return a report as JSON values: those of ``gpupipe drift --json`` that need neither labels nor periods.

    Parameters
    ----------
    model : ServedModel
    settings : ServeSettings
    report : DriftReport
        from `gpupipe.serve.drift_recorder.DriftRecorder.report`.
    """
    found = report.to_json()
    for key in ("columns", "scores"):
        found[key] = [{name: v for name, v in each.items() if name not in OF_PERIODS} for each in found[key]]
    parts = {name: found[name] for name in PARTS}
    return {"model": model.name, "version": model.version, "max_rows": settings.drift_rows, **parts}


def drift_schema() -> dict[str, Any]:
    """Return the JSON Schema of the document."""
    severity: dict[str, Any] = {"enum": list(SEVERITIES)}
    count: dict[str, Any] = {"type": "integer", "minimum": 0}
    column = {
        "type": "object",
        "required": ["name", "kind", "severity", "psi", "p_value", "change", "cells", "reference", "current"],
        "properties": {
            "name": {"type": "string"},
            "kind": {"type": "string"},
            "severity": severity,
            "psi": {"type": "number", "minimum": 0, "description": "Less the value expected without drift."},
            "p_value": {"type": "number", "description": "Adjusted for the number of tests."},
            "change": {"type": "string", "description": "The largest changes in words."},
            "cells": {"type": "array", "items": {"type": "string"}},
            "reference": {"type": "array", "items": count, "description": "Training rows in each cell."},
            "current": {"type": "array", "items": count, "description": "Predicted rows in each cell."},
        },
    }
    columns = {"type": "array", "items": column, "description": "The worst first."}
    return {
        "type": "object",
        "required": [
            "model",
            "version",
            "max_rows",
            "severity",
            "weighted_psi",
            "n_rows",
            "columns",
            "scores",
            "notes",
        ],
        "properties": {
            "model": {"type": "string"},
            "version": {"type": "string"},
            "max_rows": {**count, "description": "The largest number of rows that are compared: the last ones."},
            "n_rows": {**count, "description": "The number of rows that are compared."},
            "severity": severity,
            "weighted_psi": {"type": "number"},
            "columns": columns,
            "scores": columns,
            "notes": {"type": "array", "items": {"type": "string"}},
        },
    }
