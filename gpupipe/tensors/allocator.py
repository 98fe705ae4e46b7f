"""PyTorch in the memory that the GPU libraries share: RMM's, or without it the driver's pool."""

from __future__ import annotations

from typing import Any

from gpupipe.backends.base import Backend


def share_memory(backend: Backend) -> bool:
    """Make PyTorch allocate from the run's memory on a device, and return whether it does; False on the host.

    Call it before PyTorch has allocated on the device. If it is too late, or if PyTorch has no CUDA, the current stage
    gets a note: two pools then share the device. Without RMM, only a PyTorch that was imported after the backend was
    created can use the driver's pool: see `gpupipe.backends.gpu.memory.CupyMemory`.
    """
    if backend.name == "cpu":
        return False
    import torch

    if not torch.cuda.is_available():
        backend.note("PyTorch is installed without CUDA: it computes on the CPU and does not share the GPU's memory")
        return False
    if torch.cuda.get_allocator_backend() == "pluggable":  # set by an earlier run of this process
        return True
    device: Any = backend  # GpuBackend
    allocator = device.device_memory.torch_allocator()
    if allocator is None:
        if torch.cuda.get_allocator_backend() != "cudaMallocAsync":
            reason = "it was imported before the run, or has settings in PYTORCH_CUDA_ALLOC_CONF"
            backend.note(f"PyTorch keeps its own memory next to the driver's pool: {reason}")
            return False
        return True
    try:
        torch.cuda.memory.change_current_allocator(allocator)
    except RuntimeError as error:  # PyTorch has already allocated
        backend.note(f"PyTorch keeps its own allocator next to RMM: {str(error).splitlines()[0]}")
        return False
    return True
