"""Training loss of a network, per row."""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional as F

from gpupipe.tasks import Task


def row_losses(task: Task, score: Tensor, target: Tensor) -> Tensor:
    """Return the loss of each row, float32, shape (n,).

    Parameters
    ----------
    task : Task
        binary: log loss of the logit. multiclass: cross-entropy of the logits. regression: squared error of the
        standardised target.
    score : Tensor of float32, shape (n, n_outputs)
    target : Tensor, shape (n,)
        Class codes of int64, or float32.
    """
    if task == "multiclass":
        return F.cross_entropy(score, target, reduction="none")
    if task == "binary":
        return F.binary_cross_entropy_with_logits(score[:, 0], target.to(score.dtype), reduction="none")
    return F.mse_loss(score[:, 0], target, reduction="none")
