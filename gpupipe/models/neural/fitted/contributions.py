"""Contributions of matrix columns to the scores of networks: expected gradients."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from torch import Tensor

from gpupipe.models.contributions.base import Contributions, Explainer, Method, Scale, as_multiclass
from gpupipe.models.fitted.base import MATRIX_PRODUCT_SECONDS
from gpupipe.models.neural.fitted.scorer import Served
from gpupipe.tasks import CLASSIFICATION

if TYPE_CHECKING:
    from gpupipe.typing import HostArray

FIRST_POINTS, MOST_POINTS = 8, 64
TOLERANCE = 0.01


class ExpectedGradients(NamedTuple):
    """Contributions of the columns of a matrix to the scores of a network."""

    values: HostArray  # float64, shape (n, n_outputs, d)
    # float64, shape (n_outputs,): mean scores of the background rows: ``base + values.sum(axis=2)`` are the scores of
    # the rows.
    base: HostArray
    # float64, shape (n, n_outputs): part of each score that the quadrature missed, before it was distributed among the
    # columns.
    residual: HostArray


def expected_gradients(
    served: Served,
    X: HostArray,
    background: HostArray,
    *,
    first_points: int = FIRST_POINTS,
    most_points: int = MOST_POINTS,
    tolerance: float = TOLERANCE,
) -> ExpectedGradients:
    """Return the expected gradients of each column of `X`, computed on the device of the network.

    The contribution of a column is the integral of the gradient along the straight path from a background row to the
    row, averaged over the background rows (Erion, Janizek, Sturmfels, Lundberg and Lee, "Improving performance of deep
    learning models with axiomatic attribution priors and expected gradients", Nature Machine Intelligence 3 (2021)
    620). These are Aumann-Shapley values, which differ from Shapley values where columns interact. The path connects
    the embedding vectors of the two rows, because there is nothing between two category ids and the encoding of numbers
    has kinks; the contribution of a column is the sum over its vector.

    Erion et al. draw one random point on each path. Here each path has the points of Gauss-Legendre quadrature, so that
    results are reproducible and those of a row do not depend on the other rows. All integrals of a row sum to its score
    minus the mean score of the background: what is missing from that, the residual, measures the error of the
    quadrature. Rows whose residual exceeds `tolerance` times the sum of their absolute contributions, for any output,
    are computed again with twice as many points, up to `most_points`. The residual that is left is then distributed in
    proportion to the absolute contributions. It changes each of them by at most `tolerance` times itself, unless
    `most_points` was reached.

    - `served`: the network in evaluation mode
    - `X` (array of float32, shape (n, d)): rows on the host
    - `background` (array of float32, shape (n_background, d)): rows on the host, at least one
    - `first_points`, `most_points`: number of points on each path: the network is evaluated, and differentiated once
      per output, at ``n_background * first_points`` points for most rows

    Returns
    -------
    ExpectedGradients
        Of logits for classification; of values in the units of the target, or of quantiles before they are sorted; of
        the values and logits of several targets.
    """
    architecture, device = served.architecture, served.device
    n_outputs, n_columns = architecture.n_outputs, architecture.n_tokens
    values, residual = np.empty((len(X), n_outputs, n_columns)), np.empty((len(X), n_outputs))
    with torch.inference_mode(False), torch.no_grad():
        start, start_scores = _embed(served, background, device)
        base = start_scores.mean(dim=0)
        for low in range(0, len(X), architecture.rows_per_block):
            rows = slice(low, low + architecture.rows_per_block)
            end, end_scores = _embed(served, X[rows], device)
            integrals, missing = _integrate(served, start, end, end_scores - base, first_points, most_points, tolerance)
            values[rows], residual[rows] = _complete(integrals, missing).cpu().numpy(), missing.cpu().numpy()
    if served.task in CLASSIFICATION:
        return ExpectedGradients(values, base.cpu().numpy(), residual)
    center, scale = (np.broadcast_to(unit.cpu().numpy(), n_outputs) for unit in (served.center, served.scale))
    return ExpectedGradients(values * scale[:, None], base.cpu().numpy() * scale + center, residual * scale)


def _embed(served: Served, rows: HostArray, device: torch.device) -> tuple[Tensor, Tensor]:
    """Return the tokens of rows, shape (n, n_tokens, embedding_size), and their scores, float64, (n, n_outputs)."""
    matrix = torch.from_numpy(np.array(rows, np.float32, order="C")).to(device)
    tokens = served.network.embed(*served.split(matrix))
    return tokens, served.score_tokens(tokens).double()


def _integrate(
    served: Served,
    start: Tensor,
    end: Tensor,
    total: Tensor,
    first_points: int,
    most_points: int,
    tolerance: float,
) -> tuple[Tensor, Tensor]:
    """Return the integrals of the gradient, float64, shape (n, n_outputs, n_tokens), and what their sums miss.

    `start` and `end` are tokens; `total`, float64, shape (n, n_outputs), is the sum of exact integrals.
    """
    n_points = first_points
    integrals = _quadrature(served, start, end, n_points)
    while True:
        missing = total - integrals.sum(dim=2)
        inexact = (missing.abs() > tolerance * integrals.abs().sum(dim=2)).any(dim=1)
        n_points *= 2
        if n_points > most_points or not inexact.any():
            return integrals, missing
        integrals[inexact] = _quadrature(served, start, end[inexact], n_points)


def _quadrature(served: Served, start: Tensor, end: Tensor, n_points: int) -> Tensor:
    """Return the integrals with `n_points` on each path, float64, shape (n, n_outputs, n_tokens)."""
    nodes, node_weights = np.polynomial.legendre.leggauss(n_points)
    n_paths = len(start)
    positions = torch.tensor((nodes + 1.0) / 2.0, dtype=start.dtype, device=start.device)
    weights = torch.tensor(node_weights / 2.0 / n_paths, device=start.device)
    n_evaluations = n_paths * n_points
    limit = _evaluations_per_batch(served)
    n_rows, n_together = max(1, limit // n_evaluations), min(limit, n_evaluations)
    found = torch.zeros((len(end), served.architecture.n_outputs, end.shape[1]), dtype=torch.float64, device=end.device)
    for low in range(0, len(end), n_rows):
        rows = slice(low, low + n_rows)
        for first in range(0, n_evaluations, n_together):
            evaluation = torch.arange(first, min(first + n_together, n_evaluations), device=start.device)
            path, point = evaluation % n_paths, evaluation // n_paths
            origin, weight = start[path], weights[point]
            change = end[rows, None] - origin
            tokens = (origin + positions[point, None, None] * change).flatten(0, 1)
            for output, gradient in enumerate(_gradients(served, tokens)):
                slopes = (gradient.view_as(change) * change).sum(dim=3)
                found[rows, output] += (slopes.double() * weight[:, None]).sum(dim=1)
    return found


def _gradients(served: Served, tokens: Tensor) -> list[Tensor]:
    """Return the gradient of each output with respect to the tokens, each of their shape."""
    with torch.enable_grad():
        scores = served.score_tokens(tokens.requires_grad_()).sum(dim=0)
        last = len(scores) - 1
        return [torch.autograd.grad(score, tokens, retain_graph=i < last)[0] for i, score in enumerate(scores)]


def _evaluations_per_batch(served: Served) -> int:
    """Return the number of evaluations at once: a backward pass needs the intermediate values of all layers."""
    architecture = served.architecture
    return max(1, architecture.rows_per_block // (architecture.depth + architecture.n_outputs))


def _complete(integrals: Tensor, missing: Tensor) -> Tensor:
    """Return the integrals plus what their sums miss, in proportion to their absolute values; equally if all are 0."""
    size = integrals.abs()
    total = size.sum(dim=2, keepdim=True)
    share = torch.where(total > 0.0, size / total, 1.0 / size.shape[2])
    return integrals + missing[:, :, None] * share


class NetworkExplainer(Explainer):
    """Expected gradients of a network; see `expected_gradients`.

    The network is in evaluation mode. Two classes have one score, that of the second.
    """

    method: Method = "expected gradients"

    def __init__(self, served: Served, background: HostArray, scale: Scale, n_margins: int) -> None:
        self._served = served
        self._background = background
        self._scale = scale
        self._n_margins = n_margins

    @property
    def row_seconds(self) -> float:
        architecture = self._served.architecture
        n_weights = architecture.members * sum(weights.numel() for weights in self._served.parameters())
        n_gradients = len(self._background) * FIRST_POINTS * architecture.n_outputs
        return MATRIX_PRODUCT_SECONDS * 3 * n_weights * n_gradients  # a gradient takes twice a prediction

    def contributions(self, X: HostArray) -> Contributions:
        found = expected_gradients(self._served, X, self._background)
        return as_multiclass(Contributions(found.values, found.base, self._scale), self._n_margins)
