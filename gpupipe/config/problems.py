"""Translation of pydantic's validation errors to problems with line and column."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from gpupipe.config.document import Node, Problem, join_path
from gpupipe.config.error_text import FILE, PYTHON, explain
from gpupipe.config.registered_parts import homes_of, known_keys
from gpupipe.settings import Settings

FORMS = {
    "source": "source: {path: customers.csv, target: churned}",
    "features": "each op as an item of a list, as in `- standardize: [age]`",
    "split.column": "column: {name: part, test: [test]}",
    "evaluate.metrics": "metrics: [roc_auc]",
}  # examples for sections that are often written in another form


def problems_of(error: ValidationError, root: Node, model: type[Settings]) -> Iterator[Problem]:
    """Yield one problem per invalid value.

    `error` is that of validating ``root.plain()`` as `model`.
    """
    found = [_located(root, _with_known_keys(detail, model)) for detail in error.errors(include_url=False)]
    found = [entry for entry in found if not _is_beside_the_point(entry, found)]
    for (where, path), entries in groupby(found, key=lambda entry: entry[0]):
        what = explain([detail for _, detail in entries], FILE if root.where else PYTHON)
        form = FORMS.get(path) if root.where else None
        yield Problem(where, path, f"{what}; write {form}" if form and what.startswith("expected") else what)


Place = tuple[str, str]


def _located(root: Node, error: ErrorDetails) -> tuple[Place, ErrorDetails]:
    """Return location and path of an error, and the error with its input as written.

    Steps of pydantic's location that are not keys of the document name a union member that was tried, or a missing key.
    """
    node = root
    for step in error["loc"]:
        node = node.child(str(step)) or node
    if error["type"] == "missing":
        return (node.where, join_path(node.path, str(error["loc"][-1]))), error
    by_key = error["type"] in ("extra_forbidden", "unknown_part")
    place = node.key_where if by_key else node.where, node.path
    return place, error if node.written is None else _as_written(error, node)


def _as_written(error: ErrorDetails, node: Node) -> ErrorDetails:
    """Return an error about a value from the environment with ``${NAME}`` instead of the value."""
    assert node.written is not None
    shown, context = node.written.shown, dict(error.get("ctx", {}))
    texts = {"msg": error["msg"]} | ({"error": str(context["error"])} if "error" in context else {})
    for value in (node.value, str(node.value)):  # a number may be quoted as text
        texts = {key: text.replace(repr(value), repr(shown)) for key, text in texts.items()}
    context |= {key: text for key, text in texts.items() if key == "error"}
    context |= {"tag": shown} if "tag" in context else {}
    return ErrorDetails({**error, "msg": texts["msg"], "input": shown, "ctx": context})


def _with_known_keys(error: ErrorDetails, model: type[Settings]) -> ErrorDetails:
    if error["type"] == "extra_forbidden" and "known" not in error.get("ctx", {}):
        *section, key = error["loc"]
        homes = homes_of(model, str(key)) if len(section) < 2 else ()
        error["ctx"] = {"known": known_keys(model, error["loc"]), "homes": homes}
    return error


def _is_beside_the_point(entry: tuple[Place, ErrorDetails], all_entries: list[tuple[Place, ErrorDetails]]) -> bool:
    """Return whether another member of the same union matched the value further, so that this one does not apply."""
    (_, path), error = entry
    return isinstance(error["input"], dict | list) and any(
        other_path.startswith((f"{path}.", f"{path}[")) and _shares_value(error, other)
        for (_, other_path), other in all_entries
    )


def _shares_value(error: ErrorDetails, deeper: ErrorDetails) -> bool:
    """Return whether two errors are about one value of a union: the deeper location passes through a member's tag."""
    return len(error["loc"]) <= len(deeper["loc"]) and error["loc"][:-1] == deeper["loc"][: len(error["loc"]) - 1]
