"""What a run leaves in a program: its figures, its model, its report."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from gpupipe.config import Config
from gpupipe.pipeline.leaderboard import Entrant
from gpupipe.pipeline.model import Model, load_model
from gpupipe.pipeline.target import Goal
from gpupipe.pipeline.timeline import Timeline


@dataclass(frozen=True)
class Run:
    """A finished run.

    Attributes
    ----------
    path : Path
        The run directory.
    config : Config
        As it was resolved.
    goal : Goal
        Task, target, class labels.
    document : dict
        The content of metrics.json.
    leaderboard : sequence of Entrant
        All models, the best first.
    timeline : Timeline
        What each stage did, where, and for how long.
    """

    path: Path
    config: Config
    goal: Goal
    document: dict[str, Any]
    leaderboard: Sequence[Entrant]
    timeline: Timeline

    @property
    def metrics(self) -> dict[str, float]:
        """Metrics of the best model, by name."""
        return self.leaderboard[0].metrics

    @cached_property
    def model(self) -> Model:
        """The exported model, loaded from the run directory."""
        return load_model(self.path)

    def plan(self) -> list[dict[str, Any]]:
        """Return the stages as they ran: name, device, reason, rows, seconds, peak bytes, bytes moved.

        What `gpupipe.Pipeline.plan` predicts has the same names.
        """
        return list(self.timeline.to_json()["stages"])

    def report(self) -> Path:
        """Return the path of report.html."""
        return self.path / "report.html"

    def _repr_html_(self) -> str:
        names = [name for name in self.metrics if not name.endswith("_std")]
        head = "".join(f"<th>{html.escape(name)}</th>" for name in ["model", *names])
        body = "".join(
            f"<tr><td>{html.escape(e.label)}</td>" + "".join(f"<td>{e.metrics[n]:.4f}</td>" for n in names) + "</tr>"
            for e in self.leaderboard
        )
        return f"<table><tr>{head}</tr>{body}</table><p>{html.escape(str(self.path))}</p>"

    def __repr__(self) -> str:
        best = self.leaderboard[0]
        name = next(iter(best.metrics))
        return f"Run({best.label}: {name} {best.metrics[name]:.4f}, {str(self.path)!r})"
