"""Comparison of a file with its model on the recorded rows, in ONNX Runtime and in the reference of the format."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from gpupipe.errors import ArtifactError, ConfigError
from gpupipe.inference.parity.check import TOLERANCE as PARITY
from gpupipe.inference.parity.check import compare_columns

if TYPE_CHECKING:
    from gpupipe.features.program.fitted import Feature
    from gpupipe.typing import HostArray

TOLERANCE = 1e-5  # of a probability, or of the largest prediction
SHARE_OF_ROWS = 0.01  # that may differ by more because a feature has another last digit, which moves them over a split
FIX = "update onnx and onnxruntime, or report it as a bug; no file was written"
REFERENCE_TREES = 20_000  # walked by the reference, which takes seconds for them
LEAST_REFERENCE_ROWS = 16
REFERENCE_SPLITS = 300_000  # read by the reference in about 10 s


@dataclass(frozen=True)
class RuntimeComparison:
    """Differences of the predictions of a file from those of its model."""

    runtime: str
    rows: int  # number of compared rows
    # Largest difference in rows with equal features: of a probability, or relative to the largest prediction.
    largest: float
    moved: int  # rows with a larger difference than `TOLERANCE` and another last digit of a feature

    def to_json(self) -> dict[str, Any]:
        """Return the comparison as JSON values."""
        return {
            "runtime": self.runtime,
            "rows": self.rows,
            "largest_difference": self.largest,
            "rows_moved": self.moved,
        }


@dataclass(frozen=True)
class ExpectedOutputs:
    """Features and predictions of a model for some rows."""

    feeds: Mapping[str, HostArray]  # the raw columns, as a runtime takes them
    features: HostArray  # float32, shape (n, d)
    predicted: HostArray  # bool, shape (n,): rows to predict
    outputs: Mapping[str, HostArray]  # for the predicted rows, the numbers of the outputs with numbers, by name
    # From the found numbers by name to the labels of the outputs with labels, by name.
    labels: Callable[[Mapping[str, HostArray]], Mapping[str, HostArray]]
    kinds: Sequence[Feature]  # the columns of the matrix
    of_the_run: HostArray  # bool, shape (n,): rows of the run, as opposed to generated rows

    def first(self, n: int) -> ExpectedOutputs:
        """Return evenly spaced rows, at most `n`."""
        rows = np.unique(np.linspace(0, len(self.features) - 1, min(n, len(self.features))).astype(np.int64))
        place = (np.cumsum(self.predicted) - 1)[rows[self.predicted[rows]]]
        return replace(
            self,
            feeds={name: values[rows] for name, values in self.feeds.items()},
            features=self.features[rows],
            predicted=self.predicted[rows],
            outputs={name: values[place] for name, values in self.outputs.items()},
            of_the_run=self.of_the_run[rows],
        )


def compare(
    runtime: str, expected: ExpectedOutputs, found: Mapping[str, HostArray], features: HostArray, where: str
) -> RuntimeComparison:
    """Return the differences between the outputs that a runtime found, by name, and the expected ones.

    Raise ConfigError if last digits of features move too many rows over splits; ArtifactError if another prediction
    differs by more than `TOLERANCE`, or a feature by more than in a copy of the model.
    """
    columns = compare_columns(features, expected.features, expected.of_the_run, expected.kinds, PARITY)
    if wrong := next((column for column in columns if column.outside), None):
        what = f"{runtime} computes {wrong.here!r} for the feature {wrong.name}; the model computes {wrong.recorded!r}"
        raise ArtifactError(what, where=where, fix=FIX)
    rows = expected.predicted
    own = {name: np.asarray(values)[rows] for name, values in found.items()}
    same = (features[rows] == expected.features[rows]) | np.isnan(expected.features[rows])
    is_equal = same.all(axis=1)
    errors = {name: _errors(own[name], values) for name, values in expected.outputs.items()}
    error = np.max(list(errors.values()), axis=0)
    largest = float(error[is_equal].max(initial=0.0))
    moved = int((error[~is_equal] > TOLERANCE).sum())
    if largest > TOLERANCE:
        what = (
            f"{runtime} computes other predictions than the model in {int((error > TOLERANCE).sum())} of {len(error)}"
        )
        what += f" recorded rows: the largest difference is {error.max():.2g}, the limit {TOLERANCE:g}"
        raise ArtifactError(what, where=where, fix=FIX)
    if moved > SHARE_OF_ROWS * len(rows):
        differs = ~same[~is_equal][error[~is_equal] > TOLERANCE].all(axis=0)
        named = [f"{kind.name} ({kind.op})" for kind, is_one in zip(expected.kinds, differs, strict=True) if is_one]
        raise ConfigError(
            f"{runtime} computes other last digits of {', '.join(named)}, which move {moved} of {len(error)} "
            f"recorded rows over splits of the trees; the largest difference of a prediction is {error.max():.2g}",
            where=where,
            fix="train without these ops, or serve the model with gpupipe serve; no file was written",
        )
    for name, labels in expected.labels(own).items():
        if not np.array_equal(own[name], labels):
            raise ArtifactError(f"{runtime} computes other labels than its probabilities", where=where, fix=FIX)
    return RuntimeComparison(runtime, len(error), largest, moved)


def _errors(found: HostArray, wanted: HostArray) -> HostArray:
    """Return the largest error of each row, relative to the largest number of all rows if that exceeds 1."""
    if found.shape != wanted.shape:
        return np.full(len(wanted), np.inf)
    scale = max(1.0, float(np.abs(wanted[np.isfinite(wanted)]).max(initial=0.0)))
    with np.errstate(invalid="ignore"):
        error = np.abs(found - wanted) / scale
    same = (found == wanted) | (np.isnan(found) & np.isnan(wanted))
    each: HostArray = np.where(same, 0.0, np.where(np.isnan(error), np.inf, error))
    largest: HostArray = each.reshape(len(each), -1).max(axis=1)
    return largest


def run_onnx_runtime(model: Any, feeds: Mapping[str, HostArray]) -> dict[str, HostArray]:
    """Return the outputs of a file in ONNX Runtime on the CPU, by name."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4  # errors arrive as exceptions; the log would go to the console
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return dict(zip([each.name for each in session.get_outputs()], session.run(None, dict(feeds)), strict=True))


def run_reference(model: Any, feeds: Mapping[str, HostArray]) -> dict[str, HostArray]:
    """Return the outputs of a file in ``onnx.reference``, by name."""
    from onnx.reference import ReferenceEvaluator

    with np.errstate(all="ignore"):
        found = ReferenceEvaluator(model).run(None, dict(feeds))
    return dict(zip([each.name for each in model.graph.output], found, strict=True))


def n_reference_rows(model: Any) -> int:
    """Return the number of rows that the reference computes in some seconds: it is written in Python.

    0 if it would take minutes to read the trees.
    """
    attributes = list(chain.from_iterable(node.attribute for node in model.graph.node))
    n_trees, n_splits = (
        sum(len(attribute.ints) for attribute in attributes if attribute.name == name)
        for name in ("tree_roots", "nodes_featureids")
    )
    return 0 if n_splits > REFERENCE_SPLITS else max(LEAST_REFERENCE_ROWS, REFERENCE_TREES // (1 + n_trees))
