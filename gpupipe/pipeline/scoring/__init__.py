"""Batch scoring: a table in, predictions out."""

from __future__ import annotations

from gpupipe.pipeline.scoring.bad_rows import OnError
from gpupipe.pipeline.scoring.cluster import score_on_cluster, score_on_workers
from gpupipe.pipeline.scoring.local import score
from gpupipe.pipeline.scoring.summary import ScoreSummary

__all__ = ["OnError", "ScoreSummary", "score", "score_on_cluster", "score_on_workers"]
