"""ColumnShares of contributions of matrix columns to input columns."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np

from gpupipe.model_parts.reason_codes import HISTORY
from gpupipe.typing import HostArray

if TYPE_CHECKING:
    from gpupipe.features.program.fitted import FittedFeatures


@dataclass(frozen=True)
class ColumnShares:
    """Division of the contributions of matrix columns among input columns."""

    # Input columns; a further table has its name as one column, and other rows of the main table are ``history``
    columns: tuple[str, ...]
    shares: HostArray  # float64, shape (d, n_columns): share of each input column in each matrix column
    # Matrix columns that are computed from several input columns, such as crosses, with these columns; each gets an
    # equal share
    divided: dict[str, tuple[str, ...]]

    @staticmethod
    def of(features: FittedFeatures, *, by_table: bool = True) -> ColumnShares:
        """Return the shares of the input columns in the matrix of `features`.

        Unless `by_table`, each column that is derived from further tables or from other rows has its own name.
        """
        sources = [_sources(features, feature.inputs, by_table) or (feature.name,) for feature in features.features]
        used = dict.fromkeys(chain.from_iterable(sources))
        columns = {name: None for name in features.inputs if name in used} | used
        place = {name: i for i, name in enumerate(columns)}
        shares = np.zeros((len(sources), len(columns)))
        for i, own in enumerate(sources):
            shares[i, [place[name] for name in own]] = 1.0 / len(own)
        pairs = zip(features.features, sources, strict=True)
        return ColumnShares(tuple(columns), shares, {feature.name: own for feature, own in pairs if len(own) > 1})

    def fold(self, values: HostArray) -> HostArray:
        """Return contributions by input column, shape (..., n_columns), from those by matrix column, shape (..., d)."""
        folded: HostArray = values @ self.shares
        return folded

    def fold_pairs(self, values: HostArray) -> HostArray:
        """Return interactions of input columns, shape (..., n_columns, n_columns), from those of matrix columns."""
        folded: HostArray = self.shares.T @ values @ self.shares
        return folded


def _sources(features: FittedFeatures, inputs: tuple[str, ...], by_table: bool) -> tuple[str, ...]:
    """Return the input columns, further tables or ``history`` that a matrix column is computed from."""
    derivation, found = features.derivation, dict[str, None]()
    for name in inputs:
        made = () if derivation is None else derivation.made.get(name, ())
        tables = [
            table
            for table in (derivation.tables if derivation else ())
            if any(column.startswith(f"{table}.") for column in made)
        ]
        if tables or not made:
            found |= dict.fromkeys(tables if tables and by_table else [name])
        else:
            found[made[0] if len(made) == 1 else HISTORY if by_table else name] = None
    return tuple(found)
