"""Architecture of a network, stored as JSON; reading it needs no PyTorch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from gpupipe.units import MIB

BLOCK_BYTES = 64 * MIB  # limit of the intermediate values of a block of rows

Kind = Literal["mlp", "tabm", "resnet", "ft_transformer"]
NumberEncoding = Literal["piecewise_linear", "periodic"]
Activation = Literal["relu", "selu", "mish"]
Parametrization = Literal["standard", "ntk"]
LayerKind = Literal["flatten", "scale", "member_scale", "linear", "activation", "dropout"]
N_FREQUENCIES = 16  # cosines of each number in the periodic encoding, as in RealMLP


@dataclass(frozen=True)
class Architecture:
    """The shape of a network."""

    kind: Kind
    n_numbers: int  # number of numeric columns; they come first
    cardinalities: tuple[int, ...]  # number of ids of each categorical column
    n_outputs: int  # 1 for two classes and for regression, else the number of classes
    n_bins: int  # bins per numeric column; see `gpupipe.models.neural.embeddings.NumberEmbedding`
    embedding_size: int  # length of the vector of each number and each category
    depth: int  # number of layers of the perceptron, or of blocks of the other networks
    width: int = 0  # width of each layer; for a transformer it is `embedding_size`
    hidden: int = 0  # width inside a block
    heads: int = 1
    dropout: float = 0.0
    hidden_dropout: float = 0.0
    attention_dropout: float = 0.0
    # Of perceptrons; see `gpupipe.models.neural.perceptron`
    number_encoding: NumberEncoding = "piecewise_linear"
    activation: Activation = "relu"
    parametrization: Parametrization = "standard"
    members: int = 1  # number of perceptrons that share their layers and are averaged

    @property
    def perceptron_layers(self) -> list[tuple[LayerKind, int, int]]:
        """Layers of the body of a perceptron, in order: kind, number of inputs, and number of outputs."""
        size = self.n_tokens * self.embedding_size
        layers: list[tuple[LayerKind, int, int]] = [("flatten", size, size)]
        if self.parametrization == "ntk":
            layers.append(("scale", size, size))
        if self.members > 1:
            layers.append(("member_scale", size, size))
        for _ in range(self.depth):
            layers.append(("linear", size, self.width))
            size = self.width
            layers += [("activation", size, size), ("dropout", size, size)]
        return layers

    @property
    def encoding_size(self) -> int:
        """Length of the encoding of a number, from which its vector is computed."""
        return self.n_bins if self.number_encoding == "piecewise_linear" else N_FREQUENCIES

    @property
    def n_tokens(self) -> int:
        """Number of vectors that describe a row."""
        return self.n_numbers + len(self.cardinalities)

    @property
    def rows_per_block(self) -> int:
        """Number of rows whose intermediate values take about `BLOCK_BYTES`; at least 1."""
        tokens = (self.n_tokens + 1) * self.embedding_size
        encoded = (
            3 * self.n_numbers * self.encoding_size + 3 * tokens
        )  # each operation of an expression allocates an array
        if self.kind == "ft_transformer":
            # Queries, keys, values, attention output and norms; the gated layer; attention scores of all token pairs.
            body = 8 * tokens + 4 * (self.n_tokens + 1) * self.hidden + self.heads * (self.n_tokens + 1) ** 2
        else:
            inputs = tokens if self.members > 1 else 0  # each member scales them
            body = self.members * (3 * (self.width + self.hidden) + inputs)
        return max(1, BLOCK_BYTES // (4 * (encoded + body)))
