"""Networks as ONNX graphs: the operations of `gpupipe.models.neural.modules` in evaluation mode.

PyTorch's exporter gives equal graphs, but takes 3 s of a core and the package onnxscript; checked against PyTorch 2.13.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import Tensor, nn

from gpupipe.models.neural.embeddings import (
    MOST,
    MOST_SCALED,
    CategoryEmbedding,
    NumberEmbedding,
    PeriodicEmbedding,
)
from gpupipe.models.neural.fitted.scorer import Served
from gpupipe.models.neural.modules import Attention, ResidualBlock, Transformer, TransformerBlock
from gpupipe.models.neural.perceptron import InputScale, MemberHeads, NtkLinear, ParametricActivation
from gpupipe.tasks import CLASSIFICATION, TargetSpec, Task

if TYPE_CHECKING:
    from gpupipe.typing import HostArray

OPSET, IR_VERSION = 20, 10
OUTPUTS = {"regression": ["value"], "quantile": ["quantiles"], "multioutput": ["score", "outputs"]}
"""Names of the outputs by task; those of classification are score and probability."""


def onnx_model(served: Served) -> Any:
    """Return the message of a network on the CPU, with the input ``X`` and the outputs that `OUTPUTS` names."""
    from onnx import TensorProto, helper

    graph = _Graph()
    score = graph.scores(served, "X")
    values = [score]
    if served.targets:
        values.append(graph.of_targets(score, served.targets))
    elif served.task in CLASSIFICATION:
        values.append(graph.probabilities(score, served.architecture.n_outputs))
    names = OUTPUTS.get(served.task, ["score", "probability"])
    n_outputs = served.architecture.n_outputs
    widths = [n_outputs, max(2, n_outputs) if served.task in CLASSIFICATION else n_outputs]
    kind = TensorProto.FLOAT if served.task in CLASSIFICATION else TensorProto.DOUBLE
    graph.nodes += [helper.make_node("Identity", [value], [name]) for value, name in zip(values, names, strict=True)]
    made = helper.make_graph(
        graph.nodes,
        "network",
        [helper.make_tensor_value_info("X", TensorProto.FLOAT, ["rows", served.architecture.n_tokens])],
        [helper.make_tensor_value_info(name, kind, ["rows", n]) for name, n in zip(names, widths, strict=False)],
        graph.constants,
    )
    return helper.make_model(
        made, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION, producer_name="gpupipe"
    )


class _Graph:
    """Nodes and constants of a graph; a value of the graph is its name."""

    def __init__(self) -> None:
        from onnx import TensorProto, helper, numpy_helper

        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self._make_node, self._message = helper.make_node, numpy_helper.from_array
        self._kinds = TensorProto

    def add(self, op: str, *inputs: str | HostArray | Tensor, **attributes: Any) -> str:
        """Return the first output of a new node; arrays among the inputs become constants."""
        names = [each if isinstance(each, str) else self.constant(each) for each in inputs]
        output = f"{op.lower()}_{len(self.nodes)}"
        others = [f"{output}_places"] if op == "TopK" else []
        self.nodes.append(self._make_node(op, names, [output, *others], **attributes))
        return output

    def constant(self, values: HostArray | Tensor) -> str:
        """Return the name of a new constant."""
        array = values.detach().numpy() if isinstance(values, Tensor) else values
        name = f"constant_{len(self.constants)}"
        self.constants.append(self._message(np.ascontiguousarray(array).reshape(array.shape), name))
        return name

    def columns(self, x: str, start: int, stop: int, axis: int = 1) -> str:
        """Return some positions of an axis, the second one by default."""
        return self.add("Slice", x, *(np.array([n]) for n in (start, stop, axis)))

    def scores(self, served: Served, X: str) -> str:
        """Return the scores of `Served`."""
        network, n_numbers = served.network, served.n_numbers
        tokens = []
        if network.numbers is not None:
            tokens.append(self.numbers(network.numbers, self.columns(X, 0, n_numbers)))
        if network.categories is not None:
            ids = self.columns(X, n_numbers, served.architecture.n_tokens)
            tokens.append(self.categories(network.categories, ids, served.n_ids))
        score = self.module(network.head, self.module(network.body, self.add("Concat", *tokens, axis=1)))
        if served.architecture.members > 1:
            score = self.mean_of_members(score, served.architecture.members, served.task, served.targets)
        if served.task in CLASSIFICATION:
            return score
        score = self.add("Cast", score, to=self._kinds.DOUBLE)
        values = self.add("Add", self.add("Mul", score, served.scale), served.center)
        if served.task != "quantile":
            return values
        return self.add("TopK", values, np.array([served.architecture.n_outputs]), axis=1, largest=0)  # ascending

    def numbers(self, embedding: NumberEmbedding | PeriodicEmbedding, x: str) -> str:
        """Return the vectors of numbers."""
        if isinstance(embedding, PeriodicEmbedding):
            return self.periodic(embedding, x)
        column = self.add("Unsqueeze", self.add("Transpose", x, perm=[1, 0]), np.array([2]))
        place = self.add("Sub", column, embedding.lower.unsqueeze(1))
        share = self.add("Div", place, embedding.width.unsqueeze(1))
        inside = self.add("Clip", share, np.zeros((), np.float32), np.ones((), np.float32))
        vectors = self.add("Add", self.add("MatMul", inside, embedding.weight), embedding.bias)
        return self.add("Transpose", self.add("Relu", vectors), perm=[1, 0, 2])

    def periodic(self, embedding: PeriodicEmbedding, x: str) -> str:
        """Return the vectors of numbers in the periodic encoding."""
        inside = self.add("Clip", x, np.array(-MOST, np.float32), np.array(MOST, np.float32))
        scaled = self.add("Mul", self.add("Sub", inside, embedding.center), embedding.scale)
        scaled = self.add("Clip", scaled, np.array(-MOST_SCALED, np.float32), np.array(MOST_SCALED, np.float32))
        ninth = self.add("Mul", self.add("Mul", scaled, scaled), np.array(1.0 / 9.0, np.float32))
        clipped = self.add("Div", scaled, self.add("Sqrt", self.add("Add", ninth, np.ones((), np.float32))))
        column = self.add("Unsqueeze", self.add("Transpose", clipped, perm=[1, 0]), np.array([2]))
        waves = self.add("Cos", self.add("Add", self.add("Mul", column, embedding.frequency), embedding.phase))
        vectors = self.add("Add", self.add("MatMul", waves, embedding.weight), embedding.bias)
        return self.add("Transpose", self.add("Concat", vectors, column, axis=2), perm=[1, 0, 2])

    def categories(self, embedding: CategoryEmbedding, ids: str, n_ids: Tensor) -> str:
        """Return the vectors of ids; one out of range is a missing value."""
        zero = np.zeros((), np.float32)
        is_known = self.add("And", self.add("GreaterOrEqual", ids, zero), self.add("Less", ids, n_ids))
        known = self.add("Cast", self.add("Where", is_known, ids, zero), to=self._kinds.INT32)
        return self.add("Gather", embedding.table.weight, self.add("Add", known, embedding.offsets), axis=0)

    def module(self, module: nn.Module, x: str) -> str:
        """Return the output of a module; a dropout does nothing."""
        if isinstance(module, nn.Sequential):
            for part in module:
                x = self.module(part, x)
            return x
        if isinstance(module, ResidualBlock):
            return self.add("Add", x, self.module(module.layers, x))
        if isinstance(module, nn.Linear):
            return self.linear(x, module.weight, module.bias)
        if isinstance(module, nn.LayerNorm):
            return self.add("LayerNormalization", x, module.weight, module.bias, epsilon=module.eps)
        if isinstance(module, nn.Flatten):
            return self.add("Reshape", x, np.array([0, -1]))
        if isinstance(module, NtkLinear):
            return self.linear(x, module.scaled_weight, module.bias)
        if isinstance(module, InputScale):
            x = self.add("Unsqueeze", x, np.array([1])) if module.weight.ndim == 2 else x
            return self.add("Mul", x, module.weight)
        if isinstance(module, ParametricActivation):
            change = self.add("Sub", self.module(module.activation, x), x)
            return self.add("Add", x, self.add("Mul", change, module.weight))
        if isinstance(module, MemberHeads):
            outputs = self.add("MatMul", self.add("Transpose", x, perm=[1, 0, 2]), module.weight)
            return self.add("Add", self.add("Transpose", outputs, perm=[1, 0, 2]), module.bias)
        if isinstance(module, nn.ReLU):
            return self.add("Relu", x)
        if isinstance(module, nn.SELU):
            return self.add("Selu", x)
        if isinstance(module, nn.Mish):
            return self.add("Mul", x, self.add("Tanh", self.add("Softplus", x)))
        if isinstance(module, Transformer):
            return self.transformer(module, x)
        assert isinstance(module, nn.Dropout), module
        return x

    def linear(self, x: str, weight: Tensor, bias: Tensor) -> str:
        """Return a linear layer of the last axis."""
        return self.add("Add", self.add("MatMul", x, weight.T), bias)

    def halves(self, layer: nn.Linear, x: str) -> tuple[str, str]:
        """Return both halves of the output of a linear layer."""
        first, second = (self.linear(x, *each) for each in zip(layer.weight.chunk(2), layer.bias.chunk(2), strict=True))
        return first, second

    def transformer(self, module: Transformer, tokens: str) -> str:
        """Return the class token after all blocks."""
        width = module.gatherer.shape[-1]
        shape = self.add("Concat", self.add("Shape", tokens, start=0, end=1), np.array([1, width]), axis=0)
        x = self.add("Concat", self.add("Expand", module.gatherer, shape), tokens, axis=1)
        for block in module.blocks:
            assert isinstance(block, TransformerBlock)
            x = self.block(block, x)
        return self.add("Relu", self.module(module.norm, self.add("Gather", x, np.array(0), axis=1)))

    def block(self, block: TransformerBlock, tokens: str) -> str:
        """Return the tokens after a block."""
        kept = self.columns(tokens, 0, 1) if block.last else tokens
        x = self.add("Add", kept, self.attention(block.attention, self.module(block.norms[0], tokens)))
        value, gate = self.halves(block.gate, self.module(block.norms[1], x))
        return self.add("Add", x, self.module(block.down, self.add("Mul", value, self.add("Relu", gate))))

    def attention(self, module: Attention, tokens: str) -> str:
        """Return the attention output of the tokens."""
        width = module.query.out_features
        size = width // module.heads
        parts = np.array([0, 0, module.heads, size])
        query = self.module(module.query, self.columns(tokens, 0, 1) if module.first else tokens)
        key, value = self.halves(module.key_value, tokens)
        query = self.add("Mul", query, np.array(size**-0.5, np.float32))
        queries = self.add("Transpose", self.add("Reshape", query, parts), perm=[0, 2, 1, 3])
        keys = self.add("Transpose", self.add("Reshape", key, parts), perm=[0, 2, 3, 1])
        values = self.add("Transpose", self.add("Reshape", value, parts), perm=[0, 2, 1, 3])
        shares = self.add("Softmax", self.add("MatMul", queries, keys), axis=-1)
        mixed = self.add("Transpose", self.add("MatMul", shares, values), perm=[0, 2, 1, 3])
        return self.module(module.out, self.add("Reshape", mixed, np.array([0, 0, width])))

    def mean_of_members(self, score: str, members: int, task: Task, targets: tuple[TargetSpec, ...] = ()) -> str:
        """Return the result of `combine_members`."""
        if targets:
            starts = np.cumsum([0, *(target.width for target in targets)])
            ends = zip(starts, starts[1:], targets, strict=False)
            parts = [(self.columns(score, start, stop, axis=2), of.task) for start, stop, of in ends]
            return self.add("Concat", *(self.mean_of_members(part, members, of) for part, of in parts), axis=1)
        if task not in CLASSIFICATION:
            return self.add("ReduceMean", score, np.array([1]), keepdims=0)
        if task == "binary":
            score = self.add("Concat", self.add("Sub", score, score), score, axis=2)
        share = self.log_sum(self.add("Sub", score, self.log_sum(score, 2, keepdims=1)), 1, keepdims=0)
        share = self.add("Sub", share, np.array(math.log(members), np.float32))
        return self.add("Sub", self.columns(share, 1, 2), self.columns(share, 0, 1)) if task == "binary" else share

    def log_sum(self, x: str, axis: int, keepdims: int) -> str:
        """Return the logarithm of the sum of exponentials; ONNX Runtime's operator for it can overflow."""
        most = self.add("ReduceMax", x, np.array([axis]), keepdims=1)
        total = self.add("ReduceSum", self.add("Exp", self.add("Sub", x, most)), np.array([axis]), keepdims=keepdims)
        most = most if keepdims else self.add("Squeeze", most, np.array([axis]))
        return self.add("Add", most, self.add("Log", total))

    def probabilities(self, score: str, n_outputs: int) -> str:
        """Return the probability of each class."""
        if n_outputs > 1:
            return self.add("Softmax", score, axis=1)
        return self.add("Sigmoid", self.add("Concat", self.add("Neg", score), score, axis=1))

    def of_targets(self, score: str, targets: tuple[TargetSpec, ...]) -> str:
        """Return the outputs of several targets: values, and probabilities of classes."""
        found, start = [], 0
        for target in targets:
            part = self.columns(score, start, start + target.width)
            start += target.width
            if target.task != "regression":
                part = self.add("Sigmoid", part) if target.task == "binary" else self.add("Softmax", part, axis=1)
            found.append(part)
        return self.add("Concat", *found, axis=1)
