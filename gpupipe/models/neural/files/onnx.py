"""Export of a network to estimator.onnx, compared with PyTorch before the file is kept."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from gpupipe.errors import GpupipeError
from gpupipe.models.fitted.base import class_probability, outputs_of_scores
from gpupipe.models.neural.embeddings import NEVER
from gpupipe.models.neural.fitted.onnx_runtime import open_session
from gpupipe.models.neural.fitted.scorer import Served
from gpupipe.random_streams import make_generator
from gpupipe.tasks import CLASSIFICATION, TargetSpec

if TYPE_CHECKING:
    from gpupipe.typing import Array

NEEDED = ("onnx", "onnxscript", "onnxruntime")  # the format, PyTorch's exporter, and the runtime that checks the file
# Names of the outputs: of classifiers score and probability, of several targets score and outputs.
OUTPUTS = {"regression": ["value"], "quantile": ["quantiles"], "multioutput": ["score", "outputs"]}
TOLERANCE = 1e-4  # relative to the largest probability or value, as between machines
LEAST_ROWS, MOST_ROWS = 384, 4096  # number of rows of `trial_rows`
MOST_KEPT_BYTES = 2**26  # of a translation that is kept for the next network
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
    model = _latest.filled(served) or _translated(served)
    path.write_bytes(model.SerializeToString())
    error = largest_error(served, path)
    if not error <= TOLERANCE and _latest.has_shape_of(served):
        model = _translated(served)
        path.write_bytes(model.SerializeToString())
        error = largest_error(served, path)
    if not error <= TOLERANCE:
        path.unlink()
        raise GpupipeError(
            f"ONNX Runtime and PyTorch differ by {error:.2g} of the largest prediction; the limit is {TOLERANCE:g}",
            where=str(path),
            fix="report it as a bug; to export without an ONNX file, uninstall onnxscript",
        )
    return {"opset": next(o.version for o in model.opset_import if not o.domain), "max_error": error}


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
    return np.column_stack(columns).astype(np.float32)


def _number_values(served: Served) -> list[Array]:
    embedding = served.network.numbers
    if embedding is None:
        return []
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


class _Outputs(nn.Module):
    """Outputs of the file: scores, and for classification their probabilities."""

    def __init__(self, served: Served) -> None:
        super().__init__()
        self.served = served

    def forward(self, X: Tensor) -> Tensor | tuple[Tensor, Tensor]:
        score = self.served(X)
        if self.served.targets:
            parts = score.split([target.width for target in self.served.targets], dim=1)
            return score, torch.cat([_linked(*each) for each in zip(self.served.targets, parts, strict=True)], dim=1)
        if self.served.task not in CLASSIFICATION:
            return score
        if score.shape[1] > 1:
            return score, torch.softmax(score, dim=1)
        return score, torch.sigmoid(torch.cat([-score, score], dim=1))


def _linked(target: TargetSpec, score: Tensor) -> Tensor:
    """Return the outputs of one of several targets from its scores."""
    if target.task == "regression":
        return score
    return torch.sigmoid(score) if target.task == "binary" else torch.softmax(score, dim=1)


def _translated(served: Served) -> Any:
    """Return the network as an ONNX message, without the source paths that PyTorch stores in it."""
    example = torch.zeros(8, served.architecture.n_tokens)
    outputs = OUTPUTS.get(served.task, ["score", "probability"])
    with _quiet():
        program = torch.onnx.export(
            _Outputs(served).eval(),
            (example,),
            input_names=["X"],
            output_names=outputs,
            dynamic_shapes=({0: torch.export.Dim("rows")},),
            dynamo=True,
            verbose=False,
        )
    assert program is not None
    model = program.model_proto
    for part in (model, model.graph, *model.graph.node, *model.graph.value_info, *model.graph.input):
        part.ClearField("metadata_props")
    _latest.keep(served, model)
    return model


class _Translation:
    """The translation of the latest network: one of the same shape, as of another fold, differs in its weights only.

    PyTorch takes about a second to translate a network. That of a transformer is not kept: its weights are transposed.
    """

    def __init__(self) -> None:
        self._shape: Any = None
        self._model: Any = None
        self._weights: dict[str, str] = {}

    def keep(self, served: Served, model: Any) -> None:
        """Keep a translation, unless it is large or has a weight in another form."""
        from onnx import numpy_helper

        state = {name: value.numpy() for name, value in served.state_dict().items()}
        self._weights, left = {}, dict(state)
        for tensor in model.graph.initializer:
            name = tensor.name.removeprefix("served.")
            if name not in left:  # the translation may reshape a buffer
                values = numpy_helper.to_array(tensor)
                name = next((key for key, own in left.items() if np.array_equal(own.ravel(), values.ravel())), "")
            if name:
                self._weights[tensor.name] = name
                del left[name]
        is_kept = not left and model.ByteSize() <= MOST_KEPT_BYTES
        self._shape, self._model = (_shape_of(served), model) if is_kept else (None, None)

    def has_shape_of(self, served: Served) -> bool:
        """Return whether the translation is that of a network of this shape."""
        return self._shape == _shape_of(served)

    def filled(self, served: Served) -> Any:
        """Return the translation with the weights of a network, or None if its shape is another one."""
        from onnx import ModelProto, numpy_helper

        if not self.has_shape_of(served):
            return None
        state, model = served.state_dict(), ModelProto()
        model.CopyFrom(self._model)
        for tensor in model.graph.initializer:
            if name := self._weights.get(tensor.name):
                values = state[name].numpy().reshape(tuple(tensor.dims))
                tensor.CopyFrom(numpy_helper.from_array(values, tensor.name))
        return model


def _shape_of(served: Served) -> Any:
    return served.architecture, served.task, served.targets


_latest = _Translation()


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence irrelevant messages of the exporter: missing torchvision, and a deprecated class inside PyTorch."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", ".*LeafSpec", FutureWarning)
            yield
    finally:
        logger.setLevel(level)
