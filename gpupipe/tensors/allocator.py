"""PyTorch on RMM, the allocator that the GPU libraries share."""

from __future__ import annotations

from gpupipe.backends.base import Backend


def share_memory(backend: Backend) -> bool:
    """Make PyTorch allocate through RMM in a run on a device, and return whether it does; False on the host.

    Call it before PyTorch has allocated on the device. If it is too late, or if PyTorch has no CUDA, the current stage
    gets a note: two pools then share the device.
    """
    if backend.name == "cpu":
        return False
    import torch

    from gpupipe.backends.gpu.memory import torch_allocator

    if not torch.cuda.is_available():
        backend.note("PyTorch is installed without CUDA: it computes on the CPU and does not share the GPU's memory")
        return False
    if torch.cuda.get_allocator_backend() == "pluggable":  # set by an earlier run of this process
        return True
    try:
        torch.cuda.memory.change_current_allocator(torch_allocator())
    except RuntimeError as error:  # PyTorch has already allocated
        backend.note(f"PyTorch keeps its own allocator next to RMM: {str(error).splitlines()[0]}")
        return False
    return True
