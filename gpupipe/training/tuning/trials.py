"""Trials of a search: suggested by an Optuna study in memory, and saved in SQLite when they are finished.

The sampler of each trial is seeded by the seed of the run and the number of the trial, so that a suggestion depends on
the finished trials only, and a resumed search continues as if it had not been interrupted.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

import optuna
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial, TrialState

from gpupipe.models import ModelSettings
from gpupipe.models.search_space import SearchRange, SearchSpace, is_whole
from gpupipe.random_streams import derive_seed

STUDY = "trials"
RECORD = "gpupipe"  # user attribute of a trial with the fields of a `FinishedTrial`
STATES = {"complete": TrialState.COMPLETE, "pruned": TrialState.PRUNED, "failed": TrialState.FAIL}
LEAST_FOR_IMPORTANCES = 4  # complete trials


@dataclass(frozen=True)
class FinishedTrial:
    """One finished trial."""

    params: Mapping[str, Any]  # values of the searched parameters
    state: Literal["complete", "pruned", "failed"]
    score: float | None = None  # mean metric of the folds; None unless complete
    seconds: float = 0.0
    elapsed: float = 0.0  # seconds of the search up to the end of this trial, with those of interrupted runs
    n_models: int = 0  # number of trained models
    rounds: list[int] = field(default_factory=list)  # rounds or epochs that early stopping found, one for each fold
    # Steps and losses of the first fold during training; see `pruning`
    curve: list[tuple[int, float]] = field(default_factory=list)
    error: str = ""  # why it failed


class TrialStudy:
    """Finished trials of one search, and the suggestion of the next one.

    `first` is the point of the space that stands for the first trial. `path` is the SQLite file of the finished trials;
    None: they are not saved. If `resume`, the trials of the file are loaded; otherwise they are removed. `damage` is
    the reason that trials could not be loaded or saved; "" if they could.
    """

    def __init__(
        self,
        space: Mapping[str, BaseDistribution],
        first: Mapping[str, Any],
        greater_is_better: bool,
        seed: int,
        path: Path | None = None,
        resume: bool = False,
    ) -> None:
        self.space = dict(space)
        self.first = dict(first)
        self.seed = seed
        self.damage = ""
        self.greater_is_better = greater_is_better
        direction = StudyDirection.MAXIMIZE if greater_is_better else StudyDirection.MINIMIZE
        self._study = optuna.create_study(direction=direction, pruner=optuna.pruners.MedianPruner())
        self._curves = optuna.create_study(direction="minimize", pruner=optuna.pruners.MedianPruner())
        self._file = _TrialFile(path, direction, resume) if path is not None else None
        self.finished: list[FinishedTrial] = []
        for trial in self._file.load() if self._file is not None else ():
            self._study.add_trial(trial)
            self._add(FinishedTrial(**trial.user_attrs[RECORD]))

    def ask(self) -> tuple[optuna.Trial, optuna.Trial]:
        """Return the next trial, and the trial of its losses during training."""
        number = len(self.finished)
        if not number:
            self._study.enqueue_trial(self.first)
        seed = derive_seed(self.seed, "trials of a search", number)
        self._study.sampler = optuna.samplers.TPESampler(seed=seed)
        return self._study.ask(self.space), self._curves.ask()

    def finish(self, trial: optuna.Trial, curve: optuna.Trial, found: FinishedTrial) -> None:
        """Add a finished trial, and save it."""
        trial.set_user_attr(RECORD, asdict(found))
        self._study.tell(trial, found.score, STATES[found.state])
        self._curves.tell(curve, state=TrialState.FAIL)  # replaced by `_add`
        self._add(found)
        if self._file is not None:
            self._file.save(self._study.trials[trial.number])
            self.damage = self._file.damage

    def _add(self, found: FinishedTrial) -> None:
        self.finished.append(found)
        is_whole_curve = found.n_models > 0 and found.curve
        if is_whole_curve:
            values = {int(step): float(value) for step, value in found.curve}
            state = TrialState.COMPLETE
            self._curves.add_trial(
                optuna.create_trial(state=state, value=min(values.values()), intermediate_values=values)
            )

    @property
    def best(self) -> FinishedTrial | None:
        """The complete trial with the best score, the first one of equals; None without a complete trial."""
        complete = [trial for trial in self.finished if trial.score is not None]
        sign = -1.0 if self.greater_is_better else 1.0
        return min(complete, key=lambda trial: sign * float(trial.score or 0.0), default=None)

    def importances(self) -> dict[str, float]:
        """Return the importance of each parameter, which sum to 1, most important first; empty for few trials.

        They are those of fANOVA (Hutter, Hoos and Leyton-Brown, 2014).
        """
        scores = {trial.score for trial in self.finished if trial.state == "complete"}
        if sum(trial.state == "complete" for trial in self.finished) < LEAST_FOR_IMPORTANCES or len(scores) < 2:
            return {}
        seed = derive_seed(self.seed, "importances of parameters")
        evaluator = optuna.importance.FanovaImportanceEvaluator(seed=seed)
        found = optuna.importance.get_param_importances(self._study, evaluator=evaluator)
        return {name: float(value) for name, value in found.items()}


class _TrialFile:
    """SQLite file of finished trials; a search continues without it if it cannot be written."""

    def __init__(self, path: Path, direction: StudyDirection, resume: bool) -> None:
        self.path = path
        self.direction = direction
        self.damage = ""
        if not resume:
            path.unlink(missing_ok=True)
        self._study: optuna.Study | None = None

    def load(self) -> list[FrozenTrial]:
        if not self.path.exists():
            return []
        try:
            self._open()
            assert self._study is not None
            return self._study.get_trials(states=tuple(STATES.values()))
        except Exception as error:  # SQLAlchemy's and SQLite's errors of a corrupt file
            self.damage = f"the saved trials cannot be read: {_first_line(error)}"
            self._study = None
            self.path.unlink(missing_ok=True)
            return []

    def save(self, trial: FrozenTrial) -> None:
        try:
            if self._study is None:
                self._open()
            assert self._study is not None
            self._study.add_trial(trial)
        except Exception as error:  # a full disk, or a concurrent run of the same search that has removed the file
            self.damage = f"trials cannot be saved, so --resume repeats them: {_first_line(error)}"

    def _open(self) -> None:
        self.path.parent.mkdir(0o700, parents=True, exist_ok=True)
        storage = optuna.storages.RDBStorage(f"sqlite:///{self.path}")
        self._study = optuna.create_study(
            storage=storage, study_name=STUDY, direction=self.direction, load_if_exists=True
        )


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__


@contextmanager
def quiet_optuna() -> Iterator[None]:
    """Restore the verbosity of Optuna's logger after the block; within it, only errors are logged."""
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            yield
    finally:
        optuna.logging.set_verbosity(before)


def distributions(settings: ModelSettings, space: SearchSpace, target_scale: float) -> dict[str, BaseDistribution]:
    """Return the search space in Optuna's terms; `target_scale` is the standard deviation of the target."""
    found: dict[str, BaseDistribution] = {}
    for name, searched in space.items():
        if not isinstance(searched, SearchRange):
            found[name] = CategoricalDistribution(searched.choices)
        elif is_whole(settings, name, searched):
            found[name] = IntDistribution(int(searched.low), int(searched.high), log=searched.log)
        else:
            scale = target_scale if searched.relative_to == "target" else 1.0
            found[name] = FloatDistribution(searched.low * scale, searched.high * scale, log=searched.log)
    return found


def nearest_point(values: Mapping[str, Any], space: Mapping[str, BaseDistribution]) -> dict[str, Any]:
    """Return the point of the space that is nearest to the values of the entry, which may be outside of it.

    None, and 0 for whole numbers, mean "no limit": the upper end stands for them. A choice that is not in the space is
    represented by the first one.
    """
    found: dict[str, Any] = {}
    for name, distribution in space.items():
        value = values.get(name)
        if isinstance(distribution, CategoricalDistribution):
            is_choice = any(value == choice and type(value) is type(choice) for choice in distribution.choices)
            found[name] = value if is_choice else distribution.choices[0]
            continue
        assert isinstance(distribution, IntDistribution | FloatDistribution)
        is_whole_range = isinstance(distribution, IntDistribution)
        if not isinstance(value, int | float) or (is_whole_range and value == 0):
            value = distribution.high
        value = min(max(value, distribution.low), distribution.high)
        found[name] = int(value) if is_whole_range else float(value)
    return found
