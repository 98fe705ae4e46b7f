"""estimator.onnx, looked at before ONNX Runtime opens it: a plain graph of plain operators that holds its own weights.

The format could name other files for its weights, operators of libraries of its own, functions, and graphs in graphs.
Our networks have none of these.
"""

from __future__ import annotations

from collections.abc import Iterator

from gpupipe.untrusted.protobuf import fields

# Numbers of the fields in onnx.proto.
GRAPH, FUNCTIONS = 7, 25  # of the model
NODES, WEIGHTS, SPARSE_WEIGHTS = 1, 5, 15  # of a graph
DOMAIN, ATTRIBUTES, OPERATOR = 7, 5, 4  # of a node
TENSOR, SUBGRAPH, TENSORS, SUBGRAPHS, SPARSE, MORE_SPARSE = 5, 6, 10, 11, 22, 23  # of an attribute
EXTERNAL, LOCATION = 13, 14  # of a tensor


def check_onnx(data: bytes) -> None:
    """Verify that a model reads nothing outside of itself and is one plain graph.

    Raises
    ------
    ValueError
        If it is not, or is no ONNX.
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
    found = dict(_messages(node))
    domain = bytes(found.get(DOMAIN, b"")).decode("utf-8", "replace")
    if domain not in ("", "ai.onnx"):
        operator = bytes(found.get(OPERATOR, b"")).decode("utf-8", "replace")
        raise ValueError(f"it has an operator {operator[:40]!r} of {domain[:40]!r}")
    for number, value in _messages(node):
        if number == ATTRIBUTES:
            for inner, content in _messages(value):
                if inner in (SUBGRAPH, SUBGRAPHS, SPARSE, MORE_SPARSE):
                    raise ValueError("it has graphs inside of its graph, or sparse values")
                if inner in (TENSOR, TENSORS):
                    _check_tensor(content)


def _check_tensor(tensor: memoryview) -> None:
    for number, value in fields(tensor):
        if number == EXTERNAL or (number == LOCATION and value != 0):
            raise ValueError("it takes weights from another file")


def _messages(data: memoryview) -> Iterator[tuple[int, memoryview]]:
    return ((number, value) for number, value in fields(data) if isinstance(value, memoryview))
