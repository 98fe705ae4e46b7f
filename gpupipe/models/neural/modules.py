"""PyTorch modules of the networks: perceptrons, residual network and FT-Transformer.

Perceptrons are in `gpupipe.models.neural.perceptron`. The other networks follow Gorishniy, Rubachev, Khrulkov, Babenko,
"Revisiting Deep Learning Models for Tabular Data", NeurIPS 2021, section 3, with two differences: `NumberEmbedding`
embeds numbers, and the residual network normalizes each row instead of each column of the batch. Predictions therefore
do not depend on the other rows of a batch, nor training on the number of processes.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from gpupipe.models.neural.architecture import Architecture
from gpupipe.models.neural.embeddings import CategoryEmbedding, NumberEmbedding, PeriodicEmbedding
from gpupipe.models.neural.perceptron import NtkLinear, perceptron


class Network(nn.Module):
    """Embeddings, a body and a linear head; ``forward(numbers, ids)`` returns one row of scores per row.

    With members, it returns one row of scores for each of them; see `gpupipe.models.neural.perceptron`. `numbers` is
    None without numeric columns, `categories` without categorical columns.
    """

    def __init__(self, architecture: Architecture) -> None:
        super().__init__()
        self.architecture = architecture
        size = architecture.embedding_size
        numbers, cardinalities = architecture.n_numbers, architecture.cardinalities
        self.numbers: NumberEmbedding | PeriodicEmbedding | None = None
        if numbers and architecture.number_encoding == "periodic":
            self.numbers = PeriodicEmbedding(numbers, size)
        elif numbers:
            self.numbers = NumberEmbedding(numbers, architecture.n_bins, size)
        self.categories = CategoryEmbedding(cardinalities, size) if cardinalities else None
        self.body, self.head = BODIES[architecture.kind](architecture)

    @torch.no_grad()
    def initialize(self, numbers: Tensor, ids: Tensor | None) -> None:
        """Initialize layers by their outputs on training rows, where the parametrization has that; see `NtkLinear`."""
        if self.architecture.parametrization == "standard":
            return
        x = self.embed(numbers, ids)
        assert isinstance(self.body, nn.Sequential)
        for layer in [*self.body, self.head]:
            if isinstance(layer, NtkLinear):
                layer.initialize(x)
            x = x if isinstance(layer, nn.Dropout) else layer(x)

    def forward(self, numbers: Tensor, ids: Tensor | None) -> Tensor:
        """Return scores, shape (n, n_outputs), of numbers, float32, (n, n_numbers), and ids, int32, (n, n_categories).

        With members, the shape is (n, members, n_outputs). Scores are logits for classification (one output for two
        classes), and the standardized target for regression.
        """
        return self.score_tokens(self.embed(numbers, ids))

    def embed(self, numbers: Tensor, ids: Tensor | None) -> Tensor:
        """Return the tokens of rows, one vector per column, shape (n, n_tokens, embedding_size)."""
        tokens = [] if self.numbers is None else [self.numbers(numbers)]
        if self.categories is not None:
            tokens.append(self.categories(ids))
        return torch.cat(tokens, dim=1)

    def score_tokens(self, tokens: Tensor) -> Tensor:
        """Return the scores of tokens."""
        scores: Tensor = self.head(self.body(tokens))
        return scores


class ResidualBlock(nn.Module):
    """``x + dropout(linear(dropout(relu(linear(norm(x))))))``."""

    def __init__(self, width: int, hidden: int, hidden_dropout: float, dropout: float) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.LayerNorm(width),
            nn.Linear(width, hidden),
            nn.ReLU(),
            nn.Dropout(hidden_dropout),
            nn.Linear(hidden, width),
            nn.Dropout(dropout),
        )

    def forward(self, x: Tensor) -> Tensor:
        """Return `x`, shape (n, width), plus the output of the layers."""
        return x + self.layers(x)


class Attention(nn.Module):
    """Multi-head self-attention among the tokens of a row; with `first`, only the first token queries."""

    def __init__(self, width: int, heads: int, dropout: float, first: bool) -> None:
        super().__init__()
        self.heads = heads
        self.dropout = dropout
        self.first = first
        self.query = nn.Linear(width, width)
        self.key_value = nn.Linear(width, 2 * width)
        self.out = nn.Linear(width, width)

    def forward(self, tokens: Tensor) -> Tensor:
        """Return the attention output of the tokens, shape (n, tokens, width)."""
        querying = tokens[:, :1] if self.first else tokens
        query = self._split(self.query(querying))
        key, value = map(self._split, self.key_value(tokens).chunk(2, dim=-1))
        mixed = F.scaled_dot_product_attention(query, key, value, dropout_p=self.dropout if self.training else 0.0)
        return self.out(mixed.transpose(1, 2).flatten(2))

    def _split(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)


class TransformerBlock(nn.Module):
    """Attention and a gated feed-forward layer, each with pre-normalization and a residual connection."""

    def __init__(self, architecture: Architecture, last: bool) -> None:
        super().__init__()
        width, hidden = architecture.embedding_size, architecture.hidden
        self.last = last
        self.norms = nn.ModuleList([nn.LayerNorm(width), nn.LayerNorm(width)])
        self.attention = Attention(width, architecture.heads, architecture.attention_dropout, last)
        self.gate = nn.Linear(width, 2 * hidden)
        self.down = nn.Linear(hidden, width)
        self.hidden_dropout, self.dropout = nn.Dropout(architecture.hidden_dropout), nn.Dropout(architecture.dropout)

    def forward(self, tokens: Tensor) -> Tensor:
        """Return the tokens, shape (n, tokens, width); the last block returns the first token only."""
        kept = tokens[:, :1] if self.last else tokens
        x = kept + self.dropout(self.attention(self.norms[0](tokens)))
        value, gate = self.gate(self.norms[1](x)).chunk(2, dim=-1)
        return x + self.dropout(self.down(self.hidden_dropout(value * torch.relu(gate))))


class Transformer(nn.Module):
    """FT-Transformer: a token for each column, and a class token that attends to all of them."""

    def __init__(self, architecture: Architecture) -> None:
        super().__init__()
        width, depth = architecture.embedding_size, architecture.depth
        self.gatherer = nn.Parameter(torch.randn(1, 1, width) * width**-0.5)
        self.blocks = nn.ModuleList([TransformerBlock(architecture, i == depth - 1) for i in range(depth)])
        self.norm = nn.LayerNorm(width)

    def forward(self, tokens: Tensor) -> Tensor:
        """Return the class token, shape (n, width)."""
        x = torch.cat([self.gatherer.expand(tokens.shape[0], -1, -1), tokens], dim=1)
        for block in self.blocks:
            x = block(x)
        return torch.relu(self.norm(x[:, 0]))


def _resnet(a: Architecture) -> tuple[nn.Module, nn.Module]:
    blocks = [ResidualBlock(a.width, a.hidden, a.hidden_dropout, a.dropout) for _ in range(a.depth)]
    first = nn.Linear(a.n_tokens * a.embedding_size, a.width)
    body = nn.Sequential(nn.Flatten(1), first, *blocks, nn.LayerNorm(a.width), nn.ReLU())
    return body, nn.Linear(a.width, a.n_outputs)


def _transformer(a: Architecture) -> tuple[nn.Module, nn.Module]:
    return Transformer(a), nn.Linear(a.embedding_size, a.n_outputs)


BODIES = {"mlp": perceptron, "tabm": perceptron, "resnet": _resnet, "ft_transformer": _transformer}
