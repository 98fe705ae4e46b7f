"""Parameters of a model that contradict each other, and the default that gives way."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, NamedTuple


class Contradiction(NamedTuple):
    """Values of one parameter that exclude values of another one."""

    field: str
    values: tuple[Any, ...]  # values of `field` that exclude values of `other`
    other: str
    # Values of `other` that go with them, or a function that tells whether one does.
    allowed: tuple[Any, ...] | Callable[[Any], bool]
    instead: Any = None  # value of `field` that goes with all values of `other`

    def allows(self, value: Any) -> bool:
        """Return whether a value of `other` goes with `values`."""
        return self.allowed(value) if callable(self.allowed) else value in self.allowed


class ContradictionError(ValueError):
    """Two parameters contradict each other, and none of them is a default that gives way."""


def settle(
    values: Mapping[str, Any],
    stated: Collection[str],
    library: Mapping[str, Any],
    contradictions: Iterable[Contradiction],
    keeps_field: bool = False,
) -> tuple[dict[str, Any], list[str]]:
    """Return the values of parameters without contradictions, and a note for each default that gave way.

    Raise ContradictionError if no default can give way.

    - `values`: of all parameters
    - `stated`: parameters that keep their values
    - `library`: defaults of the library. `Contradiction.other` falls back to them.
    - `keeps_field`: whether `Contradiction.other` gives way if both are stated; otherwise that is an error
    """
    found = dict(values)
    fixed = set(stated)
    notes = list[str]()
    while (each := next((each for each in contradictions if _contradicts(each, found)), None)) is not None:
        field, other = (f"{name}: {as_text(found[name])}" for name in (each.field, each.other))
        if each.field not in fixed:
            loser = each.field
            winner = other
            dropped = field
            value = each.instead
        elif (each.other not in fixed or keeps_field) and each.allows(library[each.other]):
            loser = each.other
            winner = field
            dropped = other
            value = library[each.other]
        else:
            default = "" if each.other in stated else f", the default; set {each.other}, or change {each.field}"
            raise ContradictionError(f"{field} cannot be combined with {other}{default or '; remove one of them'}")
        found[loser] = value
        fixed.add(loser)
        notes.append(f"the default {dropped} gives way to {winner}: now {loser}: {as_text(value)}")
    return found, notes


def _contradicts(each: Contradiction, values: Mapping[str, Any]) -> bool:
    return values[each.field] in each.values and not each.allows(values[each.other])


def as_text(value: Any) -> str:
    """Return a value as YAML."""
    return value if isinstance(value, str) else json.dumps(value)
