"""Random bits that are a function of (seed, stream, row), the same on both processors.

``philox``        the host's, of NumPy
``cuda.loops``  the same as a CUDA kernel
``fill``          which of the two an array is for
``kernels``       the declaration, with the reference
"""
