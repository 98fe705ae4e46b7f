"""Runs of an ONNX file: ONNX Runtime and the reference of the format."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from gpupipe.typing import HostArray

REFERENCE_TREES = 20_000  # walked by the reference, which takes seconds for them
LEAST_REFERENCE_ROWS = 16
REFERENCE_SPLITS = 300_000  # read by the reference in about 10 s


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
