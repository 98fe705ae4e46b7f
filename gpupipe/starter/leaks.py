"""Leak detection: columns that restate the target are dropped, and columns that dominate it are reported.

A column is dropped, with the evidence, if its relation to the target is not that of a measurement:

- *levels*: each of its values belongs to a single class (a finer label, another spelling, a key of the same thing);
- *nulls*: it is null, or non-null, only if the target is one class; or the nulls of several columns determine it;
- *bands*: the target determines it (a color for a band of the score, a coarser label); for classes, only if a model of
  the other columns cannot predict as much;
- *shared bands*: its values and the classes overlap like two sets of intervals of one number (a color for bands of a
  score, of which the classes are other bands), and a model of the other columns cannot predict as much;
- *alone*: it predicts the target almost exactly, and no model of the other columns comes close, unless at least three
  columns predict it that well.

All tests use held-out rows. Columns that are merely strong (the odor of a mushroom, the carat of a diamond) pass: their
levels overlap, or the other columns contain the same information.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from gpupipe.starter.overlaps import shared_bands
from gpupipe.starter.power import (
    MAX_TOGETHER,
    alone,
    can_join,
    could_be_exact,
    level_codes,
    score,
    share_explained,
    smaller,
    strongest,
    targets_of,
    together,
)
from gpupipe.starter.sample import FOLDS, NumericSample
from gpupipe.typing import Array

MIN_ROWS = 60  # with fewer, a good column looks like a leak
MIN_OTHERS = 20  # rows outside the most frequent class, required as evidence
MIN_EXTREMES = 5  # the same for an interval of a number: 5 extremes of 100 rows do not match by chance
FEW_ERRORS, MORE_ERRORS = 0.01, 0.05  # of those rows; with more, the column must add to a model of the others
MAX_CLASSES = 100
MAX_BANDS = 50
# Minimum score of a column alone. Numbers are often predictable from one other (the previous value), classes rarely.
LIMITS = {"binary": 0.975, "multiclass": 0.975, "regression": 0.99}
MOST_COMPARED = 20  # columns that each need a model or a comparison with all others
EASY = 3  # different columns that predict the class: then the task is easy
SAME = 0.999  # rank correlation
MAX_ERROR_SHARE = 0.25  # of the error of a model of all others
MIN_GAIN = 0.1  # of the target's variance, over a model of the other columns
MIN_GAIN_OF_TEXT = 0.02  # for texts with three or more levels, which are rarely measurements
# Nulls after which nearly all rows have one class, unlike elsewhere.
NULL_ERRORS, MAX_SHARE, MIN_EVIDENCE = 0.05, 0.9, 20.0
# Warning thresholds: the power of a column, the loss without it, and the share that the others explain.
MUCH, WARN_GAIN, WARN_SHARE = 0.5, 0.1, 0.75
CANDIDATES, MAX_STEPS, MIN_EXPLAINED = 2, 16, 0.3
MEASURES = {
    "binary": "ROC-AUC",
    "multiclass": "balanced accuracy",
    "regression": "R² of the ranks",
}


@dataclass(frozen=True)
class LeakReport:
    """Leaks and suspicious columns.

    Attributes
    ----------
    leaks : mapping of str to str
        Columns to drop, with the evidence.
    warnings : mapping of str to str
        Columns to review, with the evidence.
    unchecked : sequence of str
        Suspected columns that were not compared with a model, after the first `MOST_COMPARED`; they are kept.
    """

    leaks: dict[str, str]
    warnings: dict[str, str]
    unchecked: Sequence[str] = ()


@dataclass(frozen=True)
class Suspicion:
    """Evidence against a column, and the minimum gain over a model of the other columns to drop it."""

    evidence: str
    least_gain: float = -np.inf


Suspicions = dict[str, Suspicion]


def find_leaks(sample: NumericSample, target: str, classes: Sequence[Any] = ()) -> LeakReport:
    """Return the columns that restate the target, and those that dominate it.

    Parameters
    ----------
    sample : NumericSample
    target : str
        The name of the target, for the evidence.
    classes : sequence
        The label of each class code.
    """
    if len(sample.y) < MIN_ROWS or not sample.columns:
        return LeakReport({}, {})
    suspects = _by_levels(sample, target)
    suspects |= _by_null_pattern(sample.without(suspects), target)
    suspects |= _by_bands(sample.without(suspects), target)
    suspects |= _by_shared_bands(sample.without(suspects), target)
    suspects |= _by_nulls(sample.without(suspects), target, classes)
    perfect = _nearly_perfect(sample.without(suspects))
    others = _Others(sample, {*suspects, *perfect})
    exact = {name: found for name, found in suspects.items() if found.least_gain == -np.inf}
    doubtful = strongest([name for name in suspects if name not in exact], sample, MOST_COMPARED)
    proven = {*exact, *(name for name in doubtful if others.gains(name, suspects[name].least_gain))}
    leaks = {name: found.evidence for name, found in suspects.items() if name in proven}
    is_easy = len(_different(list(perfect), sample)) >= EASY
    for name, value in perfect.items():
        if not is_easy and (1 - value) <= MAX_ERROR_SHARE * (1 - others.score()):
            leaks[name] = f"alone it predicts {target} with {MEASURES[sample.task]} {value:.3f} on held-out rows"
    unchecked = [name for name in suspects if name not in exact and name not in doubtful]
    return LeakReport(leaks, _dominating(sample.without(leaks), target), unchecked)


class _Others:
    """A model of the columns that are not suspected, trained on first use."""

    def __init__(self, sample: NumericSample, suspects: set[str]) -> None:
        self._sample = smaller(sample)
        names = [name for name in sample.columns if name not in suspects and can_join(name, self._sample)]
        self._names = strongest(names, self._sample)

    @cached_property
    def predicted(self) -> Array:
        targets = targets_of(self._sample)
        nothing = np.broadcast_to(targets.mean(axis=0), targets.shape)
        return together(self._names, self._sample) if self._names else nothing

    def score(self) -> float:
        return score(self.predicted, self._sample)

    def gains(self, name: str, least: float) -> bool:
        """Return whether adding a column increases the explained share of the target by at least `least`."""
        if least == -np.inf:
            return True
        targets = targets_of(self._sample)
        can = can_join(name, self._sample)
        more = together([*self._names, name], self._sample) if can else alone(name, self._sample)
        return share_explained(targets, more) - share_explained(targets, self.predicted) >= least


@dataclass(frozen=True)
class Determination:
    """Accuracy with which one column's levels determine another's, on held-out rows with known levels."""

    n_rows: int
    n_errors: int
    n_others: int  # rows outside the most frequent outcome: the errors without the column
    min_others: int = MIN_OTHERS

    @property
    def is_exact(self) -> bool:
        """True if errors are rare enough to be data errors."""
        return self.n_others >= self.min_others and self.n_errors <= FEW_ERRORS * self.n_others

    @property
    def is_near(self) -> bool:
        """True if errors are rare."""
        return self.n_others >= self.min_others and self.n_errors <= MORE_ERRORS * self.n_others


def determination(codes: Array, outcomes: Array, fold: Array) -> Determination:
    """Return how accurately `codes` determine `outcomes`, both codes from 0; all zeros if most levels are unique."""
    n_codes, n_outcomes = int(codes.max(initial=0)) + 1, int(outcomes.max(initial=0)) + 1
    cells = codes * n_outcomes + outcomes
    everything = np.bincount(cells, minlength=n_codes * n_outcomes).reshape(n_codes, n_outcomes)
    n_rows = n_errors = 0
    seen_outcomes = np.zeros(n_outcomes, np.int64)
    for k in range(FOLDS):
        test = fold == k
        held_out = np.bincount(cells[test], minlength=n_codes * n_outcomes).reshape(n_codes, n_outcomes)
        learned = everything - held_out
        seen = learned.sum(axis=1) > 0
        n_rows += int(held_out[seen].sum())
        right = held_out[seen, learned[seen].argmax(axis=1)]
        n_errors += int(held_out[seen].sum() - right.sum())
        seen_outcomes += held_out[seen].sum(axis=0)
    if n_rows < len(codes) / 2:
        return Determination(0, 0, 0)
    return Determination(n_rows, n_errors, n_rows - int(seen_outcomes.max()))


def _by_levels(sample: NumericSample, target: str) -> Suspicions:
    """Return the columns of which each value belongs to one class."""
    if sample.task == "regression" or len(np.unique(sample.y)) > MAX_CLASSES:
        return {}
    found = {}
    for name, x in sample.columns.items():
        filled = ~np.isnan(x)
        if filled.sum() < MIN_ROWS:
            continue
        shown = determination(level_codes(x[filled]), level_codes(sample.y[filled]), sample.fold[filled])
        if shown.is_near:
            share = 1 - shown.n_errors / shown.n_rows
            rows = f"{shown.n_rows:,} rows" if filled.all() else f"{shown.n_rows:,} non-null rows"
            evidence = f"each of its values belongs to one {target}, correct in {_percent(share)} of {rows}"
            found[name] = Suspicion(evidence, -np.inf if shown.is_exact else MIN_GAIN)
    return found


def _by_nulls(sample: NumericSample, target: str, classes: Sequence[Any]) -> Suspicions:
    """Return the columns that are non-null, or null, only if the target is one class."""
    if sample.task == "regression":
        return {}
    found = {}
    labels, counts = np.unique(sample.y, return_counts=True)
    for name, x in sample.columns.items():
        missing = np.isnan(x)
        for side, rows in (("not null", ~missing), ("null", missing)):
            for label, share in zip(labels, counts / len(sample.y), strict=True):
                if not rows.any() or rows.all() or share > MAX_SHARE:
                    continue
                errors = 1 - float(np.mean(sample.y[rows] == label))
                if errors <= NULL_ERRORS * (1 - share) and -rows.sum() * np.log(share) >= MIN_EVIDENCE:
                    shown = classes[int(label)] if len(classes) else label
                    evidence = f"if it is {side}, {target} is {shown} in {_percent(1 - errors)} of the rows"
                    found[name] = Suspicion(evidence, MIN_GAIN_OF_TEXT)
    return found


def _by_null_pattern(sample: NumericSample, target: str) -> Suspicions:
    """Return a column, or a set of columns, whose nulls determine the class."""
    nulls = {name: np.isnan(x) for name, x in sample.columns.items() if np.isnan(x).any()}
    if sample.task == "regression" or not nulls or len(np.unique(sample.y)) > MAX_CLASSES:
        return {}
    y = level_codes(sample.y)

    def shown_by(names: Sequence[str]) -> Determination:
        return determination(_pattern([nulls[name] for name in names]), y, sample.fold)

    if not shown_by(list(nulls)).is_exact:
        return {}
    nulls = {masks[0]: nulls[masks[0]] for masks in _grouped({name: mask.tobytes() for name, mask in nulls.items()})}
    chosen: list[str] = []
    while not (chosen and shown_by(chosen).is_exact):
        left = [name for name in nulls if name not in chosen]
        chosen.append(min(left, key=lambda name: shown_by([*chosen, name]).n_errors))
    if len(chosen) == 1:
        return {chosen[0]: Suspicion(f"its nulls determine {target}")}
    return dict.fromkeys(chosen, Suspicion(f"the nulls of {', '.join(chosen)} determine {target}"))


def _grouped(keys: Mapping[str, bytes]) -> list[list[str]]:
    """Return the names grouped by key, in order of first appearance."""
    groups: dict[bytes, list[str]] = {}
    for name, key in keys.items():
        groups.setdefault(key, []).append(name)
    return list(groups.values())


def _pattern(masks: Sequence[Array]) -> Array:
    """Return a code for each combination of nulls, shape (n_rows,)."""
    return np.unique(np.stack(masks, axis=1), axis=0, return_inverse=True)[1].reshape(-1)


def _by_bands(sample: NumericSample, target: str) -> Suspicions:
    """Return the columns that the target determines (bands of a number, unions of classes), and finer versions."""
    if sample.task == "binary" or len(np.unique(sample.y)) < 3:
        return {}
    bands: Suspicions = {}
    for name, x in sample.columns.items():
        filled = ~np.isnan(x)
        codes = level_codes(x[filled])
        if filled.sum() < MIN_ROWS or not 2 <= codes.max(initial=0) + 1 <= MAX_BANDS:
            continue
        y, fold = sample.y[filled], sample.fold[filled]
        if sample.task == "regression" and codes.max() == 1 and any(np.ptp(y[codes == code]) == 0 for code in (0, 1)):
            continue  # a natural zero: customers without a card spend nothing
        shown = _banding(y, codes) if sample.task == "regression" else determination(level_codes(y), codes, fold)
        if shown.is_near:
            what = "band" if sample.task == "regression" else "group of classes"
            overlap = "without overlap" if shown.is_exact else f"except for {shown.n_errors:,} of {shown.n_rows:,} rows"
            evidence = f"each of its {codes.max() + 1} values is one {what} of {target}, {overlap}"
            bands[name] = Suspicion(evidence, _least_gain(name, sample, codes.max() + 1, shown))
    different = [alike[0] for alike in _grouped({name: level_codes(sample.columns[name]).tobytes() for name in bands})]
    shown_bands = {name: bands[name] for name in different[:MOST_COMPARED]}
    finer = {name: _determined_by(name, sample, shown_bands) for name in sample.columns if name not in bands}
    return bands | {
        name: Suspicion(f"it determines {band}, which is a band of {target}", bands[band].least_gain)
        for name, band in finer.items()
        if band
    }


def _by_shared_bands(sample: NumericSample, target: str) -> Suspicions:
    """Return the columns whose levels and the classes are two sets of bands of one quantity."""
    if sample.task == "regression":
        return {}
    found = {}
    for name, x in sample.columns.items():
        if name in sample.coded and (n_levels := shared_bands(x, sample.y)):
            evidence = f"its {n_levels} values and {target} overlap like bands of one quantity"
            found[name] = Suspicion(evidence, MIN_GAIN)
    return found


def _least_gain(name: str, sample: NumericSample, n_levels: int, shown: Determination) -> float:
    """Return the minimum gain over a model of the other columns for a band to be a leak.

    Intervals of a number without overlap are not a coincidence; a level for each class may be (mammals give milk).
    """
    if sample.task == "regression" and shown.is_exact:
        return -np.inf
    return MIN_GAIN_OF_TEXT if shown.is_exact and n_levels > 2 and name in sample.coded else MIN_GAIN


def _determined_by(name: str, sample: NumericSample, bands: Suspicions) -> str:
    """Return one of the bands that a column determines, or ``""``: it is a finer version, and leaks as much."""
    codes = level_codes(sample.columns[name])
    determined = (b for b in bands if determination(codes, level_codes(sample.columns[b]), sample.fold).is_exact)
    return next(determined, "")


def _banding(y: Array, codes: Array) -> Determination:
    """Return how accurately intervals of `y`, one for each level, determine `codes`."""
    from sklearn.tree import DecisionTreeClassifier

    tree = DecisionTreeClassifier(max_leaf_nodes=int(codes.max()) + 1, random_state=0).fit(y[:, None], codes)
    n_errors = int((tree.predict(y[:, None]) != codes).sum())
    return Determination(len(y), n_errors, len(y) - int(np.bincount(codes).max()), MIN_EXTREMES)


def _nearly_perfect(sample: NumericSample) -> dict[str, float]:
    """Return the scores of the columns that alone predict the target almost exactly."""
    names = list(sample.columns)
    if len(names) > MAX_TOGETHER:  # a tree for each would take minutes
        names = [name for name in names if name in sample.coded or could_be_exact(name, sample)]
    scores = {name: score(alone(name, sample), sample) for name in names}
    return {name: value for name, value in scores.items() if value >= LIMITS[sample.task]}


def _different(names: Sequence[str], sample: NumericSample) -> list[str]:
    """Return at most `EASY` columns that are not copies of each other in other units."""
    from scipy.stats import rankdata

    chosen: dict[str, Array] = {}
    for name in names:
        ranks = rankdata(np.nan_to_num(sample.columns[name], nan=-np.inf))
        if all(abs(np.corrcoef(ranks, other)[0, 1]) < SAME for other in chosen.values()):
            chosen[name] = ranks
        if len(chosen) == EASY:
            break
    return list(chosen)


def _dominating(sample: NumericSample, target: str) -> dict[str, str]:
    """Return the columns without which a model is much worse; often legitimate, so they are only reported."""
    sample = smaller(sample)
    targets = targets_of(sample)
    names = strongest([name for name in sample.columns if can_join(name, sample)], sample)
    if len(names) < 2:
        return {}
    likely = strongest(names, sample, MOST_COMPARED)
    powers = {name: share_explained(targets, alone(name, sample, MAX_STEPS)) for name in likely}
    predicted = together(names, sample)
    everything, found = share_explained(targets, predicted), {}
    for name in sorted(likely, key=lambda name: -powers[name])[:CANDIDATES]:
        if everything < MIN_EXPLAINED or powers[name] < MUCH * everything:
            continue
        others = together([other for other in names if other != name], sample)
        rest = share_explained(targets, others)
        if everything - rest >= WARN_GAIN and rest <= WARN_SHARE * everything:
            measure, values = MEASURES[sample.task], (score(predicted, sample), score(others, sample))
            found[name] = f"{measure} {values[0]:.3f} with it, {values[1]:.3f} without"
    return found


def _percent(share: float) -> str:
    """Return a share as a percentage, 100% only if it is exactly 1."""
    return "100%" if share == 1 else f"{min(share, 0.999):.1%}"
