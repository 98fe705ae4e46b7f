"""Hand-overs of device memory: the checks of `tests/tensors`, and those that only a device has."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from gpupipe.backends.base import Backend
from gpupipe.backends.gpu.backend import GpuBackend
from gpupipe.errors import DataError
from gpupipe.tensors.allocator import share_memory
from gpupipe.tensors.batch import TensorBatch
from gpupipe.tensors.exchange import from_dlpack, to_torch
from gpupipe.tensors.handover import hand_over
from gpupipe.tensors.handover_obstacles import pointer
from tests.tensors.exchange_checks import SHAPE, ExchangeChecks, numbers

ALLOCATE = """
from gpupipe.backends import choose
if {late}:
    import torch
    torch.zeros(1, device="cuda")
backend = choose("gpu")
import torch
from gpupipe.tensors.allocator import share_memory
print(share_memory(backend), share_memory(backend))  # once is enough
print(backend.take_notes())
backend.open_stage()
torch.zeros(1 << 24, device="cuda")
print(backend.close_stage().peak_bytes >= 1 << 26)
"""


class TestOnTheDevice(ExchangeChecks):
    @pytest.fixture
    def backend(self) -> Backend:
        backend = GpuBackend("a test")
        share_memory(backend)
        return backend


@pytest.fixture
def X() -> Any:
    """A feature matrix on the device."""
    backend = GpuBackend("a test")
    X = backend.empty_matrix(*SHAPE)
    X[:] = backend.to_device(numbers())
    return X


def test_the_tensor_is_on_the_device(X: Any) -> None:
    assert to_torch(X).is_cuda
    assert hand_over(X, "torch")[1].device == f"cuda:{X.device.id}"


def test_the_host_gets_a_copy_on_request(X: Any) -> None:
    with pytest.raises(DataError, match=r"is in device memory(.|\n)*copy=True"):
        hand_over(X, "numpy")
    array, receipt = hand_over(X, "numpy", copy=True)
    np.testing.assert_array_equal(array, numbers())
    assert (receipt.device, receipt.reason) == ("cpu", "is in device memory")


def test_a_batch_is_an_array_of_cupy(X: Any) -> None:
    import cupy

    found = cupy.asarray(TensorBatch(X))
    assert (pointer(found), found.strides) == (pointer(X), X.strides)


def test_a_tensor_on_the_device_is_an_array_of_cupy() -> None:
    import cupy

    tensor = torch.arange(6.0, device="cuda")
    array = from_dlpack(tensor)
    assert type(array) is cupy.ndarray
    assert pointer(array) == tensor.data_ptr()
    array[2] = -1
    assert tensor.tolist() == [0, 1, -1, 3, 4, 5]


@pytest.mark.rapids("cudf", "rmm")
def test_a_series_of_cudf_is_handed_over_unless_it_has_nulls() -> None:
    import cudf

    series = cudf.Series([1.0, 2.0, 3.0])
    tensor = to_torch(series)
    assert tensor.data_ptr() == series.__cuda_array_interface__["data"][0]
    assert tensor.tolist() == [1, 2, 3]
    with pytest.raises(DataError, match="has nulls"):
        to_torch(cudf.Series([1.0, None, 3.0]))


@pytest.mark.parametrize("take", [to_torch, lambda y: torch.from_dlpack(TensorBatch(y))])  # type: ignore[attr-defined]
def test_pending_work_of_the_default_stream_is_awaited(take: Callable[[Any], Any]) -> None:
    """Kernels run on the default stream, and PyTorch and CuPy here on streams that do not wait for it by themselves."""
    import cupy

    x = cupy.ones((4096, 4096), "float32")
    for _ in range(20):
        ours, theirs = cupy.cuda.Stream(non_blocking=True), torch.cuda.Stream()
        y = x
        for _ in range(30):
            y = x @ y / 4096
        y += 1
        with ours, torch.cuda.stream(theirs):
            tensor = take(y)
            assert float(tensor.min()) == float(tensor.max()) == 2


def test_pytorch_allocates_from_the_memory_of_the_run() -> None:
    assert _said(late=False) == ["True True", "[]", "True"]


def test_an_earlier_allocation_is_reported() -> None:
    shares, notes, counted = _said(late=True)
    assert (shares, counted) == ("False False", "False")
    assert notes.count("PyTorch keeps its own") == 2


def _said(late: bool) -> list[str]:
    """Return the output of a new process: PyTorch accepts an allocator only before its first allocation."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-c", ALLOCATE.format(late=late)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()
