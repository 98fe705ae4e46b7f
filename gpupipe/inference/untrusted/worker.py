"""Main module of the child process of an untrusted model, run by `gpupipe.children.Child`.

The model is loaded by the first request. Every request names the model, because a child that died is replaced.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

from gpupipe.children import serve
from gpupipe.entry_points import forbid_plugins
from gpupipe.inference.drift.cell_counter import CellCounter
from gpupipe.inference.drift.counted_column import counted_columns
from gpupipe.inference.drift.files import describe_reference
from gpupipe.inference.drift.reference import DriftReference
from gpupipe.inference.evaluation.held_out import read_held_out
from gpupipe.inference.model import Model, load_model
from gpupipe.inference.prediction.batches import encode_rows, explain_rows, predict_rows
from gpupipe.inference.prediction.rows import RowsToPredict
from gpupipe.inference.untrusted.description import describe
from gpupipe.inference.untrusted.explanations import describe_explanation, explanation_arrays
from gpupipe.inference.untrusted.limits import NO_PLUGINS
from gpupipe.inference.untrusted.messages import pack, pack_arrays, unpack, unpack_table
from gpupipe.inference.untrusted.replies import write_error, write_verification
from gpupipe.typing import Array

Reply = tuple[dict[str, Any], Sequence[Array]]


@dataclass
class ModelWorker:
    """Handler of the requests to one model."""

    models: dict[str, Model] = field(default_factory=dict)

    def handle(self, message: bytes) -> bytes:
        """Return the reply to a request; errors are part of the reply."""
        request, parts = unpack(message)
        try:
            model = self._load(request)
            reply, arrays = self._reply(model, request, parts)
            warnings = [str(text) for text in model.backend.take_notes()]
            return pack({**reply, "sha256": model.manifest["manifest_sha256"], "warnings": warnings}, arrays)
        except Exception as error:
            return pack(write_error(error))

    def _load(self, request: Mapping[str, Any]) -> Model:
        folder = request["folder"]
        if folder not in self.models:
            model = load_model(folder, "cpu", allow_code=request["allow_code"], trust=request["trust"] or None)
            self.models[folder] = replace(model, warns=False)  # the parent warns
        return self.models[folder]

    def _reply(self, model: Model, request: Mapping[str, Any], parts: Sequence[memoryview]) -> Reply:
        match request["request"]:
            case "describe":
                return {"description": describe(model)}, ()
            case "verify":
                return {"verification": write_verification(model.verify())}, ()
            case "scorer":
                scorer = model.scorer()
                if request["explains"]:
                    scorer.prepare_explanations()
                return {}, ()
            case "held_out":
                return _with_arrays(_held_out_of(model))
            case "reference":
                document, named = describe_reference(_reference_of(model))
                return _with_arrays(named, reference=document)
        rows = _rows(request, parts)
        match request["request"]:
            case "count":
                columns = counted_columns(_reference_of(model).columns, model.features.input_schema)
                counter = CellCounter(columns, model.backend, rows.arrow.num_rows)
                return _with_arrays({"cells": counter.count(rows.arrow)})
            case "explain":
                explanation = explain_rows(model, rows, request["interactions"])
                return _with_arrays(explanation_arrays(explanation), explanation=describe_explanation(explanation))
            case "predict":
                prediction, report = predict_rows(model, rows)
                return _with_arrays(prediction.arrays, report=report.to_json())
        table, report = encode_rows(model, rows)
        return _with_arrays({"X": model.features.transform(table, model.backend)}, report=report.to_json())


def _with_arrays(named: Mapping[str, Array], **document: Any) -> Reply:
    described, arrays = pack_arrays(named)
    return {"arrays": described, **document}, arrays


@cache  # for all chunks of a table
def _reference_of(model: Model) -> DriftReference:
    from gpupipe.inference.drift.detection import load_reference

    return load_reference(model)


def _held_out_of(model: Model) -> dict[str, Array]:
    """Return the held-out rows of a model as matrices; nothing if it has none."""
    rows = read_held_out(model.open_files(), model.goal)
    return {} if rows is None else {name: array.reshape(len(rows.y), -1) for name, array in vars(rows).items()}


def _rows(request: Mapping[str, Any], parts: Sequence[memoryview]) -> RowsToPredict:
    arrow, *events = map(unpack_table, parts)
    return RowsToPredict(arrow, dict(zip(request["tables"], events, strict=True)), request["as_of"])


if __name__ == "__main__":
    forbid_plugins(NO_PLUGINS)
    serve(ModelWorker().handle)
