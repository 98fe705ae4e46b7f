"""Finished runs: metrics, importances, predictions, model and report of a run directory."""

from __future__ import annotations

import html
import json
import math
import os
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpupipe.artifact.manifest import NAME as MANIFEST
from gpupipe.config import Config, load_config
from gpupipe.config.error_text import describe_python_value
from gpupipe.errors import ArtifactError, ConfigError, QualityError
from gpupipe.inference.model import Model, load_model
from gpupipe.model_parts.folder import RUN_DIRECTORY
from gpupipe.model_parts.goal import Goal
from gpupipe.model_parts.importances import Importances
from gpupipe.model_parts.latency import Latency
from gpupipe.model_parts.part_checks import read_importances
from gpupipe.model_parts.part_shapes import check_manifest
from gpupipe.names import count_noun
from gpupipe.pipeline.api.arguments import in_python
from gpupipe.report.search_record import SearchRecord, TriedCounts
from gpupipe.report.sentences import search_lines
from gpupipe.report.slices import MISSED_FIX, missed_sentence, slice_frame
from gpupipe.report.text import metric_names, printable
from gpupipe.timeline.timeline import Note, Timeline
from gpupipe.training.selection.leaderboard import LeaderboardEntry, leaderboard_rows
from gpupipe.units import format_latency

if TYPE_CHECKING:
    import pandas as pd


class Run:
    """Finished run, returned by `Pipeline.run` and `load_run`.

    Its files are read on first use.

    Parameters
    ----------
    path : Path
        The run directory.
    config : Config, optional
    goal : Goal, optional
    document : dict, optional
        The content of metrics.json.
    candidates : sequence of LeaderboardEntry, optional
    timeline : Timeline, optional

    Attributes
    ----------
    path : Path
        The run directory.

    Examples
    --------
    >>> import gpupipe as gp
    >>> import pandas as pd
    >>> from tempfile import TemporaryDirectory
    >>> frame = pd.DataFrame({"age": range(100), "size": [1, 2] * 50, "left": [0] * 50 + [1] * 50})
    >>> settings = {"evaluate": {"metrics": ["roc_auc"]}, "report": {"enabled": False}}
    >>> with TemporaryDirectory() as folder:
    ...     run = gp.Pipeline(frame, target="left", models=["gaussian_nb"], **settings).run(f"{folder}/run")
    ...     importances, predictions, model = run.importances, run.predictions, run.model
    >>> run.metrics
    {'roc_auc': 1.0}
    >>> list(importances["column"])
    ['age', 'size']
    >>> list(predictions)
    ['row', 'target', 'prediction', 'probability_0', 'probability_1']
    >>> model.predict(pd.DataFrame({"age": [3, 90], "size": [1, 1]})).tolist()
    [0, 1]
    """

    def __init__(
        self,
        path: Path,
        config: Config | None = None,
        goal: Goal | None = None,
        document: dict[str, Any] | None = None,
        candidates: Sequence[LeaderboardEntry] | None = None,
        timeline: Timeline | None = None,
    ) -> None:
        self.path = path
        self._config = config
        self._goal = goal
        self._document = document
        self._candidates, self._timeline = candidates, timeline

    @cached_property
    def config(self) -> Config:
        """The configuration, with every default and the tuned parameters of models filled in."""
        return self._config or load_config(self.path / "config.yaml")

    @cached_property
    def goal(self) -> Goal:
        """Task, target and class labels."""
        return self._goal or self.model.goal

    @cached_property
    def document(self) -> dict[str, Any]:
        """The content of metrics.json."""
        found = self._document or read_json(self.path / "metrics.json")
        if not (isinstance(found, dict) and isinstance(found.get("models"), dict) and found["models"]):
            raise _unreadable(self.path / "metrics.json", "it has no models")
        return found

    @cached_property
    def leaderboard(self) -> pd.DataFrame:
        """All candidates with their metrics, the best one first.

        A DataFrame with the columns ``model`` (its label), each metric, also as ``validation_METRIC`` if rows were held
        out to choose the model, and ``p99_seconds`` if ``evaluate.max_latency`` is set. `candidates` has more.
        """
        import pandas as pd

        rows = [
            {
                "model": entry.label,
                **entry.metrics,
                **{f"validation_{name}": value for name, value in entry.validation.items()},
                **({} if entry.latency is None else {"p99_seconds": entry.latency.p99_seconds}),
            }
            for entry in self.candidates
        ]
        return pd.DataFrame(rows)

    @cached_property
    def candidates(self) -> Sequence[LeaderboardEntry]:
        """The candidates as objects, the best one first: metrics, those of each fold, searches and latencies."""
        if self._candidates is not None:
            return self._candidates
        validation = self.document.get("validation", {})
        latency = self.document.get("latency", {"limit_seconds": 0.0, "models": {}})
        latencies = {name: Latency.from_json(v, latency["limit_seconds"]) for name, v in latency["models"].items()}
        searches, folds = self._searches(), self.document.get("folds", {})
        return [
            LeaderboardEntry(
                name,
                _numbers(metrics),
                _numbers(validation.get(name, {})),
                latency=latencies.get(name),
                search=searches.get(name),
                folds=[_numbers(each) for each in folds.get(name, [])],
            )
            for name, metrics in self.document["models"].items()
        ]

    @property
    def metrics(self) -> dict[str, float]:
        """Metrics of the best model by name: on the test rows, or the means over the folds of cross-validation."""
        return self.candidates[0].metrics

    @property
    def search(self) -> SearchRecord | None:
        """The models that the best candidate tried before it was trained: an ensemble, or tuning; None otherwise.

        Those of the other candidates are in `candidates`.
        """
        return self.candidates[0].search

    @property
    def tried(self) -> TriedCounts:
        """Number of models, trials and candidate features that the run compared; see the glossary."""
        try:
            return TriedCounts(**self.document["tried"])
        except (KeyError, TypeError) as error:
            raise _unreadable(self.path / "metrics.json", f"malformed `tried`: {error}") from error

    @cached_property
    def importances(self) -> pd.DataFrame:
        """Permutation importance of each input column of the best model, the most important first.

        A DataFrame with the columns ``column``, ``importance`` (mean decrease of the metric when the column is
        shuffled, on test rows) and ``std`` (standard deviation over the repeats); ``attrs["metric"]`` is the metric. If
        the table has more columns than ``evaluate.importance.columns`` (100), it contains those that the model relies
        on most. It is empty if importances are switched off or there is no target.
        """
        values = read_json(self.path / "model" / MANIFEST)
        check_manifest(values, self.path / "model")
        measured = read_importances(values.get("importances"))
        return (measured or Importances("", {})).to_frame()

    @cached_property
    def slices(self) -> pd.DataFrame:
        """Metrics of the best model for each slice of ``evaluate.by``.

        A DataFrame with the columns ``column``, ``level`` (null: missing values), ``n_rows``, ``is_worse``, and for
        each metric ``METRIC``, ``METRIC_low`` and ``METRIC_high``, its 95 % interval. ``attrs["overall"]`` has the
        metrics of all evaluated rows. It is empty without ``evaluate.by``.
        """
        return slice_frame(self.document.get("slices"))

    @property
    def missed_limits(self) -> list[dict[str, Any]]:
        """Limits of ``evaluate.fail_on`` that the run misses: ``rule``, ``metric``, ``limit``, ``value`` and slice."""
        return list(self.document.get("fail_on", {}).get("missed", []))

    def require_limits(self) -> Run:
        """Return this run; raise QualityError, whose attribute ``run`` it is, if it misses a limit."""
        if missed := self.missed_limits:
            error = QualityError(missed_sentence(missed), where=self.shown_path, fix=MISSED_FIX)
            error.run = self
            raise error
        return self

    @cached_property
    def predictions(self) -> pd.DataFrame:
        """Predictions of the best model for the test rows.

        A DataFrame with the columns ``row`` (position in the input, from 0), ``fold`` (with cross-validation),
        ``target``, ``prediction``, and for classification ``probability_LABEL`` for each label.
        """
        import pyarrow as pa
        import pyarrow.parquet as pq

        file = self.path / "predictions.parquet"
        try:
            frame: pd.DataFrame = pq.read_table(file).to_pandas()
        except (OSError, pa.ArrowException) as error:
            raise _unreadable(file, error) from error
        return frame

    @cached_property
    def model(self) -> Model:
        """The exported model, loaded from the run directory."""
        return load_model(self.path)

    @property
    def timeline(self) -> Timeline:
        """Device, time and memory of each stage; available only in the process that ran it, see `plan`."""
        if self._timeline is None:
            fix = "use run.plan() for its stages, or read timeline.json"
            raise ConfigError("a loaded run has no timeline object", where=str(self.path), fix=fix)
        return self._timeline

    @property
    def notes(self) -> tuple[Note, ...]:
        """Notes of the run and its stages, such as dropped rows and columns; each has `text`, `level` and `stage`.

        Those of the level ``"warning"`` are also issued as `gpupipe.RunWarning`, or shown in the progress of the run.
        """
        if self._timeline is not None:
            return tuple(replace(note, text=in_python(note.text, self._config)) for note in self._timeline.all_notes())
        try:
            return tuple(Note(**record) for record in self._timeline_document().get("notes", ()))
        except TypeError as error:
            raise _unreadable(self.path / "timeline.json", f"malformed `notes`: {error}") from error

    @cached_property
    def hardware_samples(self) -> pd.DataFrame:
        """Hardware counters over the run: processor, memory and disk of its processes, and its GPUs.

        A DataFrame with a row for each period and a column for each counter, such as ``process_cpu_percent`` and
        ``gpu0_power_watts``; the index ``seconds`` is the start of the period, in seconds after the start of the run. A
        counter that was not read in a period is NaN. It is empty if ``monitor.period`` is null.
        """
        import pandas as pd

        samples = self._timeline_document().get("samples")
        if samples is None:
            return pd.DataFrame(index=pd.Index([], name="seconds", dtype="float64"))
        columns = {name: counter["values"] for name, counter in samples["counters"].items()}
        frame = pd.DataFrame(columns, dtype="float64")
        frame.index = pd.Index(samples["start_seconds"] + frame.index * samples["period_seconds"], name="seconds")
        return frame

    def plan(self) -> list[dict[str, Any]]:
        """Return the stages as they ran: name, device, reason, rows, seconds, peak bytes and bytes moved.

        The keys are those of the stages that `gpupipe.Pipeline.plan` predicts.
        """
        return list(self._timeline_document()["stages"])

    def _timeline_document(self) -> dict[str, Any]:
        found: dict[str, Any] = (
            read_json(self.path / "timeline.json") if self._timeline is None else self._timeline.to_json()
        )
        return found

    @property
    def tracked(self) -> list[dict[str, Any]]:
        """The tracked run of each tracker: ``tracker``, ``id``, ``url`` on a server, ``complete`` and ``problem``.

        It is empty without ``track``. ``complete`` is False if the tracker has missed something.
        """
        return list(self._timeline_document().get("tracked", []))

    def _searches(self) -> dict[str, SearchRecord]:
        """Return the search of each candidate that has one, from metrics.json."""
        try:
            return {name: SearchRecord.from_json(each) for name, each in self.document.get("search", {}).items()}
        except (AttributeError, KeyError, TypeError) as error:
            raise _unreadable(self.path / "metrics.json", f"malformed `search`: {error}") from error

    @property
    def shown_path(self) -> str:
        """The run directory for display, with values from the environment as ``${NAME}``."""
        return str(self.path) if self._config is None else self._config.origin.redactor.hide(str(self.path))

    def report(self) -> Path:
        """Return the path of report.html."""
        return self.path / "report.html"

    def _repr_html_(self) -> str:
        """Return the leaderboard as HTML; colours are those of the page."""
        names = metric_names(self.metrics)
        is_timed = self.candidates[0].latency is not None
        head = "".join(f"<th>{html.escape(name)}</th>" for name in ["model", *names, *(["one row p99"] * is_timed)])
        body = ""
        for entry in self.candidates:
            cells = [html.escape(entry.label), *(f"{entry.metrics[name]:.4f}" for name in names)]
            if entry.latency is not None:
                limit = f" &gt; {format_latency(entry.latency.limit_seconds)}" if entry.is_over_limit else ""
                cells.append(f"{format_latency(entry.latency.p99_seconds)}{limit}")
            body += f"<tr>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>"
        n_warnings = len({note.text for note in self.notes if note.level == "warning"})
        told = [f"{count_noun(n_warnings, 'warning')} in `run.notes`"] if n_warnings else []
        lines = [*search_lines(leaderboard_rows(self.candidates)), *told, self.shown_path]
        closing = "".join(f"<p>{html.escape(printable(line))}</p>" for line in lines)
        return f"<table><tr>{head}</tr>{body}</table>{closing}"

    def __repr__(self) -> str:
        best = self.candidates[0]
        name = next(iter(best.metrics))
        return f"Run({best.label}: {name} {best.metrics[name]:.4f}, {self.shown_path!r})"


def load_run(path: str | os.PathLike[str]) -> Run:
    """Open the directory of a finished run.

    Its files are read on first use, so neither the data nor the environment variables of the configuration are needed.

    Parameters
    ----------
    path : str or Path
        The run directory.

    Returns
    -------
    Run

    Raises
    ------
    ConfigError
        If `path` is not a path.
    ArtifactError
        If it is not a run directory.

    Examples
    --------
    >>> import gpupipe as gp
    >>> import pandas as pd
    >>> from tempfile import TemporaryDirectory
    >>> frame = pd.DataFrame({"age": range(100), "left": [0] * 50 + [1] * 50})
    >>> settings = {"evaluate": {"metrics": ["roc_auc"]}, "report": {"enabled": False}}
    >>> with TemporaryDirectory() as folder:
    ...     _ = gp.Pipeline(frame, target="left", models=["gaussian_nb"], **settings).run(f"{folder}/run")
    ...     gp.load_run(f"{folder}/run").metrics
    {'roc_auc': 1.0}
    """
    if not isinstance(path, str | os.PathLike):
        fix = "pass a str or a pathlib.Path, such as run.path"
        raise ConfigError(
            f"expected the path of a run directory; got {describe_python_value(path)}", where="path", fix=fix
        )
    folder = Path(path)
    if missing := [name for name in RUN_DIRECTORY if not (folder / name).is_file()]:
        is_model = (folder / MANIFEST).is_file()
        fix = "use gp.load_model for a model directory" if is_model else "pass the directory of a run, its `path`"
        raise ArtifactError(f"not a run directory: {missing[0]} is missing", where=str(folder), fix=fix)
    return Run(folder)


def read_json(file: Path) -> Any:
    """Return the content of a JSON file of a run directory; raise ArtifactError if it cannot be read."""
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise _unreadable(file, error) from error


def _unreadable(file: Path, why: object) -> ArtifactError:
    return ArtifactError(f"cannot read {file.name}: {why}", where=str(file), fix="run the pipeline again")


def _numbers(metrics: dict[str, Any]) -> dict[str, float]:
    """Return metrics with null replaced by NaN, which JSON does not have."""
    return {name: math.nan if value is None else value for name, value in metrics.items()}
