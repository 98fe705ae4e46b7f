"""Number of alternatives that a run compared before it exported one of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from gpupipe.names import count_noun
from gpupipe.report.search_record import SearchRecord


@dataclass(frozen=True)
class TriedCounts:
    """Number of models, trials and candidate features that a run compared.

    With cross-validation or validation rows the same alternatives are trained several times; each counts once.

    Examples
    --------
    >>> print(TriedCounts(14, trials=50, features=2312))
    14 models, 50 trials and 2,312 candidate features
    """

    models: int = 1  # candidates of the leaderboard; an ensemble counts with each model that it tried
    trials: int = 0  # trials of tuning
    features: int = 0  # candidates of the op ``generate``

    @property
    def is_choice(self) -> bool:
        """True if there was more than one alternative."""
        return self.models > 1 or self.trials > 1 or self.features > 0

    def __str__(self) -> str:
        counts = [(self.models, "model"), (self.trials, "trial"), (self.features, "candidate feature")]
        if self.models == 1 and self.is_choice:
            del counts[0]
        named = [count_noun(n, name) for n, name in counts if n]
        return " and ".join([", ".join(named[:-1]), named[-1]] if len(named) > 1 else named)


def count_tried(searches: Iterable[SearchRecord | None], n_features: int = 0) -> TriedCounts:
    """Return the counts of a run.

    - `searches`: the search of each candidate of the leaderboard; None for a candidate that is one model
    - `n_features`: number of candidate features
    """
    models = trials = 0
    for search in searches:
        if search is not None and search.kind == "ensemble":
            models += search.n_compared
        else:
            models += 1
            trials += 0 if search is None else search.n_compared
    return TriedCounts(models, trials, n_features)
