"""Enumeration of the features that `generate` tries, within limits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, combinations, product
from typing import Literal

import numpy as np

Family = Literal["arithmetic", "crosses", "groups"]

PAIR_FORMS = ("a + b", "a - b", "a * b", "a / b", "b / a")
TRIPLE_FORMS = ("(a - b) / c", "(a + b) / c", "a * b / c", "a * b * c")
CROSS_FORMS = ("target", "frequency")
GROUP_FORMS = ("difference", "z-score", "ratio")


@dataclass(frozen=True)
class FeatureCandidate:
    """A feature that may be added."""

    family: Family
    # Of arithmetic, a formula of a, b and c. Of crosses, "target" or "frequency". Of groups, "difference", "z-score" or
    # "ratio".
    form: str
    # Of arithmetic, the columns a, b and c; of crosses, the crossed columns; of groups, the number and the category.
    columns: tuple[str, ...]

    @property
    def name(self) -> str:
        """Name of the new column, such as ``spend / visits`` or ``spend - mean by city``."""
        if self.family == "arithmetic":
            return "".join(dict(zip("abc", self.columns, strict=False)).get(c, c) for c in self.form)
        if self.family == "crosses":
            return f"{' x '.join(self.columns)} ({self.form})"
        number, group = self.columns
        return {
            "difference": f"{number} - mean by {group}",
            "ratio": f"{number} / mean by {group}",
            "z-score": f"{number} (z-score by {group})",
        }[self.form]


def enumerate_arithmetic(
    numbers: Mapping[str, int], order: int, most: int, rng: np.random.Generator
) -> list[FeatureCandidate]:
    """Return at most `most` formulas of two, or with `order` 3 up to three, of the numbers.

    `numbers` maps column names, the most informative first, to their positions in the table. `rng` chooses among the
    columns if there are too many.
    """
    pairs = _choose(numbers, 2, len(PAIR_FORMS), most, rng)
    found = [FeatureCandidate("arithmetic", form, pair) for pair, form in product(pairs, PAIR_FORMS)]
    if order > 2 and len(found) < most:
        triples = _choose(numbers, 3, 3 * len(TRIPLE_FORMS) - 2, most - len(found), rng)
        found += chain.from_iterable(map(_triples, triples))
    return found[:most]


def _triples(columns: tuple[str, ...]) -> Iterator[FeatureCandidate]:
    for turn in range(3):  # each column in the place of c once
        turned = (*columns[turn:], *columns[:turn])
        for form in TRIPLE_FORMS:
            if turn == 0 or form != "a * b * c":
                yield FeatureCandidate("arithmetic", form, turned)


def enumerate_crosses(
    categories: Mapping[str, int],
    sizes: Mapping[str, int],
    order: int,
    most: int,
    most_cells: int,
    rng: np.random.Generator,
) -> list[FeatureCandidate]:
    """Return at most `most` encoded combinations of categories that have at most `most_cells` raw combinations.

    `sizes` has the number of raw indices of each column; for the other parameters, see `enumerate_arithmetic`.
    """
    found: list[FeatureCandidate] = []
    for n in range(2, order + 1):
        for columns in _choose(categories, n, len(CROSS_FORMS), most - len(found), rng):
            if np.prod([float(sizes[name]) for name in columns]) <= most_cells:
                found += [FeatureCandidate("crosses", form, columns) for form in CROSS_FORMS]
    return found[:most]


def enumerate_groups(
    numbers: Sequence[str], categories: Sequence[str], most: int, rng: np.random.Generator
) -> list[FeatureCandidate]:
    """Return at most `most` numbers relative to the rows of the same level; parameters as in `enumerate_arithmetic`."""
    pairs = [(number, group) for group, number in product(categories, numbers)]
    limit = -(-most // len(GROUP_FORMS))
    if len(pairs) > limit:
        pairs = [pairs[i] for i in sorted(rng.choice(len(pairs), limit, replace=False))]
    return [FeatureCandidate("groups", form, pair) for pair, form in product(pairs, GROUP_FORMS)][:most]


def _choose(
    columns: Mapping[str, int], n: int, forms: int, most: int, rng: np.random.Generator
) -> list[tuple[str, ...]]:
    """Return sets of `n` columns, each in the order of the table; `forms` candidates of each are about `most` at most.

    Half of them consist of the first names, which are the most informative alone; the others are drawn at random, since
    columns may be informative only together.
    """
    limit, names = max(0, -(-most // forms)), list(columns)
    n_first = n
    while _count(n_first + 1, n) <= limit // 2 and n_first < len(names):
        n_first += 1
    if _count(len(names), n) <= limit:
        return [tuple(sorted(chosen, key=columns.__getitem__)) for chosen in combinations(names, n)]
    found = dict.fromkeys(combinations(names[:n_first], n))
    for _ in range(8 * limit):  # most draws are new as long as the sets outnumber the limit
        if len(found) >= limit:
            break
        places = sorted(rng.choice(len(names), n, replace=False))
        found[tuple(names[i] for i in places)] = None
    return [tuple(sorted(chosen, key=columns.__getitem__)) for chosen in list(found)[:limit]]


def _count(m: int, n: int) -> int:
    return m * (m - 1) // 2 if n == 2 else m * (m - 1) * (m - 2) // 6
