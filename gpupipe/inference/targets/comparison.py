"""Comparison of an exported file with its model on the recorded rows, in the engine that runs the file."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from gpupipe.artifact.untrusted.failures import refuse_failures
from gpupipe.errors import ArtifactError, ConfigError
from gpupipe.inference.parity.check import TOLERANCE as PARITY
from gpupipe.inference.parity.check import compare_columns
from gpupipe.inference.parity.files import ROWS, read_record
from gpupipe.inference.parity.replay import RUN_AGAIN
from gpupipe.inference.prediction.input_source import strips_texts
from gpupipe.inference.prediction.prediction_arrays import class_probabilities
from gpupipe.io.source_reader import plain_arrow
from gpupipe.metrics.predictions import predicted_labels
from gpupipe.table.encode import encode_served

if TYPE_CHECKING:
    import pyarrow as pa

    from gpupipe.artifact import ArtifactReader
    from gpupipe.features.program.fitted import Feature
    from gpupipe.inference.model import Model
    from gpupipe.inference.targets.outputs import TargetOutput
    from gpupipe.typing import HostArray

TOLERANCE = 1e-5  # of a probability, or of the largest prediction
SHARE_OF_ROWS = 0.01  # that may differ by more because a feature has another last digit, which moves them over a split
FIX = "update the runtime, or report it as a bug; no file was written"


@dataclass(frozen=True)
class RuntimeComparison:
    """Differences of the predictions of a file from those of its model."""

    runtime: str
    rows: int  # number of compared rows
    # Largest difference in rows with equal features: of a probability, or relative to the largest prediction.
    largest: float
    moved: int  # rows with a larger difference than the tolerance and another last digit of a feature

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

    feeds: Mapping[str, Any]  # the raw columns, as a runtime takes them
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
    runtime: str,
    expected: ExpectedOutputs,
    found: Mapping[str, HostArray],
    features: HostArray,
    where: str,
    tolerance: float = TOLERANCE,
) -> RuntimeComparison:
    """Return the differences between the outputs that a runtime found, by name, and the expected ones.

    Raise ConfigError if last digits of features move too many rows over splits; ArtifactError if another prediction
    differs by more than `tolerance`, or a feature by more than in a copy of the model.
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
    moved = int((error[~is_equal] > tolerance).sum())
    if largest > tolerance:
        what = (
            f"{runtime} computes other predictions than the model in {int((error > tolerance).sum())} of {len(error)}"
        )
        what += f" recorded rows: the largest difference is {error.max():.2g}, the limit {tolerance:g}"
        raise ArtifactError(what, where=where, fix=FIX)
    if moved > SHARE_OF_ROWS * len(rows):
        differs = ~same[~is_equal][error[~is_equal] > tolerance].all(axis=0)
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


def expected_outputs(
    model: Model, reader: ArtifactReader, feed: Callable[[pa.Table], Mapping[str, Any]], outputs: Sequence[TargetOutput]
) -> ExpectedOutputs:
    """Return what the model computes for its recorded rows on the CPU of this machine.

    `feed` returns the raw columns as the runtime takes them. Raise ArtifactError if the model has no recorded rows.
    """
    where = str(model.folder)
    host = model.backend.host
    goal = model.goal
    if ROWS not in reader.names():
        raise ArtifactError("the model has no recorded rows to compare", where=where, fix=RUN_AGAIN)
    with refuse_failures(f"cannot read {ROWS}", where, RUN_AGAIN):
        recorded = read_record(reader, ())
        trial = recorded.trial.inputs
        # As tables to predict are read: the record itself has blank texts as levels.
        table = encode_served(
            plain_arrow(trial, strips_texts(model.manifest["reading"])), host, model.features.schema
        )  # with the values of derived columns
        X = model.features.transform(table, host)
        rows = recorded.predicted
        prediction = model.decision.apply(model.estimator.predict(np.asfortranarray(X[rows])))
    parts = prediction.parts if goal.targets else (prediction,)
    numbers = [
        class_probabilities(part.output) if own.n_classes else part.output
        for part, own in zip(parts, goal.each, strict=True)
    ]
    named = [each for each in outputs if each.kind != "label"]
    labelled = [each for each in outputs if each.kind == "label"]

    def labels(found: Mapping[str, HostArray]) -> Mapping[str, HostArray]:
        wanted = {}
        decisions = model.decision.targets or (model.decision,)
        for output, own, probabilities, decision in zip(labelled, goal.each, named, decisions, strict=bool(labelled)):
            p = found[probabilities.name]
            codes = predicted_labels(own.task, p[:, 1] if own.task == "binary" else p, decision.threshold)
            wanted[output.name] = output.columns[codes]
        return wanted

    return ExpectedOutputs(
        feed(trial),
        np.asarray(X),
        np.asarray(rows),
        {each.name: np.asarray(values) for each, values in zip(named, numbers, strict=True)},
        labels,
        model.features.features,
        np.asarray(recorded.trial.rows) >= 0,
    )
