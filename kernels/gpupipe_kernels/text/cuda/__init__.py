"""Text kernels in CUDA, for arrays in device memory."""
