"""PyTorch on the allocator that the GPU's libraries share."""

from __future__ import annotations

from gpupipe.backends.base import Backend


def share_memory(backend: Backend) -> bool:
    """Have PyTorch allocate through RMM in a run on a device, and return whether it does; on the host there is nothing.

    It must come before PyTorch has allocated on the device; where it is too late, or PyTorch has no CUDA, the stage
    says so: two pools then share the device.
    """
    if backend.name == "cpu":
        return False
    import torch

    from gpupipe.backends.gpu.memory import torch_allocator

    if not torch.cuda.is_available():
        backend.remark("PyTorch has no CUDA: it computes on the host, and shares no memory of the device")
        return False
    if torch.cuda.get_allocator_backend() == "pluggable":  # an earlier run of this process has set it
        return True
    try:
        torch.cuda.memory.change_current_allocator(torch_allocator())
    except RuntimeError as error:  # it has allocated before
        backend.remark(f"PyTorch keeps an allocator of its own beside RMM: {str(error).splitlines()[0]}")
        return False
    return True
