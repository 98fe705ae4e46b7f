"""Settings whose text ends up in the exported model, and may therefore not come from a secret variable."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from gpupipe.config.document import Node, Problem
from gpupipe.features import OPS

# Fields of ops that can hold no other text: they are checked to be columns, tables, dates, time spans or files.
CHECKED_FIELDS = {
    "amount", "as_of", "columns", "difference", "from", "gap", "half_life", "inputs", "key", "periods", "product",
    "ratio", "sum", "table", "time", "to", "use", "windows",
}  # fmt: skip
TABLE_TEXTS: tuple[tuple[str, ...], ...] = (("csv", "null_values"), ("schema", "*", "format"))
EVENT_TEXTS = (*TABLE_TEXTS, ("where",), ("compute", "*"), ("prefix",))


def secrets_in_model(root: Node, secrets: Collection[str]) -> Iterator[Problem]:
    """Yield a problem for each setting that the model would keep with the value of a secret variable in it.

    Parameters
    ----------
    root : Node
        The document, in full; it has been validated.
    secrets : collection of str
        Names of the variables whose values must not be shown; those with a word of ours are not among them.
    """
    for node in _kept_texts(root):
        names = [name for name in node.written.names if name in secrets] if node.written is not None else []
        if names and isinstance(node.value, str):
            references = " and ".join(f"${{{name}}}" for name in names)
            opened = " and ".join(f"${{{name}!}}" for name in names)
            value = "the value" if len(names) == 1 else "the values"
            yield Problem(
                node.where, node.path, f"the model would contain {value} of {references}; write {opened} to allow it"
            )


def _kept_texts(root: Node) -> Iterator[Node]:
    """Yield the nodes whose text a model keeps as it is."""
    for texts in TABLE_TEXTS:
        yield from _at(root, ("source", *texts))
    for texts in EVENT_TEXTS:
        yield from _at(root, ("tables", "*", *texts))
    yield from _free_texts(_at(root, ("data", "*")), ("dtype", "range"))
    for item in _at(root, ("features", "*")):
        for op in item.value if isinstance(item.value, dict) else ():
            if op in OPS and op != "drop":
                yield from _free_texts(_at(item, (op,)), CHECKED_FIELDS)


def _free_texts(settings: Iterator[Node], checked: Collection[str]) -> Iterator[Node]:
    """Yield the scalars of settings but those of the `checked` fields."""
    for node in settings:
        for field, below in node.value.items() if isinstance(node.value, dict) else ():
            if field not in checked:
                yield from _leaves(below)


def _at(node: Node, path: tuple[str, ...]) -> Iterator[Node]:
    """Yield the nodes, or the items of lists, at the end of a path; * is every key or item."""
    if not path:
        yield from _leaves(node) if isinstance(node.value, list) else [node]
    elif isinstance(node.value, dict):
        steps = list(node.value) if path[0] == "*" else [path[0]] if path[0] in node.value else []
        for step in steps:
            yield from _at(node.value[step], path[1:])
    elif isinstance(node.value, list) and path[0] == "*":
        for item in node.value:
            yield from _at(item, path[1:])


def _leaves(node: Node) -> Iterator[Node]:
    if isinstance(node.value, dict | list):
        for item in node.value.values() if isinstance(node.value, dict) else node.value:
            yield from _leaves(item)
    else:
        yield node
