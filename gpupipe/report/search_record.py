"""Record of a search: the models that a candidate of the leaderboard tried before it was trained.

An ensemble (`models: best`) tries the models of its portfolio, and tuning (`tune:`) tries parameters. Both compare
them on rows held out of the training rows, never on test rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from gpupipe.names import count_noun
from gpupipe.report.text import metric_title, number

TrialState = Literal["complete", "pruned", "failed", "skipped"]
MOST_MEMBERS = 5  # in the summary


@dataclass(frozen=True)
class TriedModel:
    """One model that a search has tried."""

    label: str  # unique in the search: ``xgboost_2`` of a portfolio, ``trial 12``
    model: str  # name of the model, such as ``"xgboost"``
    params: Mapping[str, Any] = field(default_factory=dict)  # the parameters that distinguish it from the defaults
    score: float | None = None  # the metric on rows that it was not trained on; None if it was not finished
    seconds: float = 0.0  # wall seconds of training and predicting
    # {"complete", "pruned", "failed", "skipped"}: skipped: its predicted cost exceeded the time that was left
    state: TrialState = "complete"
    weight: float = 0.0  # weight in the ensemble; 0 if it is not a member
    n_models: int = 1  # number of trained models: one for each fold, or one forest


@dataclass(frozen=True)
class SearchRecord:
    """The models that one candidate tried, in order."""

    kind: Literal["ensemble", "tuning"]
    metric: str  # name of the metric of all scores
    tried: tuple[TriedModel, ...]
    # The metric of the result on the same held-out rows; optimistic, because they were used to choose it
    score: float | None = None
    ended: str = ""  # why the search ended, such as ``"the portfolio is complete"`` or ``"time limit of 60 s"``
    best_params: Mapping[str, Any] = field(default_factory=dict)  # for tuning: the parameters of the best trial
    # For tuning: the importance of each parameter; they sum to 1
    importances: Mapping[str, float] = field(default_factory=dict)
    # The rows on which an ensemble compares its models; "later": the latest training rows, by models of earlier ones;
    # "nested": out of the folds that also evaluate it, each with weights that the other folds choose
    rows: Literal["out-of-fold", "later", "nested"] = "out-of-fold"

    @property
    def members(self) -> tuple[TriedModel, ...]:
        """The models of the ensemble, the largest weight first."""
        found = [each for each in self.tried if each.weight > 0]
        return tuple(sorted(found, key=lambda each: -each.weight))

    @property
    def n_compared(self) -> int:
        """Number of models that were trained and compared, pruned ones included."""
        return sum(each.state in ("complete", "pruned") for each in self.tried)

    @property
    def has_scores(self) -> bool:
        """True if at least one of the tried models has a score."""
        return any(each.score is not None for each in self.tried)

    def summary(self) -> str:
        """Return the result in one line.

        Examples
        --------
        >>> tried = [TriedModel("xgboost", "xgboost", score=0.84, weight=0.7), TriedModel("knn", "knn", score=0.8)]
        >>> tried.append(TriedModel("ridge", "ridge", score=0.81, weight=0.3))
        >>> search = SearchRecord("ensemble", "roc_auc", tuple(tried), 0.8512, "the portfolio is complete")
        >>> for part in search.summary().split("; "):
        ...     print(part)
        2 of 3 models are members: 0.70 xgboost, 0.30 ridge
        out-of-fold ROC AUC 0.8512
        ended: the portfolio is complete
        """
        if self.kind == "ensemble":
            members = self.members
            shown = ", ".join(f"{each.weight:.2f} {each.label}" for each in members[:MOST_MEMBERS])
            more = f" and {len(members) - MOST_MEMBERS} more" if len(members) > MOST_MEMBERS else ""
            found = f"{len(members)} of {count_noun(self.n_compared, 'model')} are members: {shown}{more}"
            rows = "later rows:" if self.rows == "later" else "out-of-fold"
        else:
            n_pruned = sum(each.state == "pruned" for each in self.tried)
            pruned = f", {n_pruned} pruned" if n_pruned else ""
            found, rows = f"{count_noun(len(self.tried), 'trial')}{pruned}", "best held-out"
        score = "" if self.score is None else f"; {rows} {metric_title(self.metric)} {number(self.score)}"
        return f"{found}{score}{f'; ended: {self.ended}' if self.ended else ''}"

    def to_json(self) -> dict[str, Any]:
        """Return the record as JSON values."""
        return {**asdict(self), "tried": [asdict(each) for each in self.tried]}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> SearchRecord:
        """Return the record from the values of `to_json`."""
        return cls(**{**values, "tried": tuple(TriedModel(**each) for each in values["tried"])})


@dataclass(frozen=True)
class TriedCounts:
    """Number of models, trials and candidate features that a run compared.

    With cross-validation or validation rows the same alternatives are trained several times; each counts once.

    Examples
    --------
    >>> print(TriedCounts(14, trials=50, features=2312))
    14 models, 50 trials and 2,312 candidate features
    """

    models: int = 1  # candidates of the leaderboard; an ensemble counts with each model that it tried
    trials: int = 0  # trials of tuning
    features: int = 0  # candidates of the op ``generate``

    @property
    def is_choice(self) -> bool:
        """True if there was more than one alternative."""
        return self.models > 1 or self.trials > 1 or self.features > 0

    def __str__(self) -> str:
        counts = [(self.models, "model"), (self.trials, "trial"), (self.features, "candidate feature")]
        if self.models == 1 and self.is_choice:
            del counts[0]
        named = [count_noun(n, name) for n, name in counts if n]
        return " and ".join([", ".join(named[:-1]), named[-1]] if len(named) > 1 else named)


def count_tried(searches: Iterable[SearchRecord | None], n_features: int = 0) -> TriedCounts:
    """Return the counts of a run.

    - `searches`: the search of each candidate of the leaderboard; None for a candidate that is one model
    - `n_features`: number of candidate features
    """
    models = trials = 0
    for search in searches:
        if search is not None and search.kind == "ensemble":
            models += search.n_compared
        else:
            models += 1
            trials += 0 if search is None else search.n_compared
    return TriedCounts(models, trials, n_features)
