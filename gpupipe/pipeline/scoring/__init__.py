"""Batch scoring: a table in, predictions out."""

from __future__ import annotations

from gpupipe.pipeline.scoring.bad_rows import OnError
from gpupipe.pipeline.scoring.on_cluster import score_on_cluster, score_spread
from gpupipe.pipeline.scoring.on_one_machine import score
from gpupipe.pipeline.scoring.summary import ScoreSummary

__all__ = ["OnError", "ScoreSummary", "score", "score_on_cluster", "score_spread"]
