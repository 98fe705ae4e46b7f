"""Models from strangers, held by a child process with limits of time and memory."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from gpupipe.backends import choose
from gpupipe.errors import ConfigError
from gpupipe.models import Prediction
from gpupipe.models.fitted.device import join_predictions
from gpupipe.pipeline.model.folder import model_folder
from gpupipe.pipeline.model.interface import LoadedModel
from gpupipe.pipeline.model.prediction_report import PredictionReport, merge_reports
from gpupipe.pipeline.model.rows import BATCH_ROWS, RowsToPredict
from gpupipe.pipeline.parity.verification import Verification
from gpupipe.pipeline.untrusted.description import DescribedFeatures, read_description
from gpupipe.pipeline.untrusted.limits import UntrustedLimits
from gpupipe.pipeline.untrusted.messages import pack_table, unpack_array
from gpupipe.pipeline.untrusted.process import Answer, Buffers, ModelProcess, Reply
from gpupipe.pipeline.untrusted.replies import read_prediction, read_report, read_verification
from gpupipe.typing import Array


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class UntrustedModel(LoadedModel):
    """A model from a stranger, as ``gpupipe.load_model(path, untrusted=True)`` returns it.

    It predicts like `gpupipe.Model`, with the same results. The model's files are opened only by a child process, which
    gets the rows and sends back arrays: if the model crashes it, or takes more time or memory than its limits, that is
    an `ArtifactError` here, and the next question starts another process. The child computes on the CPU. It runs as the
    same user, with access to files and the network: this is not a sandbox. Memory is limited on Linux only.

    Rows and further tables are read, checked and prepared in this process. The model says how, in settings that are
    validated first: how CSV is written, column types, the rules of ``data:``, and the steps of event tables.

    Use it as a context manager, or call `close`, to end the child process; it also ends with the last reference to the
    model, and with this process. Threads take turns. It cannot be pickled.

    Attributes
    ----------
    goal, decision, backend, folder, rules, events, warns
        As in `gpupipe.Model`.
    features : DescribedFeatures
        Input columns and feature names.
    manifest : dict
        Entries of manifest.json that were checked.
    process : ModelProcess
        The child process.

    Examples
    --------
    >>> with load_model("downloads/model", untrusted=True, limits={"memory": "2GiB"}) as model:  # doctest: +SKIP
    ...     model.predict("rows.csv")
    """

    features: DescribedFeatures
    process: ModelProcess

    def verify(self) -> Verification:
        found, remarks = self.process.ask({"ask": "verify"}, lambda reply, _: read_verification(reply["verification"]))
        self._take(remarks)
        return found

    def close(self) -> None:
        """End the child process; the model cannot be used any more."""
        self.process.close()

    def __enter__(self) -> UntrustedModel:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def __reduce__(self) -> tuple[Any, ...]:
        raise ConfigError(
            "an untrusted model cannot be pickled: a child process holds it",
            where=str(self.folder),
            fix="load it where it is needed: gpupipe.load_model(path, untrusted=True)",
        )

    def _prediction_of(self, rows: RowsToPredict) -> tuple[Prediction, PredictionReport]:
        n_rows = rows.arrow.num_rows
        if self.features.derivation is not None:  # a history must not be cut
            return self._predict_batch(rows)
        # The batches of `predict_rows`: interpreters and libraries may round otherwise for another number of rows.
        starts = range(0, max(1, n_rows), BATCH_ROWS)
        parts = [self._predict_batch(rows.between(start, min(start + BATCH_ROWS, n_rows))) for start in starts]
        return join_predictions([prediction for prediction, _ in parts]), merge_reports([report for _, report in parts])

    def _predict_batch(self, rows: RowsToPredict) -> tuple[Prediction, PredictionReport]:
        n_rows = rows.arrow.num_rows

        def read(reply: Reply, parts: Buffers) -> tuple[Prediction, PredictionReport]:
            return read_prediction(reply, parts, self.goal, n_rows), read_report(reply["report"], n_rows)

        is_wide = self.goal.task == "embedding"  # of any number of columns
        n_bytes = self.process.limits.memory_bytes if is_wide else 16 * n_rows * max(1, self.goal.n_classes)
        return self._ask("predict", rows, read, n_bytes)

    def _features_of(self, rows: RowsToPredict) -> tuple[Array, PredictionReport]:
        n_rows, n_features = rows.arrow.num_rows, len(self.feature_names)

        def read(reply: Reply, parts: Buffers) -> tuple[Array, PredictionReport]:
            ((described, part),) = zip(reply["arrays"], parts, strict=True)
            matrix = unpack_array(described, part, ("<f4",), (n_rows, n_features))
            return matrix, read_report(reply["report"], n_rows)

        return self._ask("transform", rows, read, 4 * n_rows * n_features)

    def _ask(
        self, what: str, rows: RowsToPredict, read: Callable[[Reply, Buffers], Answer], array_bytes: int
    ) -> Answer:
        tables = [rows.arrow, *rows.events.values()]
        question = {"ask": what, "tables": list(rows.events), "as_of": rows.as_of}
        n_rows = sum(table.num_rows for table in tables)
        parts = [pack_table(table) for table in tables]
        found, remarks = self.process.ask(question, read, parts, n_rows=n_rows, array_bytes=array_bytes)
        self._take(remarks)
        return found

    def _take(self, remarks: Iterable[str]) -> None:
        for remark in remarks:
            self.backend.remark(remark)


def load_untrusted(
    path: str | Path, device: str = "auto", *, allow_code: bool = False, limits: Mapping[str, Any] | None = None
) -> UntrustedModel:
    """Load a model in a child process; see `gpupipe.load_model`.

    Raises
    ------
    ArtifactError
        As `gpupipe.load_model`; also if the model crashes the child, or exceeds its limits.
    ConfigError
        If `device` is the GPU, or `limits` has something else than memory and time.
    """
    if device not in ("auto", "cpu"):
        if device != "gpu":
            choose(device)  # raises the error of an unknown device
        raise ConfigError(
            "untrusted models are used on the CPU; got device 'gpu'",
            fix="use the CPU; or load the model without `untrusted`, if you trust its author",
        )
    allowed = UntrustedLimits.of(limits)
    process = ModelProcess(Path(os.path.abspath(model_folder(path))), allow_code, allowed)
    description, _ = process.ask({"ask": "describe"}, lambda reply, _: read_description(reply["description"]))
    return UntrustedModel(backend=choose("cpu"), folder=model_folder(path), process=process, **description)
