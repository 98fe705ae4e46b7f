"""Random bits as a function of (seed, stream, row), identical on CPU and GPU.

``philox``      the NumPy implementation; `fill` accepts a host or device array
``cuda.loops``  the CUDA kernel
``kernels``     the declaration and its reference
"""

WORDS = 4
"""Words of random bits that Philox makes of one counter."""
