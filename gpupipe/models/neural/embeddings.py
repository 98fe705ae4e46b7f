"""Embeddings of numbers and categories: one vector per column of a row."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate

import torch
from torch import Tensor, nn

from gpupipe.models.neural.architecture import N_FREQUENCIES

MOST_ROWS = 1 << 18  # quantiles are computed from about this many evenly spaced rows
MOST = 1e38  # largest absolute value of an edge, so that differences of edges are finite in float32
LEAST_WIDTH = 1e-30  # smallest range that numbers are divided by
MOST_SCALED = 1e6  # largest scaled number, whose square is finite
NEVER = 3e38  # lower edge of an unused bin, which no value reaches


class NumberEmbedding(nn.Module):
    """Embedding of numbers: piecewise-linear encoding, then a separate linear layer for each column.

    The edges of the bins are quantiles of the training rows. A value is encoded as 1 in each bin below it, 0 in each
    bin above it, and its relative position in the bin that contains it. The scale of a column, its tail and its
    outliers therefore do not matter, and a network learns steps as easily as slopes (Gorishniy, Rubachev, Babenko, "On
    Embeddings for Numerical Features in Tabular Deep Learning", NeurIPS 2022, section 3.1).

    A column with fewer than `n_bins` bins has unused ones; vectors have length `size`.
    """

    # lower, width: buffers of float32, shape (n_numbers, n_bins): lower edge and width of each bin; see `set_edges`.
    lower: Tensor
    width: Tensor

    def __init__(self, n_numbers: int, n_bins: int, size: int) -> None:
        super().__init__()
        self.register_buffer("lower", torch.full((n_numbers, n_bins), NEVER))
        self.register_buffer("width", torch.ones(n_numbers, n_bins))
        self.weight = nn.Parameter(torch.empty(n_numbers, n_bins, size))
        self.bias = nn.Parameter(torch.zeros(n_numbers, 1, size))
        # A value in the middle activates half of the bins, whose weights add up.
        if not self.weight.is_meta:  # without memory; PyTorch would import its compiler to do nothing
            nn.init.normal_(self.weight, std=(2.0 / max(1, n_bins)) ** 0.5)

    def learn_columns(self, sample: Tensor) -> None:
        """Set the bins from training rows, shape (n, n_numbers)."""
        self.set_edges([bin_edges(column, self.lower.shape[1]) for column in sample.T])

    def set_edges(self, edges: Sequence[Tensor]) -> None:
        """Set the bins from the edges of each column: ascending, at least two."""
        for column, found in enumerate(edges):
            n = len(found) - 1
            self.lower[column, :n] = found[:-1]
            self.width[column, :n] = found[1:] - found[:-1]

    def forward(self, numbers: Tensor) -> Tensor:
        """Return the vectors, float32, shape (n, n_numbers, size), of numbers of shape (n, n_numbers)."""
        share = ((numbers.T.unsqueeze(-1) - self.lower.unsqueeze(1)) / self.width.unsqueeze(1)).clamp(0.0, 1.0)
        return torch.relu(torch.bmm(share, self.weight) + self.bias).transpose(0, 1)


class PeriodicEmbedding(nn.Module):
    """Embedding of numbers: cosines with learned frequencies, then a separate linear layer for each column.

    The last component of a vector is the number itself. Numbers are centered by their median, scaled by their
    interquartile range and smoothly clipped to (-3, 3), so that outliers do not matter (embeddings "PBLD" and
    preprocessing of RealMLP, Holzmüller et al. 2024, section 3). Vectors have length `size`.
    """

    # center, scale: buffers of float32, shape (n_numbers,); see `learn_columns`.
    center: Tensor
    scale: Tensor

    def __init__(self, n_numbers: int, size: int) -> None:
        super().__init__()
        self.register_buffer("center", torch.zeros(n_numbers))
        self.register_buffer("scale", torch.ones(n_numbers))
        self.frequency = nn.Parameter(torch.empty(n_numbers, 1, N_FREQUENCIES))
        self.phase = nn.Parameter(torch.empty(n_numbers, 1, N_FREQUENCIES))
        self.weight = nn.Parameter(torch.empty(n_numbers, N_FREQUENCIES, size - 1))
        self.bias = nn.Parameter(torch.empty(n_numbers, 1, size - 1))
        if not self.weight.is_meta:
            nn.init.normal_(self.frequency, std=0.2 * math.pi)
            nn.init.uniform_(self.phase, -math.pi, math.pi)
            for values in (self.weight, self.bias):
                nn.init.uniform_(values, -(N_FREQUENCIES**-0.5), N_FREQUENCIES**-0.5)

    def learn_columns(self, sample: Tensor) -> None:
        """Set center and scale of each column from training rows, shape (n, n_numbers); a constant becomes 0."""
        for j, column in enumerate(sample.T):
            rows = column[:: max(1, len(column) // MOST_ROWS)].clamp(-MOST, MOST).sort().values
            least, low, middle, high, most = _quantiles(rows, 5)
            width = high - low if high > low else (most - least) / 2.0
            self.center[j], self.scale[j] = middle, 1.0 / width if width > LEAST_WIDTH else 0.0

    def forward(self, numbers: Tensor) -> Tensor:
        """Return the vectors, float32, shape (n, n_numbers, size), of numbers of shape (n, n_numbers)."""
        scaled = ((numbers.clamp(-MOST, MOST) - self.center) * self.scale).clamp(-MOST_SCALED, MOST_SCALED)
        column = (scaled * torch.rsqrt(1.0 + scaled.square() / 9.0)).T.unsqueeze(-1)
        waves = torch.cos(torch.addcmul(self.phase, column, self.frequency))
        return torch.cat([torch.bmm(waves, self.weight) + self.bias, column], dim=2).transpose(0, 1)


class CategoryEmbedding(nn.Module):
    """Embedding of categories: a vector of length `size` for each id of each column, all in one table."""

    offsets: Tensor

    def __init__(self, cardinalities: Sequence[int], size: int) -> None:
        super().__init__()
        *starts, total = accumulate(cardinalities, initial=0)
        self.register_buffer("offsets", torch.tensor(starts, dtype=torch.int32), persistent=False)
        self.cardinalities = tuple(cardinalities)
        self.table = nn.Embedding(total, size)
        if not self.table.weight.is_meta:
            nn.init.normal_(self.table.weight, std=size**-0.5)

    @torch.no_grad()
    def fill_unseen(self, counts: Sequence[Tensor]) -> None:
        """Set the vectors of ids without training rows to the mean vector of their column, weighted by rows.

        `counts` has, for each column, the number of training rows with each id: an int tensor, shape (cardinality,).
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
    """Return at least two and at most ``n_bins + 1`` ascending edges, float32: quantiles of a column without NaN.

    A frequent value, such as a zero amount, can be several quantiles. It becomes one edge, and the other edges are
    quantiles of the remaining rows: otherwise a thin tail would be a single bin.
    """
    rows = column[:: max(1, len(column) // MOST_ROWS)].clamp(-MOST, MOST).sort().values
    edges, counts = _quantiles(rows, n_bins + 1).unique(return_counts=True)
    if len(edges) <= n_bins:
        heavy = edges[counts > 1]
        remaining = rows[~torch.isin(rows, heavy)]
        if len(remaining):
            others = _quantiles(remaining, max(2, n_bins + 1 - len(heavy)))
            edges = torch.cat([heavy, others]).unique()[: n_bins + 1]
    return edges if len(edges) > 1 else torch.stack([edges[0], edges[0] + edges[0].abs().clamp(min=1.0)])


def _quantiles(ascending: Tensor, n: int) -> Tensor:
    """Return the values of `n` evenly spaced rows, including the first and the last."""
    places = torch.linspace(0, len(ascending) - 1, n, device=ascending.device, dtype=torch.float64)
    return ascending[places.round().long()]
