"""Export of a network to estimator.onnx, compared with PyTorch before the file is kept."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from gpupipe.errors import GpupipeError
from gpupipe.models.fitted.base import class_probability, outputs_of_scores
from gpupipe.models.neural.embeddings import NEVER, PeriodicEmbedding
from gpupipe.models.neural.files.onnx_graph import OPSET, onnx_model
from gpupipe.models.neural.fitted.onnx_runtime import open_session
from gpupipe.models.neural.fitted.scorer import Served
from gpupipe.random_streams import make_generator
from gpupipe.tasks import CLASSIFICATION

if TYPE_CHECKING:
    from gpupipe.typing import Array

NEEDED = ("onnx", "onnxruntime")  # the format, and the runtime that checks the file
TOLERANCE = 1e-4  # relative to the largest probability or value, as between machines
LEAST_ROWS, MOST_ROWS = 384, 4096  # number of rows of `trial_rows`
MAX_BYTES = 2**31 - 2**20  # largest protobuf message, less room for the graph


def find_obstacle(served: Served) -> str | None:
    """Return the reason that a network cannot be exported to ONNX, or None."""
    missing = [name for name in NEEDED if find_spec(name) is None]
    if missing:
        return f"no ONNX file: {', '.join(missing)} not installed; pip install {' '.join(NEEDED)}"
    size = sum(value.nbytes for value in served.state_dict().values())
    return f"no ONNX file: {size:,} bytes of weights exceed its limit of 2 GiB" if size > MAX_BYTES else None


def write_onnx(served: Served, path: Path) -> dict[str, Any]:
    """Write a network on the CPU, and compare the results of ONNX Runtime with those of PyTorch.

    The input is ``X``, float32, shape (rows, d). The outputs for classification are ``score``, as returned by `Served`,
    and ``probability``, float32, shape (rows, k); for regression ``value``, float64, shape (rows, 1); for quantiles
    ``quantiles``, float64, shape (rows, k); for several targets ``score`` and ``outputs``, float64, shape (rows, k):
    values, and logits or probabilities of classes.

    Return ``opset``, and ``max_error``: the largest difference, relative to the largest probability, or to the largest
    distance of a value from the mean of the target. Raise GpupipeError if the difference exceeds `TOLERANCE`.
    """
    path.write_bytes(onnx_model(served).SerializeToString())
    error = largest_error(served, path)
    if not error <= TOLERANCE:
        path.unlink()
        raise GpupipeError(
            f"ONNX Runtime and PyTorch differ by {error:.2g} of the largest prediction; the limit is {TOLERANCE:g}",
            where=str(path),
            fix="report it as a bug; to export without an ONNX file, uninstall onnx",
        )
    return {"opset": OPSET, "max_error": error}


def largest_error(served: Served, path: Path) -> float:
    """Return the largest difference between a file and its network, relative to the largest prediction."""
    X = trial_rows(served)
    with torch.inference_mode():
        expected = _comparable(served, served(torch.from_numpy(X)).numpy())
    found = open_session(path.read_bytes(), str(path)).run(None, {"X": X})
    # gpupipe computes probabilities from the scores; other users read the probabilities in the file.
    other = expected if len(found) == 1 else _relative(served, found[1]) if served.targets else found[1]
    sides = [_comparable(served, found[0]), other]
    return float(max(np.abs(side - expected).max() for side in sides) / np.abs(expected).max())


def trial_rows(served: Served) -> Array:
    """Return generated rows, float32, shape (n, d), always the same for a network.

    Numbers are on the edges of bins, inside bins, and far outside the first and last edge. Ids are all ids of a column
    (up to `MOST_ROWS`), and one invalid id on each side.
    """
    rng = make_generator(0, "trial rows")
    cardinalities = served.architecture.cardinalities
    n = min(MOST_ROWS, max(LEAST_ROWS, *(n_ids + 2 for n_ids in cardinalities), 0))
    columns = [rng.choice(values, n) for values in _number_values(served)]
    columns += [rng.permutation(np.arange(n) % (n_ids + 2)) - 1 for n_ids in cardinalities]
    with np.errstate(over="ignore"):  # a constant column has no width: its values far outside are infinite
        return np.column_stack(columns).astype(np.float32)


def _number_values(served: Served) -> list[Array]:
    embedding = served.network.numbers
    if embedding is None:
        return []
    if isinstance(embedding, PeriodicEmbedding):
        widths = 1.0 / np.maximum(embedding.scale.numpy().astype(np.float64), 1e-30)
        shares = np.array([*np.linspace(-4.0, 4.0, 17), -1e3, 1e3, -1e30, 1e30])
        return [float(center) + shares * width for center, width in zip(embedding.center, widths, strict=True)]
    lower, width = (values.numpy().astype(np.float64) for values in (embedding.lower, embedding.width))
    found: list[Array] = []
    for starts, widths in zip(lower, width, strict=True):
        used = starts < NEVER / 2
        starts, widths = starts[used], widths[used]
        shares = np.linspace(0.0, 1.0, 5)[:, None]
        found.append(np.concatenate([(starts + shares * widths).ravel(), [-1e30, -1e3, 0.0, 1e3, 1e30]]))
    return found


def _comparable(served: Served, score: Array) -> Array:
    """Return probabilities, or values relative to their center, since a year is about 2,000 for any network."""
    if served.task in CLASSIFICATION:
        return class_probability(score.astype(np.float64))
    if served.targets:
        return _relative(served, outputs_of_scores(score, served.targets))
    distance: Array = score - served.center.item()
    return distance


def _relative(served: Served, outputs: Array) -> Array:
    """Return the outputs of several targets in the units of the loss, in which their scales are the same."""
    relative: Array = (outputs - served.center.numpy()) / served.scale.numpy()
    return relative
