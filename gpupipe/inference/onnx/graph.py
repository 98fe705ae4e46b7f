"""Builder of ONNX graphs: nodes, and constants that are stored once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

OPSET = 20  # the first with RegexFullMatch
ML_OPSET = 5  # the first with TreeEnsemble, which compares and adds in float64
IR_VERSION = 10  # of the release that has both
ML = "ai.onnx.ml"


class OnnxGraph:
    """Nodes and constants of a graph. A value of the graph is its name.

    `nodes`, `inputs` and `outputs` are messages of the format. `constants` has messages of the constants, by dtype,
    shape and content, and `weights` those of the constants of embedded networks. `opset` is the version of the
    operators: `OPSET`, or that of an embedded network if it is newer.
    """

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.inputs: list[Any] = []
        self.outputs: list[Any] = []
        self.opset = OPSET
        self.constants: dict[tuple[Any, ...], Any] = {}
        self.weights: list[Any] = []
        self._values: dict[tuple[Any, ...], str] = {}
        self._n_names = 0
        self._taken: set[str] = set()  # names of inputs and outputs, which users choose

    def __repr__(self) -> str:
        return f"OnnxGraph({len(self.nodes)} nodes, {len(self.constants)} constants)"

    def add(self, op: str, *inputs: str, domain: str = "", **attributes: Any) -> str:
        """Return the first output of a node; equal nodes of the main domain are written once."""
        if domain:  # trees and vocabularies, which are long and differ
            return self.add_several(op, inputs, 1, domain=domain, **attributes)[0]
        key = (op, inputs, tuple((name, str(value)) for name, value in sorted(attributes.items())))
        if key not in self._values:
            self._values[key] = self.add_several(op, inputs, 1, **attributes)[0]
        return self._values[key]

    def add_several(
        self, op: str, inputs: Sequence[str], n_outputs: int, *, domain: str = "", **attributes: Any
    ) -> list[str]:
        """Append a node and return the names of its outputs."""
        from onnx import helper

        outputs = [self.new_name(op) for _ in range(n_outputs)]
        self.nodes.append(helper.make_node(op, list(inputs), outputs, domain=domain, **attributes))
        return outputs

    def new_name(self, word: str) -> str:
        """Return a name that no other value has."""
        self._n_names += 1
        return self._free(f"{word.lower()}_{self._n_names}")

    def _free(self, name: str) -> str:
        """Return a name that no column has, with underscores appended if needed."""
        while name in self._taken:
            name += "_"
        return name

    def constant(self, values: Any, dtype: npt.DTypeLike | None = None) -> str:
        """Return the name of a constant array; equal constants are stored once. Text has the dtype object."""
        from onnx import numpy_helper

        array = np.asarray(values, dtype)
        content = tuple(array.ravel().tolist()) if array.dtype == object else array.tobytes()
        key = (array.dtype.str, array.shape, content)
        if key not in self.constants:
            self.constants[key] = numpy_helper.from_array(array, self.new_name("constant"))
        name: str = self.constants[key].name
        return name

    def cast(self, value: str, dtype: npt.DTypeLike) -> str:
        """Return a value converted to another dtype."""
        from onnx import helper

        return self.add("Cast", value, to=helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))

    def where(self, condition: str, yes: str, no: str) -> str:
        """Return `yes` where the condition holds, else `no`."""
        return self.add("Where", condition, yes, no)

    def join(self, values: Sequence[str]) -> str:
        """Return the columns of several matrices side by side."""
        return values[0] if len(values) == 1 else self.add("Concat", *values, axis=1)

    def select(self, matrix: str, columns: Sequence[int], width: int) -> str:
        """Return some of the `width` columns of a matrix."""
        if list(columns) == list(range(width)):
            return matrix
        return self.add("Gather", matrix, self.constant(columns, np.int64), axis=1)

    def input(self, name: str, kind: int) -> str:
        """Add an input of the graph, shape (rows, 1), of an ONNX data type."""
        from onnx import helper

        self._taken.add(name)
        self.inputs.append(helper.make_tensor_value_info(name, kind, ["rows", 1]))
        return name

    def output(self, name: str, value: str, kind: int, shape: Sequence[str | int]) -> str:
        """Add an output of the graph and return its name; if an input has the name, with an underscore appended."""
        from onnx import helper

        name = self._free(name)
        self._taken.add(name)
        self.nodes.append(helper.make_node("Identity", [value], [name]))
        self.outputs.append(helper.make_tensor_value_info(name, kind, list(shape)))
        return name

    def embed(self, network: Any, X: str) -> tuple[str, int]:
        """Embed the nodes of a model with one input; return its first output and the number of its columns."""
        from onnx import ModelProto, helper
        from onnx.compose import add_prefix_graph

        copied = ModelProto()
        copied.CopyFrom(network)
        graph = add_prefix_graph(copied.graph, f"{self.new_name('network')}_")
        self.opset = max(self.opset, next(each.version for each in network.opset_import if not each.domain))
        self.nodes += [helper.make_node("Identity", [X], [graph.input[0].name]), *graph.node]
        self.weights += graph.initializer
        output = graph.output[0]
        return output.name, int(output.type.tensor_type.shape.dim[1].dim_value)
