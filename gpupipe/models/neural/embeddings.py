"""Embeddings: a vector for each number and for each category of a row."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

import torch
from torch import Tensor, nn

MOST_ROWS = 1 << 18  # what quantiles are taken of: rows at even distances
MOST = 1e38  # of an edge, either way: so the distance of any two is a float32
NEVER = 3e38  # the lower edge of a bin that no value reaches


class NumberEmbedding(nn.Module):
    """A vector for each number: piecewise-linear encoding, and a linear layer of its own for each column.

    A value is described by how far it has come through each bin between two quantiles of the training rows: 1 in the
    bins below it, 0 in those above, a share of the bin that it lies in. So the scale of a column, its tail and its
    outliers do not matter, and a network learns steps as easily as slopes (Gorishniy, Rubachev, Babenko, "On Embeddings
    for Numerical Features in Tabular Deep Learning", NeurIPS 2022, section 3.1).

    Parameters
    ----------
    n_numbers : int
    n_bins : int
        Of each column; a column with fewer has bins that no value reaches.
    size : int
        Length of the vectors.

    Attributes
    ----------
    lower, width : buffers of float32, shape (n_numbers, n_bins)
        Where each bin begins, and how wide it is; see `set_edges`.
    """

    lower: Tensor
    width: Tensor

    def __init__(self, n_numbers: int, n_bins: int, size: int) -> None:
        super().__init__()
        self.register_buffer("lower", torch.full((n_numbers, n_bins), NEVER))
        self.register_buffer("width", torch.ones(n_numbers, n_bins))
        self.weight = nn.Parameter(torch.empty(n_numbers, n_bins, size))
        self.bias = nn.Parameter(torch.zeros(n_numbers, 1, size))
        # Neighbouring bins add up: a value in the middle is the sum of half of them.
        nn.init.normal_(self.weight, std=(2.0 / max(1, n_bins)) ** 0.5)

    def set_edges(self, edges: Sequence[Tensor]) -> None:
        """Set the bins; `edges` has those of each column, ascending, at least two."""
        for column, found in enumerate(edges):
            n = len(found) - 1
            self.lower[column, :n] = found[:-1]
            self.width[column, :n] = found[1:] - found[:-1]

    def forward(self, numbers: Tensor) -> Tensor:
        """Return the vectors, float32, shape (n, n_numbers, size), of numbers of shape (n, n_numbers)."""
        share = ((numbers.T.unsqueeze(-1) - self.lower.unsqueeze(1)) / self.width.unsqueeze(1)).clamp(0.0, 1.0)
        return torch.relu(torch.bmm(share, self.weight) + self.bias).transpose(0, 1)


class CategoryEmbedding(nn.Module):
    """A vector for each id of each categorical column, all in one table.

    Parameters
    ----------
    cardinalities : sequence of int
        How many ids each column has.
    size : int
        Length of the vectors.
    """

    offsets: Tensor

    def __init__(self, cardinalities: Sequence[int], size: int) -> None:
        super().__init__()
        *starts, total = accumulate(cardinalities, initial=0)
        self.register_buffer("offsets", torch.tensor(starts, dtype=torch.int32), persistent=False)
        self.cardinalities = tuple(cardinalities)
        self.table = nn.Embedding(total, size)
        nn.init.normal_(self.table.weight, std=size**-0.5)

    @torch.no_grad()
    def fill_unseen(self, counts: Sequence[Tensor]) -> None:
        """Give ids that no training row had the mean vector of their column: what is known of an unknown level.

        Parameters
        ----------
        counts : sequence of int tensors, shape (cardinality,)
            For each column, how many training rows have each id.
        """
        start = 0
        for n_ids, count in zip(self.cardinalities, counts, strict=True):
            vectors = self.table.weight[start : start + n_ids]
            share = (count / count.sum().clamp(min=1)).to(vectors)
            vectors[count == 0] = share @ vectors
            start += n_ids

    def forward(self, ids: Tensor) -> Tensor:
        """Return the vectors, float32, shape (n, columns, size), of ids of int32, shape (n, columns)."""
        return self.table(ids + self.offsets)


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
