"""Malicious values for a number, a string or a list."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np

BORDERS = tuple(
    sign * (1 << bits) + step
    for bits in (7, 8, 15, 16, 24, 31, 32, 53, 62, 63)
    for sign in (1, -1)
    for step in (-1, 0, 1)
)
SMALL = (-5, -2, -1, 0, 1, 2, 3, 5, 8, 100, 255, 1000, 65_537, 10_000_000, 10**9, 10**11)
FLOATS = (0.0, -0.0, 1.0, -1.0, 0.5, 1e-300, 5e-324, 1e38, 3.5e38, 1e308, float("nan"), float("inf"), float("-inf"))
TEXTS = (
    "", " ", "0", "-1", "1", "2147483647", "-2147483648", "4294967299", "9223372036854775807", "1e999", "nan", "inf",
    "0x10", "None", "true", "\0", "a\0b", "é", "\ud800", "../../etc/passwd", "/dev/zero", "x" * 5000, "%s%n", "x",
)  # fmt: skip


def integer(rng: Random, near: int = 0, others: list[int] | None = None) -> int:
    """Return an integer at the limit of some type, close to `near`, its negative, or one of `others`."""
    ways = [
        lambda: rng.choice(BORDERS),
        lambda: rng.choice(SMALL),
        lambda: near + rng.choice([-1, 1]),
        lambda: -near,
        lambda: rng.choice(others) if others else near * 2,
    ]
    return int(rng.choice(ways)())


def number(rng: Random, near: float) -> float:
    """Return a float that is not finite, denormal or huge, or `near` with another sign or scale."""
    return rng.choice([*FLOATS, -near, near * 1e6])


def scalar(rng: Random, value: Any, alike: list[Any]) -> Any:
    """Return another value for a scalar, mostly of the same type; `alike` are values of its kind elsewhere."""
    others = [other for other in alike if type(other) is type(value)]
    if others and rng.random() < 0.3:
        return rng.choice(others)
    if rng.random() < 0.15:
        return anything(rng)
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return integer(rng, value, others)
    if isinstance(value, float):
        return number(rng, value)
    if isinstance(value, str):
        return text(rng, value)
    return anything(rng)


def text(rng: Random, value: str) -> str:
    """Return another string; a number in a string becomes another number."""
    try:
        if rng.random() < 0.7:
            return str(integer(rng, int(value)))
    except ValueError:
        pass
    return rng.choice([*TEXTS, value.upper(), value + "x", value[:-1], value * 2])


def anything(rng: Random) -> Any:
    """Return a value of any type."""
    return rng.choice(
        [None, True, False, 0, -1, 1, 2**31, 2**63, 2**70, 0.5, float("nan"), "", "x", "1", [], {}, [0], [[]], [None]]
    )


def elements(rng: Random, array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return a copy of a one-dimensional array with one, some or all values replaced."""
    array = array.copy()
    if array.dtype.names:
        name = rng.choice(array.dtype.names)
        array[name] = elements(rng, array[name].reshape(-1)).reshape(array[name].shape)
        return array
    if not array.size or array.dtype.kind not in "iufb":
        return array
    at = rng.sample(range(array.size), min(array.size, rng.choice([1, 1, 1, 2, 5, array.size])))
    way = rng.randrange(5)
    if way == 0:  # a value from elsewhere in it: nodes that share a child
        array[at] = array[rng.randrange(array.size)]
    elif way == 1:  # a position in it: a cycle, or a node that is its own child
        array[at] = _fitting(rng.randrange(array.size), array.dtype)
    elif way == 2:
        shuffled = at.copy()
        rng.shuffle(shuffled)
        array[at] = array[shuffled]
    elif array.dtype.kind == "f":
        array[at] = _fitting(number(rng, float(array[at[0]])), array.dtype)
    else:
        array[at] = _fitting(integer(rng, int(array[at[0]])), array.dtype)
    return array


def _fitting(value: float, dtype: np.dtype[Any]) -> Any:
    """Return a value converted to a type: integers that are too large wrap around."""
    if dtype.kind in "iu":
        wrapped = int(value) & ((1 << 8 * dtype.itemsize) - 1)
        return np.frombuffer(wrapped.to_bytes(dtype.itemsize, "little"), dtype.newbyteorder("<"))[0]
    with np.errstate(all="ignore"):
        return np.float64(value).astype(dtype)
