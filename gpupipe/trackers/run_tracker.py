"""Listener that logs a run to its trackers while it runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Any

import yaml

from gpupipe.backends.counters.counter import HardwareSample
from gpupipe.backends.polling_thread import PollingThread
from gpupipe.config import Config, resolved_yaml
from gpupipe.config.trackers import TrackSettings
from gpupipe.errors import LimitError, StoppedError
from gpupipe.report.search_record import TriedModel
from gpupipe.timeline.timeline import Note, Stage, Timeline
from gpupipe.trackers.connection import TrackerConnection
from gpupipe.trackers.records import (
    candidate_points,
    config_params,
    dataset_of,
    epoch_points,
    labels_of,
    model_params,
    now_ms,
    points,
    progress_points,
    run_points,
    stage_points,
)
from gpupipe.trackers.tracker import MetricPoint, RunStatus
from gpupipe.training.checkpoints.keys import CheckpointKey, digest
from gpupipe.training.checkpoints.store import CheckpointStore
from gpupipe.training.job import Job
from gpupipe.training.selection.leaderboard import LeaderboardResult
from gpupipe.training.steps import REFIT
from gpupipe.version import __version__

RECORDS = ("config.yaml", "metrics.json", "timeline.json", "tuned.yaml")
UPLOADED = {
    "report": ("report.html", "plots/*"), "model": ("model/**/*",), "predictions": ("predictions.parquet",),
}  # fmt: skip
DESTINATION = {"mlflow": {"mlflow", "experiment"}, "wandb": {"wandb", "mode"}}  # settings that name it
SAMPLE_SECONDS = 5.0  # between two samples of the hardware
PROGRESS_SECONDS = 1.0  # between two readings of a training's progress
NOTHING: Mapping[str, str] = MappingProxyType({})
CONTINUED_BY = {"split", "features", "models", "evaluate", "seed"}  # sections that a continued run must share


class RunTracker:
    """Listener that logs a run, its stages and its results; without a tracker it does nothing.

    The run has the key "". Nested in it are a run for each candidate (its label), for each fold of a candidate
    (``LABEL/fold 1 of 5``), and for each trial of a search (``LABEL/trial 3``). On exit, all are ended.
    """

    def __init__(self, settings: TrackSettings) -> None:
        self._settings = settings
        self._connections: list[TrackerConnection] = []
        self._timeline: Timeline
        self._config: Config
        self._key: CheckpointKey
        self._labels: list[str] = []
        self._stages: list[Stage] = []
        self._n_stages: Counter[str] = Counter()
        self._started: list[str] = []
        self._training = ""  # key of the run of the current training
        self._last_progress = ("", -1)
        self._n_samples, self._next_sample_seconds = 0, 0.0

    def __enter__(self) -> RunTracker:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if isinstance(error, KeyboardInterrupt) and type(error) is not KeyboardInterrupt:  # the second Ctrl-C
            for connection in self._connections:
                connection.abandon()
            return
        if error is not None and self._connections:
            self._log("", tags={"gpupipe/error": f"{type(error).__name__}: {error}"})
        for run in reversed(list(self._started)):
            self._end(run, _status_after(error))
        for connection in self._connections:
            connection.close()
            self._note_answers(connection)

    def start(
        self,
        timeline: Timeline,
        config: Config,
        final: Path,
        store: CheckpointStore,
        key: CheckpointKey,
        device: str,
        polling: PollingThread,
    ) -> None:
        """Start a tracked run, or continue that of an interrupted run with the same data and models.

        `final` is the run directory. `store` has the ids of the tracked runs until the run succeeds. `key` is that of
        the inputs. `polling` reads the progress of trainings.
        """
        self._timeline = timeline
        self._config = config
        self._key = key
        timeline.tracked = self.to_json
        hide = config.origin.redactor.hide
        own = config.model_dump(mode="json", by_alias=True, include=CONTINUED_BY)
        absences = self._settings.absences()
        for module, name in self._settings.libraries.items():
            settings = self._settings_of(module, hide(final.name), final)
            connection = TrackerConnection(module, name, hide, self._settings.timeout)
            self._connections.append(connection)
            if module in absences:
                connection.fail(absences[module])
            else:
                where = self._settings.model_dump(include=DESTINATION[module])
                ours = key.of("track", the_tracker=digest(where), the_configuration=digest(own))
                path = store.state_file(ours, "tracked")
                if path is not None and not store.resume:
                    path.unlink(missing_ok=True)
                connection.connect(settings, path)
            self._note_answers(connection)
        if not self._connections:
            return
        tags = {"gpupipe/version": __version__, "gpupipe/device": device, **self._settings.tags}
        self._start("", final.name, {**tags, "gpupipe/run_directory": str(final.absolute())})
        self._log("", params=config_params(config))
        self._send("text", "", path="config.yaml", content=resolved_yaml(config))
        polling.call_every(PROGRESS_SECONDS, self._log_progress)

    def describe(self, job: Job) -> None:
        """Log the data, and start the runs of the candidates."""
        if not self._connections:
            return
        self._send("dataset", "", found=dataset_of(job, self._key)._asdict())
        tags = {"gpupipe/task": job.goal.task, "gpupipe/target": ", ".join(job.goal.names)}
        self._log("", tags={name: value for name, value in tags.items() if value})
        self._labels = labels_of(job.config.models)
        models = yaml.safe_load(resolved_yaml(job.config))["models"]
        for entry, model in zip(job.config.models, models, strict=True):
            self._start(entry.label, entry.label, {"gpupipe/kind": "candidate"}, "")
            self._log(entry.label, params=model_params(model))

    def started(self, stage: Stage) -> None:
        """Log the name of the stage; start the run of a fold."""
        self._stages.append(stage)
        if not self._connections:
            return
        self._note_all_answers()
        self._log("", tags={"gpupipe/stage": stage.name})
        if run := self._training_run(stage.name):
            label, _, fold = run.partition("/fold ")
            if run not in self._started and fold:
                self._start(run, f"{label}: fold {fold}", {"gpupipe/kind": "fold"}, label)
            self._training = run

    def noted(self, note: Note) -> None:
        """Do nothing: timeline.json has the notes."""

    def ended(self, stage: Stage) -> None:
        """Log rows, seconds and memory of the stage, and the epochs of a training."""
        self._stages.remove(stage)
        if not self._connections:
            return
        number = self._n_stages[stage.name]
        self._n_stages[stage.name] += 1
        self._log("", metrics=stage_points(stage, number))
        if run := self._training_run(stage.name):
            self._log(run, metrics=epoch_points(stage) + progress_points(stage))
        self._note_all_answers()

    def sampled(self, sample: HardwareSample) -> None:
        """Log a sample of the hardware counters, at most one in `SAMPLE_SECONDS`."""
        if self._connections and self._started and sample.seconds >= self._next_sample_seconds:
            self._next_sample_seconds = sample.seconds + SAMPLE_SECONDS
            self._log("", metrics=points(sample.values, "system/", self._n_samples))
            self._n_samples += 1

    def trial_ended(self, trial: Any, metric: str) -> None:
        """Log a trial of the current training; `trial` is a `TriedModel`."""
        self._log_tried(self._training, trial, metric)

    def finish(self, job: Job, outcome: LeaderboardResult, document: Mapping[str, Any], folder: Path) -> None:
        """Log the results, upload the files of `folder`, and wait until the trackers have them.

        `document` is the content of metrics.json.
        """
        if not self._connections:
            return
        for entry in outcome.leaderboard:
            self._log(entry.label, metrics=candidate_points(entry))
            for i, scores in enumerate(entry.folds, 1):
                self._log(f"{entry.label}/fold {i} of {len(entry.folds)}", metrics=points(scores))
            if entry.search is not None and entry.search.kind == "ensemble":
                for tried in entry.search.tried:
                    self._log_tried(entry.label, tried, entry.search.metric)
            elif entry.search is not None:
                best = {f"best.{name}": str(value) for name, value in entry.search.best_params.items()}
                self._log(entry.label, params=best)
        best_entry, name = outcome.leaderboard[0], job.metrics[0]
        result = f"{best_entry.label}: {name} {best_entry.metrics.get(name, float('nan')):.4f}"
        self._log("", tags={"gpupipe/best": best_entry.label, "mlflow.note.content": result})
        self._log("", metrics=run_points(job, outcome, document))
        for kind, paths in self._uploads(folder).items():
            if paths:
                self._send("files", "", kind=kind, folder=str(folder), paths=paths)
        for connection in self._connections:
            connection.wait_until_sent()
            self._note_answers(connection)

    def to_json(self) -> list[dict[str, Any]]:
        """Return the tracked run of each tracker, for timeline.json."""
        return [connection.to_json() for connection in self._connections]

    def _settings_of(self, module: str, run_name: str, final: Path) -> dict[str, Any]:
        own = self._settings
        if module == "mlflow":
            return {"uri": own.mlflow, "experiment": own.experiment, "name": self._config.name}
        return {"project": own.wandb, "mode": own.mode, "folder": str(final.absolute().parent), "run_name": run_name}

    def _uploads(self, folder: Path) -> dict[str, list[str]]:
        """Return the files to upload by kind, with paths relative to the run directory."""
        found = {"records": [name for name in RECORDS if (folder / name).is_file()]}
        for kind in self._settings.artifacts:
            paths = chain.from_iterable(sorted(folder.glob(pattern)) for pattern in UPLOADED[kind])
            found[kind] = [path.relative_to(folder).as_posix() for path in paths if path.is_file()]
        return found

    def _training_run(self, stage: str) -> str:
        """Return the key of the run that a training belongs to; "" for other stages."""
        for label in self._labels:
            prefix = stage.removesuffix(f"train {label}")
            if prefix in ("", REFIT) and prefix != stage:
                return label
            if prefix != stage and prefix.startswith("fold ") and prefix.endswith(": "):
                return f"{label}/{prefix.removesuffix(': ')}"
        return ""

    def _log_tried(self, parent: str, tried: TriedModel, metric: str) -> None:
        run, now = f"{parent}/{tried.label}", now_ms()
        tags = {"gpupipe/kind": "trial", "gpupipe/state": tried.state}
        self._start(run, run.replace("/", ": "), tags, parent, now - round(1_000 * tried.seconds))
        params = {"model": tried.model, **{name: str(value) for name, value in tried.params.items()}}
        self._log(run, params, points({metric: tried.score, "train_seconds": tried.seconds}))
        self._end(run, "FAILED" if tried.state == "failed" else "FINISHED")

    def _start(
        self, run: str, name: str, tags: Mapping[str, str], parent: str | None = None, time_ms: int | None = None
    ) -> None:
        self._started.append(run)
        self._send("start", run, name=name, parent=parent, tags=dict(tags), time_ms=time_ms or now_ms())

    def _end(self, run: str, status: RunStatus) -> None:
        self._started.remove(run)
        self._send("end", run, status=status, time_ms=now_ms())

    def _log(
        self,
        run: str,
        params: Mapping[str, str] = NOTHING,
        metrics: Sequence[MetricPoint] = (),
        tags: Mapping[str, str] = NOTHING,
    ) -> None:
        if params or metrics or tags:
            self._send("log", run, params=dict(params), metrics=list(metrics), tags=dict(tags))

    def _send(self, do: str, run: str, **values: Any) -> None:
        """Send a message to all trackers, with secrets hidden; the paths of files are those on disk."""
        if do != "files":
            values = {name: self._config.origin.redactor.hide_all(value) for name, value in values.items()}
        for connection in self._connections:
            connection.send({"do": do, "run": run, **values})

    def _log_progress(self) -> None:
        """Log the progress of the current training, each round or epoch at most once; called by a thread."""
        stage = next(iter(self._stages[-1:]), None)
        if stage is None or stage.is_timing or stage.progress is None:
            return
        stage.progress.update()
        found = progress_points(stage)
        if found and (stage.name, found[0].step) != self._last_progress:
            self._last_progress = (stage.name, found[0].step)
            self._log(self._training_run(stage.name), metrics=found)

    def _note_all_answers(self) -> None:
        for connection in self._connections:
            self._note_answers(connection)

    def _note_answers(self, connection: TrackerConnection) -> None:
        for text, level in connection.take_notes():
            self._timeline.note(text, level)


def _status_after(error: BaseException | None) -> RunStatus:
    if error is None:
        return "FINISHED"
    is_stopped = isinstance(error, StoppedError | LimitError) or not isinstance(error, Exception)
    return "KILLED" if is_stopped else "FAILED"
