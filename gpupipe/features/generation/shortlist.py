"""The candidates that explain more of the residual than chance and more than their input columns do.

With many sampled rows, some of them rank the candidates first, and only the best candidates are tested on the others
(Wasserman and Roeder, "High-dimensional variable selection", Annals of Statistics, 2009). Only tested candidates need
the scores of permuted residuals, so this takes a fraction of the time. The rows of the test have almost no part in the
ranking: they only train models whose residuals rank.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np

from gpupipe.features.generation.candidates import (
    FeatureCandidate,
    enumerate_arithmetic,
    enumerate_crosses,
    enumerate_groups,
)
from gpupipe.features.generation.sample import FOLDS, SampleRows, SelectionSample
from gpupipe.features.generation.screen import N_PERMUTATIONS, Screen, net_of_inputs
from gpupipe.features.ops.cross import is_plain
from gpupipe.typing import Array

if TYPE_CHECKING:
    from gpupipe.features.ops.generate import Generate

TILE = 64  # columns computed at once
MOST_CELLS = 2**16  # of a combination: each costs a number in the lookup tables of the model, for each fold
RANKING_SHARE = 4  # one of 4 rows that screen ranks the candidates
LEAST_RANKING_ROWS = 10_000  # with fewer, weak but useful candidates are too often dropped
TESTED_SHARE = 4  # the best one of 4 combinations of columns is tested
LEAST_TESTED = 100  # candidates of a family

ScoredCandidates = list[tuple[float, FeatureCandidate]]  # with gains, the best first


class ShortlistFinder:
    """Screening of candidates on the rows that screen.

    `inputs` are the columns to combine; a new column cannot have a name in `taken`.
    """

    def __init__(
        self,
        op: Generate,
        sample: SelectionSample,
        inputs: frozenset[str],
        taken: frozenset[str],
        rng: np.random.Generator,
    ) -> None:
        self.op = op
        self.sample = sample
        self.inputs = inputs
        self.taken = taken
        self.backend, self._rng = sample.backend, rng
        screened = np.flatnonzero(sample.is_screened)
        self._ranks = np.zeros(sample.n_rows, bool)
        if len(screened) >= RANKING_SHARE * LEAST_RANKING_ROWS:
            self._ranks[rng.choice(screened, len(screened) // RANKING_SHARE, replace=False)] = True
        self._tests = sample.rows(sample.is_screened & ~self._ranks)

    def find(self, residuals: Array) -> tuple[ScoredCandidates, dict[str, int], dict[str, float]]:
        """Return the candidates that exceed the yardstick, the numbers of those tried, and the yardsticks by family.

        `residuals`: float64, shape (n_rows of the sample, n_outputs).
        """
        is_ranked = bool(self._ranks.any())
        rows = self.sample.rows(self._ranks) if is_ranked else self._tests
        screen, inputs = self._row_screen(rows, residuals, 0)
        candidates = self._candidates(sorted(inputs, key=lambda name: -float(inputs[name][0])))
        tried = {family: len(own) for family, own in candidates.items()}
        if is_ranked:
            candidates = {family: self._best(screen, inputs, own) for family, own in candidates.items()}
        found, yardsticks = self.test(residuals, list(chain.from_iterable(candidates.values())), {})
        return found, tried, yardsticks

    def test(
        self, residuals: Array, candidates: Sequence[FeatureCandidate], least: Mapping[str, float]
    ) -> tuple[ScoredCandidates, dict[str, float]]:
        """Return the candidates that exceed all permuted ones of their family, best first, and the yardsticks.

        `residuals` are as in `find`; `least` has the smallest yardstick of each family.
        """
        screen, inputs = self._row_screen(self._tests, residuals, N_PERMUTATIONS)
        yardsticks: dict[str, float] = {}
        found: ScoredCandidates = []
        for family in dict.fromkeys(c.family for c in candidates):
            own = [c for c in candidates if c.family == family]
            net = self._gains(screen, inputs, own)
            yardsticks[family] = max(least.get(family, 0.0), float(net[:, 1:].max()))
            beyond = [(float(gain), c) for gain, c in zip(net[:, 0], own, strict=True) if gain > yardsticks[family]]
            found += sorted(beyond, key=lambda item: -item[0])[: 2 * self.most(family)]  # some are copies of others
        return sorted(found, key=lambda item: -item[0]), yardsticks

    def most(self, family: str) -> int:
        """Return the number of features of a family that may be kept."""
        most: int = getattr(self.op, family)
        return most

    def _row_screen(
        self, rows: SampleRows, residuals: Array, n_permutations: int
    ) -> tuple[_RowScreen, dict[str, Array]]:
        """Return the screen of some rows, and the scores of the input columns in it.

        Without permutations, as for the ranking, scores are net of chance.
        """
        folds = self.sample.fold[rows.mask] - 1
        given = residuals[rows.mask], folds, FOLDS, self.backend, self._rng, n_permutations
        scored = _RowScreen(self.sample, rows, Screen.permuted(*given))
        return scored, scored.score_inputs()

    def _best(
        self, screen: _RowScreen, inputs: Mapping[str, Array], candidates: Sequence[FeatureCandidate]
    ) -> list[FeatureCandidate]:
        """Return all candidates of the combinations of columns with the highest gains, in the given order."""
        if len(candidates) <= LEAST_TESTED:
            return list(candidates)
        highest: dict[frozenset[str], float] = {}
        for c, gain in zip(candidates, self._gains(screen, inputs, candidates)[:, 0], strict=True):
            key = frozenset(c.columns)
            highest[key] = max(float(gain), highest.get(key, -np.inf))
        share = max(1.0 / TESTED_SHARE, LEAST_TESTED / len(candidates))
        n_best = int(np.ceil(share * len(highest)))
        best = set(sorted(highest, key=lambda key: -highest[key])[:n_best])
        return [c for c in candidates if frozenset(c.columns) in best]

    def _gains(self, screen: _RowScreen, inputs: Mapping[str, Array], candidates: Sequence[FeatureCandidate]) -> Array:
        """Return the scores of candidates of one family net of their rivals', shape as in `Screen.score_numbers`."""
        scores = screen.score(candidates)
        return net_of_inputs(scores, _rivals(candidates, scores, inputs))

    def _candidates(self, order: Sequence[str]) -> dict[str, list[FeatureCandidate]]:
        """Return the candidates of each family, given the columns in the order of their scores."""
        op = self.op
        rng = self._rng
        sample = self.sample
        places = {name: place for place, name in enumerate((*sample.numbers, *sample.categories))}
        ranked = {name: places[name] for name in order if name in self.inputs}
        numbers = {name: place for name, place in ranked.items() if name in sample.numbers}
        categories = {name: place for name, place in ranked.items() if name in sample.categories}
        plain = {name: place for name, place in categories.items() if is_plain(sample.categories[name])}
        groups = [name for name in categories if 2 <= len(sample.categories[name].labels) <= sample.n_rows // 4]
        sizes = {name: sample.categories[name].size for name in plain}
        found: dict[str, list[FeatureCandidate]] = {"arithmetic": [], "crosses": [], "groups": []}
        if op.arithmetic:
            found["arithmetic"] = enumerate_arithmetic(numbers, op.arithmetic_candidates, rng)
        if op.crosses:
            found["crosses"] = enumerate_crosses(plain, sizes, op.cross_candidates, MOST_CELLS, rng)
        if op.groups:
            found["groups"] = enumerate_groups(list(numbers), groups, op.group_candidates, rng)
        above = self._above_zero(numbers)
        return {
            family: [c for c in own if c.name not in self.taken and not _is_inverse(c, above)]
            for family, own in found.items()
        }

    def _above_zero(self, names: Iterable[str]) -> frozenset[str]:
        """Return the numbers whose values in the sample are all greater than 0."""
        columns = {name: self.sample.numbers[name] for name in names}
        found = self.sample.statistics.extremes(list(columns.values()))
        return frozenset(name for name, (low, _) in zip(columns, found, strict=True) if low > 0)


class _RowScreen:
    """Scores of columns and candidates on some rows."""

    def __init__(self, sample: SelectionSample, rows: SampleRows, screen: Screen) -> None:
        self.sample = sample
        self.rows = rows
        self.screen = screen
        self.backend = sample.backend

    def score_inputs(self) -> dict[str, Array]:
        """Return the scores of each column."""
        sample, screen = self.sample, self.screen
        numbers = screen.score_numbers([values[self.rows.on_device] for values in sample.values.values()])
        cells = screen.score_cells([self._cells((name,)) for name in sample.categories])
        return dict(zip(sample.numbers, numbers, strict=True)) | dict(zip(sample.categories, cells, strict=True))

    def score(self, candidates: Sequence[FeatureCandidate]) -> Array:
        """Return the scores of candidates of one family, a tile of them at a time."""
        if candidates[0].family == "crosses":
            return np.concatenate([self._score_cross(candidate) for candidate in candidates])
        tiles = [candidates[start : start + TILE] for start in range(0, len(candidates), TILE)]
        return np.concatenate(
            [self.screen.score_numbers(self.sample.compute_candidates(tile, self.rows)) for tile in tiles]
        )

    def _score_cross(self, candidate: FeatureCandidate) -> Array:
        """Return the scores of the cells of a combination, or of their frequencies, shape (1, 1 + n_permutations)."""
        if candidate.form == "target":
            return self.screen.score_cells([self._cells(candidate.columns)])
        return self.screen.score_numbers([self.backend.to_device(self.sample.frequencies(candidate)[self.rows.mask])])

    def _cells(self, names: Sequence[str]) -> tuple[Array, int]:
        """Return the combination of the codes of each row, int64, and the number of combinations."""
        cells, size = self.sample.combine(names, self.rows.codes)
        return self.backend.to_device(cells), size


def _rivals(candidates: Sequence[FeatureCandidate], scores: Array, inputs: Mapping[str, Array]) -> list[Array]:
    """Return the scores that each candidate has to exceed: those of its inputs.

    A frequency must exceed its combination too, since it may just identify the combination.
    """
    cells = {c.columns: own for c, own in zip(candidates, scores, strict=True) if c.form == "target"}
    rivals: list[Array] = []
    for c in candidates:
        more = [cells[c.columns]] if c.form == "frequency" and c.columns in cells else []
        rivals.append(np.stack([*(inputs[name] for name in c.columns), *more]))
    return rivals


def _is_inverse(candidate: FeatureCandidate, above_zero: frozenset[str]) -> bool:
    """Return whether the candidate is 1 / (a / b) with the same order of values, reversed."""
    return candidate.form == "b / a" and above_zero.issuperset(candidate.columns)
