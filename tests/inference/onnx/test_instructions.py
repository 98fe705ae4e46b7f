"""The feature program as ONNX nodes against the NumPy interpreter, on random programs and extreme cells."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

from gpupipe.inference.onnx.graph import IR_VERSION, ML, ML_OPSET, OPSET, OnnxGraph
from gpupipe.inference.onnx.instructions import WRITERS, CellMatrix, write_program
from gpupipe_kernels.interpreters.numpy import interpreter
from gpupipe_kernels.program.opcodes import BLOCKS, Opcode
from gpupipe_kernels.program.program import Program
from gpupipe_kernels.rows.lowering import lower
from gpupipe_kernels.rows.records import CODE, DOUBLE, KIND_OF_BLOCK, SINGLE, TIME
from tests.examples import examples
from tests.kernels.programs import CODES, NUMBERS, TIMES, assert_same, random_program, random_table

COLUMNS = {kind: [c for c in (*CODES, *NUMBERS, *TIMES) if KIND_OF_BLOCK[c[0]] == kind] for kind in range(4)}
POSITIONS = {column: i for columns in COLUMNS.values() for i, column in enumerate(columns)}
KINDS = {
    SINGLE: (TensorProto.FLOAT, "f4"), DOUBLE: (TensorProto.DOUBLE, "f8"), TIME: (TensorProto.INT64, "i8"),
    CODE: (TensorProto.INT64, "i8"),
}  # fmt: skip


def model_of(program: Program) -> Any:
    """Return an ONNX model from the cells by kind, ``cells_KIND``, to the feature matrix ``X``."""
    graph = OnnxGraph()
    cells = [CellMatrix(f"cells_{kind}", len(COLUMNS[kind])) for kind in range(4)]
    matrix, _ = write_program(graph, lower(program, POSITIONS), cells)
    given_cells = [
        helper.make_tensor_value_info(each.name, KINDS[kind][0], ["rows", each.width])
        for kind, each in enumerate(cells)
    ]
    graph.output("X", matrix, TensorProto.FLOAT, ["rows", program.n_columns])
    plotted = helper.make_graph(graph.nodes, "g", given_cells, graph.outputs, list(graph.constants.values()))
    opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid(ML, ML_OPSET)]
    model = helper.make_model(plotted, opset_imports=opsets, ir_version=IR_VERSION)
    onnx.checker.check_model(model, full_check=True)
    return model


def feeds_of(blocks: Any) -> dict[str, np.ndarray]:
    return {
        f"cells_{kind}": np.stack([blocks[BLOCKS[block]][row] for block, row in columns], axis=1).astype(KINDS[kind][1])
        for kind, columns in COLUMNS.items()
    }


@pytest.mark.slow
@examples(40)
@given(seed=st.integers(0, 2**32 - 1), n=st.integers(1, 40), n_columns=st.integers(1, 20))
def test_random_programs_have_the_features_of_the_interpreter(seed: int, n: int, n_columns: int) -> None:
    rng = np.random.default_rng(seed)
    (blocks, _), (program, exact) = random_table(rng, n), random_program(rng, n_columns)
    expected = np.full((n, program.n_columns), 99, np.float32, order="F")
    interpreter.run(program, blocks, expected)
    model, feeds = model_of(program), feeds_of(blocks)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 4
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    runtimes: list[Any] = [session, ReferenceEvaluator(model)]
    with np.errstate(all="ignore"):
        for runtime in runtimes:
            assert_same(runtime.run(None, feeds)[0], expected, exact)


def test_each_instruction_but_a_call_has_nodes() -> None:
    absent = set(Opcode) - set(WRITERS) - {Opcode.STORE, Opcode.INDEX_FOLD}  # which the register form does not have
    assert absent == {Opcode.CALL}
