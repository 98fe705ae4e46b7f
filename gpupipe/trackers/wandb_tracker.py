"""Weights & Biases: nested runs are runs of the same group, with a job type."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import wandb

from gpupipe.trackers.tracker import ExperimentTracker, MetricPoint, RunStatus, TrackedDataset

MOST_IN_NAME = 128  # characters of names


class WandbTracker(ExperimentTracker):
    """Runs of a project of Weights & Biases. See `ExperimentTracker`."""

    def __init__(self, settings: Mapping[str, Any], ids: dict[str, str]) -> None:
        super().__init__(settings, ids)
        self._runs: dict[str, Any] = {}
        # Console output, code, packages and machine are not part of the run, and may contain secrets.
        self._settings = wandb.Settings(
            console="off",
            disable_code=True,
            disable_git=True,
            disable_job_creation=True,
            silent=True,
            x_disable_machine_info=True,
            x_disable_meta=True,
            x_disable_stats=True,
            x_save_requirements=False,
        )

    def start(self, run: str, name: str, parent: str | None, tags: Mapping[str, str], time_ms: int) -> dict[str, str]:
        """Start a run, or continue that of an interrupted run."""
        folder = Path(self.settings["folder"])
        (folder / "wandb").mkdir(0o700, parents=True, exist_ok=True)  # wandb itself obeys the umask
        kind = tags.get("gpupipe/kind", "run")
        started = wandb.init(
            project=self.settings["project"],
            name=name[:MOST_IN_NAME],
            dir=folder,
            mode=self.settings["mode"],
            id=self.ids.get(run),
            resume="allow" if run in self.ids else None,
            reinit="create_new",
            group=self.settings["run_name"][:MOST_IN_NAME],
            job_type=kind,
            settings=self._settings,
        )
        self._runs[run], self.ids[run] = started, started.id
        # One tag of Weights & Biases has 64 characters at most; the configuration has no such limit.
        started.config.update({"tags": dict(tags)}, allow_val_change=True)
        found = {"id": str(started.id), "folder": str(Path(started.dir).parent)}
        return found if started.offline else {**found, "url": str(started.url)}

    def log(self, run: str, params: Mapping[str, str], metrics: Sequence[MetricPoint], tags: Mapping[str, str]) -> None:
        """Log values: parameters as configuration, tags as summary, metrics by their step."""
        own = self._runs[run]
        if params:
            own.config.update(dict(params), allow_val_change=True)
        if tags:
            own.summary.update(dict(tags))
        by_step: dict[int, dict[str, float]] = {}
        for point in metrics:
            by_step.setdefault(point.step, {})[point.name] = point.value
        for step, found in by_step.items():
            own.log({**found, "step": step} if step else found)

    def dataset(self, run: str, found: TrackedDataset) -> None:
        """Set the dataset in the run's configuration."""
        described = {**found._asdict(), "columns": dict(found.columns)}
        self._runs[run].config.update({"dataset": described}, allow_val_change=True)

    def text(self, run: str, path: str, content: str) -> None:
        """Save a text file with the run."""
        file = Path(self._runs[run].dir, path)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content, encoding="utf-8")
        self._runs[run].save(str(file), base_path=self._runs[run].dir, policy="now")

    def files(self, run: str, kind: str, folder: str, paths: Sequence[str]) -> None:
        """Log files as one artifact of the run, of the type `kind`."""
        artifact = wandb.Artifact(f"{kind}-{self.ids[run]}", type=kind)
        for path in paths:
            artifact.add_file(str(Path(folder, path)), name=path)
        self._runs[run].log_artifact(artifact)

    def end(self, run: str, status: RunStatus, time_ms: int) -> None:
        """End a run; Weights & Biases tells only success from failure."""
        ended = self._runs.pop(run)
        ended.summary.update({"status": status})
        ended.finish(exit_code=0 if status == "FINISHED" else 1)

    def is_temporary(self, error: Exception) -> bool:
        """Return False: its own process repeats what the server did not accept."""
        return False
