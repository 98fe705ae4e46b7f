"""Shapley values of any model from its predictions of mixed rows: exact for few columns, sampled for many."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain
from math import comb, prod
from typing import TYPE_CHECKING, NamedTuple

from gpupipe.models.contributions.base import Contributions, Explainer, Method, Scale, as_multiclass
from gpupipe.random_streams import make_generator
from gpupipe.units import MIB

if TYPE_CHECKING:
    from gpupipe.models.fitted.base import FittedModel
    from gpupipe.typing import HostArray

    Predict = Callable[[HostArray], HostArray]
    IsOwn = Callable[[HostArray, HostArray], HostArray]

# All 126 mixtures of 7 players take about as long as the permutations of 64.
MOST_EXACT_PLAYERS = 7
BATCH_BYTES = 16 * MIB  # of the mixed rows that are predicted at once, and of the predictions of a block of rows


class SampledContributions(NamedTuple):
    """Contributions of players to the predictions of a model."""

    values: HostArray  # float64, shape (n, n_margins, n_players)
    # float64, shape (n_margins,): mean prediction of the background rows: ``base + values.sum(axis=2)`` are the
    # predictions of the rows.
    base: HostArray
    # float64, shape (n, n_margins, n_players): of each value as an estimate of the Shapley value for these background
    # rows; 0 if it is exact, NaN if there is one background row and one permutation.
    standard_error: HostArray


def sampled_contributions(
    predict: Predict,
    X: HostArray,
    background: HostArray,
    groups: Sequence[Sequence[int]] | None = None,
    *,
    n_permutations: int = 1,
    seed: int = 0,
) -> SampledContributions:
    """Return the interventional Shapley values of columns, or of groups of columns, for any model.

    The value of a set of players is the mean prediction of rows that have the columns of these players from the
    explained row and the other columns from a background row. Up to 7 players, all sets are enumerated and the result
    is exact. Otherwise it is sampled: players enter in random order, and each contributes the change of the prediction
    when it enters (Štrumbelj and Kononenko, "Explaining prediction models and individual predictions with feature
    contributions", Knowledge and Information Systems 41 (2014) 647). Each permutation is also used in reverse, which
    reduces the variance (Mitchell, Cooper, Frank and Holmes, "Sampling permutations for Shapley value estimation", JMLR
    23 (2022)). The changes of a permutation sum to the difference of the predictions of the two rows, and each
    background row is used equally often; base and values therefore sum to the prediction of the row, whatever was
    drawn. All rows share the permutations: the values of a row do not depend on the other rows.

    For n rows, b background rows and p players, ``n * b * (2**p - 2)`` mixed rows are predicted in the exact case,
    otherwise ``n * b * n_permutations * 2 * (p - 1)``, in batches of limited memory; and all rows themselves. Raise
    ValueError if a column is in no group, or in several.

    - `predict`: returns predictions, float64, shape (n, n_margins), of rows, float32, shape (n, d), row-major. The
      contributions have the scale of the predictions.
    - `X` (array of float32, shape (n, d)): rows in any memory layout
    - `background`: array of float32, shape (n_background, d)
    - `groups`: columns of each player; every column belongs to one. None: each column is a player.
    - `n_permutations`: permutations for each background row, besides their reverses. The standard error estimated from
      one is too large rather than too small, since it includes the differences among background rows; from several, it
      is unbiased.
    """
    import numpy as np

    background = np.ascontiguousarray(background, np.float32)
    mixtures = Mixtures(predict, background, predict(background), _players(groups, background.shape[1]))
    n_margins, n_players = mixtures.n_margins, mixtures.n_players
    draws = np.tile(np.arange(n_players), (n_permutations * len(background), 1))
    ranks = make_generator(seed, "permutations of players").permuted(draws, axis=1)
    is_exact = n_players <= MOST_EXACT_PLAYERS
    n_scores = len(background) << n_players if is_exact else 2 * len(ranks) * (n_players + 1)
    step = max(1, BATCH_BYTES // (8 * n_margins * n_scores))
    values = np.empty((len(X), n_margins, n_players))
    error = np.zeros_like(values)
    for low in range(0, len(X), step):
        block = slice(low, low + step)
        rows = np.ascontiguousarray(X[block], np.float32)
        if is_exact:
            values[block] = _enumerate(mixtures, rows)
        else:
            values[block], error[block] = _walk(mixtures, rows, ranks)
    return SampledContributions(values, mixtures.background_scores.mean(axis=0), error)


@dataclass(frozen=True)
class Mixtures:
    """Predictions of rows that have the columns of some players from one row and the others from a background row."""

    predict: Predict
    background: HostArray  # float32, shape (n_background, d)
    background_scores: HostArray  # float64, shape (n_background, n_margins)
    player: HostArray  # int, shape (d,): player of each column

    @property
    def n_margins(self) -> int:
        """Number of predictions of a row."""
        return int(self.background_scores.shape[1])

    @property
    def n_players(self) -> int:
        """Number of players."""
        return int(self.player.max()) + 1

    def scores(self, rows: HostArray, origin: HostArray, n_sets: int, is_own: IsOwn) -> HostArray:
        """Return the predictions of each row mixed with each background row in `origin`, for `n_sets` sets of players.

        `rows` are float32, shape (n, d), and `origin` is int, shape (n_origins,). `is_own` returns which columns come
        from the row, bool, shape (m, d), of m positions in `origin` and m sets. The result is float64, shape (n,
        n_origins, n_sets, n_margins).
        """
        import numpy as np

        shape = len(rows), len(origin), n_sets
        found = np.empty((prod(shape), self.n_margins))
        step = max(1, BATCH_BYTES // rows[:1].nbytes)
        for low in range(0, len(found), step):
            row, position, subset = np.unravel_index(np.arange(low, min(low + step, len(found))), shape)
            mixed = np.where(is_own(position, subset), rows[row], self.background[origin[position]])
            found[low : low + step] = self.predict(mixed)
        return found.reshape(*shape, self.n_margins)


def _enumerate(mixtures: Mixtures, rows: HostArray) -> HostArray:
    """Return the exact values, float64, shape (n, n_margins, n_players), from all sets of players."""
    import numpy as np

    n, player = mixtures.n_players, mixtures.player
    everyone = (1 << n) - 1  # bit j of a set is player j

    def is_own(position: HostArray, subset: HostArray) -> HostArray:
        return ((subset[:, None] + 1) >> player & 1).astype(bool)

    mixed = mixtures.scores(rows, np.arange(len(mixtures.background)), everyone - 1, is_own)
    worth = np.empty((len(rows), everyone + 1, mixtures.n_margins))
    worth[:, 0], worth[:, 1:everyone] = mixtures.background_scores.mean(axis=0), mixed.mean(axis=1)
    worth[:, everyone] = mixtures.predict(rows)
    values = np.empty((len(rows), mixtures.n_margins, n))
    sets = np.arange(everyone + 1)
    weight_of_size = np.array([1.0 / (n * comb(n - 1, size)) for size in range(n)])
    for j in range(n):
        without = sets[sets >> j & 1 == 0]
        weights = weight_of_size[np.bitwise_count(without)]
        values[:, :, j] = np.einsum("s,nsm->nm", weights, worth[:, without | 1 << j] - worth[:, without])
    return values


def _walk(mixtures: Mixtures, rows: HostArray, ranks: HostArray) -> tuple[HostArray, HostArray]:
    """Return sampled values and their standard errors, float64, shape (n, n_margins, n_players).

    `ranks`, int, shape (n_permutations * n_background, n_players), are the positions of the players in permutations;
    the first n_background are those of one permutation for each background row.
    """
    import numpy as np

    n_background, n_players = len(mixtures.background), mixtures.n_players
    both = np.concatenate([ranks, n_players - 1 - ranks])
    origin = np.arange(len(both)) % n_background
    column_ranks = both[:, mixtures.player]

    def is_own(position: HostArray, subset: HostArray) -> HostArray:
        return column_ranks[position] <= subset[:, None]

    scores = np.empty((len(rows), len(both), n_players + 1, mixtures.n_margins))
    scores[:, :, 0] = mixtures.background_scores[origin]
    scores[:, :, 1:-1] = mixtures.scores(rows, origin, n_players - 1, is_own)
    scores[:, :, -1] = mixtures.predict(rows)[:, None]
    gains = np.take_along_axis(np.diff(scores, axis=2), both[None, :, :, None], axis=2)
    pairs = gains.reshape(len(rows), 2, -1, n_background, *gains.shape[2:]).mean(axis=1)
    values, variance = pairs.mean(axis=(1, 2)), _variance_of_mean(pairs)
    return values.transpose(0, 2, 1), np.sqrt(variance).transpose(0, 2, 1)


def _variance_of_mean(pairs: HostArray) -> HostArray:
    """Return the variance of the mean over the axes 1, permutations, and 2, background rows, which are strata."""
    import numpy as np

    n_permutations, n_background = pairs.shape[1:3]
    if n_permutations > 1:
        variance: HostArray = pairs.var(axis=1, ddof=1).mean(axis=1) / (n_permutations * n_background)
    elif n_background > 1:
        variance = pairs[:, 0].var(axis=1, ddof=1) / n_background
    else:
        variance = np.full_like(pairs[:, 0, 0], np.nan)
    return variance


def _players(groups: Sequence[Sequence[int]] | None, n_columns: int) -> HostArray:
    """Return the player of each column, int, shape (n_columns,)."""
    import numpy as np

    if groups is None:
        return np.arange(n_columns)
    columns = np.array(list(chain.from_iterable(groups)), np.int64)
    if not np.array_equal(np.sort(columns), np.arange(n_columns)) or not all(len(group) for group in groups):
        raise ValueError(f"expected each of {n_columns} columns in exactly one group; got {list(map(list, groups))}")
    player = np.empty(n_columns, np.int64)
    player[columns] = np.repeat(np.arange(len(groups)), [len(group) for group in groups])
    return player


class OutputExplainer(Explainer):
    """Contributions to any outputs of rows, from those of mixed rows; see `sampled_contributions`.

    `outputs` returns the explained outputs, float64, shape (n, n_margins), of rows, float32, shape (n, d). Two classes
    may have one output, that of the second. `background` is float32, shape (n_background, d). `seconds` are those that
    the prediction of a row is predicted to take.
    """

    def __init__(self, outputs: Predict, background: HostArray, scale: Scale, n_margins: int, seconds: float) -> None:
        self._outputs = outputs
        self._seconds = seconds
        self._background = background
        self._scale = scale
        self._n_margins = n_margins

    @property
    def method(self) -> Method:
        """Exact for few columns, sampled for more."""
        is_exact = self._background.shape[1] <= MOST_EXACT_PLAYERS
        return "exact subsets" if is_exact else "sampled permutations"

    @property
    def row_seconds(self) -> float:
        n_background, n_players = self._background.shape
        n_sets = (1 << n_players) - 2 if n_players <= MOST_EXACT_PLAYERS else 2 * (n_players - 1)
        return self._seconds * float(n_background * n_sets)

    def contributions(self, X: HostArray) -> Contributions:
        found = sampled_contributions(self._outputs, X, self._background)
        return as_multiclass(Contributions(found.values, found.base, self._scale), self._n_margins)


def predicted_outputs(model: FittedModel) -> Predict:
    """Return the function from rows to the explained outputs of a model: probabilities, or values."""
    import numpy as np

    def outputs(rows: HostArray) -> HostArray:
        output = np.asarray(model.predict(rows).output, np.float64)
        if model.task == "multiclass":
            output = output[:, list(model.classes)]
        return output if output.ndim > 1 else output[:, None]

    return outputs
