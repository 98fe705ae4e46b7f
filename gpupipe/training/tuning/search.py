"""The search for the parameters of one model entry on its training rows."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple

import numpy as np
import optuna

from gpupipe.config import Config, ModelEntry
from gpupipe.errors import ConfigError, DeviceError, GpupipeError
from gpupipe.metrics import METRICS, evaluate, metric_names
from gpupipe.metrics.settings import Evaluate
from gpupipe.model_parts.decision import decide
from gpupipe.model_parts.goal import Goal, Truth
from gpupipe.models import FitContext, ModelSettings, Prediction, Resources
from gpupipe.models.neural.ranks.torchrun import world_size
from gpupipe.models.neural.settings import NeuralSettings
from gpupipe.models.progress import ProgressReport, show_nothing
from gpupipe.models.search_space import searched_values, with_values
from gpupipe.report.search_record import SearchRecord, TriedModel
from gpupipe.splits import Fold
from gpupipe.tasks import CLASSIFICATION, Task
from gpupipe.training.tuning.inner_folds import make_inner_folds
from gpupipe.training.tuning.pruning import CurvePruner
from gpupipe.training.tuning.training import FoldPrediction, FoldTraining, with_mean_rounds
from gpupipe.training.tuning.trials import FinishedTrial, TrialStudy, distributions, nearest_point, quiet_optuna
from gpupipe.typing import Array
from gpupipe.units import format_duration

MOST_FAILURES = 10  # failed trials, without any other, after which a search ends


class TunedEntry(NamedTuple):
    """Result of a search."""

    entry: ModelEntry  # the entry with the best parameters, without ``tune``
    record: SearchRecord
    notes: tuple[str, ...]


def tune_entry(
    entry: ModelEntry,
    X: Array,
    y: Array | None,
    goal: Goal,
    config: Config,
    context: FitContext,
    clock: Callable[[], float] = time.perf_counter,
) -> TunedEntry:
    """Search for the parameters of an entry, and return the entry with the best ones.

    Trials are suggested by Optuna's tree-structured Parzen estimator (Bergstra et al., 2011; multivariate: Falkner,
    Klein and Hutter, 2018), and compared by the mean of ``context.metric`` over folds of these rows. The first trial
    has the parameters of the entry. Raise ConfigError if all trials fail, or the matrix is partitioned; DataError if
    there are too few rows or groups for the folds.

    - `entry`: with ``tune``
    - `X` (array of float32, shape (n_rows, d), column-major): the training rows, on the device of the backend
    - `y` (array, shape (n_rows,)): class codes or numbers, on the host
    - `context`: ``context.resources.checkpoint`` is the SQLite file of the trials. Without a metric, that of `config`
      is used.
    - `clock`: returns seconds
    """
    if isinstance(entry.params, NeuralSettings) and max(context.resources.n_processes, world_size()) > 1:
        raise ConfigError(
            f"tune trains networks in one process; this run has {max(context.resources.n_processes, world_size())}",
            where=f"models: {entry.label}.tune",
            fix="run it without --nproc and torchrun, then train the parameters of tuned.yaml with several processes",
        )
    if not hasattr(X, "dtype"):
        raise ConfigError(
            f"tune needs the training rows in one memory; those of {entry.label} are in partitions",
            where=f"models: {entry.label}.tune",
            fix="remove tune, or run on one machine whose memory holds the rows",
        )
    assert y is not None
    assert entry.tune is not None
    folds, note = make_inner_folds(config.split, entry.tune.folds, y, context.groups, context.times, goal, config.seed)
    if not context.metric:
        context = replace(context, metric=metric_names(goal.tasks, config.evaluate)[0])
    with quiet_optuna():
        return _Search(entry, X, y, folds, config.evaluate, context, clock).run([note] if note else [])


class _TimeIsUp(Exception):
    """Raised inside a trial when the time limit of the search is reached."""


@dataclass
class _Trial:
    """State of the running trial."""

    settings: ModelSettings
    scores: list[float] = field(default_factory=list)
    rounds: list[int] = field(default_factory=list)
    n_models: int = 0


class _Search:
    """One search; see `tune_entry`."""

    def __init__(
        self,
        entry: ModelEntry,
        X: Array,
        y: Array,
        folds: Sequence[Fold],
        evaluation: Evaluate,
        context: FitContext,
        clock: Callable[[], float],
    ) -> None:
        assert entry.tune is not None
        assert entry.tune.space is not None
        self.entry = entry
        self.tune = entry.tune
        self.folds = folds
        self.clock = clock
        self.evaluation = evaluation
        self.context = context
        self.resources = context.resources
        is_ranking = context.task == "ranking" and context.groups is not None
        groups = np.unique(np.asarray(context.groups), return_inverse=True)[1] if is_ranking else None
        self.truth = Truth(y, context.weights, groups)
        plain = replace(context, resources=replace(context.resources, checkpoint=None))
        self.training = FoldTraining(X, y, folds, plain)
        has_classes = (context.targets[0].task if context.targets else context.task) in CLASSIFICATION
        scale = 1.0 if has_classes else float(np.std(y, axis=0).mean())
        space = distributions(entry.params, entry.tune.space, scale or 1.0)
        start = {**searched_values(entry.params), **_resolved(entry.params, context)}
        self.greater_is_better = METRICS.get(context.metric).greater_is_better
        self.study = TrialStudy(
            space,
            nearest_point(start, space),
            self.greater_is_better,
            context.seed,
            self.resources.checkpoint,
            self.resources.resume,
        )
        self.n_resumed = len(self.study.finished)
        self._began = clock() - (self.study.finished[-1].elapsed if self.study.finished else 0.0)
        self._stop: BaseException | None = None

    def run(self, notes: Sequence[str]) -> TunedEntry:
        """Run trials until the last one or the time limit; return the result."""
        for number in range(1, self.n_resumed + 1):
            self._report(number)
        with self.resources.show_progress(self._progress):
            while (ended := self._why_ended()) is None:
                try:
                    self._safe_point(f"after trial {len(self.study.finished)}")
                    self._run_trial()
                except _TimeIsUp:
                    continue
        best = self.study.best
        if best is None:
            raise self._all_failed()
        found = with_values(self.entry.params, {} if best is self.study.finished[0] else best.params)
        settings = with_mean_rounds(found, best.rounds, len(self.truth))
        tuned = self.entry.model_copy(update={"params": settings, "tune": None})
        changed = {name: value for name, value in settings if value != getattr(found, name)}
        record = self._record(best, changed, ended)
        return TunedEntry(tuned, record, (*notes, *self._notes(record, best)))

    def _why_ended(self) -> str | None:
        """Return why the search has ended, or None."""
        finished, limit = self.study.finished, self.tune.time_limit
        if len(finished) >= self.tune.trials:
            return f"the limit of {len(finished)} trials"
        if len(finished) >= MOST_FAILURES and all(trial.state == "failed" for trial in finished):
            return "failures of all trials"
        if limit is not None and self.study.best is not None and self._seconds() >= limit:
            return f"the time limit of {format_duration(limit)}"
        return None

    def _seconds(self) -> float:
        """Return the seconds of the search, with those of interrupted runs."""
        return self.clock() - self._began

    def _safe_point(self, where: str) -> None:
        """Call the safe point of the run; remember what it raises, which is not an error of the trial."""
        try:
            self.resources.safe_point(where)
        except BaseException as error:
            self._stop = error
            raise
        limit = self.tune.time_limit
        if limit is not None and self.study.best is not None and self._seconds() >= limit:
            raise _TimeIsUp

    def _run_trial(self) -> None:
        trial, curve = self.study.ask()
        is_first, began = not self.study.finished, self.clock()
        # The first trial is the entry itself, also where that is outside of the space.
        params = {name: searched_values(self.entry.params).get(name) for name in trial.params} if is_first else None
        params = _plain(params or trial.params)
        running, losses = _Trial(self.entry.params), CurvePruner(curve, self.entry.params, self._safe_point)
        state: Literal["complete", "pruned", "failed"] = "complete"
        error = ""
        try:
            running.settings = self.entry.params if is_first else self._settings(params)
            losses.settings = running.settings
            self._train_folds(running, trial, losses)
        except optuna.TrialPruned:
            state = "pruned"
        except (_TimeIsUp, DeviceError):
            raise
        except Exception as found:
            if self._stop is not None:  # of several trainings at the same time, each has raised its own
                raise self._stop from None
            state, error = "failed", _described(found)
        seconds = self.clock() - began
        score = float(np.nanmean(running.scores)) if state == "complete" else None
        finished = FinishedTrial(
            params,
            state,
            score,
            seconds,
            self._seconds(),
            running.n_models,
            running.rounds,
            losses.curve,
            error,
        )
        self.study.finish(trial, curve, finished)
        self._report(len(self.study.finished))

    def _train_folds(self, running: _Trial, trial: optuna.Trial, losses: CurvePruner) -> None:
        """Train on each fold, unless the trial is pruned."""
        others = replace(self.resources, safe_point=self._safe_point, show_progress=show_nothing)
        # One model after the other, for each of several targets, has losses that are not comparable.
        is_one = not self.context.targets or running.settings.learns_jointly
        observed = losses.resources(self.resources) if is_one else others
        for fold, found in enumerate(self._predictions(running.settings, observed, others)):
            running.n_models += 1
            if found.rounds is not None:
                running.rounds.append(found.rounds)
            running.scores.append(self._score(fold, found.prediction))
            if fold == len(self.folds) - 1:
                break
            mean = float(np.nanmean(running.scores)) if not np.isnan(running.scores).all() else math.nan
            if not math.isnan(mean):
                trial.report(mean, fold)
                if trial.should_prune():
                    raise optuna.TrialPruned
        if np.isnan(running.scores).all():
            raise ConfigError(f"{self.context.metric} is undefined on the held-out rows of all folds")

    def _predictions(self, settings: ModelSettings, observed: Resources, others: Resources) -> Iterator[FoldPrediction]:
        """Yield the predictions of the folds, in order; those after the first may be trained at the same time."""
        yield self.training.train(settings, 0, observed)
        n_at_once = self.training.n_at_once(settings)
        for first in range(1, len(self.folds), n_at_once):
            self._safe_point(f"after fold {first}")
            yield from self.training.train_together(settings, range(len(self.folds))[first : first + n_at_once], others)

    def _score(self, fold: int, prediction: Prediction) -> float:
        """Return the metric of the held-out rows of a fold, of several targets the mean."""
        truth = self.truth.take(self.folds[fold].test)
        if not (targets := self.context.targets):
            return self._score_target(self.context.task, self.context.n_classes, truth, prediction)
        each = enumerate(zip(targets, prediction.parts, strict=True))
        scores = [self._score_target(own.task, own.n_classes, truth.of_target(i), part) for i, (own, part) in each]
        return float(np.mean(scores))

    def _score_target(self, task: Task, n_classes: int, truth: Truth, prediction: Prediction) -> float:
        """Return the metric of held-out rows; a threshold rule is applied to these rows."""
        backend = self.context.backend
        truth, prediction = truth.mapped(backend.to_device), prediction.mapped(backend.to_device)
        uncalibrated = self.evaluation.model_copy(update={"calibrate": "none", "intervals": None})
        decision = decide(uncalibrated, task, truth, prediction, backend, self.context.quantiles)
        metric, costs = self.context.metric, self.evaluation.cost
        scores = evaluate(
            task,
            truth.y,
            prediction.output,
            [metric],
            decision.threshold,
            n_classes,
            sample_weight=truth.weights,
            costs=costs,
            quantiles=self.context.quantiles,
            groups=truth.groups,
            backend=backend,
        )
        return scores[metric]

    def _settings(self, params: Mapping[str, Any]) -> ModelSettings:
        return with_values(self.entry.params, params)

    def _progress(self) -> ProgressReport:
        best, finished = self.study.best, len(self.study.finished)
        name, score = (f"best {self.context.metric}", best.score) if best is not None else ("", None)
        return ProgressReport(finished, self.tune.trials, "trial", self.tune.time_limit is not None, name, score)

    def _all_failed(self) -> ConfigError:
        finished = self.study.finished
        return ConfigError(
            f"all {len(finished)} trials of {self.entry.label} failed; the first: {finished[0].error}",
            where=f"models: {self.entry.label}.tune",
            fix="train the entry without tune to see its error, or change tune.space",
        )

    def _tried(self, number: int) -> TriedModel:
        """Return a finished trial, counted from 1."""
        trial = self.study.finished[number - 1]
        return TriedModel(
            f"trial {number}",
            self.entry.name,
            trial.params,
            trial.score,
            trial.seconds,
            trial.state,
            n_models=trial.n_models,
        )

    def _report(self, number: int) -> None:
        self.resources.report_trial(self._tried(number), self.context.metric)

    def _record(self, best: FinishedTrial, changed: Mapping[str, Any], ended: str) -> SearchRecord:
        tried = tuple(self._tried(number) for number in range(1, len(self.study.finished) + 1))
        params = {**best.params, **changed}
        return SearchRecord("tuning", self.context.metric, tried, best.score, ended, params, self.study.importances())

    def _notes(self, record: SearchRecord, best: FinishedTrial) -> list[str]:
        finished = self.study.finished
        states = [trial.state for trial in finished]
        counts = ", ".join(f"{states.count(state)} {state}" for state in ("pruned", "failed") if state in states)
        number = next(i for i, trial in enumerate(finished, 1) if trial is best)
        found = f"trial {number} is the best, {record.metric} {best.score:.5g}"
        if number == 1:
            found = f"no trial is better than the first, the entry itself, {record.metric} {best.score:.5g}"
        elif finished[0].score is not None:
            found += f"; the first, the entry itself, has {finished[0].score:.5g}"
        notes = [
            f"tuned in {len(finished)} trials{f' ({counts})' if counts else ''} on {len(self.folds)} folds of the "
            f"training rows, ended by {record.ended}: {found}"
        ]
        if self.n_resumed:
            notes.append(f"{self.n_resumed} trials were loaded from a checkpoint")
        if errors := list(dict.fromkeys(trial.error for trial in finished if trial.error)):
            notes.append(f"failed trials: {errors[0]}{f' and {len(errors) - 1} other errors' if errors[1:] else ''}")
        return notes + ([self.study.damage] if self.study.damage else [])


def _resolved(settings: ModelSettings, context: FitContext) -> dict[str, Any]:
    """Return the parameters that the estimator gets, so that "auto" is known by its value."""
    try:
        return dict(settings.estimator_params(context.targets[0].task if context.targets else context.task))
    except (GpupipeError, NotImplementedError):
        return {}


def _plain(params: Mapping[str, Any]) -> dict[str, Any]:
    """Return parameters as JSON values."""
    return {name: value.item() if isinstance(value, np.generic) else value for name, value in params.items()}


def _described(error: Exception) -> str:
    what = error.what if isinstance(error, GpupipeError) else str(error)
    first = " ".join(what.split())[:300]
    return first if isinstance(error, GpupipeError) else f"{type(error).__name__}: {first}"
