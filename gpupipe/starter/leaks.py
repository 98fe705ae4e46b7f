"""Columns that restate the target. They are dropped, each with its evidence; columns that only dominate are reported.

A column is dropped where its relation to the target is one that no measurement has:

- *levels*: each of its values belongs to a single class (a finer label, another spelling, a key of the same thing);
- *nulls*: it is filled in, or missing, only where the target is one class; or several columns are, together;
- *bands*: the target determines it (a colour for a band of the score, a coarser label); of classes, only where a model
  of the other columns does not know what it says;
- *shared bands*: its values and the classes overlap as two sets of intervals of one number do (a colour for a band of
  the score that the class is another band of), and other columns do not know what it says;
- *alone*: it predicts nearly without error, and no model of the other columns comes near; unless three columns do.

Everything is measured on rows that were not learned from. A column that is merely strong (the odour of a mushroom, the
carat of a diamond) fails all of them: its levels overlap, or other columns know what it says.
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
MIN_OTHERS = 20  # rows beside the most frequent class: what a determination is shown on
MIN_EXTREMES = 5  # the same of an interval of a number: five extremes of a hundred rows are none by chance
FEW_ERRORS, MORE_ERRORS = 0.01, 0.05  # of those rows; with more, other columns must not make up for it
MAX_CLASSES = 100
MAX_BANDS = 50
# The score of a column alone. A number may be known well from one other (yesterday's), a class hardly ever.
LIMITS = {"binary": 0.975, "multiclass": 0.975, "regression": 0.99}
MOST_COMPARED = 20  # columns that each need a model, or a comparison with every other column
EASY = 3  # columns that know the class, each in its own way
SAME = 0.999  # rank correlation
MAX_ERROR_SHARE = 0.25  # what it misses, of what all others miss: if they miss little too, the task is easy
MIN_GAIN = 0.1  # of the target's variance, over a model of the other columns
MIN_GAIN_OF_TEXT = 0.02  # of three texts and more: measurements are numbers or two words
# Nulls on one side of which nearly all rows are of one class, which is not the rule elsewhere.
NULL_ERRORS, MAX_SHARE, MIN_EVIDENCE = 0.05, 0.9, 20.0
# A column that is worth a warning: what the others explain without it, of what all explain.
MUCH, WARN_GAIN, WARN_SHARE = 0.5, 0.1, 0.75
CANDIDATES, MAX_STEPS, MIN_EXPLAINED = 2, 16, 0.3
MEASURES = {
    "binary": "ROC-AUC",
    "multiclass": "balanced accuracy",
    "regression": "R² of the ranks",
}


@dataclass(frozen=True)
class LeakReport:
    """Leaks and suspicions found.

    Attributes
    ----------
    leaks : mapping of str to str
        Columns to drop, with the evidence.
    warnings : mapping of str to str
        Columns to think about, with the evidence.
    unjudged : sequence of str
        Suspected columns beyond the `MOST_COMPARED` that a model was compared with; they are kept.
    """

    leaks: dict[str, str]
    warnings: dict[str, str]
    unjudged: Sequence[str] = ()


@dataclass(frozen=True)
class Suspicion:
    """Evidence against a column, and the gain over a model of the other columns from which it is dropped."""

    evidence: str
    least_gain: float = -np.inf


Suspicions = dict[str, Suspicion]


def find_leaks(sample: NumericSample, target: str, classes: Sequence[Any] = ()) -> LeakReport:
    """Return the columns that restate the target, and those that dominate it.

    Parameters
    ----------
    sample : NumericSample
    target : str
        What the target is called in the evidence.
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
            leaks[name] = f"alone it predicts {target}, {MEASURES[sample.task]} {value:.3f} on rows not learned from"
    unjudged = [name for name in suspects if name not in exact and name not in doubtful]
    return LeakReport(leaks, _dominating(sample.without(leaks), target), unjudged)


class _Others:
    """A model of the columns that nothing speaks against; trained when first used."""

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
        """Return whether at least so much more of the target is explained with one column more."""
        if least == -np.inf:
            return True
        targets = targets_of(self._sample)
        can = can_join(name, self._sample)
        more = together([*self._names, name], self._sample) if can else alone(name, self._sample)
        return share_explained(targets, more) - share_explained(targets, self.predicted) >= least


@dataclass(frozen=True)
class Determination:
    """How far one column's levels determine another's, on held-out rows whose level was seen in the others."""

    n_rows: int
    n_errors: int
    n_others: int  # rows beside the most frequent outcome: errors without the column
    min_others: int = MIN_OTHERS

    @property
    def is_exact(self) -> bool:
        """Whether errors are so few that they are slips."""
        return self.n_others >= self.min_others and self.n_errors <= FEW_ERRORS * self.n_others

    @property
    def is_near(self) -> bool:
        """Whether errors are few."""
        return self.n_others >= self.min_others and self.n_errors <= MORE_ERRORS * self.n_others


def determination(codes: Array, outcomes: Array, fold: Array) -> Determination:
    """Return how far `codes` determine `outcomes`, both codes from 0 on; nothing if most levels are there once."""
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
    """Find the columns each of whose values belongs to one class, where they are filled in."""
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
            rows = f"{shown.n_rows:,} rows" if filled.all() else f"the {shown.n_rows:,} rows that have one"
            evidence = f"each of its values belongs to one {target}: right in {_percent(share)} of {rows}"
            found[name] = Suspicion(evidence, -np.inf if shown.is_exact else MIN_GAIN)
    return found


def _by_nulls(sample: NumericSample, target: str, classes: Sequence[Any]) -> Suspicions:
    """Find the columns that are filled in, or missing, only where the target is one class."""
    if sample.task == "regression":
        return {}
    found = {}
    labels, counts = np.unique(sample.y, return_counts=True)
    for name, x in sample.columns.items():
        missing = np.isnan(x)
        for side, rows in (("filled in", ~missing), ("missing", missing)):
            for label, share in zip(labels, counts / len(sample.y), strict=True):
                if not rows.any() or rows.all() or share > MAX_SHARE:
                    continue
                errors = 1 - float(np.mean(sample.y[rows] == label))
                if errors <= NULL_ERRORS * (1 - share) and -rows.sum() * np.log(share) >= MIN_EVIDENCE:
                    shown = classes[int(label)] if len(classes) else label
                    evidence = f"where it is {side}, {target} is {shown} in {_percent(1 - errors)} of the rows"
                    found[name] = Suspicion(evidence, MIN_GAIN_OF_TEXT)
    return found


def _by_null_pattern(sample: NumericSample, target: str) -> Suspicions:
    """Find columns whose nulls determine the class: one, or several together."""
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
        return {chosen[0]: Suspicion(f"whether it is missing tells {target}")}
    return dict.fromkeys(chosen, Suspicion(f"which of {', '.join(chosen)} are missing tells {target}"))


def _grouped(keys: Mapping[str, bytes]) -> list[list[str]]:
    """Return the names of each key, in the order in which the keys first appear."""
    groups: dict[bytes, list[str]] = {}
    for name, key in keys.items():
        groups.setdefault(key, []).append(name)
    return list(groups.values())


def _pattern(masks: Sequence[Array]) -> Array:
    """Return a code for each combination of nulls."""
    return np.unique(np.stack(masks, axis=1), axis=0, return_inverse=True)[1].reshape(-1)


def _by_bands(sample: NumericSample, target: str) -> Suspicions:
    """Find the columns that the target determines: bands of a number, unions of classes; and those that tell them."""
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
            continue  # those who have no card spend nothing
        shown = _banding(y, codes) if sample.task == "regression" else determination(level_codes(y), codes, fold)
        if shown.is_near:
            what = "band" if sample.task == "regression" else "group of classes"
            overlap = "without overlap" if shown.is_exact else f"except {shown.n_errors:,} of {shown.n_rows:,} rows"
            evidence = f"each of its {codes.max() + 1} values is one {what} of {target}, {overlap}"
            bands[name] = Suspicion(evidence, _least_gain(name, sample, codes.max() + 1, shown))
    different = [alike[0] for alike in _grouped({name: level_codes(sample.columns[name]).tobytes() for name in bands})]
    shown_bands = {name: bands[name] for name in different[:MOST_COMPARED]}
    finer = {name: _determined_by(name, sample, shown_bands) for name in sample.columns if name not in bands}
    return bands | {
        name: Suspicion(f"it determines {band}, a band of {target}", bands[band].least_gain)
        for name, band in finer.items()
        if band
    }


def _by_shared_bands(sample: NumericSample, target: str) -> Suspicions:
    """Find the columns whose levels and the classes are two sets of bands of one quantity."""
    if sample.task == "regression":
        return {}
    found = {}
    for name, x in sample.columns.items():
        if name in sample.coded and (n_levels := shared_bands(x, sample.y)):
            evidence = f"its {n_levels} values and {target} overlap as bands of one quantity do"
            found[name] = Suspicion(evidence, MIN_GAIN)
    return found


def _least_gain(name: str, sample: NumericSample, n_levels: int, shown: Determination) -> float:
    """Return how much a band must add to a model of the other columns to be taken for a leak.

    Intervals of a number that do not overlap are no accident. One level for each class may be: all mammals give milk.
    """
    if sample.task == "regression" and shown.is_exact:
        return -np.inf
    return MIN_GAIN_OF_TEXT if shown.is_exact and n_levels > 2 and name in sample.coded else MIN_GAIN


def _determined_by(name: str, sample: NumericSample, bands: Suspicions) -> str:
    """Return one of the bands that a column determines: it is a finer one, and would hide what the band gives away."""
    codes = level_codes(sample.columns[name])
    determined = (b for b in bands if determination(codes, level_codes(sample.columns[b]), sample.fold).is_exact)
    return next(determined, "")


def _banding(y: Array, codes: Array) -> Determination:
    """Return how far intervals of `y`, one for each level, determine `codes`: too few of them to learn by heart."""
    from sklearn.tree import DecisionTreeClassifier

    tree = DecisionTreeClassifier(max_leaf_nodes=int(codes.max()) + 1, random_state=0).fit(y[:, None], codes)
    n_errors = int((tree.predict(y[:, None]) != codes).sum())
    return Determination(len(y), n_errors, len(y) - int(np.bincount(codes).max()), MIN_EXTREMES)


def _nearly_perfect(sample: NumericSample) -> dict[str, float]:
    """Return the score of each column that alone predicts the target nearly without error."""
    names = list(sample.columns)
    if len(names) > MAX_TOGETHER:  # a tree for each would take minutes
        names = [name for name in names if name in sample.coded or could_be_exact(name, sample)]
    scores = {name: score(alone(name, sample), sample) for name in names}
    return {name: value for name, value in scores.items() if value >= LIMITS[sample.task]}


def _different(names: Sequence[str], sample: NumericSample) -> list[str]:
    """Return columns that are not another one in other units, `EASY` of them at most."""
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
    """Find the columns without which a model is far worse: worth a thought, and often honest."""
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
    """Return a share as a percentage that is 100% only where it is all."""
    return "100%" if share == 1 else f"{min(share, 0.999):.1%}"
