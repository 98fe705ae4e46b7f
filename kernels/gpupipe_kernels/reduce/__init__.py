"""Reductions over the rows of encoded columns: the statistics that a fit learns.

``engine``   the interface of the engines
``numpy``    the NumPy engine, the readable reference
``numba``    compiled loops on the host, bit-identical to NumPy
``cuda``     CUDA kernels, for device arrays
``kernels``  the kernel declarations
"""
