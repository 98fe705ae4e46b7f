"""`write_onnx`: a whole model as one ONNX file."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpupipe.artifact import ArtifactReader
from gpupipe.artifact.untrusted.failures import VERIFY, refuse_failures
from gpupipe.errors import ConfigError, LimitError
from gpupipe.files.file import replace_file, require_writable_file
from gpupipe.inference.onnx.estimators import EstimatorNodes
from gpupipe.inference.onnx.exact_splits import OperandColumn
from gpupipe.inference.onnx.graph import IR_VERSION, ML, ML_OPSET, OnnxGraph
from gpupipe.inference.onnx.inputs import OnnxInput, write_inputs
from gpupipe.inference.onnx.instructions import write_program
from gpupipe.inference.onnx.outputs import write_outputs
from gpupipe.inference.onnx.runtimes import n_reference_rows, run_onnx_runtime, run_reference
from gpupipe.inference.targets.comparison import RuntimeComparison, compare, expected_outputs
from gpupipe.inference.targets.estimators import NETWORKS, single_models
from gpupipe.inference.targets.exact_columns import exact_columns
from gpupipe.inference.targets.outputs import TargetOutput
from gpupipe.inference.targets.refusals import history_ops, omitted_parts, require_expressible
from gpupipe.io.output_conflicts import require_no_conflict
from gpupipe.model_parts.folder import model_inputs
from gpupipe.models.neural.files.onnx_check import check_onnx
from gpupipe.table.blocks import layout
from gpupipe.table.row_encoder import RowEncoder
from gpupipe_kernels.rows.lowering import lower

if TYPE_CHECKING:
    import pyarrow as pa

    from gpupipe.inference.model import Model
    from gpupipe.typing import HostArray

NEEDED = ("onnx", "onnxruntime")
MAX_BYTES = 2**31 - 2**20  # largest protobuf message, less some room
FEATURES = "features"
METADATA = "gpupipe."  # beginning of the keys of the file's metadata


@dataclass(frozen=True)
class OnnxExport:
    """An exported ONNX file, as returned by `gpupipe.Model.to_onnx`."""

    path: Path
    inputs: tuple[OnnxInput, ...]
    outputs: tuple[TargetOutput, ...]
    # With the model, on its recorded rows, in ONNX Runtime and in ``onnx.reference``; a model with more than 300,000
    # splits in ONNX Runtime only.
    comparisons: tuple[RuntimeComparison, ...]
    omitted: tuple[str, ...] = ()  # what the model does and the file does not, such as prediction intervals

    def __repr__(self) -> str:
        return f"OnnxExport({str(self.path)!r}, {len(self.inputs)} inputs, {len(self.outputs)} outputs)"


def write_onnx(model: Model, path: Path) -> OnnxExport:
    """Write a model as one ONNX file, after a comparison of its predictions; see `gpupipe.Model.to_onnx`.

    Raise ConfigError if onnx or ONNX Runtime is not installed, `path` is not writable or is part of the model, or ONNX
    cannot express the model; LimitError if the file would be too large for the format; ArtifactError if the model has
    no recorded rows to compare, its numbers cannot be written, or a runtime computes other predictions than the model.
    """
    where = str(model.folder)
    if missing := [name for name in NEEDED if find_spec(name) is None]:
        what = f"an ONNX file needs {' and '.join(missing)}, which {'are' if len(missing) > 1 else 'is'} not installed"
        raise ConfigError(what, where=str(path), fix="pip install 'gpupipe[onnx]'")
    require_no_conflict(path, model_inputs(model.folder))
    require_writable_file(path)
    reader = model.open_files()
    networks = _read_networks(model, reader)
    require_expressible(model, "ONNX", history_ops(model.features), networks, where)
    omitted, n_codes = tuple(omitted_parts(model)), [feature.n_codes for feature in model.features.features]
    with refuse_failures("the model cannot be written as ONNX", where, VERIFY):
        graph = OnnxGraph()
        inputs, matrix, exact = _write_features(graph, model)
        nodes = EstimatorNodes(graph, matrix, n_codes, networks, exact)
        outputs = write_outputs(graph, nodes.write(model.estimator), model.goal, model.decision)
        file = _file(graph, model, inputs, outputs, omitted)
        comparisons = _compared(file, matrix, model, reader, inputs, outputs)
    with replace_file(path) as output:
        output.write(file.SerializeToString())
    return OnnxExport(path, tuple(inputs), tuple(outputs), comparisons, omitted)


def _write_features(graph: OnnxGraph, model: Model) -> tuple[list[OnnxInput], str, dict[int, OperandColumn]]:
    """Write the inputs and the feature program; return the inputs, the feature matrix and its exact columns."""
    schema = model.features.schema
    positions = RowEncoder(schema).positions
    inputs, cells = write_inputs(graph, tuple(schema), positions, layout(schema))
    lowered = lower(model.features.program, positions)
    matrix, values = write_program(graph, lowered, cells)
    return inputs, matrix, {i: OperandColumn(each, values) for i, each in exact_columns(lowered).items()}


def _read_networks(model: Model, reader: ArtifactReader) -> dict[int, Any]:
    """Return the ONNX form of each network in a model directory, by the identity of its model."""
    from onnx import load_model_from_string

    found: dict[int, Any] = {}
    described = _single_descriptions(model.manifest["estimator"])
    for each, description in zip(single_models(model.estimator), described, strict=True):
        name = next((name for name in description["files"] if name.endswith(".onnx")), None)
        if each.library in NETWORKS and name is not None:
            with refuse_failures(f"{name} is not a network of this model", str(model.folder), "export it again"):
                check_onnx(data := reader.read(name))
                found[id(each)] = load_model_from_string(data)
    return found


def _single_descriptions(description: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield the descriptions of the models that do not consist of others."""
    members = description.get("members") or ([description] if "models" in description else [])
    if not members:
        yield description
    for member in members:
        for each in member["models"]:
            yield from _single_descriptions(each)


def _file(
    graph: OnnxGraph, model: Model, inputs: list[OnnxInput], outputs: list[TargetOutput], omitted: tuple[str, ...]
) -> Any:
    """Return the message of the file, checked against the format."""
    from onnx import checker, helper

    manifest = model.manifest
    weights = [*graph.constants.values(), *graph.weights]
    size = sum(each.ByteSize() for each in (*weights, *graph.nodes))
    if size > MAX_BYTES:
        what = f"the file would have {size:,} bytes; the format allows 2 GiB"
        raise LimitError(what, where=str(model.folder), fix="train fewer or smaller trees")
    name = manifest.get("name") or "model"
    plotted = helper.make_graph(graph.nodes, name, graph.inputs, graph.outputs, weights)
    opsets = [helper.make_opsetid("", graph.opset), helper.make_opsetid(ML, ML_OPSET)]
    version = str(manifest["gpupipe"])
    file = helper.make_model(
        plotted, opset_imports=opsets, ir_version=IR_VERSION, producer_name="gpupipe", producer_version=version
    )
    file.doc_string = f"{name}: {model.goal.task} of {', '.join(model.goal.names)}, from raw columns to predictions"
    described = {
        "model": manifest["model"]["name"], "task": model.goal.task,
        "inputs": [each.describe() for each in inputs], "outputs": [each.describe() for each in outputs],
        "omitted": list(omitted), "source": manifest["manifest_sha256"],
    }  # fmt: skip
    texts = {key: value if isinstance(value, str) else json.dumps(value) for key, value in described.items()}
    helper.set_model_props(file, {METADATA + key: text for key, text in texts.items()})
    checker.check_model(file, full_check=True)
    return file


def _compared(
    file: Any, matrix: str, model: Model, reader: ArtifactReader, inputs: list[OnnxInput], outputs: list[TargetOutput]
) -> tuple[RuntimeComparison, ...]:
    """Return the comparisons with the model on its recorded rows, in which the feature matrix is an output too."""
    from onnx import ModelProto, TensorProto, helper

    def feed(rows: pa.Table) -> dict[str, HostArray]:
        return {each.column.source: each.feed(rows.column(each.column.source)) for each in inputs}

    expected = expected_outputs(model, reader, feed, outputs)
    shown = ModelProto()
    shown.CopyFrom(file)
    shape = ["rows", expected.features.shape[1]]
    shown.graph.output.append(helper.make_tensor_value_info(matrix, TensorProto.FLOAT, shape))
    where, n_few = str(model.folder), n_reference_rows(file)
    own = run_onnx_runtime(shown, expected.feeds)
    found = [compare("ONNX Runtime", expected, own, own[matrix], where)]
    if n_few:
        few = expected.first(n_few)
        own = run_reference(shown, few.feeds)
        found.append(compare("onnx.reference", few, own, own[matrix], where))
    return tuple(found)
