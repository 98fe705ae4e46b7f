"""Reductions over the rows of encoded columns: what a fit learns from data.

``engines``       what a reduction takes and gives
``choice``        which of the two implementations for the host runs
``numpy_engine``  NumPy: the readable reference, and what runs where nothing is compiled
``numba_engine``  the same by compiled loops (``host_loops``), equal to the last bit
``cuda_engine``   CUDA kernels (``device_loops``), for arrays on a device
``kernels``       what is declared of them
"""
