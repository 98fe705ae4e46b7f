"""Number of rows that go through a network at once."""

from __future__ import annotations

from gpupipe.models.neural.architecture import Architecture
from gpupipe.units import MIB

BLOCK_BYTES = 64 * MIB  # of what a network computes between its input and its scores


def rows_a_block(architecture: Architecture) -> int:
    """Return how many rows' intermediate values take about `BLOCK_BYTES`; at least 1."""
    a = architecture
    tokens = (a.n_tokens + 1) * a.embedding_size
    encoded = 3 * a.n_numbers * a.n_bins + 3 * tokens  # each step of an expression is an array of its own
    if a.kind == "ft_transformer":
        # Queries, keys, values, what is mixed of them, norms; the gated layer; scores of each token for each other.
        body = 8 * tokens + 4 * (a.n_tokens + 1) * a.hidden + a.heads * (a.n_tokens + 1) ** 2
    else:
        body = 3 * (a.width + a.hidden)
    return max(1, BLOCK_BYTES // (4 * (encoded + body)))
