"""Tests of the device double: it refuses what CuPy refuses, and computes everything else as NumPy does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tests.backends import double
from tests.backends.double import DeviceArray, DeviceDouble, xp

HERE = np.array([3.0, 1.0, np.nan])
REFUSED: dict[str, Callable[[Any], Any]] = {
    "a conversion": lambda x: np.asarray(x),
    "an array of Arrow": lambda x: pa.array(x),
    "a sum with an array of the host": lambda x: x + HERE,
    "one from the other side": lambda x: HERE + x,
    "an array of the host written into it": lambda x: x.__setitem__(slice(None), HERE),
    "an index of the host": lambda x: x[np.array([0])],
    "a mask of the rows of a matrix": lambda x: x.reshape(3, 1)[x > 1],
    "one besides a column": lambda x: x.reshape(3, 1)[x > 1, 0],
    "an argument of the host": lambda x: xp.where(x > 1, HERE, 0.0),
    "a keyword that CuPy lacks": lambda x: xp.take(x, xp.arange(2), mode="clip"),
    "one that its methods lack": lambda x: x.max(initial=0.0),
    "a reduction of a ufunc": lambda x: np.add.reduce(x),
    "a function that CuPy lacks": lambda x: xp.busday_count,
    "a method that CuPy lacks": lambda x: x.newbyteorder,
    "what the simulator's arrays have": lambda x: x.copy_to_host,
    "every other element sorted in place": lambda x: x[::2].sort(),
    "interpolation at every other element": lambda x: xp.interp(x[::2], xp.arange(3.0), x),
}
TAKEN: dict[str, Callable[[Any, Any], Any]] = {
    "operators": lambda xp, x: abs(-x * 2 + x / 3 - x // 2),
    "comparisons": lambda xp, x: (x > 1) & ~xp.isnan(x),
    "scalars of NumPy": lambda xp, x: np.float64(2) * x,
    "NumPy's name for a function": lambda xp, x: np.concatenate([x, x]),
    "indices": lambda xp, x: x[xp.asarray([2, 0])][None, 1:],
    "a mask of cells": lambda xp, x: x.reshape(3, 1)[x.reshape(3, 1) > 1] + x[x > 1],
    "a reduction": lambda xp, x: xp.nanmax(x),
    "a method": lambda xp, x: x.astype("float32").reshape(3, 1).T,
    "writing": lambda xp, x: xp.subtract(x, 1, out=x.copy()),
    "interpolation": lambda xp, x: xp.interp(x[:2], xp.arange(3.0), x),
}


@pytest.fixture
def there() -> Any:
    double.uncounted.clear()
    return xp.asarray(HERE)


@pytest.mark.parametrize("what", REFUSED)
def test_what_cupy_refuses_is_refused(what: str, there: Any) -> None:
    with pytest.raises((TypeError, AttributeError, NotImplementedError, pa.ArrowInvalid)):
        REFUSED[what](there)


@pytest.mark.parametrize("what", TAKEN)
def test_accepted_calls_return_what_numpy_returns(what: str, there: Any) -> None:
    found = TAKEN[what](xp, there)
    assert type(found) is DeviceArray
    np.testing.assert_array_equal(xp.asnumpy(found), TAKEN[what](np, HERE), strict=True)
    assert double.uncounted == []


def test_an_element_is_an_array_and_conversions_to_numbers_are_recorded(there: Any) -> None:
    assert type(there[0]) is DeviceArray and there[0].shape == ()
    assert float(there[0]) == 3.0 and there.tolist()[:2] == [3.0, 1.0] and bool(there[1] > 0)
    assert [line.rpartition("py:")[0].endswith("test_double.") for line in double.uncounted] == [True] * 3


def test_it_requires_the_simulator() -> None:
    with pytest.raises(RuntimeError, match="NUMBA_ENABLE_CUDASIM=1"):
        DeviceDouble()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_sorts_order_floats_by_their_bits_as_cub_does(dtype: str) -> None:
    """Its documentation of DeviceRadixSort: NaNs by their bits, -0.0 and +0.0 as equal."""
    given = np.array([1.0, np.nan, 0.0, -np.nan, -np.inf, -0.0, -2.0, np.inf], dtype)
    order = [3, 4, 6, 2, 5, 0, 7, 1]
    there = xp.asarray(given.copy())
    assert xp.asnumpy(xp.argsort(there)).tolist() == xp.asnumpy(there.argsort()).tolist() == order
    assert str(xp.asnumpy(xp.sort(there))) == str(given[order])
    there.sort()
    assert str(xp.asnumpy(there)) == str(given[order])
    for name in ("unique", "median"):
        with pytest.raises(NotImplementedError, match="sign bit"):
            getattr(xp, name)(there)
