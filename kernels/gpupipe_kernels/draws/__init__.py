"""Random bits that are a function of (seed, stream, row), the same on both processors.

``philox``      the host's, of NumPy; `fill` is for an array of either processor
``cuda.loops``  the same as a CUDA kernel
``kernels``     the declaration, with the reference
"""
