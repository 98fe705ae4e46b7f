"""Hand-overs to and from JAX; `test_other_libraries.py` runs them in a separate process."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any

import jax
import numpy as np
import pytest
import torch

from gpupipe.backends import choose
from gpupipe.backends.cpu.memory import copy_of, empty
from gpupipe.errors import DataError
from gpupipe.tensors.batch import TensorBatch
from gpupipe.tensors.batches import Batches
from gpupipe.tensors.exchange import from_dlpack, to_jax, to_torch
from gpupipe.tensors.handover import hand_over

VALUES = np.arange(24, dtype="float32").reshape(6, 4)


@pytest.fixture
def X() -> np.ndarray:
    """A feature matrix as gpupipe makes them."""
    X = np.asarray(choose("cpu").empty_matrix(6, 4))
    X[:] = VALUES
    return X


@pytest.fixture
def _wide() -> Iterator[None]:
    jax.config.update("jax_enable_x64", True)
    yield
    jax.config.update("jax_enable_x64", False)


@pytest.mark.parametrize("dtype", ["float16", "float32", "int8", "int32", "uint8", "complex64", "bool"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_it_has_the_memory_of_its_source(dtype: str, order: Any) -> None:
    source = copy_of(VALUES.astype(dtype), order)
    array, receipt = hand_over(source, "jax")
    assert array.unsafe_buffer_pointer() == receipt.pointer == source.ctypes.data
    assert receipt.strides == source.strides
    assert array.dtype == source.dtype
    assert (receipt.device, receipt.copied, receipt.reason) == ("cpu", False, "")
    np.testing.assert_array_equal(np.asarray(array), source)


def test_computations_on_it_are_right(X: np.ndarray) -> None:
    np.testing.assert_array_equal(np.asarray(jax.jit(lambda a: a @ a.T)(to_jax(X))), VALUES @ VALUES.T)


def test_it_outlives_its_source(X: np.ndarray) -> None:
    source = copy_of(X)
    array = to_jax(source)
    del source
    gc.collect()
    assert [choose("cpu").empty_matrix(6, 4).fill(-1) for _ in range(50)]
    np.testing.assert_array_equal(np.asarray(array), VALUES)


def test_an_array_of_jax_is_itself(X: np.ndarray) -> None:
    array = to_jax(X)
    assert to_jax(array) is array
    assert to_jax(array, copy=True).unsafe_buffer_pointer() != array.unsafe_buffer_pointer()


def test_arrays_of_jax_are_rows_of_batches() -> None:
    X = jax.numpy.arange(12.0).reshape(6, 2)
    got = torch.cat([batch.features for batch in Batches(X, 4)])
    assert sorted(got[:, 0].tolist()) == [0, 2, 4, 6, 8, 10]


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        (copy_of(VALUES, "F")[:3], "has gaps"),
        (copy_of(VALUES, "F")[:, ::2], "has gaps"),
        (copy_of(VALUES, "F")[:, 1:], "not aligned to 64 bytes"),
        (empty((5,), "float32")[1:], "not aligned to 64 bytes"),
        (np.broadcast_to(np.float32(1), (3, 2)), "is read-only"),
        (copy_of(VALUES)[::-1], "negative strides"),
    ],
)
def test_a_required_copy_is_explained_and_made_on_request(source: np.ndarray, reason: str) -> None:
    with pytest.raises(DataError, match=f"without a copy: it .*{reason}(.|\n)*copy=True"):
        to_jax(source)
    array, receipt = hand_over(source, "jax", copy=True)
    np.testing.assert_array_equal(np.asarray(array), source)
    assert receipt.copied
    assert reason in receipt.reason


@pytest.mark.parametrize("dtype", ["float64", "int64", "complex128"])
@pytest.mark.parametrize("copy", [False, True])
def test_values_are_not_narrowed_in_silence(dtype: str, copy: bool) -> None:
    with pytest.raises(DataError, match=r"JAX is configured for 32 bits(.|\n)*jax_enable_x64"):
        to_jax(copy_of(VALUES.astype(dtype)), copy)


@pytest.mark.usefixtures("_wide")
@pytest.mark.parametrize("dtype", ["float64", "int64", "complex128"])
def test_set_to_64_bits_it_takes_them(dtype: str) -> None:
    source = copy_of(VALUES.astype(dtype))
    array = to_jax(source)
    assert array.unsafe_buffer_pointer() == source.ctypes.data
    assert array.dtype == dtype


def test_views_of_its_arrays_are_read_only(X: np.ndarray) -> None:
    array = jax.numpy.asarray(VALUES)
    seen = from_dlpack(array)
    assert seen.ctypes.data == array.unsafe_buffer_pointer()
    assert not seen.flags.writeable
    with pytest.raises(DataError, match="is read-only"):
        to_torch(array)
    tensor, receipt = hand_over(array, "torch", copy=True)
    tensor[0, 0] = -1
    assert float(array[0, 0]) == 0
    assert "read-only" in receipt.reason


def test_a_tensor_of_torch_is_handed_over(X: np.ndarray) -> None:
    tensor = to_torch(X)
    assert to_jax(tensor).unsafe_buffer_pointer() == tensor.data_ptr() == X.ctypes.data


def test_a_batch_of_it_has_nulls_too() -> None:
    X = np.asarray(choose("cpu").empty_matrix(16, 3))  # of 16 rows each column begins at a multiple of 64 bytes
    X[:] = 2
    X[3, 1] = np.nan
    batch = TensorBatch.of_matrix(X, {"c": 3}).to("jax")
    assert isinstance(batch.nulls, jax.Array)
    assert int(batch.nulls.sum()) == 1
    assert batch.ids is not None
    assert batch.ids.unsafe_buffer_pointer() == X.ctypes.data + 2 * X.strides[1]
    assert batch.ids.dtype == "int32"
    assert torch.from_dlpack(batch.features).data_ptr() == X.ctypes.data  # type: ignore[attr-defined]
