"""Overrides of single fields: ``--set a.b.c=value``, applied to the document before validation.

List items are addressed by index or name: ``models.xgboost.params.max_depth=8``, ``features.2.columns=[age]``,
``features.impute.strategy=mean``. A single model is also ``model.params.max_depth=8``; ``params`` is optional. Paths
from error messages work too: ``features[2].impute.strategy``.
"""

from __future__ import annotations

import re

from gpupipe.config.composer import Composer
from gpupipe.config.document import Node, Problem, UnreadableDocument
from gpupipe.errors import did_you_mean

_STEP = re.compile(r'"([^"]*)"|([^.\[\]"]+)|\[(\d+)\]')


class MisplacedOverride(Exception):
    """Override whose path does not exist in the document; the message has the reason."""


def apply_override(root: Node, override: str, composer: Composer) -> None:
    """Apply ``path=value`` to `root`; errors are added to the composer's problems."""
    path, equals, text = override.partition("=")
    steps = [quoted or word or index for quoted, word, index in _STEP.findall(path.strip())]
    where = f"--set {override}"
    if not equals or not steps:
        composer.problems.append(Problem(where, "", "expected path=value, for example --set seed=8"))
        return
    try:
        _assign(root, steps, composer.value(text, where, ".".join(steps)))
    except UnreadableDocument as error:
        composer.problems.append(error.problem)
    except MisplacedOverride as error:
        composer.problems.append(Problem(where, "", str(error)))


def _assign(root: Node, steps: list[str], new: Node) -> None:
    steps = _written_in_full(root, steps)
    parent = root
    for step in steps[:-1]:
        parent = _child(parent, step, new)
    _put(parent, steps[-1], new)


def _written_in_full(root: Node, steps: list[str]) -> list[str]:
    """Return the path in the expanded document; an op's name and a model's ``params`` may be omitted in `steps`."""
    sections = _mapping(root)
    if steps == ["model"]:
        sections.pop("models", None)  # the single model replaces the list
        return steps
    if steps[0] == "model":
        count = len(_items(sections["models"])) if "models" in sections else 0
        if count != 1:
            raise MisplacedOverride(f"the file has {count} models; name one, as in models.xgboost.params.max_depth")
        steps = ["models", "0", *steps[1:]]
    if steps[0] not in ("features", "models") or len(steps) < 3 or steps[0] not in sections:
        return steps
    section, item, field, *rest = steps
    items = sections[section]
    name = _name(_items(items)[_index(items, item)])
    if section == "features":
        return steps if field == name else [section, item, name, field, *rest]
    if field in ("name", "as", "params"):
        return steps
    return [section, item, "params", *rest] if field == name else [section, item, "params", field, *rest]


def _child(parent: Node, step: str, new: Node) -> Node:
    """Return the child at `step`; create a section that the file does not have."""
    if isinstance(parent.value, list):
        return parent.value[_index(parent, step)]
    fields = _mapping(parent)
    if step in ("models", "features") and step not in fields:
        raise MisplacedOverride(f"the file has no {step}; set the whole list: --set '{step}=[...]'")
    if step not in fields:
        fields[step] = Node({}, new.where, new.where, new.path)
    return fields[step]


def _put(parent: Node, step: str, new: Node) -> None:
    if isinstance(parent.value, list):
        parent.value[_index(parent, step)] = new
    else:
        _mapping(parent)[step] = new


def _index(parent: Node, step: str) -> int:
    """Return the index of the list item that `step`, an index or a name, refers to."""
    items = _items(parent)
    if step.isdecimal():
        if int(step) >= len(items):
            raise MisplacedOverride(f"{parent.path}[{step}] does not exist: the list has {len(items)} items")
        return int(step)
    names = [_name(item) for item in items]
    if names.count(step) != 1:
        hint = "use its index" if step in names else did_you_mean(step, names) or f"the items are {', '.join(names)}"
        raise MisplacedOverride(f"{parent.path} has {names.count(step) or 'no'} items named {step!r}; {hint}")
    return names.index(step)


def _name(item: Node) -> str:
    """Return the name of an item: a model's label or name, an op's key, or a plain value itself."""
    fields = item.value
    if not isinstance(fields, dict):
        return str(fields)
    for key in ("as", "name"):
        if key in fields:
            return str(fields[key].value)
    return next(iter(fields), "")


def _mapping(node: Node) -> dict[str, Node]:
    if node.value is None:
        node.value = {}
    if not isinstance(node.value, dict):
        raise MisplacedOverride(f"{node.path} is {node.plain(as_written=True)!r}; it has no fields")
    return node.value


def _items(node: Node) -> list[Node]:
    if not isinstance(node.value, list):
        raise MisplacedOverride(f"{node.path} is not a list")
    return node.value
