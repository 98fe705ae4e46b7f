"""Start-up code of Python processes with this folder on PYTHONPATH; packed as sitecustomize.py."""

import ctypes
import os
import site

_here = os.path.dirname(os.path.abspath(__file__))
site.addsitedir(_here)  # numba-cuda relies on .pth files, which are not processed in folders of PYTHONPATH
try:
    # numba-cuda 0.30 calls numpy.row_stack, which NumPy 2.5 removed; without it, `import cudf` fails.
    import numpy as _numpy

    if not hasattr(_numpy, "row_stack"):
        _numpy.row_stack = _numpy.vstack
except ImportError:
    pass
_nvjitlink = os.path.join(_here, "nvidia", "cu13", "lib", "libnvJitLink.so.13")
if os.path.exists(_nvjitlink) and not os.path.islink(_nvjitlink):
    # libcuvs needs symbols of nvJitLink 13.3; PyTorch would load its 13.0 first.
    ctypes.CDLL(_nvjitlink)
