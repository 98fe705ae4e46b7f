"""PyTorch's allocator on a device, without one; `tests/gpu/test_tensors.py` uses a real one."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from gpupipe.backends import choose
from gpupipe.backends.cpu.backend import CpuBackend
from gpupipe.tensors.allocator import share_memory


class NamedGpu(CpuBackend):
    """A backend with a device, and PyTorch without one."""

    name = "gpu"


def test_on_the_host_there_is_nothing_to_share() -> None:
    backend = choose("cpu")
    assert not share_memory(backend)
    assert backend.take_notes() == []


def test_pytorch_without_cuda_is_noted() -> None:
    assert not torch.cuda.is_available()
    backend = NamedGpu("a test")
    assert not share_memory(backend)
    assert backend.take_notes() == [
        "PyTorch is installed without CUDA: it computes on the CPU and does not share the GPU's memory"
    ]


@pytest.mark.parametrize(("allocator", "is_shared"), [("cudaMallocAsync", True), ("native", False)])
def test_without_rmm_pytorch_shares_the_driver_s_pool_if_it_was_imported_with_it(
    allocator: str, is_shared: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("torch.cuda.get_allocator_backend", lambda: allocator)
    backend: Any = NamedGpu("a test")
    backend.device_memory = SimpleNamespace(torch_allocator=lambda: None)
    assert share_memory(backend) is is_shared
    notes = backend.take_notes()
    assert notes == [] if is_shared else notes[0].startswith("PyTorch keeps its own memory next to the driver's pool")
