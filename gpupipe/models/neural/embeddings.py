"""Embeddings: a vector for each number and for each category of a row."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

import torch
from torch import Tensor, nn

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
