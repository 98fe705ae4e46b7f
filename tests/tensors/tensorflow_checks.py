"""Hand-overs to and from TensorFlow; `test_other_libraries.py` runs them in a separate process."""

from __future__ import annotations

import gc

import numpy as np
import pytest
import tensorflow as tf

from gpupipe.backends import choose
from gpupipe.backends.cpu.memory import copy_of
from gpupipe.errors import DataError
from gpupipe.tensors.exchange import from_dlpack, to_tensorflow
from gpupipe.tensors.handover import hand_over

VALUES = np.arange(24, dtype="float32").reshape(6, 4)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int8", "int32", "int64", "uint8", "bool"])
def test_row_major_memory_is_taken_as_it_is(dtype: str) -> None:
    source = VALUES.astype(dtype)
    tensor, receipt = hand_over(source, "tensorflow")
    assert np.asarray(memoryview(tensor)).ctypes.data == receipt.pointer == source.ctypes.data
    assert (receipt.strides, receipt.dtype, receipt.device) == (source.strides, dtype, "cpu")
    np.testing.assert_array_equal(tensor.numpy(), source)


def test_rows_of_it_are_taken_too() -> None:
    source = VALUES.copy()
    assert hand_over(source[1:3], "tensorflow")[1].pointer == source[1:].ctypes.data


def test_a_column_major_matrix_is_refused_and_copied_when_asked() -> None:
    X = choose("cpu").empty_matrix(6, 4)
    X[:] = VALUES
    with pytest.raises(DataError, match=r"row-major(.|\n)*copy=True"):
        to_tensorflow(X)
    tensor, receipt = hand_over(X, "tensorflow", copy=True)
    np.testing.assert_array_equal(tensor.numpy(), VALUES)
    assert "row-major" in receipt.reason
    assert receipt.strides == (16, 4)


def test_it_outlives_its_source() -> None:
    source = copy_of(VALUES)
    tensor = to_tensorflow(source)
    del source
    gc.collect()
    assert [choose("cpu").empty_matrix(6, 4).fill(-1) for _ in range(50)]
    np.testing.assert_array_equal(tensor.numpy(), VALUES)


def test_views_of_its_tensors_are_read_only() -> None:
    tensor = tf.constant(VALUES)
    assert to_tensorflow(tensor) is tensor
    assert not from_dlpack(tensor).flags.writeable
    with pytest.raises(DataError, match="is read-only"):
        hand_over(from_dlpack(tensor), "tensorflow")
