"""Runs as Python sees them: metrics, importances, predictions, the model and the report of a run directory."""

from __future__ import annotations

import html
import json
import math
import os
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpupipe.artifact.manifest import NAME as MANIFEST
from gpupipe.config import Config, load_config
from gpupipe.config.error_text import describe_python_value
from gpupipe.errors import ArtifactError, ConfigError
from gpupipe.pipeline.importances import Importances
from gpupipe.pipeline.leaderboard import LeaderboardEntry
from gpupipe.pipeline.model.model import Model, load_model
from gpupipe.pipeline.model.part_checks import read_importances
from gpupipe.pipeline.run_inputs import RUN_DIRECTORY
from gpupipe.pipeline.target import Goal
from gpupipe.pipeline.timeline import Timeline

if TYPE_CHECKING:
    import pandas as pd


class Run:
    """A finished run: `Pipeline.run` returns one, and `load_run` opens one again.

    What is not given is read from the run directory when it is first used.

    Parameters
    ----------
    path : Path
        The run directory.
    config : Config, optional
    goal : Goal, optional
    document : dict, optional
        The content of metrics.json.
    leaderboard : sequence of LeaderboardEntry, optional
    timeline : Timeline, optional

    Attributes
    ----------
    path : Path
        The run directory.

    Examples
    --------
    >>> import gpupipe as gp
    >>> run = gp.load_run("runs/churn-20260131-120000-0a1b2c")  # doctest: +SKIP
    >>> run.metrics["roc_auc"]  # doctest: +SKIP
    0.8493
    >>> run.importances.head(2)  # doctest: +SKIP
         column  importance       std
    0    tenure    0.071250  0.003801
    1  Contract    0.064177  0.004120
    """

    def __init__(
        self,
        path: Path,
        config: Config | None = None,
        goal: Goal | None = None,
        document: dict[str, Any] | None = None,
        leaderboard: Sequence[LeaderboardEntry] | None = None,
        timeline: Timeline | None = None,
    ) -> None:
        self.path = path
        self._config, self._goal, self._document = config, goal, document
        self._leaderboard, self._timeline = leaderboard, timeline

    @cached_property
    def config(self) -> Config:
        """The configuration, with every default filled in."""
        return self._config or load_config(self.path / "config.yaml")

    @cached_property
    def goal(self) -> Goal:
        """Task, target, and class labels."""
        return self._goal or self.model.goal

    @cached_property
    def document(self) -> dict[str, Any]:
        """The content of metrics.json."""
        found = self._document or _read_json(self.path / "metrics.json")
        if not (isinstance(found, dict) and isinstance(found.get("models"), dict) and found["models"]):
            raise _unreadable(self.path / "metrics.json", "it has no models")
        return found

    @cached_property
    def leaderboard(self) -> Sequence[LeaderboardEntry]:
        """All models, the best first."""
        if self._leaderboard is not None:
            return self._leaderboard
        validation = self.document.get("validation", {})
        models = self.document["models"].items()
        return [
            LeaderboardEntry(name, _numbers(metrics), _numbers(validation.get(name, {}))) for name, metrics in models
        ]

    @property
    def metrics(self) -> dict[str, float]:
        """Metrics of the best model, by name: on the test rows, or with cross-validation their means over the folds."""
        return self.leaderboard[0].metrics

    @cached_property
    def importances(self) -> pd.DataFrame:
        """Permutation importance of each input column of the best model, the most important first.

        A DataFrame with the columns ``column``, ``importance`` (mean loss of the metric when the column is shuffled, on
        rows that the model had not seen) and ``std`` (over the repeats); ``attrs["metric"]`` is the metric. Of tables
        wider than ``evaluate.importance.columns`` (100) it has those columns that the model relies on most. It has no
        rows if importances were switched off, or there is no target.
        """
        measured = read_importances(_read_json(self.path / "model" / MANIFEST).get("importances"))
        return (measured or Importances("", {})).to_frame()

    @cached_property
    def predictions(self) -> pd.DataFrame:
        """Predictions of the best model for rows that it had not seen.

        A DataFrame with the columns ``row`` (of the input, from 0), ``fold`` (with cross-validation), ``target``,
        ``prediction``, and of a classifier ``probability_LABEL`` for each label.
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
        """Device, time and memory of each stage, for a run of this process only; see `plan`."""
        if self._timeline is None:
            fix = "run.plan() has the stages, and timeline.json all of it"
            raise ConfigError("the timeline of a run that was loaded is its file", where=str(self.path), fix=fix)
        return self._timeline

    def plan(self) -> list[dict[str, Any]]:
        """Return the stages as they ran: name, device, reason, rows, seconds, peak bytes, bytes moved.

        What `gpupipe.Pipeline.plan` predicts has the same names.
        """
        found = _read_json(self.path / "timeline.json") if self._timeline is None else self._timeline.to_json()
        return list(found["stages"])

    @property
    def shown_path(self) -> str:
        """The run directory for display: a part of it that came from the environment is ``${NAME}``."""
        return str(self.path) if self._config is None else self._config.origin.redactor.hide(str(self.path))

    def report(self) -> Path:
        """Return the path of report.html."""
        return self.path / "report.html"

    def _repr_html_(self) -> str:
        """Show the leaderboard; colours are those of the page."""
        names = [name for name in self.metrics if not name.endswith("_std")]
        head = "".join(f"<th>{html.escape(name)}</th>" for name in ["model", *names])
        body = "".join(
            f"<tr><td>{html.escape(e.label)}</td>" + "".join(f"<td>{e.metrics[n]:.4f}</td>" for n in names) + "</tr>"
            for e in self.leaderboard
        )
        return f"<table><tr>{head}</tr>{body}</table><p>{html.escape(self.shown_path)}</p>"

    def __repr__(self) -> str:
        best = self.leaderboard[0]
        name = next(iter(best.metrics))
        return f"Run({best.label}: {name} {best.metrics[name]:.4f}, {self.shown_path!r})"


def load_run(path: str | os.PathLike[str]) -> Run:
    """Open a finished run by its directory.

    Its files are read when they are first used, so a run can be opened where its data and the environment of its
    configuration are not.

    Parameters
    ----------
    path : str or Path
        The run directory.

    Raises
    ------
    ConfigError
        If `path` is not a path.
    ArtifactError
        If it is not a run directory.

    Examples
    --------
    >>> load_run("runs/churn-20260131-120000-0a1b2c").metrics["roc_auc"]  # doctest: +SKIP
    0.8493
    """
    if not isinstance(path, str | os.PathLike):
        fix = "give a str or a pathlib.Path, as in gp.load_run(run.path)"
        raise ConfigError(
            f"expected the path of a run directory; got {describe_python_value(path)}", where="path", fix=fix
        )
    folder = Path(path)
    if missing := [name for name in RUN_DIRECTORY if not (folder / name).is_file()]:
        is_model = (folder / MANIFEST).is_file()
        fix = "a model goes to gp.load_model" if is_model else "give the directory of a run, its `path`"
        raise ArtifactError(f"it is not a run directory: {missing[0]} is missing", where=str(folder), fix=fix)
    return Run(folder)


def _read_json(file: Path) -> Any:
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise _unreadable(file, error) from error


def _unreadable(file: Path, why: object) -> ArtifactError:
    return ArtifactError(f"{file.name} cannot be read: {why}", where=str(file), fix="run the pipeline again")


def _numbers(metrics: dict[str, Any]) -> dict[str, float]:
    """Return metrics as they were before JSON, which has no NaN."""
    return {name: math.nan if value is None else value for name, value in metrics.items()}
