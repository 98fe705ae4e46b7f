"""Enumeration of the features that `generate` tries, within limits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, product
from typing import Literal

import numpy as np

Family = Literal["arithmetic", "crosses", "groups"]

PAIR_FORMS = ("a + b", "a - b", "a * b", "a / b", "b / a")
CROSS_FORMS = ("target", "frequency")
GROUP_FORMS = ("difference", "z-score", "ratio")


@dataclass(frozen=True)
class FeatureCandidate:
    """A feature that may be added."""

    family: Family
    # Of arithmetic, a formula of a and b. Of crosses, "target" or "frequency". Of groups, "difference", "z-score" or
    # "ratio".
    form: str
    # Of arithmetic, the columns a and b; of crosses, the crossed columns; of groups, the number and the category.
    columns: tuple[str, ...]

    @property
    def name(self) -> str:
        """Name of the new column, such as ``spend / visits`` or ``spend - mean by city``."""
        if self.family == "arithmetic":
            return "".join(dict(zip("ab", self.columns, strict=True)).get(c, c) for c in self.form)
        if self.family == "crosses":
            return f"{' x '.join(self.columns)} ({self.form})"
        number, group = self.columns
        return {
            "difference": f"{number} - mean by {group}",
            "ratio": f"{number} / mean by {group}",
            "z-score": f"{number} (z-score by {group})",
        }[self.form]


def enumerate_arithmetic(numbers: Mapping[str, int], most: int, rng: np.random.Generator) -> list[FeatureCandidate]:
    """Return at most `most` formulas of two of the numbers.

    `numbers` maps column names, the most informative first, to their positions in the table. `rng` chooses among the
    columns if there are too many.
    """
    pairs = _choose_pairs(numbers, len(PAIR_FORMS), most, rng)
    return [FeatureCandidate("arithmetic", form, pair) for pair, form in product(pairs, PAIR_FORMS)][:most]


def enumerate_crosses(
    categories: Mapping[str, int],
    sizes: Mapping[str, int],
    most: int,
    most_cells: int,
    rng: np.random.Generator,
) -> list[FeatureCandidate]:
    """Return at most `most` encoded combinations of categories that have at most `most_cells` raw combinations.

    `sizes` has the number of raw indices of each column; for the other parameters, see `enumerate_arithmetic`.
    """
    pairs = _choose_pairs(categories, len(CROSS_FORMS), most, rng)
    fitting = [pair for pair in pairs if float(sizes[pair[0]]) * sizes[pair[1]] <= most_cells]
    return [FeatureCandidate("crosses", form, pair) for pair, form in product(fitting, CROSS_FORMS)][:most]


def enumerate_groups(
    numbers: Sequence[str], categories: Sequence[str], most: int, rng: np.random.Generator
) -> list[FeatureCandidate]:
    """Return at most `most` numbers relative to the rows of the same level; parameters as in `enumerate_arithmetic`."""
    pairs = [(number, group) for group, number in product(categories, numbers)]
    limit = -(-most // len(GROUP_FORMS))
    if len(pairs) > limit:
        pairs = [pairs[i] for i in sorted(rng.choice(len(pairs), limit, replace=False))]
    return [FeatureCandidate("groups", form, pair) for pair, form in product(pairs, GROUP_FORMS)][:most]


def _choose_pairs(columns: Mapping[str, int], forms: int, most: int, rng: np.random.Generator) -> list[tuple[str, str]]:
    """Return pairs of columns, each in the order of the table; `forms` candidates of each are about `most` at most.

    Half of them consist of the first names, which are the most informative alone; the others are drawn at random, since
    columns may be informative only together.
    """
    limit, names = -(-most // forms), list(columns)
    n_first = 2
    while (n_first + 1) * n_first // 2 <= limit // 2 and n_first < len(names):
        n_first += 1
    is_few = len(names) * (len(names) - 1) // 2 <= limit
    found = dict.fromkeys(combinations(names if is_few else names[:n_first], 2))
    for _ in range(0 if is_few else 8 * limit):  # most draws are new as long as the pairs outnumber the limit
        if len(found) >= limit:
            break
        i, j = sorted(rng.choice(len(names), 2, replace=False))
        found[names[i], names[j]] = None
    return [(a, b) if columns[a] < columns[b] else (b, a) for a, b in found][:limit]
