"""Selection of generated features: screening on most rows of a sample, confirmation on the others.

Features are added in stages of growing size. After each stage the residuals are computed again with the features so
far, so that candidates with the same information no longer explain anything.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain
from statistics import NormalDist
from typing import TYPE_CHECKING

import numpy as np

from gpupipe.features.generation.candidates import FeatureCandidate
from gpupipe.features.generation.sample import FOLDS, MOST_SCREENED_OUTPUTS, SelectionSample
from gpupipe.features.generation.short_model import ShortModel
from gpupipe.features.generation.shortlist import ScoredCandidates, ShortlistFinder
from gpupipe.features.program.expressions import Expr, NumericExpr
from gpupipe.random_streams import derive_seed, make_generator
from gpupipe.typing import Array

if TYPE_CHECKING:
    from gpupipe.features.ops.generate import Generate
    from gpupipe.features.statistics.training import Statistics

STAGE_SIZES = (4, 12, 48, 192, 768)  # features that are added before the residuals are computed again
ERROR_RATE = 0.05
BOUNDS = (0.01, 0.99)  # quantiles to which the scaled views limit a generated number
SAME = 0.99  # rank correlation
ROWS_OF_RANKS = 4_096


@dataclass(frozen=True)
class SelectedFeature:
    """A generated feature that is kept.

    `gain` is the share of the squared residual that it explains out of fold, more than its inputs do. `limits` are the
    quantiles `BOUNDS` in the sample of each of its columns: a target encoding has one per class if there are more than
    two.
    """

    candidate: FeatureCandidate
    gain: float
    limits: tuple[tuple[float, float], ...]

    @classmethod
    def of(cls, candidate: FeatureCandidate, gain: float, columns: Sequence[Array]) -> SelectedFeature:
        """Return the feature with the limits of its sampled columns."""
        return cls(candidate, gain, tuple(_limits(x) for x in columns))


@dataclass(frozen=True)
class GeneratedSelection:
    """The generated features of a fit, and how they were chosen."""

    features: tuple[SelectedFeature, ...] = ()
    tried: dict[str, int] = field(default_factory=dict)  # number of candidates of each family
    # Highest gain of any tested candidate of the family on permuted residuals.
    yardsticks: dict[str, float] = field(default_factory=dict)
    n_screened: int = 0  # number of candidates whose gain exceeds the yardstick
    # loss, base_loss: mean loss on the rows that confirm, with the features and without: log loss, or squared error
    # relative to the variance.
    loss: float = 0.0
    base_loss: float = 0.0
    z_score: float = 0.0  # the difference of the losses in standard errors
    library: str = ""
    n_rows: int = 0  # number of sampled rows


class FeatureSelector:
    """One selection.

    `columns` are all columns, as earlier ops left them; times and texts are ignored. `inputs` are those to combine.
    `base` are existing features that are not in `columns`.
    """

    def __init__(
        self,
        op: Generate,
        statistics: Statistics,
        columns: Sequence[Expr],
        inputs: frozenset[str],
        base: Sequence[NumericExpr],
    ) -> None:
        self.backend = statistics.backend
        rng = make_generator(statistics.seed, "generated features")
        self.sample = SelectionSample(statistics, columns, base, op.sample_rows, rng)
        taken = frozenset(column.name for column in (*columns, *base))
        self.finder = ShortlistFinder(op, self.sample, inputs, taken, rng)
        seed = derive_seed(statistics.seed, "trees of generated features")
        self.model = ShortModel(self.sample.n_classes, self.backend, seed)

    def select(self) -> GeneratedSelection:
        """Return the features that help, if any."""
        stages = [self._stage((), self.sample.base)]
        shortlist, tried, yardsticks = self.finder.find(stages[0].residuals)
        left, n_beyond = {family: self.finder.most(family) for family in tried}, len(shortlist)
        columns = KnownColumns(self.sample.base)
        for size in STAGE_SIZES:
            picked = self._pick(shortlist, size, left, columns)
            if not picked:
                break
            X = np.column_stack([stages[-1].X, *chain.from_iterable(own for _, own in picked)])
            features = tuple(SelectedFeature.of(c, gain, own) for (gain, c), own in picked)
            stages.append(self._stage((*stages[-1].features, *features), X))
            if stages[-1].losses.mean() >= stages[-2].losses.mean():
                break
            done = {feature.candidate for feature in stages[-1].features}
            candidates = [c for _, c in shortlist if c not in done]
            shortlist = self.finder.test(stages[-1].residuals, candidates, yardsticks)[0]
        best, z_score = _confirmed_stage(stages)
        return GeneratedSelection(
            best.features,
            tried,
            yardsticks,
            n_beyond,
            float(best.losses.mean()),
            float(stages[0].losses.mean()),
            z_score,
            self.model.library,
            self.sample.n_rows,
        )

    def _is_code(self, X: Array) -> list[bool]:
        """Return whether each column of existing and generated features contains category codes."""
        return [*self.sample.is_code, *[False] * (X.shape[1] - len(self.sample.is_code))]

    def _stage(self, features: tuple[SelectedFeature, ...], X: Array) -> _Stage:
        """Return the stage of a set of features with the matrix `X` of these and the existing ones."""
        y = self.sample.y
        fold = self.sample.fold
        is_code = self._is_code(X)

        def predict(k: int) -> Array:
            own, others = fold == k, self.sample.is_screened & (fold != k)
            return self.model.fit_predict(X[others], y[others], X[own], y[own], is_code)

        confirmed, *predictions = self.backend.map(predict, range(FOLDS + 1))  # fold 0: the rows that confirm
        screened = self.sample.is_screened
        found = np.empty((self.sample.n_rows, confirmed.shape[1]))
        for k, own in enumerate(predictions, start=1):
            found[fold == k] = own
        residuals = np.zeros_like(found)
        residuals[screened] = self.model.residuals(found[screened], y[screened])
        if residuals.shape[1] > MOST_SCREENED_OUTPUTS:
            counts = np.bincount(y[screened].astype(np.int64), minlength=self.sample.n_classes)
            residuals = residuals[:, np.sort(np.argsort(-counts, kind="stable")[:MOST_SCREENED_OUTPUTS])]
        return _Stage(features, X, self.model.losses(confirmed, y[~screened]), residuals)

    def _pick(
        self, shortlist: ScoredCandidates, most: int, left: dict[str, int], known: KnownColumns
    ) -> list[tuple[tuple[float, FeatureCandidate], list[Array]]]:
        """Return the best candidates with their columns, except copies of columns in `known`, to which they are added.

        `left` is the number of features that each family may still have; it is reduced by those that are returned.
        """
        picked: list[tuple[tuple[float, FeatureCandidate], list[Array]]] = []
        for gain, candidate in shortlist:
            if len(picked) >= most or not left[candidate.family]:
                continue
            columns = self.sample.columns_of(candidate)
            if known.add(columns[0]):
                left[candidate.family] -= 1
                picked.append(((gain, candidate), columns))
        return picked


@dataclass(frozen=True)
class _Stage:
    """A set of features.

    `X` has the existing features and these: float32, shape (n_rows, n_columns). `losses` are those of the rows that
    confirm, by a model of the others: float64, shape (n_confirmed,). `residuals` are cross-fitted, and 0 for the rows
    that confirm: float64, shape (n_rows, n_outputs).
    """

    features: tuple[SelectedFeature, ...]
    X: Array
    losses: Array
    residuals: Array


def _confirmed_stage(stages: Sequence[_Stage]) -> tuple[_Stage, float]:
    """Return the smallest set that is about as good as the best, and its improvement in standard errors.

    The rows that confirm were not used to select candidates. A set must improve on the existing features significantly,
    at a level that is divided by the number of sets; otherwise the first stage, without features, is returned. A larger
    set replaces a smaller one only if it is significantly better than that.
    """
    limit = NormalDist().inv_cdf(1.0 - ERROR_RATE / max(1, len(stages) - 1))
    best, z_score = stages[0], 0.0
    for stage in stages[1:]:
        if _z_score(best.losses - stage.losses) > limit:
            best, z_score = stage, _z_score(stages[0].losses - stage.losses)
    return best, z_score


def _z_score(gains: Array) -> float:
    error = float(gains.std()) / np.sqrt(len(gains))
    return float(gains.mean()) / error if error > 0 else 0.0


def _limits(x: Array) -> tuple[float, float]:
    known = x[~np.isnan(x)]
    low, high = np.quantile(known.astype(np.float64), BOUNDS) if len(known) else (0.0, 0.0)
    return float(low), float(high)


class KnownColumns:
    """Ranks of the existing columns at some rows, to detect copies by rank correlation."""

    def __init__(self, X: Array) -> None:
        self._rows = slice(None, None, max(1, len(X) // ROWS_OF_RANKS))
        self._ranks = [_standard_ranks(x[self._rows]) for x in X.T]

    def add(self, x: Array) -> bool:
        """Add a column and return True, unless it is constant or a copy: the rank correlation exceeds `SAME`."""
        ranks = _standard_ranks(x[self._rows])
        is_new = bool(ranks.any()) and max(abs(float(known @ ranks)) for known in self._ranks) <= SAME
        if is_new:
            self._ranks.append(ranks)
        return is_new


def _standard_ranks(x: Array) -> Array:
    """Return ranks of mean 0 and length 1, so that products are rank correlations; NaN is ranked in the middle."""
    known = ~np.isnan(x)
    ranks = np.zeros(len(x))
    _, place, counts = np.unique(x[known], return_inverse=True, return_counts=True)
    middle = np.cumsum(counts) - (counts + 1) / 2.0
    ranks[known] = middle[place.reshape(-1)]
    ranks[known] -= ranks[known].mean() if known.any() else 0.0
    length = np.linalg.norm(ranks)
    return (ranks / length if length > 0 else ranks).astype(np.float32)
