"""Table of the runs in a folder."""

from __future__ import annotations

import math
import os
from contextlib import suppress
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpupipe.config.error_text import describe_python_value
from gpupipe.errors import ConfigError, GpupipeError, did_you_mean
from gpupipe.files.directory import DRAFT
from gpupipe.files.drafts import MARKER, is_draft, sweep
from gpupipe.metrics import METRICS
from gpupipe.names import count_noun
from gpupipe.pipeline.comparison.run_records import RunRecord
from gpupipe.pipeline.records.rundir import NAME as RUN_FILE
from gpupipe.training.checkpoints.store import FOLDER as CHECKPOINTS

if TYPE_CHECKING:
    import pandas as pd

COLUMNS = ("run", "status", "started", "name", "target", "model", "metric", "value", "device", "seconds", "note")
FILES = {"config.yaml", "metrics.json", "timeline.json"}  # two of them make a run directory, also without run.json


def list_runs(folder: str | os.PathLike[str] = "runs", sort_by: str | None = None) -> pd.DataFrame:
    """List the runs in a folder and the folders below it.

    Parameters
    ----------
    folder : str or Path
    sort_by : str, optional
        A metric: best first, and shown in the columns ``metric`` and ``value``. Default: the newest run first, with the
        metric that orders its leaderboard.

    Returns
    -------
    pandas.DataFrame
        One row for each run: ``run`` (its path), ``status``, ``started`` (UTC), ``name``, ``target``, ``model`` (the
        best one), ``metric`` and ``value``, ``device``, ``seconds`` and ``note``; then a column for each metric.
        The status is "finished"; "running"; "killed", for a run whose process ended without finishing; "interrupted",
        for checkpoints that ``--resume`` picks up; or "unreadable", with the reason in ``note``.

    Raises
    ------
    ConfigError
        If there is no such folder, or no run has the metric.

    Examples
    --------
    >>> import gpupipe as gp
    >>> from tempfile import TemporaryDirectory
    >>> source = {"generate": "churn", "rows": 500}
    >>> with TemporaryDirectory() as folder:
    ...     pipeline = gp.Pipeline(source, target="Churn", models=["gaussian_nb"], report={"enabled": False})
    ...     _ = pipeline.run(f"{folder}/first")
    ...     runs = gp.list_runs(folder)
    >>> runs[["status", "target", "model", "metric"]].values.tolist()
    [['finished', 'Churn', 'gaussian_nb', 'roc_auc']]
    """
    import pandas as pd

    if not isinstance(folder, str | os.PathLike):
        raise ConfigError(f"expected the path of a folder; got {describe_python_value(folder)}", where="folder")
    if not os.path.isdir(folder):
        what = "expected a folder; found a file" if os.path.exists(folder) else "there is no such folder"
        raise ConfigError(what, where=os.fspath(folder), fix="name a folder of run directories: gpupipe runs FOLDER")
    rows: list[dict[str, Any]] = []
    for parent, folders, files in os.walk(folder, onerror=lambda error: rows.append(_unlisted(error))):
        rows.extend(_rows_of(Path(parent), folders, files))
    metrics = dict.fromkeys(chain.from_iterable(row["metrics"] for row in rows))
    names = [name for name in metrics if name not in COLUMNS]
    if sort_by is not None and sort_by not in names:
        fix = did_you_mean(sort_by, names) or f"the metrics are {', '.join(names) or 'none'}"
        raise ConfigError(f"no run has the metric {sort_by!r}", where=os.fspath(folder), fix=fix)
    frame = pd.DataFrame(
        [[*map(row.get, COLUMNS), *map(row["metrics"].get, names)] for row in rows], columns=[*COLUMNS, *names]
    )
    frame = frame.astype({name: "float64" for name in ("value", "seconds", *names)})
    frame["started"] = pd.to_datetime(frame["started"], utc=True, errors="coerce")
    frame = frame.sort_values(["started", "run"], ascending=[False, True], na_position="last", ignore_index=True)
    if sort_by is None:
        return frame
    frame["value"] = frame[sort_by]
    frame["metric"] = frame["metric"].where(frame["value"].isna(), sort_by)
    is_higher = METRICS.get(sort_by.partition("[")[0]).greater_is_better
    return frame.sort_values("value", ascending=not is_higher, na_position="last", kind="stable", ignore_index=True)


def _rows_of(folder: Path, folders: list[str], files: list[str]) -> list[dict[str, Any]]:
    """Return a row for each run in a folder, and remove the folders that contain no further runs from `folders`."""
    if RUN_FILE in files or len(FILES.intersection(files)) > 1:
        folders.clear()
        try:
            run = RunRecord(folder)
        except GpupipeError as error:
            return [_row(folder, "unreadable", note=error.what)]
        found = {name: getattr(run, name) for name in ("started", "name", "device", "seconds", "metrics")}
        found |= {"target": ", ".join(run.goal.names), "model": run.best, "metric": run.first_metric}
        return [_row(folder, "finished") | found | {"value": run.metrics[run.first_metric]}]
    hidden = sorted(name for name in folders if name.startswith("."))
    folders[:] = sorted(set(folders).difference(hidden))
    return list(chain.from_iterable(_unfinished(folder, name) for name in hidden))


def _unfinished(folder: Path, name: str) -> list[dict[str, Any]]:
    """Return the row of a hidden folder that an unfinished run has left, if it is one."""
    path, draft = folder / name, DRAFT.fullmatch(name)
    try:
        if draft is not None and is_draft(path):
            free: list[Path] = []
            sweep(path, free.append)
            status, note = ("killed", "its process ended without finishing") if free else ("running", "")
            return [_row(folder / draft[1], status, (path / MARKER).stat().st_mtime, note)]
        times = [each.stat().st_mtime for each in path.iterdir()] if name == CHECKPOINTS else []
    except FileNotFoundError:  # the run has just ended
        return []
    except OSError as error:
        return [_unlisted(error)]
    note = f"{count_noun(len(times), 'checkpoint')}; continue with gpupipe run CONFIG --resume"
    return [_row(path, "interrupted", max(times), note)] if times else []


def _row(folder: Path, status: str, started: float | None = None, note: str = "") -> dict[str, Any]:
    time = None
    if started is not None:
        with suppress(OverflowError, ValueError):  # a file system may return a time in the year 10000
            time = datetime.fromtimestamp(started, UTC)
    return {"run": str(folder), "status": status, "started": time, "value": math.nan, "note": note, "metrics": {}}


def _unlisted(error: OSError) -> dict[str, Any]:
    return _row(Path(error.filename), "unreadable", note=f"the folder cannot be listed: {error.strerror}")
