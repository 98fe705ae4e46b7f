"""Architecture of a network, as JSON keeps it; no PyTorch is needed to read it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from gpupipe.units import MIB

BLOCK_BYTES = 64 * MIB  # of what a network computes between its input and its scores

Kind = Literal["mlp", "resnet", "ft_transformer"]


@dataclass(frozen=True)
class Architecture:
    """The shape of a network.

    Attributes
    ----------
    kind : {"mlp", "resnet", "ft_transformer"}
    n_numbers : int
        Numeric columns; they come first.
    cardinalities : tuple of int
        How many ids each categorical column has.
    n_outputs : int
        1 for two classes and for a number, else one for each class.
    n_bins : int
        Bins of the numbers; see `gpupipe.models.neural.embeddings.NumberEmbedding`.
    embedding_size : int
        Length of the vector of each number and each category.
    depth : int
        Layers of the perceptron, blocks of the others.
    width : int
        Of each layer; a transformer's is `embedding_size`.
    hidden : int
        Width inside of a block.
    heads : int
        Of the transformer's attention.
    dropout, hidden_dropout, attention_dropout : float
    """

    kind: Kind
    n_numbers: int
    cardinalities: tuple[int, ...]
    n_outputs: int
    n_bins: int
    embedding_size: int
    depth: int
    width: int = 0
    hidden: int = 0
    heads: int = 1
    dropout: float = 0.0
    hidden_dropout: float = 0.0
    attention_dropout: float = 0.0

    @property
    def n_tokens(self) -> int:
        """Vectors that describe a row."""
        return self.n_numbers + len(self.cardinalities)

    @property
    def rows_a_block(self) -> int:
        """Rows whose intermediate values take about `BLOCK_BYTES`; at least 1."""
        tokens = (self.n_tokens + 1) * self.embedding_size
        encoded = 3 * self.n_numbers * self.n_bins + 3 * tokens  # each step of an expression is an array of its own
        if self.kind == "ft_transformer":
            # Queries, keys, values, what is mixed of them, norms; the gated layer; scores of each token for each other.
            body = 8 * tokens + 4 * (self.n_tokens + 1) * self.hidden + self.heads * (self.n_tokens + 1) ** 2
        else:
            body = 3 * (self.width + self.hidden)
        return max(1, BLOCK_BYTES // (4 * (encoded + body)))
