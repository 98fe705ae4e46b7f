"""The compiler of device code, required before a run starts rather than at its first kernel."""

from __future__ import annotations

from gpupipe.errors import DeviceError
from gpupipe_kernels.toolchain import export_command, find_libraries, find_toolkits, visibility_settings


def require_compiler() -> None:
    """Load the libraries that compile device code.

    Raises
    ------
    DeviceError
        If numba-cuda cannot load one of them.
    """
    missing = [name for name, path in find_libraries().items() if not path]
    if not missing:
        return
    install = "pip install 'numba-cuda[cu13]' (or cu12)"
    toolkits = find_toolkits()
    fix = f"{export_command(visibility_settings(toolkits[0]))}, or {install}" if toolkits else install
    raise DeviceError(
        f"no kernel can be compiled for the GPU: numba-cuda cannot load {', '.join(missing)}",
        where="device: gpu",
        fix=f"{fix}, or run with --device cpu; `gpupipe doctor` checks the whole machine",
    )
