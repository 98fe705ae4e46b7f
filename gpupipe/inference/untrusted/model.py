"""`UntrustedModel`: a model that runs in a child process with limits on time and memory."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from gpupipe.backends import choose
from gpupipe.errors import ConfigError
from gpupipe.inference.drift.counted_column import CountedColumn
from gpupipe.inference.drift.periods import CountCells
from gpupipe.inference.drift.scores import MOST_OUTPUTS
from gpupipe.inference.explanation.explanation import Explanation, join_explanations
from gpupipe.inference.explanation.outputs import margin_names
from gpupipe.inference.interface import LoadedModel
from gpupipe.inference.parity.verification import Verification
from gpupipe.inference.prediction.prediction_report import PredictionReport, merge_reports
from gpupipe.inference.prediction.rows import BATCH_ROWS, EXPLAINED_ROWS, INTERACTION_ROWS, RowsToPredict
from gpupipe.inference.untrusted.description import DescribedFeatures, read_description
from gpupipe.inference.untrusted.explanations import explained_names, read_explanation
from gpupipe.inference.untrusted.limits import UntrustedLimits
from gpupipe.inference.untrusted.messages import pack_table, unpack_array
from gpupipe.inference.untrusted.process import Buffers, ModelProcess, Reply, Result
from gpupipe.inference.untrusted.replies import (
    read_counts,
    read_held_out_rows,
    read_prediction,
    read_report,
    read_training_rows,
    read_verification,
)
from gpupipe.model_parts.folder import model_folder
from gpupipe.model_parts.reason_codes import ModelReasons
from gpupipe.models import Prediction
from gpupipe.models.fitted.prediction import join_predictions
from gpupipe.typing import Array

if TYPE_CHECKING:
    from gpupipe.inference.drift.reference import DriftReference
    from gpupipe.inference.drift.report import DriftReport
    from gpupipe.inference.evaluation.evaluation import Evaluation


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class UntrustedModel(LoadedModel):
    """An untrusted model, as returned by ``gpupipe.load_model(path, untrusted=True)``.

    It has the methods of `gpupipe.Model` and gives the same results. The files of the model are opened only in a child
    process, which receives rows and returns arrays. If the model crashes the child, or exceeds a limit on time or
    memory, the call raises an `ArtifactError`, and the next call starts a new child.

    The child computes on the CPU. It is not a sandbox: it runs as the same user, with access to files and the network.
    Memory is limited on Linux only.

    Rows and further tables are read, checked and prepared in the calling process, with settings of the model that are
    validated first: the CSV dialect, column types, the rules of ``data:``, and the steps of event tables.

    To end the child, use the model as a context manager or call `close`; the child also ends when the model is
    garbage-collected, and with the calling process. Calls from several threads are serialized. An untrusted model
    cannot be pickled.

    Attributes
    ----------
    goal, decision, backend, folder, rules, events, warns
        As in `gpupipe.Model`.
    features : DescribedFeatures
        Input columns and feature names.
    manifest : dict
        The validated entries of manifest.json.
    process : ModelProcess
        The child process.

    Examples
    --------
    >>> import tempfile
    >>> import pandas as pd
    >>> from gpupipe import Pipeline, load_model
    >>> frame = pd.DataFrame({"age": range(100), "price": [0.5 * age + 2 for age in range(100)]})
    >>> folder = tempfile.TemporaryDirectory()
    >>> run = Pipeline(frame, target="price", models=["ridge"]).run(f"{folder.name}/run", quiet=True)
    >>> with load_model(run.path, untrusted=True, limits={"memory": "2GiB", "time": "1min"}) as model:
    ...     model.predict({"age": [40, 80]}).round(0)
    array([22., 42.])
    >>> folder.cleanup()
    """

    features: DescribedFeatures
    process: ModelProcess

    def verify(self) -> Verification:
        request = {"request": "verify"}
        found, warnings = self.process.request(request, lambda reply, _: read_verification(reply["verification"]))
        self._add_warnings(warnings)
        return found

    def drift(self, data: Any, by: str | None = None, tables: Any = None, as_of: Any = None) -> DriftReport:
        """Compare rows with the training rows of the model; see `gpupipe.Model.drift`.

        The child reads the bins and levels, counts the rows and predicts some of them.
        """
        from gpupipe.inference.drift.comparison import detect_drift

        return detect_drift(self, self._reference(), self._prediction_of, data, by, tables, as_of, self._counter)

    def evaluate(
        self,
        data: Any,
        by: str | None = None,
        slices: Sequence[str] = (),
        cost: Any = None,
        tables: Any = None,
        as_of: Any = None,
    ) -> Evaluation:
        """Measure the model on rows with targets, and estimate its metrics; see `gpupipe.Model.evaluate`.

        The child reads what the model has of its run, counts the rows and predicts them.
        """
        from gpupipe.inference.evaluation.evaluate import EvaluatedRows, ModelRecord, evaluate_rows, read_costs
        from gpupipe.inference.evaluation.held_out import MOST_BYTES

        options = EvaluatedRows(tuple(slices), tables, as_of, None if cost is None else read_costs(cost))
        most = MOST_BYTES * len(self.goal.each)
        read = partial(read_held_out_rows, self.goal)
        held_out, _ = self.process.request({"request": "held_out"}, read, array_bytes=most)
        record = ModelRecord(self._reference(), held_out, self._counter)
        return evaluate_rows(self, record, self._prediction_of, data, by, options)

    def _reference(self) -> DriftReference:
        read = partial(read_training_rows, self.features.input_schema)
        most = 2048 * (len(self.inputs) + MOST_OUTPUTS + 2 * len(self.goal.each))  # at most 1,024 bytes for a column
        return self.process.request({"request": "reference"}, read, array_bytes=most)[0]

    def _counter(self, columns: Sequence[CountedColumn]) -> CountCells:
        return partial(self._count, [len(each.reference.counts) for each in columns])

    def _count(self, sizes: Sequence[int], table: pa.Table) -> Array:
        read = partial(read_counts, sizes, table.num_rows)
        return self._request("count", RowsToPredict(table, {}, None), read, 8 * sum(sizes))

    def __getattr__(self, name: str) -> Any:
        if name in ("scorer", "to_onnx", "to_sql"):
            what = f"{name} is not supported for untrusted models: it computes outside of the child process"
            fix = "predict with `predict_table` or `gpupipe serve --untrusted`; if you trust it: untrusted=False"
            raise ConfigError(what, where=str(self.folder), fix=fix)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def close(self) -> None:
        """End the child process. Later calls of the model raise ConfigError."""
        self.process.close()

    def __enter__(self) -> UntrustedModel:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def __reduce__(self) -> tuple[Any, ...]:
        raise ConfigError(
            "cannot pickle an untrusted model: it runs in a child process",
            where=str(self.folder),
            fix="load it in each process: gpupipe.load_model(path, untrusted=True)",
        )

    def _prediction_of(self, rows: RowsToPredict) -> tuple[Prediction, PredictionReport]:
        parts = [self._predict_batch(batch) for batch in self._batches(rows, BATCH_ROWS)]
        return join_predictions([prediction for prediction, _ in parts]), merge_reports([report for _, report in parts])

    def _batches(self, rows: RowsToPredict, step: int) -> list[RowsToPredict]:
        """Return the batches of `predict_rows` and `explain_rows`, as rounding may depend on the number of rows."""
        if self.features.derivation is not None:  # a history must stay in one batch
            return [rows]
        return [rows.between(start, start + step) for start in range(0, max(1, rows.arrow.num_rows), step)]

    def _predict_batch(self, rows: RowsToPredict) -> tuple[Prediction, PredictionReport]:
        n_rows = rows.arrow.num_rows

        def read(reply: Reply, parts: Buffers) -> tuple[Prediction, PredictionReport]:
            return read_prediction(reply, parts, self.goal, n_rows), read_report(reply["report"], n_rows)

        is_wide = self.goal.task == "embedding"  # the number of columns is unknown
        n_bytes = (
            self.process.limits.memory_bytes
            if is_wide
            else 16 * n_rows * max(1, self.goal.n_classes, self.goal.n_outputs)
        )
        return self._request("predict", rows, read, n_bytes)

    def _explanation_of(self, rows: RowsToPredict, interactions: bool) -> Explanation:
        batches = self._batches(rows, INTERACTION_ROWS if interactions else EXPLAINED_ROWS)
        found = join_explanations([self._explain_batch(batch, interactions) for batch in batches])
        return replace(found, reason_codes=ModelReasons.read(self.manifest))

    def _explain_batch(self, rows: RowsToPredict, interactions: bool) -> Explanation:
        n_rows, known = rows.arrow.num_rows, explained_names(self.features, self.events)
        n_values = max(1, len(margin_names(self.goal))) * (n_rows * len(known) ** (1 + interactions) + 1)

        def read(reply: Reply, parts: Buffers) -> Explanation:
            return read_explanation(reply, parts, self.goal, known, self.feature_names, n_rows, interactions)

        return self._request("explain", rows, read, 16 * n_values, interactions=interactions)

    def _features_of(self, rows: RowsToPredict) -> tuple[Array, PredictionReport]:
        n_rows, n_features = rows.arrow.num_rows, len(self.feature_names)

        def read(reply: Reply, parts: Buffers) -> tuple[Array, PredictionReport]:
            ((described, part),) = zip(reply["arrays"], parts, strict=True)
            matrix = unpack_array(described, part, ("<f4",), (n_rows, n_features))
            return matrix, read_report(reply["report"], n_rows)

        return self._request("transform", rows, read, 4 * n_rows * n_features)

    def _request(
        self,
        what: str,
        rows: RowsToPredict,
        read: Callable[[Reply, Buffers], Result],
        array_bytes: int,
        **options: bool,
    ) -> Result:
        tables = [rows.arrow, *rows.events.values()]
        request = {"request": what, "tables": list(rows.events), "as_of": rows.as_of, **options}
        n_rows = sum(table.num_rows for table in tables)
        parts = [pack_table(table) for table in tables]
        found, warnings = self.process.request(request, read, parts, n_rows=n_rows, array_bytes=array_bytes)
        self._add_warnings(warnings)
        return found

    def _add_warnings(self, warnings: Iterable[str]) -> None:
        for warning in warnings:
            self.backend.note(warning)


def load_untrusted(
    path: str | Path,
    device: str = "auto",
    *,
    allow_code: bool = False,
    limits: Mapping[str, Any] | None = None,
    trust: tuple[str, ...] = (),
) -> UntrustedModel:
    """Load a model in a child process; see `gpupipe.load_model`.

    Raise ArtifactError as `gpupipe.load_model`; also if the model crashes the child or exceeds its limits. Raise
    ConfigError if `device` is ``"gpu"``, or `limits` has keys other than ``memory`` and ``time``.
    """
    if device not in ("auto", "cpu"):
        if device != "gpu":
            choose(device)  # raises the error for an unknown device
        raise ConfigError(
            "untrusted models run on the CPU; got device 'gpu'",
            fix="use device 'cpu', or load the model without `untrusted` if you trust its author",
        )
    allowed = UntrustedLimits.of(limits)
    folder = model_folder(path)
    process = ModelProcess(Path(os.path.abspath(folder)), allow_code, allowed, trust)
    description, _ = process.request({"request": "describe"}, lambda reply, _: read_description(reply["description"]))
    return UntrustedModel(backend=choose("cpu"), folder=folder, process=process, **description)
