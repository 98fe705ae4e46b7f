"""Save and restore PyTorch's global state around a training."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

import torch


@contextmanager
def preserve_torch_state(device: torch.device, n_threads: int) -> Iterator[None]:
    """Set PyTorch's global state for a training: gradients, float32, the host by default, `n_threads` threads.

    On exit, generators, default dtype and device, modes and the number of threads are restored.
    """
    threads, dtype = torch.get_num_threads(), torch.get_default_dtype()
    generators = torch.random.fork_rng([device] if device.type == "cuda" else [])
    # Entered, a device is asked at every call of PyTorch: only where there is need.
    host = nullcontext() if torch.get_default_device().type == "cpu" else torch.device("cpu")
    with generators, torch.inference_mode(False), torch.enable_grad(), host:
        torch.set_num_threads(n_threads)
        torch.set_default_dtype(torch.float32)
        try:
            yield
        finally:
            torch.set_default_dtype(dtype)
            torch.set_num_threads(threads)
