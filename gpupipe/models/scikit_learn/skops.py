"""Reader and writer of skops files, which store scikit-learn estimators of listed types.

A skops file is a zip of arrays and one ``schema.json``, a tree of nodes that name the class to build. Both sides are
gpupipe's own, checked against skops 0.16, whose files have protocol 2. skops imports every library that it may store,
PyTorch among them: 1.5 s and 440 MB. Its reader checks the names of types and passes their content to scikit-learn's
``__setstate__``, which trusts it: a tree that declares more nodes than it has is read past its memory, and nodes with
shared parts make skops' check take exponential time.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zipfile import ZIP_DEFLATED, ZIP_STORED, ZipFile

from gpupipe.artifact.untrusted.archives import BROKEN, check_array, check_members
from gpupipe.artifact.untrusted.failures import EXPORT_AGAIN, refuse_failures
from gpupipe.artifact.untrusted.json_documents import parse_json
from gpupipe.errors import ArtifactError
from gpupipe.models.scikit_learn.estimator_checks import check_estimators
from gpupipe.models.scikit_learn.skops_nodes import NodeBuilder, NodeDescriber
from gpupipe.models.scikit_learn.skops_types import ALLOWED

if TYPE_CHECKING:
    from gpupipe.typing import HostArray

PROTOCOL = 2  # skops 0.11 and later
SKOPS_VERSION = "0.16.0"  # whose files the written ones equal
SCHEMA = "schema.json"
VERSIONS = "use the scikit-learn version that the manifest names, or export the model again"
NOT_OURS = "report it as a bug: gpupipe must be able to load what it exports"


def write_skops(estimator: Any, path: Path, compressed: bool = True) -> None:
    """Write an estimator; for a forest, compression takes most of the time.

    The file has neither times nor addresses: the same training gives the same bytes. Raise ArtifactError, before the
    file is made, if the estimator has a type or state that the reader would refuse.
    """
    import numpy as np

    schema, arrays = describe_estimator(estimator, str(path))
    with ZipFile(path, "w", ZIP_DEFLATED if compressed else ZIP_STORED, compresslevel=1) as archive:
        for name, array in arrays.items():
            with archive.open(name, "w", force_zip64=True) as member:
                np.lib.format.write_array(member, array, allow_pickle=False)
        with archive.open(SCHEMA, "w") as member:
            member.write(schema.encode())


def describe_estimator(estimator: Any, where: str) -> tuple[str, dict[str, HostArray]]:
    """Return the ``schema.json`` of an estimator and its arrays by file name.

    Raise ArtifactError if it has a type or state that the reader would refuse.
    """
    describer = NodeDescriber()
    try:
        check_estimators(estimator)
        schema = describer.describe(estimator) | {"protocol": PROTOCOL, "_skops_version": SKOPS_VERSION}
        if not describer.refused:
            return json.dumps(schema), describer.arrays
    except (ValueError, AttributeError, TypeError) as error:
        raise ArtifactError(f"the export could not be loaded again: {error}", where=where, fix=NOT_OURS) from error
    raise _not_allowed(describer.refused, where, NOT_OURS)


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
            nodes = list(_nodes(schema))
            _check_types(nodes, where)
            _check_sharing(nodes)
            with refuse_failures("the estimator cannot be read", where, VERSIONS):
                return NodeBuilder(archive).build(schema)
    except (KeyError, ValueError, *BROKEN) as error:
        raise ArtifactError(f"not a skops file: {error}", where=where, fix=EXPORT_AGAIN) from error


def _check_types(nodes: list[tuple[dict[str, Any], int]], where: str) -> None:
    used = {(f"{node.get('__module__')}.{node.get('__class__')}", str(node.get("__loader__"))) for node, _ in nodes}
    if unknown := {name for name, loader in used if name not in ALLOWED.get(loader, ())}:
        raise _not_allowed(unknown, where, "export the model again; do not use a file from an unknown source")


def _not_allowed(names: set[str], where: str, fix: str) -> ArtifactError:
    what = f"the file contains types that are not allowed: {', '.join(sorted(names))}"
    return ArtifactError(what, where=where, fix=fix)


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


def _check_sharing(nodes: list[tuple[dict[str, Any], int]]) -> None:
    """Verify that nodes with the same id have the same size, as skops writes a shared object in full each time.

    Otherwise a few nodes could describe an object with exponentially many paths, and code that walks these, such as
    the prediction of nested unions, would not end.
    """
    sizes = [1] * len(nodes)
    for position in range(len(nodes) - 1, 0, -1):
        sizes[nodes[position][1]] += sizes[position]
    known: dict[Any, int] = {}
    for (node, _), size in zip(nodes, sizes, strict=True):
        identity = node.get("__id__")
        if type(identity) is not int or known.setdefault(identity, size) != size:
            raise ValueError("two different nodes have the same id")
