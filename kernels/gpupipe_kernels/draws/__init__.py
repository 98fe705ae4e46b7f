"""Random bits that are a function of (seed, stream, row), the same on both processors.

``philox``        the host's, of NumPy, and which of the two an array is for
``device_loops``  the device's, a CUDA kernel
``kernels``       the declaration, with the reference
"""
