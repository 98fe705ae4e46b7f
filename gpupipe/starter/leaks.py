"""Leak detection: columns that restate the target are dropped, and columns that dominate it are reported.

A column is dropped, with the evidence, if its relation to the target is not that of a measurement:

- *levels*: each of its values belongs to a single class (a finer label, another spelling, a key of the same thing);
- *patterns*: its nulls, or its most frequent value, state the class (`gpupipe.starter.class_patterns`);
- *dates*: its difference from another date states the class (`gpupipe.starter.outcome_dates`);
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

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from gpupipe.starter.class_patterns import MAX_CLASSES, find_joint_patterns, find_patterns, find_repeats
from gpupipe.starter.evidence import (
    MIN_GAIN_OF_TEXT,
    MIN_ROWS,
    Determination,
    Suspicion,
    Suspicions,
    determination,
    grouped,
    shared_bands,
)
from gpupipe.starter.outcome_dates import find_derived_numbers, find_outcome_dates
from gpupipe.starter.power import (
    LIMITS,
    MAX_TOGETHER,
    MEASURES,
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
from gpupipe.starter.sample import NumericSample
from gpupipe.typing import Array

MIN_EXTREMES = 5  # the same for an interval of a number: 5 extremes of 100 rows do not match by chance
MAX_BANDS = 50
MOST_COMPARED = 20  # columns that each need a model or a comparison with all others
EASY = 3  # different columns that predict the class: then the task is easy
SAME = 0.999  # rank correlation
MAX_ERROR_SHARE = 0.25  # of the error of a model of all others
MIN_GAIN = 0.1  # of the target's variance, over a model of the other columns
# Warning thresholds: the power of a column, the loss without it, and the share that the others explain.
MUCH = 0.5
WARN_GAIN = 0.1
WARN_SHARE = 0.75
CANDIDATES = 2
MAX_STEPS = 16
MIN_EXPLAINED = 0.3


@dataclass(frozen=True)
class LeakReport:
    """Leaks and suspicious columns.

    - `leaks`: columns to drop, with the evidence.
    - `warnings`: columns to review, with the evidence.
    - `unchecked`: suspected columns that were not compared with a model, after the first `MOST_COMPARED`; they are
      kept.
    """

    leaks: dict[str, str]
    warnings: dict[str, str]
    unchecked: Sequence[str] = ()


def find_leaks(sample: NumericSample, target: str, classes: Sequence[Any] = ()) -> LeakReport:
    """Return the columns that restate the target, and those that dominate it.

    - `target`: the name of the target, for the evidence.
    - `classes`: the label of each class code.
    """
    if len(sample.y) < MIN_ROWS or not sample.columns:
        return LeakReport({}, {})
    suspects = _by_levels(sample, target)
    certain = [name for name, found in suspects.items() if found.least_gain == -np.inf]
    suspects |= find_patterns(sample.without(certain), target, classes)
    dates, warnings = find_outcome_dates(sample.without(suspects), target, classes)
    suspects |= dates
    suspects |= find_derived_numbers(sample, [name for name in suspects if name in sample.times], suspects)
    suspects |= find_joint_patterns(sample.without(suspects), target)
    suspects |= _by_bands(sample.without(suspects), target)
    suspects |= _by_shared_bands(sample.without(suspects), target)
    perfect = _nearly_perfect(sample.without(suspects))
    repeats = find_repeats([name for name, found in suspects.items() if found.least_gain > -np.inf], sample)
    others = _Others(sample, {*suspects, *perfect, *repeats})
    exact = {name: found for name, found in suspects.items() if found.least_gain == -np.inf}
    doubtful = strongest([name for name in suspects if name not in exact], sample, MOST_COMPARED)
    proven = {*exact, *(name for name in doubtful if others.gains(name, suspects[name].least_gain))}
    leaks = {name: found.evidence for name, found in suspects.items() if name in proven}
    is_easy = len(_different(list(perfect), sample)) >= EASY
    for name, value in perfect.items():
        if not is_easy and (1 - value) <= MAX_ERROR_SHARE * (1 - others.score()):
            leaks[name] = f"alone it predicts {target} with {MEASURES[sample.task]} {value:.3f} on held-out rows"
    unchecked = [name for name in suspects if name not in exact and name not in doubtful]
    dominating = _dominating(sample.without([*leaks, *warnings]), target)
    return LeakReport(leaks, {**warnings, **dominating}, unchecked)


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
    different = [alike[0] for alike in grouped({name: level_codes(sample.columns[name]).tobytes() for name in bands})]
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
