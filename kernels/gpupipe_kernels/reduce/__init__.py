"""Reductions over the rows of encoded columns: what a fit learns from data.

``engine``   the operations of an engine
``numpy``    the engine in NumPy: the readable reference
``numba``    the engine in compiled loops on the host, equal to the last bit
``cuda``     the engine in CUDA kernels, for arrays on a device
``kernels``       what is declared of them
"""
