"""Nodes of a skops file: the objects built from them, and their description."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

from gpupipe.models.files.tree_checks import check_nodes
from gpupipe.models.scikit_learn.skops_types import ALLOWED, DISTANCES, LOADERS, NEIGHBOR_TREES

if TYPE_CHECKING:
    from zipfile import ZipFile

    from gpupipe.typing import Array, HostArray

TREE_STATE = {"max_depth", "node_count", "nodes", "values"}
CHECK_ARRAY = {"dtype", "ensure_all_finite", "ensure_min_features", "ensure_min_samples", "order"}
MERSENNE_WORDS = 624  # length of the state of MT19937


class NodeBuilder:
    """Builder of the objects of the nodes, each once."""

    def __init__(self, archive: ZipFile) -> None:
        self.archive = archive
        self.built: dict[int, Any] = {}
        self.arrays: dict[str, Array] = {}

    def build(self, node: dict[str, Any]) -> Any:
        """Return the object of a node; its type and loader must be allowed."""
        identity = node["__id__"]
        if identity not in self.built:
            self.built[identity] = _BUILDERS[node["__loader__"]](self, node)
        return self.built[identity]

    def build_dict(self, node: dict[str, Any]) -> Any:
        kinds = node["key_types"]["content"]
        if any(kind["__loader__"] != "TypeNode" for kind in kinds):
            raise ValueError("a dict has keys without a type")
        found = _type(node)()
        for kind, (key, value) in zip(kinds, node["content"].items(), strict=True):
            found[_type(kind)(key)] = self.build(value)  # keys can be numbers, such as class codes
        return found

    def build_list(self, node: dict[str, Any]) -> list[Any]:
        return [self.build(item) for item in node["content"]]

    def build_slice(self, node: dict[str, Any]) -> slice:
        bounds = [node["content"][name] for name in ("start", "stop", "step")]
        if not all(bound is None or type(bound) is int for bound in bounds):
            raise ValueError("a slice has bounds that are not integers")
        return slice(*bounds)

    def build_scalar(self, node: dict[str, Any]) -> Any:
        value = json.loads(node["content"])
        if not isinstance(value, str | int | float | bool | None):
            raise ValueError("a scalar is a JSON list or object")
        return value

    def build_array(self, node: dict[str, Any]) -> Any:
        import numpy as np

        if node["type"] == "json":
            return self._objects(node)
        name = node["file"]
        if name not in self.arrays:  # unpacked once, even if several nodes name it
            with self.archive.open(name) as member:
                self.arrays[name] = np.lib.format.read_array(member, allow_pickle=False)
        array, kind = self.arrays[name], _type(node)
        if kind is np.ndarray:
            return array
        if array.shape != () or array.dtype != kind:
            raise ValueError(f"expected a {node['__class__']}; got an array of {array.dtype}, shape {array.shape}")
        return array[()]

    def _objects(self, node: dict[str, Any]) -> Array:
        import numpy as np

        items, shape = self.build_list(node), tuple(self.build(node["shape"]))
        if len(shape) != 1:
            array = np.array(items, dtype=object)
        else:
            array = np.empty(len(items), dtype=object)
            for i, item in enumerate(items):
                array[i] = item
        if array.shape != shape:
            raise ValueError(f"expected an array of objects of shape {shape}; got {array.shape}")
        return array

    def build_partial(self, node: dict[str, Any]) -> Any:
        """Return a ``functools.partial`` of scikit-learn's `check_array`, which histogram gradient boosting stores."""
        content = node["content"]
        function, arguments, keywords = (self.build(content[name]) for name in ("func", "args", "kwds"))
        if function.__name__ != "check_array" or arguments or not set(keywords) <= CHECK_ARRAY:
            raise ValueError("a stored function is not check_array with its known arguments")
        return partial(function, **keywords)

    def build_loss(self, node: dict[str, Any]) -> Any:
        arguments = self.build(node["__reduce__"]["args"])
        if len(arguments) > 1 or not all(type(argument) in (int, float) for argument in arguments):
            raise ValueError(f"a {node['__class__']} has arguments that are not numbers")
        return _type(node)(*arguments)

    def build_generator(self, node: dict[str, Any]) -> Any:
        """Return a generator in its stored state; its seed sequence is not restored, as no prediction spawns."""
        import numpy as np

        state = self.build(node["content"]["bit_generator"])
        if state["bit_generator"] != "PCG64":
            raise ValueError(f"expected a PCG64 generator; got {state['bit_generator']!r:.40}")
        bits = np.random.PCG64(0)
        bits.state = state
        return np.random.Generator(bits)

    def build_random_state(self, node: dict[str, Any]) -> Any:
        import numpy as np

        state = self.build(node["content"])
        key, position = state["state"]["key"], state["state"]["pos"]
        # NumPy does not check the position and reads from there.
        if state["bit_generator"] != "MT19937" or key.shape != (MERSENNE_WORDS,) or type(position) is not int:
            raise ValueError("the state of a RandomState is not that of MT19937")
        if not 0 <= position <= MERSENNE_WORDS:
            raise ValueError(f"expected a RandomState position from 0 to {MERSENNE_WORDS}; got {position:,}")
        found = np.random.RandomState()
        found.set_state(state)
        return found

    def build_tree(self, node: dict[str, Any]) -> Any:
        """Return a decision tree after checking its counts, which scikit-learn trusts."""
        import numpy as np

        n_features, n_classes, n_outputs = self.build(node["__reduce__"]["args"])
        state = self.build(node["content"])
        if type(state) is not dict or set(state) != TREE_STATE:
            raise ValueError(f"expected a tree with the state {', '.join(sorted(TREE_STATE))}")
        nodes, values = state["nodes"], state["values"]
        counts = n_features, n_outputs, state["node_count"], state["max_depth"]
        if any(type(count) is not int or not 0 <= count < 1 << 31 for count in counts):
            raise ValueError("the columns, outputs, nodes or depth of a tree are not valid counts")
        if nodes.ndim != 1 or len(nodes) == 0 or state["node_count"] != len(nodes):
            raise ValueError(f"a tree declares {state['node_count']:,} nodes and has {nodes.size:,}")
        if n_classes.shape != (n_outputs,) or n_classes.dtype.kind != "i" or n_outputs < 1:
            raise ValueError(f"a tree has {n_outputs:,} outputs and the classes of {n_classes.size:,}")
        if values.ndim != 3 or n_classes.min() < 1 or n_classes.max() != values.shape[2]:
            raise ValueError("the values of a tree do not match its number of classes")
        tree = _type(node)(n_features, n_classes, n_outputs)
        # scikit-learn copies memory in C order.
        tree.__setstate__({**state, "nodes": np.ascontiguousarray(nodes), "values": np.ascontiguousarray(values)})
        left = tree.children_left
        check_nodes(left, tree.children_right, tree.feature, left == -1, n_features)
        return tree

    def build_object(self, node: dict[str, Any]) -> Any:
        if f"{node['__module__']}.{node['__class__']}" in NEIGHBOR_TREES | DISTANCES:
            return None  # rebuilt from the rows by `prepare_estimators`
        kind = _type(node)
        found = kind.__new__(kind)
        state = (self.build(node["content"]) if "content" in node else None) or {}
        if type(state) is not dict:
            raise ValueError(f"the state of a {kind.__name__} is not a dict")
        for name in state:
            if name.startswith("__") or callable(getattr(kind, name, None)):
                raise ValueError(f"the state of a {kind.__name__} replaces its method or attribute {name:.40}")
        if hasattr(kind, "__setstate__"):
            found.__setstate__(dict(state))
        else:
            found.__dict__.update(state)
        return found


_BUILDERS: dict[str, Callable[[NodeBuilder, dict[str, Any]], Any]] = {
    "DictNode": NodeBuilder.build_dict,
    "FunctionNode": lambda _, node: _type(node),
    "JsonNode": NodeBuilder.build_scalar,
    "ListNode": NodeBuilder.build_list,
    "LossNode": NodeBuilder.build_loss,
    "NdArrayNode": NodeBuilder.build_array,
    "ObjectNode": NodeBuilder.build_object,
    "PartialNode": NodeBuilder.build_partial,
    "RandomGeneratorNode": NodeBuilder.build_generator,
    "RandomStateNode": NodeBuilder.build_random_state,
    "SetNode": lambda builder, node: set(builder.build_list(node)),
    "SliceNode": NodeBuilder.build_slice,
    "TreeNode": NodeBuilder.build_tree,
    "TupleNode": lambda builder, node: tuple(builder.build_list(node)),
    "TypeNode": lambda _, node: _type(node),
}


def _type(node: dict[str, Any]) -> Any:
    """Return the class or function that a checked node names."""
    return _named(node["__module__"], node["__class__"])


@lru_cache
def _named(module: str, name: str) -> Any:
    return getattr(importlib.import_module(module), name)


class NodeDescriber:
    """Describer of objects as nodes, the inverse of `NodeBuilder`; an object that is shared has one node.

    `refused` has the names of the types that are not allowed; `arrays` those that the nodes name, by file.
    """

    def __init__(self) -> None:
        self.nodes: dict[int, dict[str, Any]] = {}
        self.described: list[Any] = []  # kept, or another object could get the address of one
        self.arrays: dict[str, HostArray] = {}
        self.refused: set[str] = set()

    def describe(self, value: Any) -> dict[str, Any]:
        """Return the node of a value; add to `refused` if its type is not allowed."""
        node = self.nodes.get(id(value))
        if node is None:
            loader, module, name = _loader(value)
            node = {"__class__": name, "__module__": module, "__loader__": loader, "__id__": len(self.nodes) + 1}
            self.nodes[id(value)] = node  # before its parts: an object inside itself is refused by JSON
            self.described.append(value)
            if loader:
                node |= _DESCRIBERS[loader](self, value)
            else:
                self.refused.add(f"{module}.{name}")
        return node

    def describe_dict(self, value: dict[Any, Any]) -> dict[str, Any]:
        content = {key.item() if hasattr(key, "item") else key: self.describe(item) for key, item in value.items()}
        return {"content": content, "key_types": self.describe([type(key) for key in value])}

    def describe_items(self, value: Any) -> dict[str, Any]:
        return {"content": [self.describe(item) for item in value]}

    def describe_array(self, value: Any) -> dict[str, Any]:
        import numpy as np

        if value.dtype == object:
            return {**self.describe_items(value.tolist()), "type": "json", "shape": self.describe(value.shape)}
        if value.dtype.hasobject:
            raise ValueError(f"an array has the dtype {value.dtype}")
        name = f"{self.nodes[id(value)]['__id__']}.npy"
        self.arrays[name] = np.asarray(value)
        return {"type": "numpy", "file": name}

    def describe_partial(self, value: Any) -> dict[str, Any]:
        parts = zip(("func", "args", "kwds", "namespace"), value.__reduce__()[2], strict=True)
        return {"content": {name: self.describe(part) for name, part in parts}}

    def describe_loss(self, value: Any) -> dict[str, Any]:
        made, arguments, *state = value.__reduce__()
        if made is not type(value):  # Cython's function: its arguments are the type, a checksum and the state
            arguments = () if state else arguments[2]
        return self._reduced(arguments, state[0] if state else {})

    def describe_generator(self, value: Any) -> dict[str, Any]:
        bits = value.bit_generator
        states = {"bit_generator": bits.state, "seed_seq": bits.seed_seq.state}
        return {"content": {name: self.describe(state) for name, state in states.items()}}

    def describe_tree(self, value: Any) -> dict[str, Any]:
        return self._reduced(*value.__reduce__()[1:])

    def describe_object(self, value: Any) -> dict[str, Any]:
        return {"content": self.describe(value.__getstate__())}

    def _reduced(self, arguments: Any, state: Any) -> dict[str, Any]:
        return {"__reduce__": {"args": self.describe(arguments)}, "content": self.describe(state)}


_DESCRIBERS: dict[str, Callable[[NodeDescriber, Any], dict[str, Any]]] = {
    "DictNode": NodeDescriber.describe_dict,
    "FunctionNode": lambda *_: {},
    "JsonNode": lambda _, value: {"content": json.dumps(value), "is_json": True},
    "ListNode": NodeDescriber.describe_items,
    "LossNode": NodeDescriber.describe_loss,
    "NdArrayNode": NodeDescriber.describe_array,
    "ObjectNode": NodeDescriber.describe_object,
    "PartialNode": NodeDescriber.describe_partial,
    "RandomGeneratorNode": NodeDescriber.describe_generator,
    "RandomStateNode": lambda describer, value: {"content": describer.describe(value.get_state(legacy=False))},
    "SetNode": NodeDescriber.describe_items,
    "SliceNode": lambda _, value: {"content": {name: getattr(value, name) for name in ("start", "stop", "step")}},
    "TreeNode": NodeDescriber.describe_tree,
    "TupleNode": NodeDescriber.describe_items,
    "TypeNode": lambda *_: {},
}


def _loader(value: Any) -> tuple[str, str, str]:
    """Return loader, module and name in the node of a value; an empty loader if its type is not allowed."""
    if isinstance(value, str | int | float | None) and type(value).__module__ != "numpy":
        return "JsonNode", "builtins", "str"
    if callable(value) and hasattr(value, "__name__"):
        loader, named = "TypeNode" if isinstance(value, type) else "FunctionNode", value
    else:
        loader, named = "", type(value)
    module, name = str(named.__module__), named.__name__
    full_name = f"{module}.{name}"
    if loader:
        return loader if full_name in ALLOWED[loader] else "", module, name
    return LOADERS.get(full_name, ""), module, name
