"""Comparison of finished runs: metrics, settings, columns, data and versions."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any

from gpupipe.config.error_text import describe_python_value
from gpupipe.errors import ConfigError
from gpupipe.model_parts.differences import presence, setting_differences
from gpupipe.pipeline.comparison.paired_metrics import paired_differences
from gpupipe.pipeline.comparison.run_records import MALFORMED, RunRecord
from gpupipe.pipeline.result import Run
from gpupipe.report.text import metric_names
from gpupipe.tasks import SUPERVISED

if TYPE_CHECKING:
    import pandas as pd

DATA_STAGES = ("read", "split")


@dataclass(frozen=True)
class RunComparison:
    """Runs compared with the first one, returned by `compare_runs`.

    Attributes
    ----------
    runs : tuple of str
        Paths of the run directories.
    metrics : DataFrame
        Metrics of the best models, a row for each metric and run: ``metric``, ``run``, ``value``, ``difference`` (from
        the first run), ``low`` and ``high`` (its 95% interval; NaN if the runs are not paired).
    unpaired : dict of str to str
        Runs without intervals, each with the reason.
    facts : dict of str to list
        Best model, rows, columns, device, seconds and versions: a value for each run.
    settings : dict of str to list
        Settings that differ, by their path: a value for each run, None where it is null or absent.
    inputs, features : list of dict
        Input columns, and columns of the feature matrix, that some runs do not have: ``columns``, and the ``runs`` that
        have them.
    notes : dict of str to list of str
        Notes about the data, such as dropped rows and columns, that not all runs have.

    Examples
    --------
    >>> import pandas as pd
    >>> from gpupipe import RunComparison
    >>> metrics = pd.DataFrame({"metric": ["roc_auc"] * 2, "run": ["a", "b"], "value": [0.8, 0.81]})
    >>> RunComparison(("a", "b"), metrics, {}, {}, {}, [], [], {})
    RunComparison(2 runs, 1 paired with the first)
    """

    runs: tuple[str, ...]
    metrics: pd.DataFrame
    unpaired: Mapping[str, str]
    facts: Mapping[str, Sequence[Any]]
    settings: Mapping[str, Sequence[Any]]
    inputs: Sequence[Mapping[str, Sequence[str]]]
    features: Sequence[Mapping[str, Sequence[str]]]
    notes: Mapping[str, Sequence[str]]

    def __repr__(self) -> str:
        return f"RunComparison({len(self.runs)} runs, {len(self.runs) - 1 - len(self.unpaired)} paired with the first)"

    def to_json(self) -> dict[str, Any]:
        """Return the attributes as values for JSON, `metrics` as a list of rows."""
        return {**vars(self), "metrics": self.metrics.to_dict("records")}


def compare_runs(runs: Sequence[Run | str | os.PathLike[str]]) -> RunComparison:
    """Compare finished runs with the first of them.

    Differences of metrics have 95% intervals if both runs tested the same rows, with equal targets and folds: those of
    a paired bootstrap with 200 samples of the test rows, or of their groups if ``split.group`` is also a column of
    ``source.id`` (Efron and Tibshirani, "An Introduction to the Bootstrap", 1993).

    Parameters
    ----------
    runs : list of Run, str or Path
        At least two runs, or their directories.

    Returns
    -------
    RunComparison

    Raises
    ------
    ConfigError
        If there are fewer than two runs, one is named twice, or an item is not a run or a path.
    ArtifactError
        If a directory is not that of a finished run, or cannot be read.

    Examples
    --------
    >>> import gpupipe as gp
    >>> from tempfile import TemporaryDirectory
    >>> settings = {"target": "Churn", "report": {"enabled": False}}
    >>> with TemporaryDirectory() as folder:
    ...     paths = [f"{folder}/{model}" for model in ("gaussian_nb", "logistic_regression")]
    ...     for path, model in zip(paths, ("gaussian_nb", "logistic_regression")):
    ...         _ = gp.Pipeline({"generate": "churn", "rows": 500}, models=[model], **settings).run(path)
    ...     found = gp.compare_runs(paths)
    >>> found
    RunComparison(2 runs, 1 paired with the first)
    >>> found.settings["models.gaussian_nb"]
    ['gaussian_nb', None]
    """
    import pandas as pd

    if not isinstance(runs, list | tuple) or len(runs) < 2:
        got = "one run" if isinstance(runs, list | tuple) and runs else describe_python_value(runs)
        fix = "name at least two: gpupipe compare RUN RUN"
        raise ConfigError(f"expected two or more runs; got {got}", where="runs", fix=fix)
    first, *others = records = [RunRecord(run) for run in runs]
    names = [record.path for record in records]
    if shared := next((name for i, name in enumerate(names) if name in names[:i]), ""):
        raise ConfigError("the same run is named twice", where=shared, fix="name different runs")
    compared = [_differences(first, record) for record in others]
    rows = []
    for metric in dict.fromkeys(chain.from_iterable(metric_names(record.metrics) for record in records)):
        for record, (found, _) in zip(records, [({}, ""), *compared], strict=True):
            row = {"metric": metric, "run": record.path, "value": record.metrics.get(metric)}
            if record is not first and {metric} <= first.metrics.keys() & record.metrics.keys():
                row |= found.get(metric, {"difference": record.metrics[metric] - first.metrics[metric]})
            rows.append(row)
    numbers = dict.fromkeys(["value", "difference", "low", "high"], "float64")
    notes = list(map(_data_notes, records))
    common = set.intersection(*map(set, notes))
    return RunComparison(
        runs=tuple(names),
        metrics=pd.DataFrame(rows, columns=["metric", "run", *numbers]).astype(numbers),
        unpaired={record.path: why for record, (_, why) in zip(others, compared, strict=True) if why},
        facts=_facts(records),
        settings=setting_differences([record.settings for record in records]),
        inputs=presence(names, [record.inputs for record in records]),
        features=presence(names, [record.features for record in records]),
        notes={name: [n for n in own if n not in common] for name, own in zip(names, notes, strict=True)},
    )


def _data_notes(record: RunRecord) -> list[str]:
    """Return the notes of the stages that read and prepare the data."""
    stages = [stage for stage in record.stages if stage["name"] in DATA_STAGES]
    return list(chain.from_iterable(stage["notes"] for stage in stages))


def _facts(records: Sequence[RunRecord]) -> dict[str, list[Any]]:
    """Return the facts of all runs, and the versions that differ."""
    each = [
        {
            "best model": record.best,
            "target": ", ".join(record.goal.names),
            "rows": next((stage["rows"] for stage in record.stages if stage["name"] == "read"), None),
            "test rows": len(record.run.predictions),
            "input columns": len(record.inputs),
            "matrix columns": len(record.features),
            "device": record.device,
            "seconds": record.seconds,
            "started (UTC)": f"{record.started:%Y-%m-%d %H:%M}",
            **record.versions,
        }
        for record in records
    ]
    names = dict.fromkeys(chain.from_iterable(each))
    found = {name: [facts.get(name) for facts in each] for name in names}
    versions = set(chain.from_iterable(record.versions for record in records)) - {"gpupipe"}
    return {name: values for name, values in found.items() if name not in versions or len(set(values)) > 1}


def _differences(first: RunRecord, second: RunRecord) -> tuple[dict[str, dict[str, float]], str]:
    """Return the paired differences by metric; without any, the reason why."""
    if not first.goal.tasks | second.goal.tasks <= SUPERVISED:
        return {}, f"no intervals are computed for the task {first.goal.task}"
    try:
        one, two = first.test_rows(), second.test_rows()
        if why := one.obstacle(two):
            return {}, why
        found = paired_differences(one, two, first.metrics, second.metrics)
    except MALFORMED as error:
        return {}, f"predictions.parquet has unexpected contents: {type(error).__name__}: {error}"
    return found, "" if found else "the predictions do not reproduce the recorded metrics, as with row weights"
