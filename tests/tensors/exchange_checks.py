"""Checks of the hand-over of a feature matrix: on the host here, on a device in `tests/gpu`."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest
import torch

from gpupipe.backends.base import Backend
from gpupipe.errors import DataError
from gpupipe.tensors.batch import Metadata, TensorBatch
from gpupipe.tensors.exchange import from_dlpack, to_torch
from gpupipe.tensors.handover import hand_over
from gpupipe.tensors.handover_obstacles import pointer

SHAPE = 1_000, 7
DTYPES = ["float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "complex64"]
VIEWS: dict[str, Any] = {
    "all of it": np.s_[:, :],
    "some rows": np.s_[100:900],
    "every third row": np.s_[::3],
    "some columns": np.s_[:, 2:5],
    "every other column": np.s_[:, ::2],
    "one column": np.s_[:, 3],
    "one row": np.s_[5],
    "rows and columns": np.s_[1:-1, 1:-1],
    "no rows": np.s_[:0],
}


def numbers(shape: tuple[int, ...] = SHAPE) -> np.ndarray:
    """Return values that are each another."""
    return np.arange(np.prod(shape), dtype="float32").reshape(shape)


class ExchangeChecks:
    """Checks of the backend that the fixture `backend` gives."""

    @pytest.fixture
    def X(self, backend: Backend) -> Any:
        """A feature matrix as gpupipe makes them."""
        X = backend.empty_matrix(*SHAPE)
        X[:] = backend.to_device(numbers())
        return X

    @pytest.mark.parametrize("part", VIEWS)
    def test_pointer_strides_dtype_and_device_match_the_source(self, X: Any, part: str) -> None:
        source = X[VIEWS[part]]
        tensor = to_torch(source)
        assert tensor.data_ptr() == (pointer(source) if source.size else 0)
        assert tuple(tensor.shape) == source.shape
        if source.size:  # without elements strides mean nothing, and NumPy's are 0
            assert tuple(step * 4 for step in tensor.stride()) == source.strides
        assert tensor.dtype is torch.float32
        assert tensor.__dlpack_device__() == tuple(source.__dlpack_device__())

    @pytest.mark.parametrize("dtype", DTYPES)
    def test_every_dtype_stays(self, backend: Backend, dtype: str) -> None:
        source = backend.xp.arange(12).astype(dtype)
        tensor = to_torch(source)
        assert str(tensor.dtype) == f"torch.{dtype}"
        np.testing.assert_array_equal(tensor.cpu().numpy(), backend.to_host(source))

    def test_writes_to_one_are_visible_in_the_other(self, backend: Backend, X: Any) -> None:
        tensor = to_torch(X)
        X[3, 2] = -1
        backend.synchronize()
        assert float(tensor[3, 2]) == -1
        tensor[4, 5] = -2
        assert float(X[4, 5]) == -2
        tensor.mul_(0)
        assert not backend.to_host(X).any()

    def test_the_tensor_outlives_its_source_and_the_backend(self, backend: Backend) -> None:
        X = backend.empty_matrix(*SHAPE)
        X[:] = backend.to_device(numbers())
        tensor = to_torch(X[10:])
        del X
        gc.collect()
        others = [backend.empty_matrix(*SHAPE) for _ in range(20)]  # it would reuse released memory
        for other in others:
            other[:] = -1
        backend.synchronize()
        np.testing.assert_array_equal(tensor.cpu().numpy(), numbers()[10:])

    def test_the_receipt_has_the_address(self, X: Any) -> None:
        tensor, receipt = hand_over(X, "torch")
        assert (receipt.pointer, receipt.bytes, receipt.shape) == (pointer(X), X.nbytes, SHAPE)
        assert (receipt.strides, receipt.dtype, receipt.device) == (X.strides, "float32", str(tensor.device))
        assert (receipt.copied, receipt.reason) == (False, "")

    @pytest.mark.parametrize("part", VIEWS)
    def test_a_copy_shares_no_memory(self, backend: Backend, X: Any, part: str) -> None:
        tensor, receipt = hand_over(X[VIEWS[part]], "torch", copy=True)
        before = backend.to_host(X[VIEWS[part]]).copy()
        X[:] = -1
        backend.synchronize()
        np.testing.assert_array_equal(tensor.cpu().numpy(), before)
        assert receipt.copied
        assert receipt.reason == ""

    def test_negative_strides_are_refused(self, backend: Backend, X: Any) -> None:
        for turned in (X[::-1], X[:, ::-1]):
            with pytest.raises(DataError, match=r"negative strides(.|\n)*copy=True"):
                to_torch(turned)
            tensor, receipt = hand_over(turned, "torch", copy=True)
            np.testing.assert_array_equal(tensor.cpu().numpy(), backend.to_host(turned))
            assert "negative strides" in receipt.reason

    def test_a_round_trip_keeps_the_memory(self, backend: Backend, X: Any) -> None:
        back = from_dlpack(to_torch(X))
        assert type(back) is type(X)
        assert (pointer(back), back.strides, back.dtype) == (pointer(X), X.strides, X.dtype)
        back[0, 0] = 77
        backend.synchronize()
        assert float(X[0, 0]) == 77

    def test_a_tensor_is_itself(self, X: Any) -> None:
        tensor = to_torch(X)
        assert to_torch(tensor) is tensor
        assert to_torch(tensor, copy=True).data_ptr() != tensor.data_ptr()

    def test_a_batch_is_views_of_one_matrix(self, backend: Backend) -> None:
        X = backend.empty_matrix(*SHAPE)
        values = numbers()
        values[::3, 0] = np.nan
        values[:, 5:] = np.arange(SHAPE[0])[:, None] % 4
        X[:] = backend.to_device(values)
        batch = TensorBatch.of_matrix(X, {"a": 4, "b": 5}, metadata=Metadata(task="binary")).to("torch")
        assert batch.features.data_ptr() == pointer(X)
        assert batch.ids is not None
        assert batch.ids.data_ptr() == pointer(X) + 5 * X.strides[1]
        assert batch.ids.stride() == batch.features.stride() == (1, SHAPE[0])
        assert batch.ids.dtype is torch.int32
        np.testing.assert_array_equal(batch.ids.cpu().numpy(), values[:, 5:])
        np.testing.assert_array_equal(batch.features.cpu().numpy(), values[:, :5])
        np.testing.assert_array_equal(batch.nulls.cpu().numpy(), np.isnan(values[:, :5]))
        assert (batch.metadata.id_names, batch.metadata.cardinalities, batch.metadata.task) == (
            ("a", "b"), (4, 5), "binary",
        )  # fmt: skip

    def test_invalid_ids_leave_the_matrix_unchanged(self, backend: Backend, X: Any) -> None:
        X[:, 5:] = 1
        for wrong in (0.5, -1, 4, float("nan"), float("inf"), -float("inf")):
            X[777, 6] = wrong
            before = backend.to_host(X).copy()
            with pytest.raises(DataError, match=rf"column 'b' contains {wrong}(.|\n)*row 777 "):
                TensorBatch.of_matrix(X, {"a": 4, "b": 4})
            np.testing.assert_array_equal(backend.to_host(X), before)

    def test_a_batch_is_an_array_of_its_features(self, X: Any) -> None:
        batch = TensorBatch(X)
        tensor = torch.from_dlpack(batch)  # type: ignore[attr-defined]  # PyTorch's __all__ lacks it
        assert tensor.data_ptr() == pointer(X)
        assert batch.__dlpack_device__() == tuple(X.__dlpack_device__())
        assert hasattr(batch, "__cuda_array_interface__") == hasattr(X, "__cuda_array_interface__")
