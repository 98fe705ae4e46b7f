"""Perceptrons computed by NumPy, for machines without PyTorch and ONNX Runtime."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from gpupipe.models.neural.architecture import N_FREQUENCIES, Architecture
from gpupipe.models.neural.fitted.onnx import FittedOnnx
from gpupipe.tasks import CLASSIFICATION, TargetSpec, Task

if TYPE_CHECKING:
    from gpupipe.typing import Array, HostArray

KINDS = frozenset({"mlp", "tabm"})
"""Kinds of networks that are computed."""
SELU_SCALE, SELU_ALPHA = np.float32(1.0507009873554805), np.float32(1.6732632423543772)
MOST, MOST_SCALED = np.float32(1e38), np.float32(1e6)  # as in `embeddings`, which imports PyTorch


class NumpyNetwork:
    """A trained perceptron: rows of the feature matrix in, scores out, as `gpupipe.models.neural.fitted.scorer.Served`.

    Raise ValueError if the tensors are not those of the architecture.
    """

    def __init__(
        self, tensors: dict[str, HostArray], architecture: Architecture, task: Task, targets: tuple[TargetSpec, ...]
    ) -> None:
        self._task, self._targets = task, targets
        self._shape = architecture
        wanted = {f"network.{name}": shape for name, shape in _weight_shapes(architecture).items()}
        if task not in CLASSIFICATION:
            wanted |= dict.fromkeys(("center", "scale"), (architecture.n_outputs,) if targets else ())
        if odd := sorted(set(tensors) ^ set(wanted)):
            raise ValueError(f"{odd[0]:.60} is {'missing' if odd[0] in wanted else 'unknown'}")
        for name, shape in wanted.items():
            found, dtype = tensors[name], np.float32 if name.startswith("network.") else np.float64
            if found.shape != shape or found.dtype != dtype:
                raise ValueError(f"{name}: expected shape {shape}; got {found.dtype} of shape {found.shape}")
        self._weights = {name.removeprefix("network."): found for name, found in tensors.items()}
        self._offsets = np.cumsum([0, *architecture.cardinalities])[:-1]
        self._n_ids = np.asarray(architecture.cardinalities, np.float32)

    @np.errstate(over="ignore", invalid="ignore")  # huge numbers are clipped, and ids that are NaN are missing values
    def scores(self, X: Array) -> Array:
        """Return the scores, shape (n, n_outputs), of rows, float32, shape (n, d): numbers first, then ids."""
        a, w = self._shape, self._weights
        tokens = []
        if a.n_numbers:
            tokens.append(self._embed(np.asarray(X[:, : a.n_numbers], np.float32)))
        if a.cardinalities:
            ids = X[:, a.n_numbers :]
            known = np.where((ids >= 0) & (ids < self._n_ids), ids, 0.0).astype(np.int64)
            tokens.append(w["categories.table.weight"][known + self._offsets])
        x: Array = np.concatenate(tokens, axis=1).reshape(len(X), -1)
        for i, (kind, _, _) in enumerate(a.perceptron_layers):
            weight = w.get(f"body.{i}.weight")
            if kind == "linear":
                x = self._linear(f"body.{i}", x)
            elif kind == "activation":
                bent = ACTIVATIONS[a.activation](x)
                x = bent if weight is None else x + weight * (bent - x)
            elif weight is not None:
                x = (x[:, None] if kind == "member_scale" else x) * weight
        if a.members > 1:
            x = np.swapaxes(np.swapaxes(x, 0, 1) @ w["head.weight"], 0, 1) + w["head.bias"]
            score = _combine(x, self._task, self._targets)
        else:
            score = self._linear("head", x)
        if self._task in CLASSIFICATION:
            return score
        values: Array = score.astype(np.float64) * w["scale"] + w["center"]
        return np.sort(values, axis=1) if self._task == "quantile" else values

    def _linear(self, name: str, x: Array) -> Array:
        weight, bias = self._weights[f"{name}.weight"], self._weights[f"{name}.bias"]
        if self._shape.parametrization == "ntk":
            x = x / np.float32(weight.shape[1] ** 0.5)
        return x @ weight.T + bias

    def _embed(self, numbers: Array) -> Array:
        """Return the vectors of numbers, shape (n, n_numbers, embedding_size)."""
        w = {name.removeprefix("numbers."): found for name, found in self._weights.items()}
        if self._shape.number_encoding == "piecewise_linear":
            place = (numbers.T[:, :, None] - w["lower"][:, None]) / w["width"][:, None]
            vectors = np.maximum(np.clip(place, 0.0, 1.0) @ w["weight"] + w["bias"], 0.0)
        else:
            scaled = np.clip((np.clip(numbers, -MOST, MOST) - w["center"]) * w["scale"], -MOST_SCALED, MOST_SCALED)
            column = (scaled / np.sqrt(1.0 + scaled * scaled / np.float32(9.0))).T[:, :, None]
            waves = np.cos(column * w["frequency"] + w["phase"])
            vectors = np.concatenate([waves @ w["weight"] + w["bias"], column], axis=2)
        return vectors.transpose(1, 0, 2)


def _weight_shapes(a: Architecture) -> dict[str, tuple[int, ...]]:
    """Return the shape of each tensor of a network."""
    n, size = a.n_numbers, a.embedding_size
    shapes = dict[str, tuple[int, ...]]()
    if n and a.number_encoding == "piecewise_linear":
        shapes |= dict.fromkeys(("numbers.lower", "numbers.width"), (n, a.n_bins))
        shapes |= {"numbers.weight": (n, a.n_bins, size), "numbers.bias": (n, 1, size)}
    elif n:
        shapes |= dict.fromkeys(("numbers.center", "numbers.scale"), (n,))
        shapes |= dict.fromkeys(("numbers.frequency", "numbers.phase"), (n, 1, N_FREQUENCIES))
        shapes |= {"numbers.weight": (n, N_FREQUENCIES, size - 1), "numbers.bias": (n, 1, size - 1)}
    if a.cardinalities:
        shapes["categories.table.weight"] = sum(a.cardinalities), size
    for i, (kind, n_inputs, n_outputs) in enumerate(a.perceptron_layers):
        if kind == "linear":
            shapes |= {f"body.{i}.weight": (n_outputs, n_inputs), f"body.{i}.bias": (n_outputs,)}
        elif kind == "member_scale":
            shapes[f"body.{i}.weight"] = a.members, n_inputs
        elif kind == "scale" or (kind == "activation" and a.parametrization == "ntk"):
            shapes[f"body.{i}.weight"] = (n_inputs,)
    if a.members > 1:
        return shapes | {"head.weight": (a.members, a.width, a.n_outputs), "head.bias": (a.members, a.n_outputs)}
    return shapes | {"head.weight": (a.n_outputs, a.width), "head.bias": (a.n_outputs,)}


def _selu(x: Array) -> Array:
    return SELU_SCALE * np.where(x > 0, x, SELU_ALPHA * np.expm1(np.minimum(x, np.float32(0.0))))


def _relu(x: Array) -> Array:
    return np.maximum(x, np.float32(0.0))


def _mish(x: Array) -> Array:
    found: Array = x * np.tanh(np.logaddexp(np.float32(0.0), x))
    return found


ACTIVATIONS: dict[str, Callable[[Array], Array]] = {"relu": _relu, "selu": _selu, "mish": _mish}


def _combine(score: Array, task: Task, targets: tuple[TargetSpec, ...] = ()) -> Array:
    """Return the result of `gpupipe.models.neural.perceptron.combine_members`."""
    if targets:
        parts = np.split(score, np.cumsum([target.width for target in targets])[:-1], axis=2)
        return np.concatenate([_combine(part, of.task) for part, of in zip(parts, targets, strict=True)], axis=1)
    if task not in CLASSIFICATION:
        mean: Array = score.mean(axis=1)
        return mean
    if task == "binary":
        score = np.concatenate([np.zeros_like(score), score], axis=2)
    log_share: Array = np.logaddexp.reduce(score - np.logaddexp.reduce(score, axis=2, keepdims=True), axis=1)
    log_share -= np.float32(math.log(score.shape[1]))
    return log_share[:, 1:] - log_share[:, :1] if task == "binary" else log_share


@dataclass(frozen=True, repr=False)
class FittedNumpy(FittedOnnx):
    """A perceptron computed by NumPy; its predictions equal those of PyTorch except for rounding.

    `estimator` is a `NumpyNetwork`.
    """

    library = "numpy"
    file = "estimator.safetensors"

    notes: tuple[str, ...] = ("PyTorch is not installed: NumPy computes the network",)

    def scores(self, rows: Array) -> Array:
        """Return the scores of rows, float32, shape (n, d)."""
        found: Array = self.estimator.scores(rows)
        return found
