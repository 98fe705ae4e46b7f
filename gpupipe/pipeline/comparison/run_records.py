"""Records of a finished run, read without its model and without the variables of its configuration."""

from __future__ import annotations

import os
from datetime import datetime
from typing import Any

import yaml

from gpupipe.artifact.manifest import load as load_manifest
from gpupipe.config.scalars import Loader
from gpupipe.errors import ArtifactError
from gpupipe.metrics.settings import Costs
from gpupipe.model_parts.goal import Goal
from gpupipe.model_parts.part_checks import read_goal
from gpupipe.model_parts.part_shapes import check_manifest
from gpupipe.pipeline.comparison.paired_metrics import TestRows
from gpupipe.pipeline.result import Run, load_run, read_json

MALFORMED = (AttributeError, IndexError, KeyError, OSError, TypeError, ValueError, yaml.YAMLError)


class RunRecord:
    """Metrics, settings, stages and columns of a run, or of its directory.

    Raise ArtifactError if it is not the directory of a finished run, or a file is missing or malformed.
    """

    def __init__(self, run: Run | str | os.PathLike[str]) -> None:
        self.run = run if isinstance(run, Run) else load_run(run)
        self.path = str(self.run.path)
        timeline = read_json(self.run.path / "timeline.json")
        manifest = load_manifest(self.run.path / "model")[0]
        check_manifest(manifest, self.run.path / "model")
        try:
            text = (self.run.path / "config.yaml").read_text(encoding="utf-8")
            self.settings: dict[str, Any] = yaml.load(text, Loader=Loader)
            self.name, self.best = str(self.settings["name"]), str(self.run.document["best"])
            self.metrics = {name: float(value) for name, value in self.run.metrics.items()}
            self.first_metric = next(iter(self.metrics))
            self.started, self.seconds = datetime.fromisoformat(timeline["started"]), float(timeline["seconds"])
            self.stages: list[dict[str, Any]] = list(timeline["stages"])
            self.device = "gpu" if "gpu" in {stage["device"] for stage in self.stages} else "cpu"
            self.goal: Goal = read_goal(manifest)
            self.inputs, self.features = list(manifest["inputs"]), list(manifest["lineage"])
            self.versions: dict[str, str] = {"gpupipe": manifest["gpupipe"], **manifest["libraries"]}
        except MALFORMED as error:
            what = f"malformed records of the run: {type(error).__name__}: {error}"
            raise ArtifactError(what, where=self.path, fix="run the pipeline again") from error

    def test_rows(self) -> TestRows:
        """Return the targets and predictions of the test rows."""
        costs, group = self.settings["evaluate"]["cost"], self.settings["split"]["group"]
        return TestRows(self.run.predictions, self.goal, group, None if costs is None else Costs(**costs))
