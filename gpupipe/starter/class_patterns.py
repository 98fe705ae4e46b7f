"""Columns whose nulls, or whose most frequent value, state the class or the value of the target.

Each column is compared with the target on its own: a second column with the same nulls does not acquit the first.

- *both ways*: the rows in which a column is filled, or differs from its most frequent value, are those of one class, or
  those in which a number to predict is above a limit (for nulls) or differs from its most frequent value;
- *one way*: all filled rows, or all rows with a null, have one class, in more rows than chance allows;
- *together*: the nulls of several columns determine the class.

A value of a complete column must leave many other values: a flag that marks one of several classes may be a trait.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpupipe.starter.evidence import (
    FEW_ERRORS,
    MIN_GAIN_OF_TEXT,
    MIN_OTHERS,
    Determination,
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
# One way: errors relative to those expected by chance, the largest class, and the evidence in nats.
NO_ERRORS, NULL_ERRORS, MAX_SHARE, MIN_EVIDENCE = 0.01, 0.05, 0.9, 20.0
REPEATED = 0.1  # rows in which two patterns may differ, relative to the smaller one


@dataclass(frozen=True)
class Pattern:
    """Rows of a column: those that are filled, or that have another value than the most frequent one.

    Attributes
    ----------
    word, opposite : str
        What is true in these rows, and in the others: ``filled`` and ``null``.
    rows : array of bool, shape (n_rows,)
    least_gain : float
        Minimum gain over a model of the other columns for the pattern to be a leak.
    """

    word: str
    opposite: str
    rows: Array
    least_gain: float = -np.inf

    @property
    def is_of_nulls(self) -> bool:
        """True if the pattern is that of the nulls alone."""
        return self.word == "filled"


def patterns_of(name: str, sample: NumericSample) -> Iterator[Pattern]:
    """Yield the patterns of a column that have enough rows on both sides."""
    x = sample.columns[name]
    filled = ~np.isnan(x)
    found = [] if filled.all() else [Pattern("filled", "null", filled)]
    values, counts = np.unique(x[filled], return_counts=True)
    is_coded = name in sample.coded
    if len(values) > (MIN_OTHER_LEVELS if is_coded else MIN_OTHER_NUMBERS):
        gain = MIN_GAIN_OF_TEXT if is_coded else -np.inf
        for value in dict.fromkeys([values[counts.argmax()], 0.0] if not is_coded else [values[counts.argmax()]]):
            word, differs = _word(name, float(value), sample), filled & (x != value)
            found.append(
                Pattern(f"not {word}" if filled.all() else f"null or not {word}", word, ~filled | differs, gain)
            )
            if not filled.all():
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
    stated = _stated_number if sample.task == "regression" else _stated_class
    found: Suspicions = {}
    for name in sample.columns:
        for pattern in patterns_of(name, sample):
            suspicion = stated(pattern, sample.y, target, classes)
            if suspicion and (name not in found or suspicion.least_gain < found[name].least_gain):
                found[name] = suspicion
    return found


def find_repeats(doubtful: Collection[str], sample: NumericSample) -> set[str]:
    """Return the other columns that have nearly the pattern of a doubtful one, so that they would make it redundant."""
    wanted = [pattern.rows for name in doubtful for pattern in patterns_of(name, sample)]
    return {
        name
        for name in sample.columns
        if name not in doubtful
        for pattern in patterns_of(name, sample)
        for rows in wanted
        if min((pattern.rows ^ rows).sum(), (pattern.rows ^ ~rows).sum()) <= REPEATED * min(rows.sum(), (~rows).sum())
    }


def _stated_class(pattern: Pattern, y: Array, target: str, classes: Sequence[Any]) -> Suspicion | None:
    codes = y.astype(np.intp)
    totals = np.bincount(codes)
    best: tuple[float, str] | None = None
    for word, rows in ((pattern.word, pattern.rows), (pattern.opposite, ~pattern.rows)):
        inside = np.bincount(codes[rows], minlength=len(totals))
        label = int(inside.argmax())
        n_rows, n_errors, n_missed = (
            int(rows.sum()),
            int(rows.sum() - inside[label]),
            int(totals[label] - inside[label]),
        )
        share = totals[label] / len(y)
        gain = None
        if n_errors + n_missed <= FEW_ERRORS * min(n_rows, len(y) - n_rows):
            gain = pattern.least_gain
        elif pattern.is_of_nulls and share <= MAX_SHARE and -n_rows * np.log(share) >= MIN_EVIDENCE:
            rate = n_errors / (n_rows * (1 - share))
            gain = -np.inf if rate <= NO_ERRORS else MIN_GAIN_OF_TEXT if rate <= NULL_ERRORS else None
        if gain is not None and (best is None or gain < best[0]):
            named = shown(classes[label]).strip("'") if len(classes) else f"{label}"
            counts = inside[label], totals[label], n_errors, len(y) - totals[label]
            best = gain, _evidence(word, f"{target} = {named}", *map(int, counts))
    return Suspicion(best[1], best[0]) if best else None


def _stated_number(pattern: Pattern, y: Array, target: str, classes: Sequence[Any]) -> Suspicion | None:
    values, counts = np.unique(y, return_counts=True)
    mode = values[counts.argmax()]
    conditions = [(f"{target} other than {shown(float(mode))}", y != mode)]
    if pattern.is_of_nulls:
        conditions += [(f"{target} above {shown(float(limit))}", y > limit) for limit in _limits(pattern.rows, y)]
    for text, above in conditions:
        for word, rows in ((pattern.word, pattern.rows), (pattern.opposite, ~pattern.rows)):
            smaller = min(rows.sum(), (~rows).sum(), above.sum(), (~above).sum())
            if smaller >= MIN_OTHERS and (rows ^ above).sum() <= FEW_ERRORS * smaller:
                counts = (rows & above).sum(), above.sum(), (rows & ~above).sum(), (~above).sum()
                return Suspicion(_evidence(word, text, *map(int, counts)), pattern.least_gain)
    return None


def _limits(rows: Array, y: Array) -> list[float]:
    """Return the limits of a number that separate `rows` best from the others, in either direction."""
    order = y.argsort(kind="stable")
    below = np.cumsum(np.where(rows[order], 1, -1))
    is_last = np.append(np.diff(y[order]) > 0, False)  # of equal numbers
    scores = [np.where(is_last, sign * below, len(y)) for sign in (1, -1)]
    return [float(y[order][score.argmin()]) for score in scores if is_last.any()]


def _evidence(word: str, text: str, n_inside: int, n_rows: int, n_errors: int, n_others: int) -> str:
    others = "none" if n_errors == 0 else f"{n_errors:,}"
    return f"{word} in {n_inside:,} of {n_rows:,} rows with {text}, and in {others} of the other {n_others:,}"


def find_joint_patterns(sample: NumericSample, target: str) -> Suspicions:
    """Return a column, or a set of columns, whose nulls determine the class."""
    nulls = {name: np.isnan(x) for name, x in sample.columns.items() if np.isnan(x).any()}
    if sample.task == "regression" or not nulls or len(np.unique(sample.y)) > MAX_CLASSES:
        return {}
    y = level_codes(sample.y)

    def shown_by(names: Sequence[str]) -> Determination:
        return determination(_pattern([nulls[name] for name in names]), y, sample.fold)

    if not shown_by(list(nulls)).is_exact:
        return {}
    nulls = {masks[0]: nulls[masks[0]] for masks in grouped({name: mask.tobytes() for name, mask in nulls.items()})}
    chosen: list[str] = []
    while not (chosen and shown_by(chosen).is_exact):
        left = [name for name in nulls if name not in chosen]
        chosen.append(min(left, key=lambda name: shown_by([*chosen, name]).n_errors))
    if len(chosen) == 1:
        return {chosen[0]: Suspicion(f"its nulls determine {target}")}
    return dict.fromkeys(chosen, Suspicion(f"the nulls of {', '.join(chosen)} determine {target}"))


def _pattern(masks: Sequence[Array]) -> Array:
    """Return a code for each combination of nulls, shape (n_rows,)."""
    return np.unique(np.stack(masks, axis=1), axis=0, return_inverse=True)[1].reshape(-1)
