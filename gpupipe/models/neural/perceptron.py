"""Layers of the perceptrons ``mlp`` and ``tabm``: RealMLP's parametrization, and members that share their layers.

- RealMLP (Holzmüller, Grinsztajn, Steinwart, "Better by Default", NeurIPS 2024, https://arxiv.org/abs/2407.04491): a
  learned scale of each input, the neural tangent parametrization, parametric activations, and an initialization by the
  outputs of the layers on training rows. Checked against pytabkit 1.8.
- TabM (Gorishniy, Kotelnikov, Babenko, "TabM: Advancing Tabular Deep Learning with Parameter-Efficient Ensembling",
  ICLR 2025, https://arxiv.org/abs/2410.24210), in the variant TabM-mini: members differ by a scale of the inputs, share
  all layers, and have one head each. Checked against the package tabm 0.0.3.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from gpupipe.models.neural.architecture import Activation, Architecture
from gpupipe.tasks import TargetSpec, Task

ACTIVATIONS: dict[Activation, type[nn.Module]] = {"relu": nn.ReLU, "selu": nn.SELU, "mish": nn.Mish}
MIXED_ROWS = 5  # outputs of this many rows are mixed to the initial bias of a unit


class InputScale(nn.Module):
    """Product of each input and a learned weight; with `members`, of each member: (n, d) becomes (n, members, d)."""

    def __init__(self, n_tokens: int, size: int, members: int = 1) -> None:
        super().__init__()
        n_inputs = n_tokens * size
        self.weight = nn.Parameter(torch.ones(n_inputs) if members == 1 else torch.empty(members, n_inputs))
        if members > 1 and not self.weight.is_meta:
            # The inputs of a column have the same scale at first: otherwise it would only be a random projection.
            with torch.no_grad():
                self.weight.copy_(torch.randn(members, n_tokens, 1).expand(-1, -1, size).flatten(1))

    def forward(self, x: Tensor) -> Tensor:
        """Return the scaled inputs, shape (n, d) or (n, members, d), of inputs, (n, d)."""
        return x * self.weight if self.weight.ndim == 1 else x.unsqueeze(1) * self.weight


class NtkLinear(nn.Module):
    """Linear layer whose weights are divided by the square root of the number of inputs, independent of the width."""

    def __init__(self, n_inputs: int, n_outputs: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(n_outputs, n_inputs))
        self.bias = nn.Parameter(torch.zeros(n_outputs))
        if not self.weight.is_meta:
            nn.init.normal_(self.weight)

    @property
    def scaled_weight(self) -> Tensor:
        """Weights of the linear map, shape (n_outputs, n_inputs)."""
        return self.weight / self.weight.shape[1] ** 0.5

    @torch.no_grad()
    def initialize(self, x: Tensor) -> None:
        """Set the weights so that the outputs of `x`, shape (..., n_inputs), have a standard deviation of 1.

        The bias of a unit is a random convex combination of its negated outputs, so that the activation of each unit
        bends inside the data.
        """
        x = x.flatten(0, -2)
        self.weight.div_(F.linear(x, self.scaled_weight).std(dim=0, correction=0).clamp(min=1e-6)[:, None])
        outputs = F.linear(x, self.scaled_weight)
        chosen = torch.randint(0, len(x), (MIXED_ROWS, outputs.shape[1]))
        shares = torch.empty(chosen.shape).exponential_()
        self.bias.copy_(-(outputs.gather(0, chosen) * shares / shares.sum(dim=0)).sum(dim=0))

    def forward(self, x: Tensor) -> Tensor:
        """Return the outputs, shape (n, n_outputs)."""
        return F.linear(x, self.scaled_weight, self.bias)


class ParametricActivation(nn.Module):
    """``x + weight * (activation(x) - x)``: each unit learns how much it bends."""

    def __init__(self, activation: Activation, width: int) -> None:
        super().__init__()
        self.activation = ACTIVATIONS[activation]()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        """Return the activations, of the shape of `x`."""
        return torch.lerp(x, self.activation(x), self.weight.to(x.dtype))  # in mixed precision, x is half as wide


class MemberHeads(nn.Module):
    """One linear head per member: (n, members, d) becomes (n, members, n_outputs)."""

    def __init__(self, members: int, n_inputs: int, n_outputs: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(members, n_inputs, n_outputs))
        self.bias = nn.Parameter(torch.empty(members, n_outputs))
        if not self.weight.is_meta:
            for values in (self.weight, self.bias):
                nn.init.uniform_(values, -(n_inputs**-0.5), n_inputs**-0.5)

    def forward(self, x: Tensor) -> Tensor:
        """Return the outputs of each member."""
        return torch.bmm(x.transpose(0, 1), self.weight).transpose(0, 1) + self.bias


def perceptron(a: Architecture) -> tuple[nn.Module, nn.Module]:
    """Return the body and the head of an architecture."""
    is_ntk = a.parametrization == "ntk"
    linear = NtkLinear if is_ntk else nn.Linear
    layers: list[nn.Module] = []
    for kind, n_inputs, n_outputs in a.perceptron_layers:
        if kind == "flatten":
            layers.append(nn.Flatten(1))
        elif kind == "linear":
            layers.append(linear(n_inputs, n_outputs))
        elif kind == "activation":
            layers.append(ParametricActivation(a.activation, n_outputs) if is_ntk else ACTIVATIONS[a.activation]())
        elif kind == "dropout":
            layers.append(nn.Dropout(a.dropout))
        else:
            layers.append(InputScale(a.n_tokens, a.embedding_size, a.members if kind == "member_scale" else 1))
    if a.members > 1:
        return nn.Sequential(*layers), MemberHeads(a.members, a.width, a.n_outputs)
    return nn.Sequential(*layers), linear(a.width, a.n_outputs)


def combine_members(score: Tensor, task: Task, targets: Sequence[TargetSpec] = ()) -> Tensor:
    """Return the scores of members, shape (n, members, n_outputs), as scores of their mean, (n, n_outputs).

    Probabilities are averaged, not logits; values and quantiles are averaged as they are. `targets` are those of the
    task multioutput.
    """
    if targets:
        parts = score.split([target.width for target in targets], dim=2)
        return torch.cat([combine_members(part, of.task) for part, of in zip(parts, targets, strict=True)], dim=1)
    if task not in ("binary", "multiclass"):
        return score.mean(dim=1)
    if task == "binary":
        score = torch.cat([torch.zeros_like(score), score], dim=2)
    log_share = F.log_softmax(score, dim=2).logsumexp(dim=1) - math.log(score.shape[1])
    return log_share[:, 1:] - log_share[:, :1] if task == "binary" else log_share
