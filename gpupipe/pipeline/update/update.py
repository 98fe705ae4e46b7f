"""Challenger of a model: trained on new rows, and compared on the newest, which neither model has seen; the verdict."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gpupipe.artifact import ArtifactReader, ArtifactWriter
from gpupipe.artifact.untrusted.failures import refuse_failures
from gpupipe.errors import ConfigError, DataError
from gpupipe.files.jsonfile import plain
from gpupipe.inference.diff.prediction_comparison import PredictionComparison, compare_predictions
from gpupipe.inference.drift.detection import load_reference
from gpupipe.inference.drift.files import ARRAYS as DRIFT_ARRAYS
from gpupipe.inference.drift.files import NAME as DRIFT
from gpupipe.inference.drift.files import read_reference, write_reference
from gpupipe.inference.model import Model, load_model
from gpupipe.io.filter import filter_rows
from gpupipe.io.source_reader import read_arrow
from gpupipe.metrics import METRICS
from gpupipe.metrics.bootstrap import FEWEST_ROWS, Z_95
from gpupipe.model_parts.folder import model_folder
from gpupipe.model_parts.lineage import Generation, Origin, Verdict, read_lineage, write_lineage
from gpupipe.models.continuation import StartingModel
from gpupipe.names import count_noun
from gpupipe.pipeline.run import run_pipeline
from gpupipe.pipeline.update.learned_rows import drifted_columns, with_rows
from gpupipe.pipeline.update.training_settings import NAME as TRAINING
from gpupipe.pipeline.update.training_settings import TrainingSettings
from gpupipe.training.fit import TrainingStart

if TYPE_CHECKING:
    from gpupipe.inference.diff.prediction_comparison import PredictionComparison
    from gpupipe.metrics.bootstrap import MetricChange
    from gpupipe.pipeline.result import Run
    from gpupipe.timeline.safe_points import StopSignal
    from gpupipe.timeline.timeline import Listener


@dataclass(frozen=True)
class ModelUpdate:
    """Challenger of a model, and the verdict on it, returned by `update_model`.

    Attributes
    ----------
    run : Run
        The run that trained the challenger; its directory has the challenger and its report.
    verdict : {"promote", "keep", "refuse"}
        Whether the challenger should take over.
    reasons : tuple of str
        The figures that the verdict rests on, one sentence each.
    how : {"continued", "refitted"}
        Whether trees were added to those of the model, or a model was trained on old and new rows.
    n_trained : int
        New rows that the challenger was trained on.
    n_learned_before : int
        Rows of the new table that were skipped, because the model had learned from them.
    comparison : PredictionComparison
        Metrics of both models, also by the slices of ``evaluate.by``, and decisions that differ, on the newest rows.

    Examples
    --------
    >>> from pathlib import Path
    >>> import gpupipe as gp
    >>> from gpupipe.inference.diff.prediction_comparison import PredictionComparison
    >>> run = gp.Run(Path("runs/june"))
    >>> found = gp.ModelUpdate(run, "keep", (), "continued", 450, 0, PredictionComparison(n_rows=150))
    >>> found.verdict, found.comparison.n_rows
    ('keep', 150)
    """

    run: Run
    verdict: str
    reasons: tuple[str, ...]
    how: Origin
    n_trained: int
    n_learned_before: int
    comparison: PredictionComparison

    def to_json(self) -> dict[str, Any]:
        """Return the result as JSON values, with the path of the run directory."""
        return {
            "challenger": str(self.run.path),
            "verdict": self.verdict,
            "reasons": list(self.reasons),
            "how": self.how,
            "n_trained": self.n_trained,
            "n_learned_before": self.n_learned_before,
            "comparison": plain(asdict(self.comparison)),
        }


def update_model(
    model: str | os.PathLike[str],
    new: str | os.PathLike[str],
    old: str | os.PathLike[str] | None = None,
    output: str | os.PathLike[str] | None = None,
    *,
    newest: float = 0.25,
    margin: float = 0.0,
    listeners: Sequence[Listener] = (),
    stop_signal: StopSignal | None = None,
) -> ModelUpdate:
    """Train a challenger of a model on new rows, and compare both on the newest of them.

    Without the old rows, the training of the model continues, on the CPU: the features stay as they were learned, and
    trees are added to those of XGBoost or LightGBM, as many per new row as there are per old row. Linear models keep
    sums of their rows: least squares continued with new rows is that of all rows, and logistic regression close to it
    (`gpupipe.models.fitted.seen_rows`). If the model was split by time, rows of the new table that are not later than
    its last training row are skipped: a table of all months is right, and the rows that were compared on are learned
    by the next update. With the old rows, features and model are learned again from all rows, with the parameters that
    were found before and without a search. Nothing is overwritten: the challenger is a new run directory.

    Parameters
    ----------
    model : str or Path
        The model in use: a model directory, or a run directory.
    new, old : str or Path
        Tables with the columns of the training, the target included: files, globs, folders or URLs.
    output : str or Path, optional
        The run directory of the challenger. Default: a new one in ``runs``.
    newest : float
        Share of the new rows to compare on: the latest, if the model was split by time, or else the last ones of the
        table.
    margin : float
        Loss of the first metric that is accepted: see `gpupipe.pipeline.update.update.decide_verdict`.
    listeners, stop_signal
        As in `gpupipe.pipeline.run.run_pipeline`.

    Returns
    -------
    ModelUpdate

    Raises
    ------
    ConfigError
        If the model does not have the settings of its training, or cannot continue without the old rows.
    DataError
        If the new rows are too few for an interval, or as `gpupipe.Pipeline.run`.

    Examples
    --------
    >>> import gpupipe as gp
    >>> import pandas as pd
    >>> from tempfile import TemporaryDirectory
    >>> folder = TemporaryDirectory()
    >>> frame = pd.DataFrame({"age": [i % 60 for i in range(900)], "left": [i % 60 > 30 for i in range(900)]})
    >>> for name, rows in {"may": frame[:600], "june": frame[600:]}.items():
    ...     rows.to_parquet(f"{folder.name}/{name}.parquet")
    >>> pipeline = gp.Pipeline(f"{folder.name}/may.parquet", target="left", models=["xgboost"])
    >>> run = pipeline.run(f"{folder.name}/run", quiet=True)
    >>> found = gp.update_model(run.path, f"{folder.name}/june.parquet", output=f"{folder.name}/challenger")
    >>> found.how, found.n_trained, found.comparison.n_rows
    ('continued', 225, 75)
    >>> folder.cleanup()
    """
    if not 0 < newest < 1:
        raise ConfigError(f"expected a share between 0 and 1; got {newest}", where="newest")
    if margin < 0:
        raise ConfigError(f"expected a margin of at least 0; got {margin}", where="margin")
    reader = ArtifactReader(model_folder(Path(model)))
    settings = TrainingSettings.read(reader)
    champion = load_model(reader.folder, "cpu")
    start = _start(reader, champion, settings) if old is None else None
    new_rows = read_arrow(settings.source(str(new))).table
    n_given = new_rows.num_rows
    if old is None:
        settings = settings.since(new_rows)
        new_rows = filter_rows(new_rows, settings.where) if settings.where is not None else new_rows
    if (n_compared := int(newest * new_rows.num_rows)) < FEWEST_ROWS:
        what = (
            f"expected at least {FEWEST_ROWS} rows to compare on; {count_noun(n_compared, 'row')} would be the newest"
        )
        if new_rows.num_rows < n_given:
            what += f" of {new_rows.num_rows:,}, as the model has learned the other {n_given - new_rows.num_rows:,}"
        raise DataError(what, where=str(new), fix="pass more rows, or a larger share of newest ones")
    n_old = 0 if old is None else read_arrow(settings.source(str(old)), champion.goal.names).table.num_rows
    paths = [str(path) for path in (old, new) if path is not None]
    share = newest * new_rows.num_rows / (n_old + new_rows.num_rows)
    target = None if output is None else Path(output)
    config = settings.config(paths, share, "runs/", None if start is None else start.features)
    run = run_pipeline(config, target, listeners, stop_signal=stop_signal, start=start)
    compared = run.predictions["row"].to_numpy() - n_old
    compared = np.sort(compared[compared >= 0])  # by time, old rows may be later than new ones
    by = [each.column for each in config.evaluate.by]
    comparison = compare_predictions(champion, run.model, new_rows.take(compared), by=by)
    verdict = decide_verdict(next(iter(run.metrics)), comparison, margin)
    how: Origin = "refitted" if start is None else "continued"
    n_trained = new_rows.num_rows - len(compared)
    period = _period(new_rows, settings.time)
    now = datetime.now(UTC).isoformat(timespec="seconds")
    own = Generation("", now, n_trained, period, how, verdict.name, verdict.reasons)
    if start is not None:
        trained = np.setdiff1d(np.arange(new_rows.num_rows), compared)
        own = _record_continuation(reader, champion, run, new_rows.take(trained), own)
    _record(reader, champion, run, own)
    n_before = n_given - new_rows.num_rows
    return ModelUpdate(run, verdict.name, own.reasons, how, n_trained, n_before, comparison)


def _start(reader: ArtifactReader, champion: Model, settings: TrainingSettings) -> TrainingStart:
    """Return where the training continues; raise ConfigError if it cannot."""
    features, entry = champion.features, settings.values["model"]
    if features.derivation is not None or features.training is None:
        what = "features from other rows, or from texts, are learned with the rows"
        raise ConfigError(what, where="features", fix="pass the old rows as well, to train it again: --with OLD")
    with refuse_failures("cannot read the sums of the training rows", str(reader.folder)):
        start = StartingModel(champion.estimator.with_seen_rows(reader), features.training.n_rows)
    start.require_continuable(entry["name"])
    return TrainingStart(features, start)


def _record_continuation(
    reader: ArtifactReader, champion: Model, run: Run, rows: pa.Table, own: Generation
) -> Generation:
    """Write what a continued challenger has learned from all rows, and return its generation with the drift of `rows`.

    Its settings have the row filter of the champion, and its reference of the training rows has those of before.
    """
    made = ArtifactReader(run.path / "model")
    settings = TrainingSettings.read(reader).of_challenger(made)
    before, reference = read_lineage(reader), read_reference(made)
    drifted = before[-1].drifted if before else ()
    with ArtifactWriter.reopened(made.folder, (TRAINING, DRIFT, DRIFT_ARRAYS)) as writer:
        writer.json(TRAINING, settings)
        if reference is not None and DRIFT in reader.names():
            known = load_reference(champion)
            drifted = tuple(dict.fromkeys((*drifted, *drifted_columns(champion, known, rows))))
            write_reference(writer, with_rows(champion, known, rows, reference))
    if not drifted:
        return own
    advice = f"train again with the old rows (--with OLD): {', '.join(drifted)} drifted since the features were learned"
    return replace(own, reasons=(*own.reasons, advice), drifted=drifted)


def _record(reader: ArtifactReader, champion: Model, run: Run, own: Generation) -> None:
    """Add the lineage of the challenger to its model directory."""
    manifest = reader.manifest
    earlier = read_lineage(reader)
    if not earlier:
        assert champion.features.training is not None
        n_rows = champion.features.training.n_rows
        made, sha256 = manifest["created"], manifest["manifest_sha256"]
        earlier = (Generation(sha256, made, n_rows, None, "trained", None, ()),)
    with ArtifactWriter.reopened(run.path / "model") as writer:
        write_lineage(writer, [*earlier, own])


def _period(rows: pa.Table, time: str | None) -> tuple[str, str] | None:
    """Return the first and last time of rows, in ISO 8601; None if they have no column of times."""
    if time is None or time not in rows.column_names or not pa.types.is_timestamp(rows.schema.field(time).type):
        return None
    ends = pc.min_max(rows[time]).as_py()
    return None if ends["min"] is None else (ends["min"].isoformat(), ends["max"].isoformat())


@dataclass(frozen=True)
class ChallengerVerdict:
    """Verdict on a challenger, with its reasons.

    ``promote``: it is better, or worse by less than the margin. ``refuse``: it is worse by more than the margin, on all
    rows or on a slice. ``keep``: the rows are too few to tell.
    """

    name: Verdict
    reasons: tuple[str, ...]


def decide_verdict(metric: str, found: PredictionComparison, margin: float) -> ChallengerVerdict:
    """Return the verdict by the intervals of one metric, on all rows and by slice.

    This is a test for non-inferiority: the challenger is promoted if its loss is smaller than `margin`, at least 0, at
    a confidence of 97.5% (Piaggio et al., "Reporting of noninferiority and equivalence randomized trials", JAMA 308
    (2012) 2594). A slice can only prevent it. With several slices, their intervals are wider, so that all of them hold
    with the same confidence (Bonferroni).
    """
    change = found.metrics.get(metric)
    if change is None or not math.isfinite(change.low):
        return ChallengerVerdict(
            "keep", (f"{metric} has no interval on {count_noun(found.n_labelled, 'row')} with a target",)
        )
    low, high = _gain(metric, change)
    told = f"{_values(metric, change)}, 95% interval of the gain {low:+.4f} to {high:+.4f}"
    slices = [own for own in found.slices if metric in own.metrics and math.isfinite(own.metrics[metric].low)]
    wider = NormalDist().inv_cdf(1 - 0.025 / max(1, len(slices))) / Z_95
    fallen = [
        f"the slice {own.column} = {own.level} fell: {_values(metric, own.metrics[metric])}"
        for own in slices
        if _gain(metric, own.metrics[metric], wider)[1] < -margin
    ]
    if fallen or high < -margin:
        return ChallengerVerdict("refuse", (told, *fallen))
    return ChallengerVerdict("promote" if low >= -margin else "keep", (told,))


def _gain(metric: str, change: MetricChange, wider: float = 1.0) -> tuple[float, float]:
    """Return the interval as a gain, positive where the challenger is better, with `wider` times its width."""
    sign = 1.0 if METRICS.get(metric.partition("[")[0]).greater_is_better else -1.0
    half = wider * (change.high - change.low) / 2.0
    return sign * change.difference - half, sign * change.difference + half


def _values(metric: str, change: MetricChange) -> str:
    return f"{metric} {change.old:.4g} → {change.new:.4g}"
