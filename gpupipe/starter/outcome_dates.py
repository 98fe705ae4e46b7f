"""Dates of the outcome: times whose distance from another time of the row states the target, and numbers made of them.

A cancelled contract ends before its term, and a case is closed once it is decided: such a date is not known when the
target is predicted. Only differences show this, so pairs of times are compared. A date is suspected if a difference has
one value for one class and others for another class, or predicts the target far better than both dates alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain, combinations
from typing import Any

import numpy as np

from gpupipe.starter.class_patterns import find_patterns
from gpupipe.starter.evidence import MIN_ROWS, Suspicion, Suspicions
from gpupipe.starter.power import LIMITS, MEASURES, alone, area_under_curve, score, smaller, targets_of
from gpupipe.starter.sample import NumericSample
from gpupipe.typing import Array

MAX_TIMES = 8  # 28 pairs, each with a tree
DAY = 86_400e6  # microseconds
STRONG, WARNED = 0.9, 0.75  # ROC-AUC of a difference that ends with the latest date of the row, for a class
MIN_ADVANTAGE = 0.1  # of a difference over the dates alone
LATEST = 0.99  # share of the rows in which a date is the latest one
UNITS = {"seconds": 1 / 86_400, "minutes": 1 / 1_440, "hours": 1 / 24, "days": 1.0, "weeks": 7.0}
UNITS |= {"months": 30.4375, "years": 365.25}
MIN_UNITS = 5  # of the spread of a difference, so that rounding does not hide other numbers
EQUAL = 0.99  # share of the rows


def find_outcome_dates(
    sample: NumericSample, target: str, classes: Sequence[Any] = ()
) -> tuple[Suspicions, dict[str, str]]:
    """Return the dates of the outcome, and dates to review because a difference is merely strong; with the evidence."""
    names = [name for name in sample.columns if name in sample.times][:MAX_TIMES]
    if len(names) < 2:
        return {}, {}
    sample = smaller(replace(sample, columns={name: sample.columns[name] for name in names}))
    powers = {name: _power(name, sample) for name in names}
    certain: dict[tuple[str, str], str] = {}
    doubtful: dict[tuple[str, str], str] = {}
    for pair in combinations(sorted(names, key=lambda name: -float(np.nanmean(sample.columns[name]))), 2):
        evidence, is_certain = _evidence(pair, powers, sample, target, classes)
        if evidence:
            (certain if is_certain else doubtful)[pair] = evidence
    dates = {name: Suspicion(evidence) for name, evidence in _blamed(certain, powers).items()}
    review = {pair: evidence for pair, evidence in doubtful.items() if not dates.keys() & set(pair)}
    return dates, _blamed(review, powers)


def _evidence(
    pair: tuple[str, str], powers: Mapping[str, float], sample: NumericSample, target: str, classes: Sequence[Any]
) -> tuple[str, bool]:
    """Return the evidence against a pair of dates, often empty, and whether it suffices to drop one of them."""
    later, earlier = pair
    days = (sample.columns[later] - sample.columns[earlier]) / DAY
    known = ~np.isnan(days)
    if known.sum() < MIN_ROWS:
        return "", False
    name = f"{later} - {earlier}"
    differences = replace(sample, columns={name: days}, times=frozenset(), coded=frozenset())
    is_new = not find_patterns(replace(sample, columns={each: sample.columns[each] for each in pair}), target, classes)
    if is_new and (found := find_patterns(differences, target, classes)):
        return f"{name} in days: {found[name].evidence}", True
    value = _power(name, differences)
    if value - max(powers[later], powers[earlier]) < MIN_ADVANTAGE or value < WARNED:
        return "", False
    latest = np.fmax.reduce(list(sample.columns.values()))
    is_latest = np.mean(sample.columns[later][known] >= latest[known]) >= LATEST
    least = STRONG if is_latest and sample.task != "regression" else LIMITS[sample.task]
    measure = MEASURES["regression" if sample.task == "regression" else "binary"]
    return f"{name} alone predicts {target} with {measure} {value:.3f} on held-out rows", value >= least


def _power(name: str, sample: NumericSample) -> float:
    """Return the score of a column alone, of several classes that of the one which it predicts best."""
    predicted = alone(name, sample)
    if sample.task != "multiclass":
        return score(predicted, sample)
    is_class = targets_of(sample)
    return max(area_under_curve(is_class[:, i], predicted[:, i]) for i in range(is_class.shape[1]))


def _blamed(pairs: Mapping[tuple[str, str], str], powers: Mapping[str, float]) -> dict[str, str]:
    """Return the dates that explain all suspicious pairs: first those in most pairs, then the stronger or later one."""
    left, found = dict(pairs), {}
    while left:
        names = list(dict.fromkeys(chain.from_iterable(left)))
        worst = max(names, key=lambda name: (sum(name in pair for pair in left), max(0, powers[name] - 0.45) // 0.1))
        found[worst] = next(evidence for pair, evidence in left.items() if worst in pair)
        left = {pair: evidence for pair, evidence in left.items() if worst not in pair}
    return found


def find_derived_numbers(sample: NumericSample, dates: Sequence[str], known: Suspicions) -> Suspicions:
    """Return the numbers that equal the difference of a suspected date and another one, such as days active."""
    found = {}
    times = [name for name in sample.columns if name in sample.times][: 2 * MAX_TIMES]
    for date in dates[:MAX_TIMES]:
        for other in (name for name in times if name != date):
            days = np.abs(sample.columns[date] - sample.columns[other]) / DAY
            for name, x in sample.columns.items():
                if name not in sample.times | sample.coded | known.keys() and (unit := _unit_of(np.abs(x), days)):
                    evidence = f"it is the time between {other} and {date} in {unit}; {date}: {known[date].evidence}"
                    found[name] = Suspicion(evidence, known[date].least_gain)
    return found


def _unit_of(x: Array, days: Array) -> str:
    """Return the unit in which a number is a duration, up to rounding and a constant; ``""`` for other numbers."""
    both = ~np.isnan(x) & ~np.isnan(days)
    if both.sum() < MIN_ROWS:
        return ""
    for unit, size in UNITS.items():
        rest = x[both] * size - days[both]
        is_wide = np.ptp(np.percentile(days[both], [5, 95])) >= MIN_UNITS * size
        if is_wide and np.mean(np.abs(rest - np.median(rest)) <= size) >= EQUAL:
            return unit
    return ""
