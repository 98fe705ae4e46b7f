"""The child process that holds an untrusted model: it loads the model at the first question, and answers.

Each question names the model, because a process that died is replaced by another. Run by `gpupipe.children.Child`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from gpupipe.children import serve
from gpupipe.pipeline.model.model import Model, encode_rows, load_model, predict_rows
from gpupipe.pipeline.model.rows import RowsToPredict
from gpupipe.pipeline.untrusted.description import describe
from gpupipe.pipeline.untrusted.messages import pack, pack_arrays, unpack, unpack_table
from gpupipe.pipeline.untrusted.replies import write_error, write_verification
from gpupipe.typing import Array

Reply = tuple[dict[str, Any], Sequence[Array]]


@dataclass
class ModelWorker:
    """Answers to the questions about one model."""

    models: dict[str, Model] = field(default_factory=dict)

    def answer(self, message: bytes) -> bytes:
        """Return the reply to a question; what goes wrong is a part of it."""
        question, parts = unpack(message)
        try:
            model = self._loaded(question)
            reply, arrays = self._reply(model, question, parts)
            remarks = [str(text) for text in model.backend.take_remarks()]
            return pack({**reply, "sha256": model.manifest["manifest_sha256"], "remarks": remarks}, arrays)
        except Exception as error:
            return pack(write_error(error))

    def _loaded(self, question: Mapping[str, Any]) -> Model:
        folder = question["folder"]
        if folder not in self.models:
            model = load_model(folder, "cpu", allow_code=question["allow_code"])
            self.models[folder] = replace(model, warns=False)  # the parent warns
        return self.models[folder]

    def _reply(self, model: Model, question: Mapping[str, Any], parts: Sequence[memoryview]) -> Reply:
        match question["ask"]:
            case "describe":
                return {"description": describe(model)}, ()
            case "verify":
                return {"verification": write_verification(model.verify())}, ()
        rows = _rows(question, parts)
        if question["ask"] == "predict":
            prediction, report = predict_rows(model, rows)
            found = prediction.arrays
        else:
            table, report = encode_rows(model, rows)
            found = {"X": model.features.transform(table, model.backend)}
        described, arrays = pack_arrays(found)
        return {"arrays": described, "report": report.to_json()}, arrays


def _rows(question: Mapping[str, Any], parts: Sequence[memoryview]) -> RowsToPredict:
    arrow, *events = map(unpack_table, parts)
    return RowsToPredict(arrow, dict(zip(question["tables"], events, strict=True)), question["as_of"])


if __name__ == "__main__":
    serve(ModelWorker().answer)
