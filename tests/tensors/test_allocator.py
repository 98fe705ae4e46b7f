"""PyTorch's allocator on a device, without one; `tests/gpu/test_tensors.py` uses a real one."""

from __future__ import annotations

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
