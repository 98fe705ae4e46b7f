"""The write-up of a run: one self-contained HTML page and its plots. Light to import; drawing loads what it needs."""

from __future__ import annotations

from gpupipe.report.data import (
    Classification,
    ColumnQuality,
    Confusion,
    Curve,
    Importance,
    LeaderboardRow,
    Lineage,
    Regression,
    ReportData,
)
from gpupipe.report.render import render
from gpupipe.report.settings import Report

__all__ = [
    "Classification",
    "ColumnQuality",
    "Confusion",
    "Curve",
    "Importance",
    "LeaderboardRow",
    "Lineage",
    "Regression",
    "Report",
    "ReportData",
    "render",
]
