"""Self-contained scorer of a trained network: rows of the feature matrix in, scores out."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from gpupipe.models.neural.architecture import Architecture
from gpupipe.models.neural.modules import Network
from gpupipe.models.neural.perceptron import combine_members
from gpupipe.tasks import CLASSIFICATION, TargetSpec, Task
from gpupipe.typing import Array


class Served(nn.Module):
    """A network that reads rows of the feature matrix directly.

    Parameters
    ----------
    task : {"binary", "multiclass", "regression", "quantile", "multioutput"}
    center, scale : float, or array of float64, shape (n_outputs,)
        Center and scale of the target, for values and quantiles; of several targets, of each output.
    targets : tuple of TargetSpec
        The targets of the task multioutput.
    """

    n_ids: Tensor
    center: Tensor
    scale: Tensor

    def __init__(
        self,
        network: Network,
        task: Task,
        center: float | Array = 0.0,
        scale: float | Array = 1.0,
        targets: tuple[TargetSpec, ...] = (),
    ) -> None:
        super().__init__()
        self.network = network
        self.task = task
        self.targets = targets
        self.n_numbers = network.architecture.n_numbers
        device = self.device
        n_ids = torch.tensor(network.architecture.cardinalities, dtype=torch.float32, device=device)
        self.register_buffer("n_ids", n_ids, persistent=False)
        if task not in CLASSIFICATION:
            # In float64: a target such as a year would lose digits in float32.
            self.register_buffer("center", torch.tensor(center, dtype=torch.float64, device=device))
            self.register_buffer("scale", torch.tensor(scale, dtype=torch.float64, device=device))

    @property
    def device(self) -> torch.device:
        """Device of the weights."""
        return next(self.network.parameters()).device

    @property
    def architecture(self) -> Architecture:
        """Architecture of the network."""
        return self.network.architecture

    def forward(self, X: Tensor) -> Tensor:
        """Return scores, shape (n, n_outputs), of rows, float32, shape (n, d): numbers first, then ids.

        Classification: logits, float32. Otherwise float64, in the units of the target: values, or quantiles, ascending
        in each row; of several targets, values and logits. An id out of range is treated as 0, a missing value, so that
        no look-up leaves the table.
        """
        score = self.score_tokens(self.network.embed(*self.split(X)))
        if self.task in CLASSIFICATION:
            return score
        values = score.double() * self.scale + self.center
        return values.sort(dim=1).values if self.task == "quantile" else values

    def score_tokens(self, tokens: Tensor) -> Tensor:
        """Return the scores of the network, shape (n, n_outputs), of tokens; those of members are combined."""
        score = self.network.score_tokens(tokens)
        return score if score.ndim == 2 else combine_members(score, self.task, self.targets)

    def split(self, X: Tensor) -> tuple[Tensor, Tensor | None]:
        """Return the numbers of rows, float32, and their ids, int32, which are None without categorical columns."""
        numbers, ids = X[:, : self.n_numbers], X[:, self.n_numbers :]
        known = torch.where((ids >= 0) & (ids < self.n_ids), ids, 0.0).to(torch.int32)
        return numbers, known if self.architecture.cardinalities else None
