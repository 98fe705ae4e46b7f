"""Plain values: what a value of NumPy, pandas or another library means, as a value of Python's basic types.

Each type is recognised once, by its name or base, so that pandas is not imported. The values are those that
`gpupipe.table.frames` reads from a table with the same cell.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from gpupipe.table.exact_texts import bytes_text
from gpupipe.table.schema import NAT
from gpupipe.table.temporal_objects import numpy_us, object_us
from gpupipe.units import TICKS_PER_SECOND, epoch_us

MOST_TYPES = 256  # known at once: a program may make types without end
MOST_EXACT = 2**53
MOST_SCALE = 22  # 10**22 is the largest exact power of ten


class ValueForm(NamedTuple):
    """Reading of the values of a type.

    If `is_time`, `read` returns microseconds since 1970-01-01 UTC, `NAT` for a missing time. Otherwise it returns None,
    a bool, int, float, str or ``numpy.float32``, or the value itself if it has no such form.
    """

    read: Callable[[Any], Any]
    is_time: bool = False


@lru_cache(maxsize=MOST_TYPES)
def form_of(kind: type) -> ValueForm | None:
    """Return how values of a type are read; None for plain types and for those that only tables read.

    >>> import numpy as np
    >>> form_of(np.int8).read(np.int8(3)), form_of(np.datetime64).read(np.datetime64("1970-01-02")), form_of(dict)
    (3, 86400000000, None)
    """
    for base in kind.__mro__:
        if base.__name__ in _OF_PANDAS and base.__module__.partition(".")[0] == "pandas":
            return _OF_PANDAS[base.__name__]
    if kind in _PLAIN:
        return None
    return next((form for base, form in _OF_BASE.items() if issubclass(kind, base)), None)


def decimal_number(value: Decimal) -> float | None:
    """Return a decimal as Arrow converts it to float64, whose last digit may differ from ``float(value)``.

    None if it has too many digits for this, or is not finite.

    >>> decimal_number(Decimal("0.25")), decimal_number(Decimal(10**30))
    (0.25, None)
    """
    sign, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int) or not -MOST_SCALE <= exponent <= 0 or len(digits) > MOST_SCALE:
        return None
    unscaled = int("".join(map(str, digits)))
    if unscaled > MOST_EXACT:
        return None
    number = unscaled * _POWERS[-exponent]
    return -number if sign else number


_POWERS = [float(f"1e-{exponent}") for exponent in range(MOST_SCALE + 1)]


def _timestamp_us(value: Any) -> int:
    """Return a ``pandas.Timestamp``, whose arithmetic takes longer than the prediction of a row."""
    try:
        return int(value.value // 1_000)
    except OverflowError:  # nanoseconds do not reach as far as its unit
        return numpy_us(value.asm8)


def _seconds(value: timedelta) -> Any:
    micros = (value.days * 86_400 + value.seconds) * 1_000_000 + value.microseconds
    return micros / 1e6 if abs(micros) < MOST_EXACT else value


def _numpy_seconds(value: np.timedelta64) -> Any:
    unit, count = np.datetime_data(value.dtype)
    if unit not in TICKS_PER_SECOND or count != 1:
        return value
    ticks = int(value.astype(np.int64))
    return None if ticks == NAT else float(ticks) / TICKS_PER_SECOND[unit]


def _seconds_of_day(value: time) -> float:
    whole = (value.hour * 60 + value.minute) * 60 + value.second
    return (whole * 1_000_000 + value.microsecond) / 1e6


_PLAIN = frozenset((bool, int, float, str, np.float32))
_OF_PANDAS = {
    "Timestamp": ValueForm(_timestamp_us, is_time=True),
    "NaTType": ValueForm(lambda value: NAT, is_time=True),
    "NAType": ValueForm(lambda value: None),
    "Interval": ValueForm(str),
    "Period": ValueForm(str),
}
# The first base of a type counts, so datetime precedes date. Like Arrow, methods of bases ignore subclasses.
_OF_BASE: dict[type, ValueForm] = {
    datetime: ValueForm(epoch_us, is_time=True),
    date: ValueForm(object_us, is_time=True),
    np.datetime64: ValueForm(numpy_us, is_time=True),
    timedelta: ValueForm(_seconds),
    np.timedelta64: ValueForm(_numpy_seconds),
    time: ValueForm(_seconds_of_day),
    np.bool_: ValueForm(bool),
    np.integer: ValueForm(int),
    np.float16: ValueForm(np.float32),
    float: ValueForm(float.__float__),
    int: ValueForm(int.__int__),
    str: ValueForm(str.__str__),
    bytes: ValueForm(lambda value: bytes_text(memoryview(value).tobytes())),
}
