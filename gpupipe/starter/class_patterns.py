"""Columns whose nulls, or whose most frequent value, state the class or the value of the target.

Each column is compared with the target on its own: a second column with the same nulls does not acquit the first.

- *both ways*: the rows in which a column is filled, or differs from its most frequent value, are those of one class, or
  those in which a number to predict is above a limit or differs from its most frequent value;
- *one way*: all filled rows, or all rows with a null, have one class, in more rows than chance allows; but not all rows
  with a mark of missing values, such as 99999, since it may as well be the largest value;
- *together*: the nulls of several columns determine the class.

A value of a complete column must leave many other values: a flag that marks one of several classes may be a trait.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from itertools import chain, combinations, product, starmap
from typing import Any, NamedTuple

import numpy as np

from gpupipe.starter.evidence import (
    FEW_ERRORS,
    MIN_GAIN_OF_TEXT,
    MIN_OTHERS,
    Suspicion,
    Suspicions,
    determination,
    grouped,
)
from gpupipe.starter.power import level_codes
from gpupipe.starter.sample import NumericSample
from gpupipe.starter.useless_columns import shown
from gpupipe.typing import Array

MAX_CLASSES = 100
MIN_OTHER_NUMBERS, MIN_OTHER_LEVELS = 10, 3  # distinct values besides the most frequent one
SPIKE = 3  # rows of the most frequent number, relative to the next one: otherwise it is one of many repeated entities
# One way: errors relative to those expected by chance, the largest class, and the evidence in nats.
NO_ERRORS = 0.01
NULL_ERRORS = 0.05
MAX_SHARE = 0.9
MIN_EVIDENCE = 20.0
MIN_SHARE_OF_NUMBER = 0.1  # of the rows, for a value of a column and of a number: fewer may be those of one entity
MAX_PAIRED = 20  # columns whose nulls are compared in pairs
REPEATED = 0.1  # rows in which two patterns may differ, relative to the smaller one


class Pattern(NamedTuple):
    """Rows of a column, what is true in them and in the others, and the minimum gain over a model of other columns."""

    word: str
    opposite: str
    rows: Array
    least_gain: float
    is_marked: bool = False  # the others have a mark of missing values


def patterns_of(name: str, sample: NumericSample) -> Iterator[Pattern]:
    """Yield the patterns of a column that have enough rows on both sides."""
    x = sample.columns[name]
    filled = ~np.isnan(x)
    found = [] if filled.all() else [Pattern("filled", "null", filled, -np.inf, name in sample.marked)]
    values, counts = np.unique(x[filled], return_counts=True)
    is_coded = name in sample.coded
    if len(values) > (MIN_OTHER_LEVELS if is_coded else MIN_OTHER_NUMBERS):
        gain = MIN_GAIN_OF_TEXT if is_coded else -np.inf
        mode, others = values[counts.argmax()], np.sort(counts)[:-1]
        for value in [mode] if is_coded or counts.max() >= SPIKE * others.max() else []:
            word, differs = _word(name, float(value), sample), filled & (x != value)
            null = "" if filled.all() else "null or "
            found.append(Pattern(f"{null}not {word}", word, ~filled | differs, gain))
            if null:
                found.append(Pattern(f"neither null nor {word}", f"null or {word}", differs, gain))
    for pattern in found:
        if min(pattern.rows.sum(), (~pattern.rows).sum()) >= MIN_OTHERS:
            yield pattern


def _word(name: str, value: float, sample: NumericSample) -> str:
    """Return a value as shown in the evidence; the sample does not have the texts of levels."""
    if name in sample.times:
        return str(np.datetime64(int(value), "us")).removesuffix("T00:00:00.000000")
    return "its most frequent value" if name in sample.coded else shown(value)


def find_patterns(sample: NumericSample, target: str, classes: Sequence[Any] = ()) -> Suspicions:
    """Return the columns of which a pattern states the target, with the numbers of rows."""
    if sample.task != "regression" and len(np.unique(sample.y)) > MAX_CLASSES:
        return {}
    found: Suspicions = {}
    for name in sample.columns:
        for pattern in patterns_of(name, sample):
            for suspicion in _suspicions(pattern, sample, target, classes):
                if name not in found or suspicion.least_gain < found[name].least_gain:
                    found[name] = suspicion
    return found


def find_repeats(doubtful: Collection[str], sample: NumericSample) -> set[str]:
    """Return the other columns that have nearly the pattern of a doubtful one, so that they would make it redundant."""
    wanted = list(chain.from_iterable(_halves(sample.columns[name]) for name in doubtful))
    if not wanted:
        return set()
    others = ((name, x) for name, x in sample.columns.items() if name not in doubtful)
    return {name for name, x in others if any(starmap(_is_repeat, product(_halves(x), wanted)))}


def _is_repeat(half: Array, rows: Array) -> bool:
    """Return whether a set of rows is nearly another one, or nearly all others."""
    differing = min((half ^ rows).sum(), (half ^ ~rows).sum())
    return bool(differing <= REPEATED * min(rows.sum(), (~rows).sum()))


def _halves(x: Array) -> list[Array]:
    """Return the rows in which a column is filled, and those in which it has its most frequent value."""
    values, counts = np.unique(x[~np.isnan(x)], return_counts=True)
    halves = [~np.isnan(x), *(x == value for value in values[counts.argsort()[-1:]])]
    return [half for half in halves if 0 < half.sum() < len(x)]


def _suspicions(pattern: Pattern, sample: NumericSample, target: str, classes: Sequence[Any]) -> Iterator[Suspicion]:
    """Yield the suspicions that a pattern raises, by its rows and by the others."""
    is_of_nulls, is_class = pattern.word == "filled", sample.task != "regression"
    one_way = {pattern.word: is_of_nulls, pattern.opposite: is_of_nulls and not pattern.is_marked}
    for word, rows in ((pattern.word, pattern.rows), (pattern.opposite, ~pattern.rows)):
        for text, event in _events(pattern, rows, sample, target, classes):
            n_all = len(rows)
            n_rows = int(rows.sum())
            n_event = int(event.sum())
            n_inside = int((rows & event).sum())
            smaller = min(n_rows, n_all - n_rows)
            share = n_event / n_all
            n_errors = n_rows - n_inside
            others = f"in {n_errors:,}" if n_errors else "in none"
            evidence = (
                f"{word} in {n_inside:,} of {n_event:,} rows with {text}, and {others} of the other {n_all - n_event:,}"
            )
            if (rows ^ event).sum() <= FEW_ERRORS * smaller:
                if is_of_nulls or is_class or smaller >= MIN_SHARE_OF_NUMBER * n_all:
                    yield Suspicion(evidence, pattern.least_gain)
            elif one_way[word] and is_class and share <= MAX_SHARE and -n_rows * np.log(share) >= MIN_EVIDENCE:
                rate = n_errors / (n_rows * (1 - share))
                if rate <= NULL_ERRORS:
                    yield Suspicion(evidence, -np.inf if rate <= NO_ERRORS else MIN_GAIN_OF_TEXT)


def _events(
    pattern: Pattern, rows: Array, sample: NumericSample, target: str, classes: Sequence[Any]
) -> Iterator[tuple[str, Array]]:
    """Yield the rows of the most frequent class in `rows`, or those of a number that may be the same as `rows`."""
    y = sample.y
    if sample.task != "regression":
        label = int(np.bincount(y[rows].astype(np.intp)).argmax())
        yield f"{target} = {str(shown(classes[label])).strip(chr(39)) if len(classes) else label}", y == label
        return
    values, counts = np.unique(y, return_counts=True)
    yield f"{target} other than {shown(float(values[counts.argmax()]))}", y != values[counts.argmax()]
    if pattern.least_gain == -np.inf:
        for limit in _limits(rows, y):
            yield f"{target} above {shown(limit)}", y > limit


def _limits(rows: Array, y: Array) -> list[float]:
    """Return the limit of a number above which there are as many of `rows`, and as few others, as possible."""
    order = y.argsort(kind="stable")
    excess = np.cumsum(np.where(rows[order], 1, -1))[:-1]
    excess = np.where(np.diff(y[order]) > 0, excess, len(y))  # not between equal numbers
    return [float(y[order][excess.argmin()])] if len(y) > 1 and np.ptp(y) > 0 else []


def find_joint_patterns(sample: NumericSample, target: str) -> Suspicions:
    """Return the fewest columns whose nulls determine the class, if there are some."""
    nulls = {name: np.isnan(x) for name, x in sample.columns.items() if np.isnan(x).any()}
    if sample.task == "regression" or not nulls or len(np.unique(sample.y)) > MAX_CLASSES:
        return {}
    y = level_codes(sample.y)

    def is_exact(names: Sequence[str]) -> bool:
        return determination(_pattern([nulls[name] for name in names]), y, sample.fold).is_exact

    nulls = {masks[0]: nulls[masks[0]] for masks in grouped({name: mask.tobytes() for name, mask in nulls.items()})}
    chosen = next(filter(is_exact, map(list, combinations(list(nulls)[:MAX_PAIRED], 2))), None)
    if chosen is None and is_exact(list(nulls)):
        chosen = list(nulls)
        for name in nulls:
            rest = [other for other in chosen if other != name]
            chosen = rest if rest and is_exact(rest) else chosen
    return dict.fromkeys(chosen or (), Suspicion(f"the nulls of {', '.join(chosen or ())} determine {target}"))


def _pattern(masks: Sequence[Array]) -> Array:
    """Return a code for each combination of nulls, shape (n_rows,)."""
    return np.unique(np.stack(masks, axis=1), axis=0, return_inverse=True)[1].reshape(-1)
