"""Edits of trees: values, lengths, names, types, references, and values from other trees."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from random import Random
from typing import Any, NamedTuple

import numpy as np

from tools.fuzz.structure.formats import is_array
from tools.fuzz.structure.hostile_values import anything, elements, integer, scalar

Array = np.ndarray[Any, Any]
DTYPES = (
    "<i1",
    "<u1",
    "<i4",
    "<i8",
    "<u8",
    "<f4",
    "<f8",
    ">f8",
    "<c16",
    "|b1",
    "<U8",
    "|S8",
    "<M8[s]",
    "|V8",
    "|O",
    "<f2",
)
MOST_CELLS = 1 << 20
SPECIAL_SHARE = 0.15


class Slot(NamedTuple):
    """A value and its container; `label` is its key, or the key of the list that contains it."""

    container: Any
    key: Any
    label: str

    @property
    def value(self) -> Any:
        """The value in the slot."""
        return self.container[self.key]


Special = Callable[[Sequence[Slot], Random], bool]
"""A function that changes one of the slots; returns False if none is suitable."""

Parts = Mapping[str, Sequence[Any]]
"""Label to values of other trees."""


def slots(tree: Any, label: str = "") -> Iterator[Slot]:
    """Yield every slot of a tree."""
    items = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, value in items:
        slot = Slot(tree, key, str(key) if isinstance(tree, dict) else label)
        yield slot
        yield from slots(value, slot.label)


def parts_of(trees: Sequence[Any]) -> Parts:
    """Return label to values for several trees."""
    found: dict[str, list[Any]] = {}
    for tree in trees:
        for slot in slots(tree):
            found.setdefault(slot.label, []).append(slot.value)
    return found


def edited(tree: Any, rng: Random, parts: Parts, special: Special | None = None) -> Any:
    """Return a tree with one edit; the tree may be changed in place.

    Parameters
    ----------
    tree : dict or list
    rng : random.Random
    parts : mapping of str to sequence
        Label to values of other files of the format.
    special : callable, optional
        A format-specific edit, called with all slots.
    """
    every = list(slots(tree))
    if not every:
        return anything(rng)
    slot = _walked(tree, rng) if rng.random() < 0.5 else rng.choice(every)
    value = slot.value
    if special is not None and rng.random() < SPECIAL_SHARE and special(every, rng):
        return tree
    way = rng.random()
    if way < 0.12:
        slot.container[slot.key] = deepcopy(_elsewhere(slot, every, rng, parts))
    elif way < 0.17:
        slot.container[slot.key] = anything(rng)
    elif way < 0.23:
        _changed_container(slot.container, rng, every)
    elif way < 0.28:
        other = rng.choice(every)
        first, second = deepcopy(value), deepcopy(other.value)
        slot.container[slot.key] = second
        if other.key in _keys(other.container):
            other.container[other.key] = first
    elif is_array(value):
        slot.container[slot.key] = with_other_shape(value, rng)
    elif isinstance(value, dict | list):
        _changed_container(value, rng, every)
    elif isinstance(value, np.ndarray):
        slot.container[slot.key] = with_other_values(value, rng)
    elif isinstance(value, bytes):
        slot.container[slot.key] = elements(rng, np.frombuffer(value, np.uint8)).tobytes()[: integer(rng, len(value))]
    else:
        alike = [s.value for s in every if s.label == slot.label]
        slot.container[slot.key] = scalar(rng, value, alike)
    return tree


def _walked(tree: Any, rng: Random) -> Slot:
    """Return a slot at the end of a random walk from the root, which favours slots near the root."""
    label, container = "", tree
    while True:
        key = rng.choice(list(_keys(container)))
        label = key if isinstance(container, dict) else label
        value = container[key]
        if not isinstance(value, dict | list) or not value or rng.random() < 0.15:
            return Slot(container, key, label)
        container = value


def _keys(container: Any) -> Sequence[Any]:
    return list(container) if isinstance(container, dict) else range(len(container))


def _elsewhere(slot: Slot, every: Sequence[Slot], rng: Random, parts: Parts) -> Any:
    """Return a value from elsewhere in this file or another model's, mostly one with the same label."""
    here = [other.value for other in every if other.label == slot.label]
    there = parts.get(slot.label, ())
    choices = [pool for pool in (here, there) if pool]
    if not choices or rng.random() < 0.2:
        return rng.choice(every).value
    return rng.choice(rng.choice(choices))


def _changed_container(container: Any, rng: Random, every: Sequence[Slot]) -> None:
    """Drop, duplicate, swap or rename items of a dict or list."""
    keys = _keys(container)
    if not keys:
        if isinstance(container, list):
            container.append(anything(rng))
        return
    one = rng.choice(keys)
    other = rng.choice(keys)
    way = rng.randrange(6)
    if way == 0:
        del container[one]
    elif way == 1:
        container[one], container[other] = container[other], container[one]
    elif isinstance(container, dict):
        names = [slot.key for slot in every if isinstance(slot.key, str)]
        name = rng.choice([*names, f"{one}x", ""])
        container[name] = container.pop(one) if way < 4 else deepcopy(container[one])
    elif way == 2:
        container.append(deepcopy(container[one]))
    elif way == 3:
        container[:] = container[:one]
    elif way == 4:
        container[:] = container * (2 if len(container) > 100 else rng.choice([2, 10]))
        container[:] = deepcopy(container)
    else:
        rng.shuffle(container)


def with_other_values(array: Array, rng: Random) -> Array:
    """Return a one-dimensional array with other values, another length or another type."""
    way = rng.random()
    if way < 0.6:
        return elements(rng, array)
    if way < 0.7:
        return array[: rng.randrange(array.size + 1)]
    if way < 0.8:
        return np.concatenate([array, array[: rng.choice([1, 2, array.size])]])
    if way < 0.85:
        return array[::-1].copy()
    if way < 0.9:
        return array[:0]
    with np.errstate(all="ignore"):
        try:
            return array.astype(rng.choice(["u1", "i1", "i2", "i4", "i8", "f4", "f8"]))
        except (TypeError, ValueError):
            return array[:1]


def with_other_shape(tree: Any, rng: Random) -> Any:
    """Return an npy array with another shape, order or type, in its header only or in its data too."""
    shape = tree["shape"]
    data = tree["data"]
    way = rng.random()
    if not isinstance(shape, list) or not isinstance(data, np.ndarray) or not all(type(n) is int for n in shape):
        return tree
    if way < 0.35:
        return {**tree, "data": with_other_values(data, rng)}
    if way < 0.45:
        return {**tree, "shape": [integer(rng, n) if rng.random() < 0.5 else n for n in shape]}
    if way < 0.52:
        return {**tree, "descr": rng.choice(DTYPES)}
    if way < 0.6:
        return {**tree, "fortran_order": not tree["fortran_order"]}
    if way < 0.66:  # no data, and the largest declarable number of rows
        return {
            **tree,
            "shape": rng.choice([[0, *shape], [*shape, 0], [10**11, 0], [0], [2**62, 0, 4]]),
            "data": data[:0],
        }
    try:
        return _reshaped(tree, rng)
    except (ValueError, TypeError, IndexError):
        return tree


def _reshaped(tree: Any, rng: Random) -> Any:
    """Return an array of another shape whose header and data agree."""
    order = "F" if tree["fortran_order"] else "C"
    array = tree["data"].reshape(tree["shape"], order=order)
    axis = rng.randrange(max(1, array.ndim))
    length = array.shape[axis] if array.ndim else 1
    ways: list[Callable[[], Any]] = [
        lambda: array.T,
        lambda: array.ravel(),
        lambda: array[None],
        lambda: array[..., None],
        lambda: array[0],
        lambda: np.take(array, range(rng.randrange(length + 1)), axis),
        lambda: np.take(array, range(max(0, length - 1)), axis),
        lambda: np.concatenate([array, np.take(array, [0], axis)], axis),
        lambda: np.repeat(array, rng.choice([2, 3, 50]), axis),
        lambda: np.take(array, rng.sample(range(length), length), axis),
        lambda: array.astype(rng.choice(["<i4", "<i8", "<f4", "<f8", "<u1", "|b1"])),
        lambda: np.empty((0,) * array.ndim, array.dtype),
    ]
    with np.errstate(all="ignore"):
        made = np.asarray(rng.choice(ways)())
    if made.size > MOST_CELLS:
        return tree
    descr = tree["descr"] if made.dtype.names else made.dtype.str
    return {
        "descr": descr,
        "fortran_order": False,
        "shape": list(made.shape),
        "data": np.ascontiguousarray(made).ravel(),
    }
