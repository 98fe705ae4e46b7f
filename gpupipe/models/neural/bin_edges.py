"""Bin edges of a number."""

from __future__ import annotations

import torch
from torch import Tensor

MOST_ROWS = 1 << 18  # what quantiles are taken of: rows at even distances
MOST = 1e38  # of an edge, either way: so the distance of any two is a float32


def bin_edges(column: Tensor, n_bins: int) -> Tensor:
    """Return at least two and at most ``n_bins + 1`` ascending edges, float32: quantiles of the column.

    A value that many rows share (nothing earned, nothing spent) is an edge once; the edges that it would have taken are
    spread over the other rows, or a tail that few rows are in would be a single bin.

    Parameters
    ----------
    column : Tensor of float32, shape (n,)
        Without NaN.
    n_bins : int
    """
    rows = column[:: max(1, len(column) // MOST_ROWS)].clamp(-MOST, MOST).sort().values
    edges, counts = _quantiles(rows, n_bins + 1).unique(return_counts=True)
    if len(edges) <= n_bins:
        heavy = edges[counts > 1]
        rest = rows[~torch.isin(rows, heavy)]
        if len(rest):
            others = _quantiles(rest, max(2, n_bins + 1 - len(heavy)))
            edges = torch.cat([heavy, others]).unique()[: n_bins + 1]
    return edges if len(edges) > 1 else torch.stack([edges[0], edges[0] + edges[0].abs().clamp(min=1.0)])


def _quantiles(ascending: Tensor, n: int) -> Tensor:
    """Return the values of `n` rows at even distances, the first and the last among them."""
    places = torch.linspace(0, len(ascending) - 1, n, device=ascending.device, dtype=torch.float64)
    return ascending[places.round().long()]
