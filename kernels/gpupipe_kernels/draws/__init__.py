"""Random bits that are a function of (seed, stream, row), the same on both processors.

``philox``        the host's, of NumPy
``device_loops``  the device's, a CUDA kernel
``fill``          which of the two an array is for
``kernels``       the declaration, with the reference
"""
