"""Types of arrays and frames. Importing this loads no library."""

from __future__ import annotations

from gpupipe_kernels.typing import Array, DeviceArray, HostArray

__all__ = ["Array", "DeviceArray", "HostArray"]
