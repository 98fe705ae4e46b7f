"""Start-up code of Python processes with this folder on PYTHONPATH; copied as sitecustomize.py."""

try:
    # numba-cuda 0.30 calls numpy.row_stack, which NumPy 2.5 removed; without it, `import cudf` fails.
    import numpy as _numpy

    if not hasattr(_numpy, "row_stack"):
        _numpy.row_stack = _numpy.vstack
except ImportError:
    pass
