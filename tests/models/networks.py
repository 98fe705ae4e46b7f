"""Small networks with random weights, and an independent implementation in NumPy and float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from gpupipe.models.fitted.base import FittedModel
from gpupipe.models.neural.architecture import Architecture
from gpupipe.models.neural.embeddings import NumberEmbedding
from gpupipe.models.neural.fitted.pytorch import FittedNeural
from gpupipe.models.neural.fitted.scorer import Served
from gpupipe.models.neural.modules import Network
from gpupipe.tasks import Task

VARIANTS: dict[str, dict[str, Any]] = {
    "mlp": {},
    "realmlp": {
        "kind": "mlp", "number_encoding": "periodic", "parametrization": "ntk", "activation": "selu",
    },
    "tabm": {"members": 3},
    "resnet": {},
    "ft_transformer": {},
}  # fmt: skip
KINDS = tuple(VARIANTS)
OUTPUTS: dict[Task, int] = {"binary": 1, "multiclass": 3, "regression": 1}
N_CLASSES: dict[Task, int] = {"binary": 2, "multiclass": 3, "regression": 0}


def fitted(
    kind: str, task: Task, n_numbers: int = 3, cardinalities: tuple[int, ...] = (4, 9), seed: int = 0
) -> FittedNeural:
    """Return a network with all weights moved at random; its columns have 6, 5 and 4 bins of unlike widths."""
    shape: dict[str, Any] = {"kind": kind, "hidden": 16, "heads": 2, "attention_dropout": 0.3, **VARIANTS[kind]}
    architecture = Architecture(
        n_numbers=n_numbers, cardinalities=cardinalities, n_outputs=OUTPUTS[task], n_bins=6, embedding_size=8, depth=2,
        width=24, dropout=0.3, **shape,
    )  # fmt: skip
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(seed)
        network = Network(architecture)
        for weights in network.parameters():
            weights.add_(torch.randn_like(weights), alpha=0.3)
        if isinstance(network.numbers, NumberEmbedding):
            network.numbers.set_edges([torch.randn(7 - j).sort().values for j in range(n_numbers)])
        elif network.numbers is not None:
            network.numbers.learn_columns(torch.randn(20, n_numbers))
    served = Served(network, task, 2_000.0, 12.5).eval()
    names = tuple(f"column {j}" for j in range(architecture.n_tokens))
    return FittedNeural(served, task, names, N_CLASSES[task], tuple(range(N_CLASSES[task])))


def rows(model: FittedNeural, n: int, seed: int = 1) -> Any:
    """Return a matrix as the feature program leaves it: float32, column-major, ids last."""
    rng = np.random.default_rng(seed)
    architecture = model.estimator.architecture
    numbers = 1.5 * rng.normal(size=(n, architecture.n_numbers))
    ids = [rng.integers(0, n_ids, n) for n_ids in architecture.cardinalities]
    return np.asfortranarray(np.column_stack([numbers, *ids]).astype(np.float32))


def given(model: FittedModel, X: Any) -> Any:
    """Return what the model predicts: probabilities or values."""
    prediction = model.predict(X)
    return prediction.value if prediction.probability is None else prediction.probability


class Reference:
    """The formulas of the papers, for the weights of a network."""

    def __init__(self, model: FittedNeural) -> None:
        self.architecture, self.task = model.estimator.architecture, model.task
        state = model.estimator.state_dict()
        self.w = {name.removeprefix("network."): value.double().numpy() for name, value in state.items()}

    def scores(self, X: Any) -> Any:
        tokens, a = self.tokens(X.astype(np.float64)), self.architecture
        if a.kind == "tabm":
            return self.tabm(tokens)
        if a.parametrization == "ntk":
            return self.realmlp(tokens)
        return self.linear("head", getattr(self, a.kind)(tokens))

    def tokens(self, X: Any) -> Any:
        found = []
        for j in range(self.architecture.n_numbers):
            if self.architecture.number_encoding == "periodic":
                found.append(self.periodic(j, X[:, j]))
                continue
            lower, width = self.w["numbers.lower"][j], self.w["numbers.width"][j]
            bins = [np.interp(X[:, j], [a, a + w], [0.0, 1.0]) for a, w in zip(lower, width, strict=True) if a < 1e38]
            vector = np.column_stack(bins) @ self.w["numbers.weight"][j, : len(bins)]
            found.append(np.maximum(vector + self.w["numbers.bias"][j], 0.0))
        start = 0
        for j, n_ids in enumerate(self.architecture.cardinalities, self.architecture.n_numbers):
            found.append(self.w["categories.table.weight"][start + X[:, j].astype(int)])
            start += n_ids
        return np.stack(found, axis=1)

    def periodic(self, j: int, x: Any) -> Any:
        x = (x - self.w["numbers.center"][j]) * self.w["numbers.scale"][j]
        x = x / np.sqrt(1.0 + x**2 / 9.0)
        waves = np.cos(np.outer(x, self.w["numbers.frequency"][j]) + self.w["numbers.phase"][j])
        return np.column_stack([waves @ self.w["numbers.weight"][j] + self.w["numbers.bias"][j], x])

    def realmlp(self, tokens: Any) -> Any:
        def linear(name: str, x: Any) -> Any:
            weight = self.w[f"{name}.weight"]
            return x @ weight.T / np.sqrt(weight.shape[1]) + self.w[f"{name}.bias"]

        x = tokens.reshape(len(tokens), -1) * self.w["body.1.weight"]
        for layer in (2, 5):
            x = linear(f"body.{layer}", x)
            selu = 1.0507009873554805 * np.where(x > 0, x, 1.6732632423543772 * (np.exp(np.minimum(x, 0.0)) - 1.0))
            x = x + self.w[f"body.{layer + 1}.weight"] * (selu - x)
        return linear("head", x)

    def tabm(self, tokens: Any) -> Any:
        """Return the logits of the mean probability of the members, or their mean value."""
        scores = []
        for scale, weight, bias in zip(
            self.w["body.1.weight"], self.w["head.weight"], self.w["head.bias"], strict=True
        ):
            x = tokens.reshape(len(tokens), -1) * scale
            for layer in (2, 5):
                x = np.maximum(self.linear(f"body.{layer}", x), 0.0)
            scores.append(x @ weight + bias)
        score = np.stack(scores)
        if self.task == "regression":
            return score.mean(axis=0)
        if self.task == "binary":
            share = (1.0 / (1.0 + np.exp(-score))).mean(axis=0)
            return np.log(share / (1.0 - share))
        return np.log((np.exp(score) / np.exp(score).sum(axis=2, keepdims=True)).mean(axis=0))

    def mlp(self, tokens: Any) -> Any:
        x = tokens.reshape(len(tokens), -1)
        for layer in (1, 4):
            x = np.maximum(self.linear(f"body.{layer}", x), 0.0)
        return x

    def resnet(self, tokens: Any) -> Any:
        x = self.linear("body.1", tokens.reshape(len(tokens), -1))
        for block in (2, 3):
            inside = np.maximum(self.linear(f"body.{block}.layers.1", self.norm(f"body.{block}.layers.0", x)), 0.0)
            x = x + self.linear(f"body.{block}.layers.4", inside)
        return np.maximum(self.norm("body.4", x), 0.0)

    def ft_transformer(self, tokens: Any) -> Any:
        gatherer = np.broadcast_to(self.w["body.gatherer"], (len(tokens), 1, tokens.shape[2]))
        x = np.concatenate([gatherer, tokens], axis=1)
        for block in (f"body.blocks.{i}" for i in range(self.architecture.depth)):
            x = x + self.attention(f"{block}.attention", self.norm(f"{block}.norms.0", x))
            value, gate = np.split(self.linear(f"{block}.gate", self.norm(f"{block}.norms.1", x)), 2, axis=-1)
            x = x + self.linear(f"{block}.down", value * np.maximum(gate, 0.0))
        return np.maximum(self.norm("body.norm", x[:, 0]), 0.0)  # of all tokens, though one is enough

    def attention(self, name: str, x: Any) -> Any:
        n, heads = x.shape[-1], self.architecture.heads
        query, (key, value) = self.linear(f"{name}.query", x), np.split(self.linear(f"{name}.key_value", x), 2, axis=-1)
        mixed = []
        for head in range(heads):
            part = slice(head * n // heads, (head + 1) * n // heads)
            alike = np.exp(query[..., part] @ key[..., part].transpose(0, 2, 1) / np.sqrt(n / heads))
            mixed.append(alike / alike.sum(axis=-1, keepdims=True) @ value[..., part])
        return self.linear(f"{name}.out", np.concatenate(mixed, axis=-1))

    def linear(self, name: str, x: Any) -> Any:
        return x @ self.w[f"{name}.weight"].T + self.w[f"{name}.bias"]

    def norm(self, name: str, x: Any) -> Any:
        centred = x - x.mean(axis=-1, keepdims=True)
        scaled = centred / np.sqrt((centred**2).mean(axis=-1, keepdims=True) + 1e-5)
        return scaled * self.w[f"{name}.weight"] + self.w[f"{name}.bias"]
