"""Reader and writer of skops files, which store scikit-learn estimators; the reader allows listed types only.

A skops file is a zip of arrays and one ``schema.json``, a tree of nodes that name the class to build. skops writes the
file; the reader is gpupipe's own (checked against skops 0.16, whose files have protocol 2). skops' reader checks the
names of types and passes their content to scikit-learn's ``__setstate__``, which trusts it: a tree that declares more
nodes than it has is read past its memory, and nodes with shared parts make skops' check take exponential time.
"""

from __future__ import annotations

import importlib
import io
import json
from collections.abc import Callable, Iterator
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zipfile import ZIP_DEFLATED, ZIP_STORED, ZipFile

from gpupipe.artifact.untrusted.archives import BROKEN, check_array, check_members
from gpupipe.artifact.untrusted.failures import EXPORT_AGAIN, refuse_failures
from gpupipe.artifact.untrusted.json_documents import parse_json
from gpupipe.errors import ArtifactError
from gpupipe.models.files.tree_checks import check_nodes
from gpupipe.models.scikit_learn.estimator_checks import check_estimators
from gpupipe.models.scikit_learn.skops_types import ALLOWED, DISTANCES, NEIGHBOR_TREES

if TYPE_CHECKING:
    from gpupipe.typing import Array

PROTOCOL = 2  # skops 0.11 and later
SCHEMA = "schema.json"
VERSIONS = "use the scikit-learn version that the manifest names, or export the model again"
NOT_OURS = "report it as a bug: gpupipe must be able to load what it exports"
TREE_STATE = {"max_depth", "node_count", "nodes", "values"}
CHECK_ARRAY = {"dtype", "ensure_all_finite", "ensure_min_features", "ensure_min_samples", "order"}
MERSENNE_WORDS = 624  # length of the state of MT19937


def write_skops(estimator: Any, path: Path, compressed: bool = True) -> None:
    """Write a fitted estimator; for a forest, compression takes most of the time.

    Raise ArtifactError if it has a type or state that the reader would refuse.
    """
    import skops.io

    try:
        check_estimators(estimator)
    except (ValueError, AttributeError, TypeError) as error:
        raise ArtifactError(f"the export could not be loaded again: {error}", where=str(path), fix=NOT_OURS) from error
    skops.io.dump(estimator, path, compression=ZIP_DEFLATED if compressed else ZIP_STORED, compresslevel=1)
    with path.open("rb") as file, ZipFile(file) as archive:
        schema = json.loads(archive.read(SCHEMA))
    _check_types(schema, str(path), NOT_OURS)
    if schema.get("protocol") != PROTOCOL:
        what = f"skops writes protocol {schema.get('protocol')!r}; this version of gpupipe reads {PROTOCOL}"
        raise ArtifactError(what, where=str(path), fix="install skops 0.16, or update gpupipe")


def read_skops(data: bytes, where: str) -> Any:
    """Return the estimator in the content of a file.

    Neighbor trees are not read: `gpupipe.models.scikit_learn.estimator_checks` rebuilds them from their rows. Raise
    ArtifactError if the file is malformed, or names a type that is not allowed.
    """
    try:
        with ZipFile(io.BytesIO(data)) as archive:
            check_members(archive, len(data))
            schema = parse_json(archive.read(SCHEMA))
            for info in archive.filelist:
                if info.filename.endswith(".npy"):
                    check_array(archive, info, len(data))
            if type(schema) is not dict or schema.get("protocol") != PROTOCOL:
                raise ValueError(f"expected protocol {PROTOCOL}; it was written by an unsupported version of skops")
            _check_types(schema, where, fix="export the model again; do not use a file from an unknown source")
            _check_sharing(schema)
            with refuse_failures("the estimator cannot be read", where, VERSIONS):
                return _Builder(archive).build(schema)
    except (KeyError, ValueError, *BROKEN) as error:
        raise ArtifactError(f"not a skops file: {error}", where=where, fix=EXPORT_AGAIN) from error


def _check_types(schema: Any, where: str, fix: str) -> None:
    unknown = {
        f"{node.get('__module__')}.{node.get('__class__')}"
        for node, _ in _nodes(schema)
        if f"{node.get('__module__')}.{node.get('__class__')}" not in ALLOWED.get(str(node.get("__loader__")), ())
    }
    if unknown:
        listed = ", ".join(sorted(unknown))
        raise ArtifactError(f"the file contains types that are not allowed: {listed}", where=where, fix=fix)


def _nodes(schema: Any) -> Iterator[tuple[dict[str, Any], int]]:
    """Yield every node with the position of its parent node, which comes before it; -1 for the root."""
    waiting, position = [(schema, -1)], -1
    while waiting:
        value, holder = waiting.pop()
        if isinstance(value, dict):
            if "__loader__" in value or "__class__" in value:
                position += 1
                yield value, holder
                holder = position
            waiting.extend((item, holder) for item in value.values())
        elif isinstance(value, list):
            waiting.extend((item, holder) for item in value)


def _check_sharing(schema: Any) -> None:
    """Verify that nodes with the same id have the same size, as skops writes a shared object in full each time.

    Otherwise a few nodes could describe an object with exponentially many paths, and code that walks these, such as
    the prediction of nested unions, would not end.
    """
    nodes = list(_nodes(schema))
    sizes = [1] * len(nodes)
    for position in range(len(nodes) - 1, 0, -1):
        sizes[nodes[position][1]] += sizes[position]
    known: dict[Any, int] = {}
    for (node, _), size in zip(nodes, sizes, strict=True):
        identity = node.get("__id__")
        if type(identity) is not int or known.setdefault(identity, size) != size:
            raise ValueError("two different nodes have the same id")


class _Builder:
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


_BUILDERS: dict[str, Callable[[_Builder, dict[str, Any]], Any]] = {
    "DictNode": _Builder.build_dict,
    "FunctionNode": lambda _, node: _type(node),
    "JsonNode": _Builder.build_scalar,
    "ListNode": _Builder.build_list,
    "LossNode": _Builder.build_loss,
    "NdArrayNode": _Builder.build_array,
    "ObjectNode": _Builder.build_object,
    "PartialNode": _Builder.build_partial,
    "RandomGeneratorNode": _Builder.build_generator,
    "RandomStateNode": _Builder.build_random_state,
    "SetNode": lambda builder, node: set(builder.build_list(node)),
    "SliceNode": _Builder.build_slice,
    "TreeNode": _Builder.build_tree,
    "TupleNode": lambda builder, node: tuple(builder.build_list(node)),
    "TypeNode": lambda _, node: _type(node),
}


def _type(node: dict[str, Any]) -> Any:
    """Return the class or function that a checked node names."""
    return _named(node["__module__"], node["__class__"])


@lru_cache
def _named(module: str, name: str) -> Any:
    return getattr(importlib.import_module(module), name)
