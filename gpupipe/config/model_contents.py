"""Check that no value of a secret variable ends up in the exported model, or as a name on a tracking server."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from itertools import chain

from gpupipe.config.document import Node, Problem
from gpupipe.features import OPS

# Op fields that cannot contain free text: they are validated as columns, tables, dates, durations or files.
CHECKED_FIELDS = {
    "amount", "as_of", "by", "columns", "difference", "from", "gap", "half_life", "holidays", "inputs", "key", "of",
    "periods", "product", "ratio", "sum", "table", "time", "to", "use", "windows",
}  # fmt: skip
TABLE_TEXTS: tuple[tuple[str, ...], ...] = (
    ("csv", "null_values"),
    ("csv", "comment"),
    ("csv", "names"),
    ("schema", "*", "format"),
    ("schema", "*", "units"),
    ("schema", "*", "units", "*"),
)
EVENT_TEXTS = (*TABLE_TEXTS, ("where",), ("compute", "*"), ("prefix",))
# The same for parameters of models: files, columns, durations, and names of models and metrics.
CHECKED_PARAMS = {
    "eval_metric",
    "interaction_constraints",
    "interaction_cst",
    "models",
    "scoring",
    "time_limit",
    "use",
}


def secrets_in_model(root: Node, secrets: Collection[str]) -> Iterator[Problem]:
    """Yield a problem for each setting that would store the value of a secret variable in the model, or on a tracker.

    `root` is the expanded and validated document. `secrets` are the names of the variables whose values must not be
    shown, without those whose value is a gpupipe keyword.
    """
    kept = [("model", node) for node in _kept_texts(root)]
    kept += [("tracker", node) for node in chain(root.at("track", "experiment"), root.at("track", "wandb"))]
    for holder, node in kept:
        names = [name for name in node.written.names if name in secrets] if node.written is not None else []
        if names and isinstance(node.value, str):
            references = " and ".join(f"${{{name}}}" for name in names)
            opened = " and ".join(f"${{{name}!}}" for name in names)
            value = "the value" if len(names) == 1 else "the values"
            what = f"the {holder} would contain {value} of {references}; write {opened} to allow it"
            yield Problem(node.where, node.path, what)


def _kept_texts(root: Node) -> Iterator[Node]:
    """Yield the nodes whose text is stored in the model unchanged."""
    for texts in TABLE_TEXTS:
        yield from root.at("source", *texts)
    for texts in EVENT_TEXTS:
        yield from root.at("tables", "*", *texts)
    if any(root.at("source", "entities")):  # then these are new names, not those of columns
        yield from root.at("source", "target")
        yield from root.at("tables", "*", "on", "left")
    yield from _free_texts(root.at("data", "*"), ("dtype", "range"))
    yield from _free_texts(root.at("evaluate", "reason_codes", "columns", "*"), ())
    for item in root.at("features", "*"):
        for op in item.value if isinstance(item.value, dict) else ():
            if op in OPS and op != "drop":
                yield from _free_texts(item.at(op), CHECKED_FIELDS)
    yield from _free_texts(root.at("models", "*", "params"), CHECKED_PARAMS)
    yield from _free_texts(root.at("models", "*", "tune", "space"), ())


def _free_texts(settings: Iterator[Node], checked: Collection[str]) -> Iterator[Node]:
    """Yield the scalars of settings, except those of the `checked` fields."""
    for node in settings:
        for field, below in node.value.items() if isinstance(node.value, dict) else ():
            if field not in checked:
                yield from below.leaves()
