"""Checks of estimator.onnx before ONNX Runtime opens it: one plain graph of known operators, with inline weights.

The format allows weights in other files, operators of other libraries, functions and nested graphs. The standard has
about 200 operators, including image decoders, random generators and loops. gpupipe's networks need none of these, so
any operator that is not listed here is refused: a malicious file reaches only the code that every export uses.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from gpupipe.artifact.untrusted.protobuf import fields, varints

# Field numbers in onnx.proto.
GRAPH, FUNCTIONS = 7, 25  # of the model
# Of a graph
NODES = 1
WEIGHTS = 5
SPARSE_WEIGHTS = 15
# Of a node
DOMAIN = 7
ATTRIBUTES = 5
OPERATOR = 4
# Of an attribute
TENSOR = 5
SUBGRAPH = 6
TENSORS = 10
SUBGRAPHS = 11
SPARSE = 22
MORE_SPARSE = 23
# Of a tensor
DIMENSIONS = 1
DATA_TYPE = 2
SEGMENT = 3
RAW = 9
EXTERNAL = 13
LOCATION = 14

# Arithmetic, comparisons, activations, norms and changes of shape: the operators that PyTorch's exporter used for
# gpupipe's networks, in this version and in others.
OPERATORS = frozenset((
    "Abs", "Add", "And", "Cast", "Clip", "Concat", "Constant", "Cos", "Div", "Equal", "Erf", "Exp", "Expand",
    "Flatten", "Gather", "Gelu", "Gemm", "Greater", "GreaterOrEqual", "Identity", "LayerNormalization", "Less",
    "LessOrEqual", "Log", "MatMul", "Max", "Min", "Mul", "Neg", "Not", "Or", "Pow", "Reciprocal", "ReduceMax",
    "ReduceMean", "ReduceSum", "Relu", "Reshape", "Selu", "Shape", "Sigmoid", "Slice", "Softmax", "Softplus",
    "Split", "Sqrt", "Squeeze", "Sub", "Tanh", "TopK", "Transpose", "Unsqueeze", "Where",
))  # fmt: skip
ITEM_BYTES = {1: 4, 2: 1, 3: 1, 6: 4, 7: 8, 9: 1, 10: 2, 11: 8, 12: 4, 13: 8}  # item size by numeric data type


def check_onnx(data: bytes) -> None:
    """Verify that a model is self-contained: one plain graph of the operators of gpupipe's networks.

    Raise ValueError if it is not, or the data is not ONNX.
    """
    graphs = []
    for number, value in fields(memoryview(data)):
        if number == FUNCTIONS:
            raise ValueError("it defines functions")
        if number == GRAPH and isinstance(value, memoryview):
            graphs.append(value)
    if len(graphs) != 1:
        raise ValueError(f"it has {len(graphs)} graphs")
    for number, value in _messages(graphs[0]):
        if number == NODES:
            _check_node(value)
        elif number == WEIGHTS:
            _check_tensor(value)
        elif number == SPARSE_WEIGHTS:
            raise ValueError("it has sparse weights")


def _check_node(node: memoryview) -> None:
    # Some readers use the last occurrence of a repeated field, so every occurrence is checked.
    for number, value in _messages(node):
        text = bytes(value[:80]).decode("utf-8", "replace")
        if number == DOMAIN and text not in ("", "ai.onnx"):
            raise ValueError(f"it has an operator of the domain {text[:40]!r}")
        if number == OPERATOR and text not in OPERATORS:
            raise ValueError(f"it has the operator {text[:40]!r}, which gpupipe does not export")
    for number, value in _messages(node):
        if number == ATTRIBUTES:
            for inner, content in _messages(value):
                if inner in (SUBGRAPH, SUBGRAPHS, SPARSE, MORE_SPARSE):
                    raise ValueError("it has nested graphs or sparse values")
                if inner in (TENSOR, TENSORS):
                    _check_tensor(content)


def _check_tensor(tensor: memoryview) -> None:
    """Verify that a tensor is stored in the file, in the number of bytes of its type and dimensions."""
    shape = []
    kind = 0
    raw = None
    for number, value in fields(tensor):
        if number == EXTERNAL or (number == LOCATION and value != 0):
            raise ValueError("it reads weights from another file")
        if number == SEGMENT:
            raise ValueError("it has a tensor in segments")
        if number == DIMENSIONS:
            shape += [value] if isinstance(value, int) else varints(value)
        elif number == DATA_TYPE and isinstance(value, int):
            kind = value
        elif number == RAW and isinstance(value, memoryview):
            raw = len(value)
    if kind not in ITEM_BYTES:
        raise ValueError(f"it has a tensor of the non-numeric type {kind}")
    count = math.prod(shape)
    if any(length > len(tensor) for length in shape) or (raw is not None and raw != count * ITEM_BYTES[kind]):
        raise ValueError(f"it has a tensor of shape {tuple(shape)!s:.80} in {raw or len(tensor):,} bytes")


def _messages(data: memoryview) -> Iterator[tuple[int, memoryview]]:
    return ((number, value) for number, value in fields(data) if isinstance(value, memoryview))
