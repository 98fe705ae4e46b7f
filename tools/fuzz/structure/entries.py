"""Replacement of each entry of a JSON document by a value of each type, at every depth, and its removal."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from copy import deepcopy
from random import Random
from typing import Any

from tools.fuzz.structure.tree_edits import Slot, slots

Steps = tuple[str | int, ...]
DEEP: Any = []
for _ in range(400):
    DEEP = [DEEP]
VALUES: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 0.5, 1e308, 10**400, -(2**63) - 1, "", "x", "1", "y" * 5000, [], [1], [[]], [None],
    ["x"], [{}], {}, {"a": 1}, {"": None}, DEEP,
)  # fmt: skip
ALIKE = 2  # entries of a list or of an object with many names that are replaced; the others have the same type
MOST_NAMES = 24


def replaced_entries(document: Any) -> Iterator[tuple[Steps, str, Any]]:
    """Yield the steps to an entry, its replacement as text, and the document with it.

    The first and the last entries of a list or large object stand for all. The root is replaced too, but not removed.
    """
    for value in VALUES:
        yield (), shown(value), value
    for steps in entries(document):
        for value in VALUES:
            changed = deepcopy(document)
            _parent(changed, steps)[steps[-1]] = value
            yield steps, shown(value), changed
        changed = deepcopy(document)
        del _parent(changed, steps)[steps[-1]]
        yield steps, "removed", changed


def entries(tree: Any, before: Steps = ()) -> Iterator[Steps]:
    """Yield the steps to each entry."""
    keys: Sequence[str | int] = list(tree) if isinstance(tree, dict) else range(len(tree))
    if isinstance(tree, list) or len(keys) > MOST_NAMES:
        keys = list(dict.fromkeys([*keys[:ALIKE], *keys[-1:]]))
    for key in keys:
        yield (*before, key)
        if isinstance(tree[key], dict | list):
            yield from entries(tree[key], (*before, key))


def replace_entry(content: bytes, rng: Random) -> bytes:
    """Return a JSON document with one entry replaced or removed; unchanged if it is not an object or a list."""
    document = json.loads(content)
    every = list(slots(document)) if isinstance(document, dict | list) else []
    if not every:
        return content
    slot: Slot = rng.choice(every)
    if rng.random() < 1 / len(VALUES):
        del slot.container[slot.key]
    else:
        slot.container[slot.key] = rng.choice(VALUES)
    return json.dumps(document).encode()


def shown(value: Any) -> str:
    """Return a value as a short text."""
    return "400 nested lists" if value is DEEP else f"{json.dumps(value):.40}"


def _parent(tree: Any, steps: Steps) -> Any:
    for step in steps[:-1]:
        tree = tree[step]
    return tree
