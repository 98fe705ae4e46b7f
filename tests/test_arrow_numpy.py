"""Arrow arrays from and to NumPy without pandas, compared with PyArrow's own conversions."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from gpupipe.arrow_numpy import number_array, scalar, text_array, to_numpy, value_array

DTYPES = ("bool", "int8", "uint16", "int64", "uint64", "float16", "float32", "float64")


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [0, 1, 7, 8, 9, 70])
def test_numbers_of_any_length_part_and_mask_are_those_of_pyarrow(dtype: str, n: int) -> None:
    rng = np.random.default_rng(n)
    values = rng.integers(0, 100, 2 * n).astype(dtype)[::2]  # not contiguous
    for is_null in (None, rng.random(n) < 0.3):
        made, expected = number_array(values, is_null), pa.array(values, mask=is_null)
        assert made.equals(expected) and made.type == expected.type and made.validate(full=True) is None
        for start in (0, 1, 9):
            for part in (expected.slice(start), pa.chunked_array([expected.slice(start, 3), expected])):
                found, wanted = to_numpy(part), part.to_numpy(zero_copy_only=False)
                assert found.dtype == wanted.dtype
                np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize(
    "make",
    [
        lambda: pa.array([None, "a"]),
        lambda: pa.array([Decimal("1.5"), None]),
        lambda: pa.array([datetime(2026, 1, 2)], pa.timestamp("us")),
        lambda: pa.array([None, True]),
        lambda: pa.array(["a", "b"]).dictionary_encode(),
    ],
)
def test_other_types_are_converted_by_pyarrow(make: Callable[[], pa.Array]) -> None:
    np.testing.assert_array_equal(to_numpy(make()), make().to_numpy(zero_copy_only=False))


def test_a_view_shares_memory_and_is_protected() -> None:
    array = pa.array([1.0, 2.0])
    view = to_numpy(array)
    assert view.ctypes.data == array.buffers()[1].address and not view.flags.writeable


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string()], ids=str)
@pytest.mark.parametrize("texts", [[], ["", None, "é", "\N{GRINNING FACE}", "a" * 99], ["a", "b"], [None]])
def test_texts(texts: list[str | None], kind: pa.DataType) -> None:
    made = text_array(iter(texts), kind)
    assert made.equals(pa.array(texts, kind)) and made.null_count == texts.count(None)
    made.validate(full=True)


def test_a_text_that_is_not_unicode_is_refused_as_pyarrow_does() -> None:
    with pytest.raises(UnicodeEncodeError):
        text_array(["\ud800"])


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([True, False, None], pa.bool_()),
        ([1.5, -0.0, None, float("inf")], pa.float64()),
        ([1, -1], pa.int8()),
        ([0, None, -(2**62)], pa.timestamp("us")),
        (["a", None], pa.string()),
    ],
)
def test_values_and_scalars(values: list[Any], kind: pa.DataType) -> None:
    expected = pa.array(values, kind)
    assert str(value_array(values, kind)) == str(expected)
    assert value_array(values, kind).equals(expected)
    assert all(scalar(value, kind).equals(pa.scalar(value, kind)) for value in values)
